// SPDX-License-Identifier: MIT
// `mare sim list` and `mare sim --table`: what there is to simulate, and what it costs. As JSON for
// the tools that check the documentation and draw its plot.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "lua/embedded.h"
#include "sim/report.h"

#define FIGURES "mare.figures."

enum {
    LINE_WIDTH = 100,
    ALGORITHM_INDENT = 13,
    PARAM_INDENT = 17,
    FIGURE_INDENT = 25,
    NAME_MOST = 40
};

// Letters, not bytes: what continues one in UTF-8 is not counted.
static int width_of(const char *text, size_t length)
{
    int width = 0;
    for (size_t i = 0; i < length; i++)
        width += ((unsigned char)text[i] & 0xC0) != 0x80;
    return width;
}

// Writes words after what stands on the line already, `column` wide; what does not fit goes on
// below, indented.
static void write_words(const char *text, size_t length, int column, int indent)
{
    const char *end = text + length, *between = "";
    while (text < end) {
        size_t word = strcspn(text, " ");
        word = word < (size_t)(end - text) ? word : (size_t)(end - text);
        int width = width_of(text, word);
        if (column + 1 + width > LINE_WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
            between = "";
        }
        printf("%s%.*s", between, (int)word, text);
        column += width + (*between != '\0');
        between = " ";
        text += word + (text + word < end);
    }
    putchar('\n');
}

static void list_row(const char *name, const char *label, const char *text)
{
    int column = printf("%-12s %s", name, label);
    write_words(text, strlen(text), column, ALGORITHM_INDENT + 2);
}

static void list_bits(const char *label, void (*write)(unsigned bits, FILE *out), unsigned bits)
{
    char text[400] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    if (!out)
        return;
    write(bits, out);
    fclose(out);
    list_row("", label, text);
}

static void list_param(const mare_coord_param *param)
{
    int column = printf("%-12s   %s=%" PRId64 "  ", "", param->name, param->initial);
    write_words(param->meaning, strlen(param->meaning), column, PARAM_INDENT);
}

// ---- What it costs, as text ---------------------------------------------------------------------

struct formulas {
    char messages[160], delay[160];
};

// " (order=2: n(n-1))" after the text, when it is another with that setting.
static void add_variant(char *text, size_t room, const char *usual, const char *other,
                        const mare_coord_param *param, int64_t value)
{
    size_t used = strlen(text);
    if (strcmp(usual, other) != 0)
        snprintf(text + used, room - used, " (%s=%" PRId64 ": %s)", param->name, value, other);
}

// As the sources have it, and with the settings that make it something else: those of few values.
static void find_formulas(const mare_coord_algorithm *algorithm, struct formulas *formulas)
{
    mare_coord_setup setup, other;
    mare_coord_cost cost, changed;
    mare_coord_setup_init(&setup, algorithm, 4);
    mare_coord_setup_set(&setup, "repair", 0);
    mare_coord_cost_of(&setup, &cost);
    snprintf(formulas->messages, sizeof formulas->messages, "%s", cost.formula);
    snprintf(formulas->delay, sizeof formulas->delay, "%s",
             cost.delay_formula ? cost.delay_formula : "");
    for (const mare_coord_param *p = algorithm->params; p->name; p++) {
        for (int64_t value = p->least; p->most - p->least < 4 && value <= p->most; value++) {
            other = setup;
            mare_coord_setup_set(&other, p->name, value);
            mare_coord_cost_of(&other, &changed);
            add_variant(formulas->messages, sizeof formulas->messages, cost.formula,
                        changed.formula, p, value);
            if (cost.delay_formula)
                add_variant(formulas->delay, sizeof formulas->delay, cost.delay_formula,
                            changed.delay_formula, p, value);
        }
    }
}

void mare__cli_sim_describe(const mare_coord_algorithm *algorithm)
{
    mare_coord_setup setup;
    struct formulas formulas;
    mare_coord_setup_init(&setup, algorithm, 4);
    find_formulas(algorithm, &formulas);
    list_row(algorithm->name, "", algorithm->title);
    list_row("", "after ", algorithm->source);
    list_row("", "messages: ", formulas.messages);
    if (formulas.delay[0])
        list_row("", "delay: ", formulas.delay);
    list_bits("promises: ", mare_sim_write_promises, algorithm->promises(&setup));
    list_bits("tolerates: ", mare_sim_write_tolerates, algorithm->tolerates(&setup));
    list_row("", "assumes: ", algorithm->assumes);
    for (const mare_coord_param *p = algorithm->params; p->name; p++)
        list_param(p);
}

// Each figure's name and title: the first comment of its file, after the licence.
static const struct mare__embedded *next_figure(const struct mare__embedded *after,
                                                const char **title, int *length)
{
    const struct mare__embedded *end = mare__embedded + mare__embedded_count;
    for (after = after ? after + 1 : mare__embedded; after < end; after++) {
        if (strncmp(after->name, FIGURES, strlen(FIGURES)) != 0)
            continue;
        const char *line = strchr(after->source, '\n');
        *title = line && strncmp(line, "\n-- ", 4) == 0 ? line + 4 : "";
        *length = (int)strcspn(*title, "\n");
        return after;
    }
    return NULL;
}

bool mare__cli_sim_is_figure(const char *name)
{
    const char *title;
    int length;
    const struct mare__embedded *figure = NULL;
    while ((figure = next_figure(figure, &title, &length)))
        if (strcmp(figure->name + strlen(FIGURES), name) == 0)
            return true;
    return false;
}

// ---- A name that is misspelt -------------------------------------------------------------------

