// SPDX-License-Identifier: MIT
// The REPL. A thread reads lines, with history and editing; a process evaluates them
// (lua/mare/_repl.lua), so that others go on while the prompt waits; the main thread waits for the
// end of either, or for an exit that any process may ask for.
//
//   keys --> terminal thread --(number, text)--> process     lines that are only the beginning
//                 ^-----------(number, more?)-------+        of something are collected
//
// The screen's lock is the terminal thread's all the time, except while it waits for a key or for
// an answer. So the thread that holds it may draw: what processes write while a line is being
// edited takes that line's place, and the line is drawn again below.
#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/cli.h"
#include "sched/local.h"
#include "sched/process.h"
#include "sched/runtime.h"

enum { HISTORY_SIZE = 1000 };

// What the terminal thread does. Without the lock it is in the runtime only while EVALUATING.
enum doing { EDITING, EVALUATING, OVER };

struct repl {
    mare_runtime *runtime;
    mare_process *process;
    mare_channel *input, *output;
    int64_t number; // of the text that is being evaluated
    char *text;     // lines collected so far, or NULL
    EditLine *editor;
    History *history;
    char *history_file;
    bool dropped; // the line that was edited, by an interrupt
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;   // what it is doing
    _Atomic enum doing doing; // changed under the lock
    int file;                 // where it is drawn
    bool none;                // but that is no terminal
    EditLine *editor;         // with a line on the screen, or NULL
    bool dumb;                // a terminal on which nothing can be wiped out
    bool covered;             // something else stands where that line was
    bool at_margin;           // and has ended its own line
    locale_t locale;          // of the keyboard and the screen; Lua stays in its own
} screen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

// ---- The screen ---------------------------------------------------------------------------------

static void write_all(int file, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(file, bytes, length);
        if (written < 0 && errno != EINTR)
            return; // the terminal is gone
        bytes += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
}

// Draws the line that is being edited again, under what came in between.
static void uncover(void)
{
    locale_t before = uselocale(screen.locale);
    if (!screen.at_margin)
        write_all(screen.file, "\n", 1);
    el_set(screen.editor, EL_REFRESH);
    uselocale(before);
    screen.covered = false;
}

// Writes output of any thread to the terminal, above the line that is being typed.
static ssize_t write_around_prompt(void *file, const char *bytes, size_t length)
{
    pthread_mutex_lock(&screen.lock);
    if (screen.editor && !screen.covered) {
        const char *wipe = screen.dumb ? "\n" : "\r\033[K";
        write_all(screen.file, wipe, strlen(wipe));
        screen.covered = true;
    }
    write_all(*(int *)file, bytes, length);
    screen.at_margin = length > 0 && bytes[length - 1] == '\n';
    if (screen.covered && screen.at_margin)
        uncover();
    pthread_mutex_unlock(&screen.lock);
    return (ssize_t)length;
}

static FILE *around_prompt(FILE *stream, int *file, int buffering)
{
    cookie_io_functions_t functions = {.write = write_around_prompt};
    FILE *around = isatty(*file) ? fopencookie(file, "w", functions) : NULL;
    if (!around)
        return stream;
    setvbuf(around, NULL, buffering, BUFSIZ);
    return around;
}

// Before any process opens its `io`.
static void take_screen(void)
{
    static int output = STDOUT_FILENO, error = STDERR_FILENO;
    const char *terminal = getenv("TERM");
    screen.file = !isatty(output) && isatty(error) ? error : output; // results may go elsewhere
    screen.none = !isatty(screen.file);
    screen.dumb = !terminal || strcmp(terminal, "dumb") == 0;
    screen.locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (!screen.locale) // one that is not installed
        screen.locale = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
    stdout = around_prompt(stdout, &output, _IOLBF);
    stderr = around_prompt(stderr, &error, _IONBF);
}

static void now_doing(enum doing doing)
{
    screen.doing = doing;
    pthread_cond_broadcast(&screen.changed);
}

// ---- Lines --------------------------------------------------------------------------------------

