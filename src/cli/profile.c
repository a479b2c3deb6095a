// SPDX-License-Identifier: MIT
// `mare --profile FILE`: where a program spends its processor time, as a flame graph (FILE.svg) or
// as text, a stack a line, for other tools.
//
// The stacks are put into a tree. Each box of the drawing is a node of it: as wide as its time, on
// top of its caller.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "sched/profile.h"

const char mare__cli_profile_help[] =
    "mare --profile FILE app.lua [args]\n\n"
    "Runs a program (also -e CODE, or -) and writes to FILE where it spent its processor time. A\n"
    "FILE that ends with .svg is a flame graph, for a browser: a box is a function, as wide\n"
    "as its time, on top of its caller; point at one to read it. Any other FILE gets a\n"
    "stack a line and its microseconds, as flamegraph.pl and speedscope read them.\n";

enum { WIDTH = 1200, ROW = 17, MARGIN = 10, TOP = 40, LETTER = 7 };

struct node {
    struct node *children, *next; // children by name
    uint64_t ns;
    size_t length;
    char name[];
};

static struct {
    const char *path; // NULL: there is no profile
    FILE *file;
    struct node *root;
    unsigned depth;
    bool bad;
} profile;

// ---- The tree -----------------------------------------------------------------------------------

static struct node *child_of(struct node *parent, const char *name, size_t length)
{
    struct node **place = &parent->children;
    int order = -1;
    for (; *place; place = &(*place)->next) {
        size_t common = (*place)->length < length ? (*place)->length : length;
        order = memcmp((*place)->name, name, common);
        order = order ? order : ((*place)->length > length) - ((*place)->length < length);
        if (order >= 0)
            break;
    }
    if (*place && order == 0)
        return *place;
    struct node *made = mare__alloc_zero(sizeof *made + length + 1);
    if (!made)
        return NULL;
    memcpy(made->name, name, length);
    made->length = length;
    made->next = *place;
    *place = made;
    return made;
}

static void add_stack(void *unused, const char *stack, uint64_t ns)
{
    struct node *node = profile.root;
    unsigned depth = 1;
    (void)unused;
    while (node && *stack) {
        size_t length = strcspn(stack, ";");
        node->ns += ns;
        node = child_of(node, stack, length);
        stack += length + (stack[length] == ';');
        depth++;
    }
    if (node)
        node->ns += ns;
    profile.bad |= !node;
    profile.depth = depth > profile.depth ? depth : profile.depth;
}

static void free_tree(struct node *node)
{
    while (node) {
        struct node *next = node->next;
        free_tree(node->children);
        mare__free(node);
        node = next;
    }
}

// ---- The drawing --------------------------------------------------------------------------------

static void write_escaped(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '&' || c == '<' || c == '>' || c == '"')
            fprintf(profile.file, "&#%u;", c);
        else
            fputc(c < ' ' || c > '~' ? '?' : c, profile.file);
    }
}

static unsigned hash(const char *text)
{
    unsigned h = 2166136261u; // FNV-1a
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

static void draw_box(const struct node *node, double x, double width, double y)
{
    unsigned color = hash(node->name);
    size_t letters = width > 3 * LETTER ? (size_t)(width / LETTER) : 0;
    fputs("<g><title>", profile.file);
    write_escaped(node->name, node->length);
    fprintf(profile.file, ": %.1f ms, %.1f %%</title>", (double)node->ns / 1e6,
            100.0 * (double)node->ns / (double)profile.root->ns);
    fprintf(profile.file,
            "<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" fill=\"hsl(%u,75%%,%u%%)\"/>",
            x, y, width, ROW - 1, 15 + color % 40, 58 + color / 64 % 14);
    if (letters > 0) {
        fprintf(profile.file, "<text x=\"%.1f\" y=\"%.0f\">", x + 3, y + 12);
        write_escaped(node->name, node->length < letters ? node->length : letters);
        fputs("</text>", profile.file);
    }
    fputs("</g>\n", profile.file);
}

static void draw(const struct node *node, double x, double scale, unsigned level)
{
    double y = TOP + ROW * (double)(profile.depth - 1 - level), width = scale * (double)node->ns;
    if (width < 0.3) // nobody would see it, nor what is on top of it
        return;
    draw_box(node, x, width, y);
    for (const struct node *child = node->children; child; child = child->next) {
        draw(child, x, scale, level + 1);
        x += scale * (double)child->ns;
    }
}

static void write_svg(void)
{
    const struct node *root = profile.root;
    unsigned height = TOP + ROW * profile.depth + MARGIN;
    fprintf(profile.file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
            "font-family=\"monospace\" font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fffdf8\"/>\n"
            "<text x=\"%d\" y=\"22\" font-size=\"15\">%.3f s of processor time</text>\n",
            WIDTH, height, MARGIN, (double)root->ns / 1e9);
    if (root->ns > 0)
        draw(root, MARGIN, (WIDTH - 2.0 * MARGIN) / (double)root->ns, 0);
    fputs("</svg>\n", profile.file);
}

static void write_line(void *unused, const char *stack, uint64_t ns)
{
    (void)unused;
    fprintf(profile.file, "%s %" PRIu64 "\n", stack, (ns + 500) / 1000);
}

// ---- The command line ---------------------------------------------------------------------------

bool mare__cli_profile_open(const char *path)
{
    profile.path = path;
    profile.file = fopen(path, "w");
    if (!profile.file)
        fprintf(stderr, "mare: %s: %s\n", path, strerror(errno));
    return profile.file != NULL;
}

void mare__cli_profile_begin(mare_runtime *runtime)
{
    if (profile.file && !mare__profile_start(runtime))
        profile.bad = true;
}

void mare__cli_profile_take(mare_runtime *runtime)
{
    if (!profile.file)
        return;
    size_t length = strlen(profile.path);
    if (length < 4 || strcmp(profile.path + length - 4, ".svg") != 0) {
        mare__profile_each(runtime, write_line, NULL);
        return;
    }
    profile.root = mare__alloc_zero(sizeof *profile.root + sizeof "all");
    if (profile.root) {
        profile.root->length = strlen(strcpy(profile.root->name, "all"));
        profile.depth = 1;
        mare__profile_each(runtime, add_stack, NULL);
        write_svg();
        free_tree(profile.root);
    } else {
        profile.bad = true;
    }
}

bool mare__cli_profile_close(void)
{
    if (!profile.file)
        return true;
    bool good = mare__cli_close_written(profile.file, profile.path, "the profile");
    profile.file = NULL;
    if (good && profile.bad)
        fprintf(stderr, "mare: %s: the profile is not complete: not enough memory\n", profile.path);
    return good && !profile.bad;
}