const char *mare__cli_sim_nearest(const char *name)
{
    size_t count;
    const char *title, *best = NULL;
    int length;
    unsigned least = mare__cli_edits_most(name) + 1;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    const struct mare__embedded *figure = NULL;
    for (size_t i = 0; i < count; i++) {
        unsigned now = mare__cli_edits(table[i]->name, name);
        best = now < least ? table[i]->name : best;
        least = now < least ? now : least;
    }
    while ((figure = next_figure(figure, &title, &length))) {
        unsigned now = mare__cli_edits(figure->name + strlen(FIGURES), name);
        best = now < least ? figure->name + strlen(FIGURES) : best;
        least = now < least ? now : least;
    }
    return best;
}

static void list_figures(void)
{
    const char *title;
    int length;
    const struct mare__embedded *figure = NULL;
    while ((figure = next_figure(figure, &title, &length)))
        write_words(title, (size_t)length, printf("  %-22s ", figure->name + strlen(FIGURES)),
                    FIGURE_INDENT);
}

// ---- JSON --------------------------------------------------------------------------------------

static void write_text(const char *name, const char *text)
{
    printf(",\"%s\":", name);
    mare_sim_write_quoted(text, stdout);
}

// The largest machine of a group, and the buffers of effects and of messages that it needs.
static void write_memory(const mare_coord_algorithm *algorithm, uint32_t n, const char *before)
{
    mare_coord_setup setup;
    size_t largest = 0;
    uint32_t effects, bytes;
    mare_coord_setup_init(&setup, algorithm, n);
    for (setup.self = 0; setup.self < n; setup.self++) {
        size_t size = mare_coord_size(&setup);
        largest = size > largest ? size : largest;
    }
    setup.self = 0;
    mare_coord_room(&setup, &effects, &bytes);
    printf("%s\"%" PRIu32 "\":[%zu,%zu,%" PRIu32 "]", before, n, largest,
           effects * sizeof(mare_coord_effect), bytes);
}

static void write_algorithm(const mare_coord_algorithm *algorithm, const char *before)
{
    static const uint32_t sizes[] = {5, 16, 100};
    mare_coord_setup setup;
    struct formulas formulas;
    mare_coord_setup_init(&setup, algorithm, 4);
    find_formulas(algorithm, &formulas);
    printf("%s{\"name\":", before);
    mare_sim_write_quoted(algorithm->name, stdout);
    write_text("title", algorithm->title);
    write_text("source", algorithm->source);
    write_text("assumes", algorithm->assumes);
    write_text("messages", formulas.messages);
    write_text("delay", formulas.delay);
    fputs(",\"promises\":\"", stdout);
    mare_sim_write_promises(algorithm->promises(&setup), stdout);
    fputs("\",\"tolerates\":\"", stdout);
    mare_sim_write_tolerates(algorithm->tolerates(&setup), stdout);
    fputs("\",\"params\":{", stdout);
    for (int i = 0; i < MARE_COORD_PARAMS && algorithm->params[i].name; i++)
        printf("%s\"%s\":%" PRId64, i ? "," : "", algorithm->params[i].name,
               algorithm->params[i].initial);
    fputs("},\"bytes\":{", stdout);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        write_memory(algorithm, sizes[i], i ? "," : "");
    fputs("}}", stdout);
}

static void write_figures(void)
{
    const char *title, *before = "";
    int length;
    const struct mare__embedded *figure = NULL;
    while ((figure = next_figure(figure, &title, &length))) {
        char text[200];
        snprintf(text, sizeof text, "%.*s", length, title);
        printf("%s{\"name\":\"%s\"", before, figure->name + strlen(FIGURES));
        write_text("title", text);
        putchar('}');
        before = ",\n";
    }
}

// ---- All of them -------------------------------------------------------------------------------

static int list_as_json(void)
{
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    fputs("{\"algorithms\":[", stdout);
    for (size_t i = 0; i < count; i++)
        write_algorithm(table[i], i ? ",\n" : "");
    fputs("],\n\"figures\":[", stdout);
    write_figures();
    puts("]}");
    return 0;
}

int mare__cli_sim_names(void)
{
    size_t count;
    const char *title;
    int length;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    const struct mare__embedded *figure = NULL;
    for (size_t i = 0; i < count; i++)
        puts(table[i]->name);
    while ((figure = next_figure(figure, &title, &length)))
        puts(figure->name + strlen(FIGURES));
    return 0;
}

int mare__cli_sim_list(bool json)
{
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    if (json)
        return list_as_json();
    puts("Algorithms: mare sim NAME\n");
    for (size_t i = 0; i < count; i++) {
        mare__cli_sim_describe(table[i]);
        putchar('\n');
    }
    puts("Figures and worked examples: mare sim NAME [--trace] [--draw FILE.html]\n");
    list_figures();
    puts("\nEM1: at most one inside. EM2: every request is granted in the end. EM3: grants follow\n"
         "happened-before. Fencing: the numbers of grants only grow. 'mare help sim' tells more.");
    return 0;
}

int mare__cli_sim_tables(bool json)
{
    size_t count;
    int wrong = 0;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    for (size_t i = 0; i < count; i++) {
        mare_coord_setup setup;
        mare_coord_setup_init(&setup, table[i], 2);
        fputs(json ? (i ? "," : "[") : (i ? "\n" : ""), stdout);
        wrong |= mare_sim_write_table(&setup, 0, json, stdout);
    }
    fputs(json ? "]\n" : "", stdout);
    return wrong ? EXIT_DIED : 0;
}