// A character from the keyboard: 1, 0 at the end of input, −1 for an error.
static int read_key(EditLine *editor, wchar_t *key)
{
    char bytes[MB_LEN_MAX];
    size_t length = 0, used = (size_t)-2;
    while (used == (size_t)-2 && length < sizeof bytes) {
        screen.editor = editor;
        pthread_mutex_unlock(&screen.lock);
        ssize_t got;
        do
            got = read(STDIN_FILENO, bytes + length, 1);
        while (got < 0 && errno == EINTR);
        pthread_mutex_lock(&screen.lock);
        if (screen.doing == OVER || got <= 0) {
            screen.editor = NULL;
            return screen.doing == OVER ? -1 : (int)got;
        }
        mbstate_t state = {0};
        used = mbrtowc(key, bytes, ++length, &state);
        if (used == (size_t)-1) { // not a character: ignored
            used = (size_t)-2;
            length = 0;
        }
    }
    if (screen.covered)
        uncover();
    screen.editor = NULL;
    return 1;
}

// Ctrl-C while a line is edited: away with it, and with the lines before it.
static unsigned char drop_line(EditLine *editor, int key)
{
    (void)key;
    struct repl *repl;
    el_get(editor, EL_CLIENTDATA, &repl);
    repl->dropped = true;
    return CC_EOF;
}

// Ctrl-D: the end, if nothing was typed. From then on an interrupt ends the program.
static unsigned char end_or_delete(EditLine *editor, int key)
{
    (void)key;
    const LineInfo *line = el_line(editor);
    if (line->buffer == line->lastchar) {
        mare__cli_interrupts_go_to(NULL);
        return CC_EOF;
    }
    if (line->cursor == line->lastchar)
        return CC_ERROR;
    el_cursor(editor, 1);
    el_deletestr(editor, 1);
    return CC_REFRESH;
}

static bool ask(struct repl *repl, const char *text, char **more, char **list);

// Writes the names side by side below the line, which is drawn again after them.
static void list_names(const char *names)
{
    enum { COLUMNS = 80, LEAST = 2 };
    size_t widest = 0, column = 0;
    for (const char *at = names; *at; at += strcspn(at, "\n") + (strchr(at, '\n') != NULL))
        widest = strcspn(at, "\n") > widest ? strcspn(at, "\n") : widest;
    write_all(screen.file, "\n", 1);
    for (const char *at = names; *at; at += strcspn(at, "\n") + (strchr(at, '\n') != NULL)) {
        char cell[COLUMNS + 2];
        if (column > 0 && column + widest > COLUMNS) {
            write_all(screen.file, "\n", 1);
            column = 0;
        }
        int written = snprintf(cell, sizeof cell, "%-*.*s", (int)(widest + LEAST),
                               (int)strcspn(at, "\n"), at);
        size_t length = written < (int)sizeof cell ? (size_t)written : sizeof cell - 1;
        write_all(screen.file, cell, length);
        column += widest + LEAST;
    }
    write_all(screen.file, "\n", 1);
}

// Tab: what the letters before the cursor can become. At the beginning of a line it is a blank.
static unsigned char complete(EditLine *editor, int key)
{
    (void)key;
    struct repl *repl;
    const LineInfo *line = el_line(editor);
    char *more = NULL, *list = NULL;
    unsigned char result = CC_ERROR;
    el_get(editor, EL_CLIENTDATA, &repl);
    if (line->cursor == line->buffer)
        return el_insertstr(editor, "    ") == 0 ? CC_REFRESH : CC_ERROR;
    char *text = strndup(line->buffer, (size_t)(line->cursor - line->buffer));
    if (text && ask(repl, text, &more, &list) && *more) {
        result = el_insertstr(editor, more) == 0 ? CC_REFRESH : CC_ERROR;
    } else if (list && *list) {
        list_names(list);
        result = CC_REDISPLAY;
    }
    free(text);
    free(more);
    free(list);
    return result;
}

