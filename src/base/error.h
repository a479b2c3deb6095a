// SPDX-License-Identifier: MIT
// The codes of everything that can go wrong in operation: one list makes the enum, the C strings
// and the Lua words.
#pragma once

#include <mare.h>

// The stable word for a code, the third result of a Lua function that failed ("timeout").
const char *mare__err_word(mare_err err);
