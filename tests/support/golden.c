// SPDX-License-Identifier: MIT
#include "support/golden.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 600, SCRIPTS = 64 };

// Runs a block's commands, copying them. Returns true at the end of the file.
static bool run_block(const struct golden_language *language, void *script, FILE *file, FILE *copy,
                      FILE *out)
{
    char line[LINE], command[LINE];
    while (fgets(line, sizeof line, file)) {
        fputs(line, copy);
        if (strncmp(line, "----", 4) == 0) {
            if (language->finish)
                language->finish(script, out);
            return false;
        }
        strcpy(command, line);
        if (!language->run(script, command, out))
            fprintf(out, "not understood: %s", line);
    }
    return true;
}

static char *read_expected(FILE *file)
{
    char line[LINE], *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    while (fgets(line, sizeof line, file) && line[0] != '\n')
        fputs(line, out);
    fclose(out);
    return text;
}

// `path` is NULL if nothing is to be said.
static bool run_blocks(const struct golden_language *language, void *script, FILE *file, FILE *copy,
                       const char *path)
{
    bool right = true;
    for (bool end = false; !end;) {
        char *got = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&got, &length);
        end = run_block(language, script, file, copy, out);
        fclose(out);
        char *expected = read_expected(file);
        if (strcmp(got, expected) != 0) {
            if (path)
                fprintf(stderr, "%s: expected\n%sgot\n%s", path, expected, got);
            right = false;
        }
        if (!end)
            fprintf(copy, "%s\n", got);
        free(expected);
        free(got);
    }
    return right;
}

int golden_run(const char *path, const struct golden_language *language, void *script, bool quiet)
{
    FILE *file = fopen(path, "r");
    char *copy_text = NULL;
    size_t copy_length = 0;
    if (!file) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return 1;
    }
    FILE *copy = open_memstream(&copy_text, &copy_length);
    bool right = run_blocks(language, script, file, copy, quiet ? NULL : path);
    fclose(file);
    fclose(copy);
    const char *mode = getenv("MARE_GOLDEN");
    if (!right && !quiet && mode && strcmp(mode, "write") == 0) {
        file = fopen(path, "w");
        fwrite(copy_text, 1, copy_length, file);
        fclose(file);
        right = true;
    }
    free(copy_text);
    return right ? 0 : 1;
}

int golden_main(int argc, char **argv, CMUnitTestFunction run)
{
    struct CMUnitTest tests[SCRIPTS] = {0};
    size_t count = 0;
    for (int i = 1; i < argc && count < SCRIPTS; i++) {
        const char *slash = strrchr(argv[i], '/');
        tests[count++] = (struct CMUnitTest){
            .name = slash ? slash + 1 : argv[i], .test_func = run, .initial_state = argv[i]};
    }
    return _cmocka_run_group_tests("golden", tests, count, NULL, NULL) ? 1 : 0;
}