static char *prompt(EditLine *editor)
{
    struct repl *repl;
    el_get(editor, EL_CLIENTDATA, &repl);
    return repl->text ? ">> " : "> ";
}

static bool open_editor(struct repl *repl)
{
    static const char *const keys[][2] = {{"^C", "drop-line"},
                                          {"^D", "end-or-delete"},
                                          {"^R", "em-inc-search-prev"},
                                          {"\\e[3~", "ed-delete-next-char"},
                                          {"\\e[1~", "ed-move-to-beg"},
                                          {"\\e[4~", "ed-move-to-end"},
                                          {"^I", "complete"}};
    FILE *out = fdopen(dup(screen.file), "w"); // its own drawing does not go around the prompt
    HistEvent event;
    repl->history = history_init();
    repl->editor = out && repl->history ? el_init("mare", stdin, out, out) : NULL;
    if (!repl->editor)
        return false;
    EditLine *editor = repl->editor;
    el_set(editor, EL_CLIENTDATA, repl);
    el_set(editor, EL_PROMPT, prompt);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_GETCFN, read_key);
    el_set(editor, EL_ADDFN, "drop-line", "Forget what was typed", drop_line);
    el_set(editor, EL_ADDFN, "end-or-delete", "End, or delete a letter", end_or_delete);
    el_set(editor, EL_ADDFN, "complete", "Complete a name", complete);
    el_set(editor, EL_SETTY, "-d", "-intr", "intr=", NULL); // while editing, a key
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        el_set(editor, EL_BIND, keys[i][0], keys[i][1], NULL);
    el_set(editor, EL_HIST, history, repl->history);
    history(repl->history, &event, H_SETSIZE, HISTORY_SIZE);
    history(repl->history, &event, H_SETUNIQUE, 1);
    const char *home = getenv("HOME");
    if (!home || asprintf(&repl->history_file, "%s/.mare_history", home) < 0)
        repl->history_file = NULL;
    if (repl->history_file)
        history(repl->history, &event, H_LOAD, repl->history_file);
    el_source(editor, NULL);
    return true;
}

// Back to how the terminal was. The editor itself stays: its thread may still wait for a key.
static void close_editor(struct repl *repl)
{
    HistEvent event;
    if (repl->history_file) // what cannot be saved is forgotten
        history(repl->history, &event, H_SAVE, repl->history_file);
    if (!screen.none)
        el_set(repl->editor, EL_PREP_TERM, 0);
}

static void remember(struct repl *repl, const char *line)
{
    HistEvent event;
    char *copy = strndup(line, strcspn(line, "\r\n"));
    if (copy && *copy)
        history(repl->history, &event, H_ENTER, copy);
    free(copy);
}

// ---- Evaluation ---------------------------------------------------------------------------------
// Texts are numbered, and so are their answers. An interrupt may hit the process between two
// evaluations, where it may have just taken a text that it now knows nothing of: it answers 0.

// A text to evaluate, or to complete; or NULL, to which the answer comes after the one to the text,
// if any.
static bool send_text(struct repl *repl, const char *text, bool completes)
{
    const mare_value yes = {.type = MARE_BOOLEAN, .as.boolean = true};
    mare_message *message;
    if (mare_message_create(&message) != MARE_OK)
        return false;
    bool sent = mare_message_add_integer(message, repl->number) == MARE_OK &&
                (!text || mare_message_add_string(message, text) == MARE_OK) &&
                (!completes || mare_message_add(message, &yes) == MARE_OK) &&
                mare_chan_send(repl->input, message) == MARE_OK;
    mare_message_destroy(message);
    return sent;
}

// Takes back a text that the process has not received yet. False: it has.
static bool take_back(struct repl *repl)
{
    mare_message *message;
    bool found = false;
    while (mare_chan_try_receive(repl->input, &message) == MARE_OK) {
        found |= mare_message_count(message) == 2;
        mare_message_destroy(message);
    }
    return found;
}

