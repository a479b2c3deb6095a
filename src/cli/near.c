// SPDX-License-Identifier: MIT
// Words that are misspelt: which one was meant, and how a command says so. What a command knows
// stands in its help, so that is where its words are looked for.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

enum { WORD_MOST = 64 };

// How many letters have to be put in, left out, changed or swapped with the next to make one word
// of the other (Damerau and Levenshtein; optimal string alignment). The rows of the table are
// beginnings of `a`: this one, and the two before it.
unsigned mare__cli_edits(const char *a, const char *b)
{
    unsigned row[3][WORD_MOST + 1];
    size_t width = strlen(b), height = strlen(a);
    if (width > WORD_MOST)
        return WORD_MOST;
    for (size_t i = 0; i <= width; i++)
        row[0][i] = (unsigned)i;
    for (size_t j = 1; j <= height; j++) {
        unsigned *now = row[j % 3], *last = row[(j + 2) % 3], *before = row[(j + 1) % 3];
        now[0] = (unsigned)j;
        for (size_t i = 1; i <= width; i++) {
            unsigned least = last[i - 1] + (a[j - 1] != b[i - 1]);
            least = last[i] + 1 < least ? last[i] + 1 : least;
            least = now[i - 1] + 1 < least ? now[i - 1] + 1 : least;
            if (j > 1 && i > 1 && a[j - 1] == b[i - 2] && a[j - 2] == b[i - 1] &&
                before[i - 2] + 1 < least)
                least = before[i - 2] + 1;
            now[i] = least;
        }
    }
    return row[height % 3][width];
}

unsigned mare__cli_edits_most(const char *word)
{
    return strlen(word) < 6 ? 1 : strlen(word) < 10 ? 2 : 3;
}

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_';
}

// An option of the help ("--seed"), or what may follow "mare COMMAND ".
static bool can_be_meant(const char *help, const char *at, const char *word, const char *command)
{
    size_t before = strlen(command) + 6; // "mare " and a space
    if (word[0] == '-')
        return at[0] == '-' && at[1] == '-' && isalpha((unsigned char)at[2]);
    return at >= help + before && strncmp(at - before, "mare ", 5) == 0 &&
           strncmp(at - before + 5, command, before - 6) == 0 && at[-1] == ' ' &&
           islower((unsigned char)*at);
}

// The nearest of them into `near`, if one is near enough.
static bool find_near(const char *command, const char *help, const char *word, char *near)
{
    unsigned least = mare__cli_edits_most(word) + 1;
    bool found = false;
    for (const char *at = help; *at; at++) {
        size_t length = 0;
        char one[WORD_MOST];
        if ((at > help && is_letter(at[-1])) || !can_be_meant(help, at, word, command))
            continue;
        while (is_letter(at[length]))
            length++;
        if (length >= sizeof one)
            continue;
        snprintf(one, sizeof one, "%.*s", (int)length, at);
        unsigned edits = mare__cli_edits(one, word);
        if (edits >= least)
            continue;
        least = edits;
        found = true;
        memcpy(near, one, sizeof one);
    }
    return found && least > 0;
}

int mare__cli_refuse(const char *command, const char *help, const char *what, const char *word)
{
    char near[WORD_MOST];
    fprintf(stderr, "mare %s: %s '%s'; ", command, what, word);
    if (find_near(command, help, word, near))
        fprintf(stderr, "is it '%s'? ", near);
    fprintf(stderr, "'mare help %s' tells more\n", command);
    return EXIT_USAGE;
}
