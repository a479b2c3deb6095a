// SPDX-License-Identifier: MIT
// What the files of HTTP share with each other and with nobody else.
#pragma once

#include "wire/http.h"

// What a character may be part of.
enum {
    MARE__HTTP_TOKEN = 1,  // a method, the name of a field
    MARE__HTTP_TARGET = 2, // a request's target: what RFC 3986 allows, and what browsers do not
                           // encode (\ ^ ` { | }): programs are asked for such targets
    MARE__HTTP_VALUE = 4,  // the value of a field, a reason, a chunk extension
    MARE__HTTP_NAME = 8,   // a host's name
    MARE__HTTP_HEX = 16,
};
extern const uint8_t mare__http_classes[256];

static inline bool mare__http_is(char character, uint8_t classes)
{
    return mare__http_classes[(uint8_t)character] & classes;
}

// What a response answers, where that decides how the response ends.
enum { MARE__HTTP_ANSWERS_ANY, MARE__HTTP_ANSWERS_HEAD, MARE__HTTP_ANSWERS_CONNECT };

// Whether every character is one of these. True for none.
bool mare__http_all(struct mare__span text, uint8_t classes);

// Whether the text is this word (given in lower case), in any case.
bool mare__http_same(struct mare__span text, const char *word);

// Whether it is the host, with or without a port, that Host and a target may have.
bool mare__http_host_valid(struct mare__span host);

// Takes the next element off a comma-separated list, without the white space around it: maybe an
// empty one. False at the end.
bool mare__http_next_element(struct mare__span *list, struct mare__span *element);

// Ends the reading. The status is for requests; responses get 502.
enum mare__http_event mare__http_fail(struct mare__http_reader *reader, int status,
                                      const char *reason);

// Makes reader->head of the lines in reader->text, which are well formed and end with an empty one.
// False, and failed, when they make no sense.
bool mare__http_understand(struct mare__http_reader *reader);