// Waits for the answer. Returns whether more is needed; *alive turns false when none can come.
static bool receive_answer(struct repl *repl, bool *alive)
{
    mare_message *message;
    while (*alive && mare_chan_receive(repl->output, &message) == MARE_OK) {
        mare_value number = {0}, more = {0};
        mare_message_get(message, 0, &number);
        mare_message_get(message, 1, &more);
        mare_message_destroy(message);
        if (number.as.integer == repl->number)
            return more.type == MARE_BOOLEAN && more.as.boolean;
        if (number.as.integer == 0 && take_back(repl)) {
            fputs("interrupted!\n", stderr);
            return false;
        }
        if (number.as.integer == 0)
            *alive = send_text(repl, NULL, false);
    }
    *alive = false;
    return false;
}

static char *text_at(const mare_message *message, unsigned index)
{
    mare_value value = {0};
    mare_message_get(message, index, &value);
    return value.type == MARE_STRING ? strndup(value.as.string.bytes, value.as.string.length)
                                     : NULL;
}

// Asks the process to complete a text: what to add, and the candidates. False: it does not answer
// in time, because one of its routines computes. A late answer is known by its old number.
static bool ask(struct repl *repl, const char *text, char **more, char **list)
{
    mare_message *answer = NULL;
    bool mine = false;
    now_doing(EVALUATING);
    pthread_mutex_unlock(&screen.lock);
    int64_t number = ++repl->number;
    bool sent = send_text(repl, text, true);
    uint64_t deadline = mare_deadline_ms(repl->runtime, 1000);
    while (sent && !mine && mare_chan_receive_until(repl->output, &answer, deadline) == MARE_OK) {
        mare_value value = {0};
        mare_message_get(answer, 0, &value);
        mine = value.as.integer == number;
        if (mine) {
            *more = text_at(answer, 1);
            *list = text_at(answer, 2);
        }
        mare_message_destroy(answer);
    }
    pthread_mutex_lock(&screen.lock);
    if (screen.doing != OVER)
        now_doing(EDITING);
    return mine && *more && *list;
}

static bool evaluate(struct repl *repl, bool *alive)
{
    now_doing(EVALUATING);
    pthread_mutex_unlock(&screen.lock);
    repl->number++;
    *alive = send_text(repl, repl->text, false);
    bool more = receive_answer(repl, alive);
    pthread_mutex_lock(&screen.lock);
    if (screen.doing != OVER)
        now_doing(EDITING);
    return more;
}

// From here on Ctrl-C is a key; what it was before concerned an earlier line.
static void await_keys(struct repl *repl)
{
    mare_message *late;
    if (!screen.none)
        el_set(repl->editor, EL_PREP_TERM, 1);
    while (mare_chan_try_receive(repl->output, &late) == MARE_OK)
        mare_message_destroy(late);
    mare__local_heed(mare__local_of(repl->process));
}

static bool collect(struct repl *repl, const char *line)
{
    char *whole;
    size_t length = strcspn(line, "\r\n");
    if (asprintf(&whole, "%s%s%.*s", repl->text ? repl->text : "", repl->text ? "\n" : "",
                 (int)length, line) < 0)
        return false;
    free(repl->text);
    repl->text = whole;
    return true;
}

static void forget(struct repl *repl)
{
    free(repl->text);
    repl->text = NULL;
}

// The terminal thread.
static void *converse(void *argument)
{
    struct repl *repl = argument;
    bool alive = true;
    uselocale(screen.locale);
    pthread_mutex_lock(&screen.lock);
    while (alive && screen.doing != OVER) {
        int length;
        repl->dropped = false;
        await_keys(repl);
        const char *line = el_gets(repl->editor, &length);
        if (screen.doing == OVER)
            break;
        if (!line) {
            write_all(screen.file, "\n", 1);
            if (!repl->dropped)
                break;
            forget(repl);
            continue;
        }
        remember(repl, line);
        if (!collect(repl, line) || !evaluate(repl, &alive))
            forget(repl);
    }
    if (screen.doing != OVER) { // else the main thread knows, and the runtime may be gone
        now_doing(OVER);
        mare__runtime_changed(repl->runtime);
    }
    pthread_mutex_unlock(&screen.lock);
    return NULL;
}

