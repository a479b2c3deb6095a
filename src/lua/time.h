// SPDX-License-Identifier: MIT
// Shared by the files of the module mare.time: checking arguments and filling in results.
//
// The C library trusts its caller not to overflow 64 bits. A program in Lua is not trusted:
// calendar instants are within [CALENDAR_FIRST, CALENDAR_LAST], local ones within LOCAL_MOST, and
// those of one disciplined clock within CLOCK_LIFE of each other. With these, no sum or difference
// that the library makes leaves 64 bits.
#pragma once

#include <lauxlib.h>

#include "lua/binding.h"

#define YEARS_18 (INT64_C(1) << 59)
#define CALENDAR_FIRST (-4 * YEARS_18) // 1897
#define CALENDAR_LAST (8 * YEARS_18)   // 2116
#define LOCAL_MOST (4 * YEARS_18)
#define CLOCK_LIFE YEARS_18
#define ERROR_MOST YEARS_18
#define RATE_MOST INT64_C(500000000)

// An integer argument within a range; the error calls it `what`.
int64_t mare__time_check_range(lua_State *L, int index, int64_t least, int64_t most,
                               const char *what);
int64_t mare__time_check_local(lua_State *L, int index);
int64_t mare__time_check_calendar(lua_State *L, int index);
uint64_t mare__time_check_error(lua_State *L, int index);

// An argument that may be left out: a table of options, empty then. `names` are those that there
// are.
void mare__time_check_options(lua_State *L, int index, const char *names);

// The integer that is the option `name` of the table at `index`.
int64_t mare__time_field(lua_State *L, int index, const char *name, int64_t otherwise,
                         int64_t least, int64_t most);

// Sets a field of the table on top of the stack.
void mare__time_set_integer(lua_State *L, const char *name, uint64_t value);

// A span that may not fit is cut: it is a bound, or "never".
uint64_t mare__time_cut(uint64_t span);

// Returns nil, message, code.
int mare__time_fail(lua_State *L, mare_err err, const char *message);

// What time_ntp.c adds to the module.
extern const luaL_Reg mare__time_ntp_functions[], mare__time_client_methods[];
extern const luaL_Reg mare__time_server_methods[];
#define MARE__TIME_CLIENT "mare.time.client"
#define MARE__TIME_SERVER "mare.time.server"

// What time_live.c adds.
extern const luaL_Reg mare__time_live_functions[], mare__time_arrivals_methods[];
#define MARE__TIME_ARRIVALS "mare.time.arrivals"
