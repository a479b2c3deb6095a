// SPDX-License-Identifier: MIT
// What a profile consists of: stacks, as text, and how long each had the processor. Samples are few
// (400 a second for each worker at the most), so one mutex serves them all.
#include "sched/profile.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { LISTS = 1024, FRAMES = 100, LABEL = 120, TEXT = FRAMES * LABEL };

struct stack {
    struct stack *next;
    uint64_t ns;
    char text[];
};

struct mare__profile {
    pthread_mutex_t mutex;
    struct stack *lists[LISTS];
    size_t length;
    char text[TEXT]; // the stack that is being put together
};

bool mare__profile_start(mare_runtime *runtime)
{
    struct mare__profile *profile = mare__alloc_zero(sizeof *profile);
    if (!profile)
        return false;
    pthread_mutex_init(&profile->mutex, NULL);
    // Release: pairs with the acquire of who takes a sample.
    atomic_store_explicit(&runtime->profile, profile, memory_order_release);
    return true;
}

void mare__profile_free(mare_runtime *runtime)
{
    struct mare__profile *profile = atomic_load(&runtime->profile);
    for (unsigned i = 0; profile && i < LISTS; i++)
        for (struct stack *stack; (stack = profile->lists[i]) != NULL;) {
            profile->lists[i] = stack->next;
            mare__free(stack);
        }
    if (profile)
        pthread_mutex_destroy(&profile->mutex);
    mare__free(profile);
}

// ---- A stack in words ---------------------------------------------------------------------------

// Appends a frame; a stack that is too long for the text loses its innermost ones.
static void add_label(struct mare__profile *profile, const char *label)
{
    if (profile->length + LABEL + 1 > TEXT)
        return;
    if (profile->length > 0)
        profile->text[profile->length++] = ';';
    for (const char *at = label; *at; at++) {
        bool plain = *at != ';' && *at != '\n' && *at != '\r';
        profile->text[profile->length++] = plain ? *at : ':';
    }
    profile->text[profile->length] = '\0';
}

static void add_frame(struct mare__profile *profile, lua_State *L, lua_Debug *frame)
{
    char label[LABEL];
    lua_getinfo(L, "nS", frame);
    const char *name = frame->name ? frame->name : "function";
    if (*frame->what == 'C' && !frame->name) // what begins a process or a coroutine
        return;
    if (*frame->what == 'C')
        snprintf(label, sizeof label, "[C] %.60s", name);
    else if (*frame->what == 'm')
        snprintf(label, sizeof label, "%.60s", frame->short_src);
    else
        snprintf(label, sizeof label, "%.40s (%.60s:%d)", name, frame->short_src,
                 frame->linedefined);
    add_label(profile, label);
}

// The frames of one coroutine, the outermost first; of a deep one the innermost.
static void add_coroutine(struct mare__profile *profile, lua_State *L)
{
    lua_Debug frames[FRAMES];
    int depth = 0;
    while (depth < FRAMES && lua_getstack(L, depth, &frames[depth]))
        depth++;
    lua_Debug more;
    if (depth == FRAMES && lua_getstack(L, FRAMES, &more))
        add_label(profile, "...");
    while (depth-- > 0)
        add_frame(profile, L, &frames[depth]);
}

static unsigned hash(const char *text)
{
    unsigned h = 2166136261u; // FNV-1a
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

// Charges the stack that was put together. Without memory the sample is lost.
static void charge(struct mare__profile *profile, uint64_t ns)
{
    struct stack **list = &profile->lists[hash(profile->text) % LISTS], *stack = *list;
    while (stack && strcmp(stack->text, profile->text) != 0)
        stack = stack->next;
    if (!stack) {
        stack = mare__alloc(sizeof *stack + profile->length + 1);
        if (!stack)
            return;
        *stack = (struct stack){.next = *list};
        strcpy(stack->text, profile->text);
        *list = stack;
    }
    stack->ns += ns;
}

void mare__profile_take(lua_State *L, struct mare__local *process)
{
    struct mare__profile *profile = atomic_load(&process->shared.runtime->profile);
    uint64_t ns = process->unsampled_ns, period_ns = process->worker->tick.period_ns;
    process->unsampled_ns = 0; // a tick that comes between the two is lost
    if (ns == 0)
        return;
    pthread_mutex_lock(&profile->mutex);
    profile->length = 0;
    if (process->shared.name || process->is_main)
        add_label(profile, process->shared.name ? process->shared.name : "main");
    for (uint32_t i = 0; i < process->nested; i++)
        add_coroutine(profile, process->nest[i].before);
    add_coroutine(profile, L);
    // Several ticks without an instruction: for so long it was in a C function, which is over.
    uint64_t in_c_ns = period_ns > 0 && ns > period_ns + period_ns / 2 ? ns - period_ns : 0;
    charge(profile, ns - in_c_ns);
    if (in_c_ns > 0) {
        add_label(profile, "[C]");
        charge(profile, in_c_ns);
    }
    pthread_mutex_unlock(&profile->mutex);
}

void mare__profile_each(mare_runtime *runtime,
                        void (*visit)(void *context, const char *stack, uint64_t ns), void *context)
{
    struct mare__profile *profile = atomic_load(&runtime->profile);
    if (!profile)
        return;
    pthread_mutex_lock(&profile->mutex);
    for (unsigned i = 0; i < LISTS; i++)
        for (const struct stack *stack = profile->lists[i]; stack; stack = stack->next)
            visit(context, stack->text, stack->ns);
    pthread_mutex_unlock(&profile->mutex);
}