// ---- Start and end ------------------------------------------------------------------------------

static mare_process *start(struct repl *repl, int argc, char **argv)
{
    static const char code[] = "return require 'mare._repl' (...)";
    mare_process *process = NULL;
    mare_message *arguments;
    if (mare_message_create(&arguments) != MARE_OK)
        return NULL;
    mare_value values[] = {{.type = MARE_CHANNEL, .as.channel = repl->input},
                           {.type = MARE_CHANNEL, .as.channel = repl->output}};
    bool done = mare_message_add(arguments, &values[0]) == MARE_OK &&
                mare_message_add(arguments, &values[1]) == MARE_OK;
    for (int i = 0; i < argc && done; i++)
        done = mare_message_add_string(arguments, argv[i]) == MARE_OK;
    if (done)
        mare_spawn(repl->runtime, code, sizeof code - 1, "=repl", arguments, &process, NULL);
    mare_message_destroy(arguments);
    return process;
}

// Waits until the process can survive an interrupt, or has ended.
static void await_start(struct repl *repl)
{
    mare_message *ready;
    mare_err err;
    do
        err = mare_chan_receive_until(repl->output, &ready, mare_deadline_ms(repl->runtime, 100));
    while (err == MARE_TIMEOUT && mare_process_alive(repl->process));
    if (err == MARE_OK)
        mare_message_destroy(ready);
}

// The terminal has no more to say, or the process has ended, or somebody asked to exit.
static bool has_ended(void *argument)
{
    mare_runtime *runtime = argument;
    return screen.doing == OVER || !mare_process_alive(runtime->main) ||
           atomic_load(&runtime->exit_code) >= 0;
}

static void await_end(mare_runtime *runtime)
{
    mare__runtime_await_that(runtime, has_ended, runtime, MARE_FOREVER);
}

static void end(struct repl *repl)
{
    mare_chan_close(repl->input);
    mare_chan_close(repl->output);
    pthread_mutex_lock(&screen.lock);
    while (screen.doing == EVALUATING)
        pthread_cond_wait(&screen.changed, &screen.lock);
    if (screen.editor) // it waits for a key that will not matter
        write_all(screen.file, "\n", 1);
    screen.editor = NULL;
    now_doing(OVER);
    close_editor(repl);
    pthread_mutex_unlock(&screen.lock);
    mare_chan_unref(repl->input);
    mare_chan_unref(repl->output);
    mare__cli_interrupts_go_to(NULL);
}

int mare__cli_repl(int argc, char **argv)
{
    static struct repl repl; // the terminal thread may outlive this function
    pthread_t thread;
    take_screen();
    mare__cli_be_lenient(); // whoever sits there has seen it
    repl.runtime = mare__cli_start();
    if (!repl.runtime || mare_chan_create(repl.runtime, 1, NULL, &repl.input) ||
        mare_chan_create(repl.runtime, 1, NULL, &repl.output))
        return EXIT_DIED;
    repl.process = repl.runtime->main = start(&repl, argc, argv);
    locale_t before = uselocale(screen.locale); // the editor asks now which keys are letters
    bool opened = repl.process && open_editor(&repl);
    uselocale(before);
    if (!opened)
        return EXIT_DIED;
    static const char greeting[] =
        "Maré " MARE_VERSION
        ", Lua 5.4. End with Ctrl-D. `mare` is loaded. In a shell, `mare help spawn` explains "
        "mare.spawn.\n";
    write_all(screen.file, greeting, sizeof greeting - 1);
    await_start(&repl);
    mare__cli_interrupts_go_to(repl.process);
    if (mare__thread_start(&thread, "mare-terminal", converse, &repl) != 0)
        return EXIT_DIED;
    pthread_detach(thread);
    await_end(repl.runtime);
    end(&repl);
    return mare__cli_finish(repl.runtime);
}
