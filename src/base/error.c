// SPDX-License-Identifier: MIT
// Names and sentences for the codes listed in mare.h.
#include "base/error.h"

static const struct {
    const char *word, *sentence;
} table[] = {
#define ENTRY(symbol, word, sentence) {word, sentence},
    MARE_ERRORS(ENTRY)
#undef ENTRY
};

const char *mare__err_word(mare_err err)
{
    return (size_t)err < sizeof table / sizeof *table ? table[err].word : "unknown";
}

const char *mare_strerror(mare_err err)
{
    return (size_t)err < sizeof table / sizeof *table ? table[err].sentence : "unknown error";
}
