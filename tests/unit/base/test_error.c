// SPDX-License-Identifier: MIT
// Every code has a word and a sentence of its own.
#include "base/error.h"

#include <ctype.h>
#include <string.h>

#include "unit.h"

static const struct {
    mare_err code;
    const char *word, *sentence;
} errors[] = {
#define ENTRY(symbol, word, sentence) {symbol, word, sentence},
    MARE_ERRORS(ENTRY)
#undef ENTRY
};
enum { COUNT = sizeof errors / sizeof *errors };

static void success_is_zero(void **state)
{
    (void)state;
    assert_int_equal(MARE_OK, 0);
    assert_string_equal(mare__err_word(MARE_OK), "ok");
}

static void each_code_gives_its_own_word_and_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        assert_string_equal(mare__err_word(errors[i].code), errors[i].word);
        assert_string_equal(mare_strerror(errors[i].code), errors[i].sentence);
    }
    assert_string_equal(mare__err_word(MARE_TIMEOUT), "timeout");
    assert_string_equal(mare_strerror(MARE_NOMEM), "not enough memory");
}

static void no_two_codes_share_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = i + 1; k < COUNT; k++) {
            assert_int_not_equal(errors[i].code, errors[k].code);
            assert_string_not_equal(errors[i].word, errors[k].word);
            assert_string_not_equal(errors[i].sentence, errors[k].sentence);
        }
}

// Programs compare the word: one, in lower case. The sentence goes into messages: no capital, no
// full stop.
static void words_and_sentences_have_their_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(strlen(errors[i].word) > 0);
        for (const char *c = errors[i].word; *c; c++)
            assert_true(islower((unsigned char)*c));
        const char *sentence = errors[i].sentence;
        assert_true(islower((unsigned char)sentence[0]));
        assert_int_not_equal(sentence[strlen(sentence) - 1], '.');
    }
}

static void a_code_that_does_not_exist_is_unknown(void **state)
{
    (void)state;
    assert_string_equal(mare__err_word((mare_err)COUNT), "unknown");
    assert_string_equal(mare_strerror((mare_err)COUNT), "unknown error");
    assert_string_equal(mare__err_word((mare_err)-1), "unknown");
    assert_string_equal(mare_strerror((mare_err)-1), "unknown error");
}

UNIT_TESTS(cmocka_unit_test(success_is_zero),
           cmocka_unit_test(each_code_gives_its_own_word_and_sentence),
           cmocka_unit_test(no_two_codes_share_one),
           cmocka_unit_test(words_and_sentences_have_their_form),
           cmocka_unit_test(a_code_that_does_not_exist_is_unknown))
