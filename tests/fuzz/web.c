// SPDX-License-Identifier: MIT
// Any bytes through the parsers of the web that are written in Lua. web.lua, beside this file, has
// them and what must hold of each. libFuzzer cannot see into Lua, so a hook counts for it: each
// step from one line to another has a counter, and an input that makes a new step is kept. The hook
// also ends an input that takes more lines than its length allows.
//
//     which parser | how the bytes are cut | what a stranger sends
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The modules in C that the parsers' ones require; those in Lua are found in their folder.
#define MODULES(M)                                                                                 \
    M("mare", luaopen_mare)                                                                        \
    M("mare._certificate", luaopen_mare__certificate)                                              \
    M("mare._file", luaopen_mare__file)                                                            \
    M("mare._http", luaopen_mare__http)                                                            \
    M("mare._log", luaopen_mare__log)                                                              \
    M("mare._net", luaopen_mare__net)                                                              \
    M("mare._socket", luaopen_mare__socket)                                                        \
    M("mare._websocket", luaopen_mare__websocket)                                                  \
    M("mare._zip", luaopen_mare__zip)                                                              \
    M("mare.json", luaopen_mare_json)
#define DECLARE(name, open) int open(lua_State *L);
MODULES(DECLARE)

enum {
    STEPS = 1 << 14,
    LINES_ANYWAY = 100000, // that an input of no length may take
    LINES_EACH = 1000,     // and more for each of its bytes
    COLLECT_EACH = 64,     // inputs
};

__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t steps[STEPS];

static lua_State *state; // with web.lua's function alone on its stack
static size_t lines_left;

// libFuzzer would look for leaks after each input that left something to Lua's collector.
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static void count_step(lua_State *L, lua_Debug *line)
{
    static uint32_t before;
    lua_getinfo(L, "S", line);
    uint32_t here = (uint32_t)line->currentline;
    for (size_t i = line->srclen < 12 ? 0 : line->srclen - 12; i < line->srclen; i++)
        here = here * 31 + (uint8_t)line->source[i];
    here *= 2654435761u;
    steps[(here ^ before) % STEPS]++;
    before = here >> 1;
    if (lines_left == 0)
        luaL_error(L, "it takes too long for its length");
    lines_left--;
}

static int traceback(lua_State *L)
{
    luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
    return 1;
}

// An address as the C library reads it: its 4 or 16 bytes, or nil.
static int read_address(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    char bytes[sizeof(struct in6_addr)];
    int family = strchr(text, ':') ? AF_INET6 : AF_INET;
    if (strlen(text) != size || inet_pton(family, text, bytes) != 1)
        return 0;
    lua_pushlstring(L, bytes, family == AF_INET ? 4 : 16);
    return 1;
}

static void must(lua_State *L, int status)
{
    if (status == LUA_OK)
        return;
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    abort();
}

static void end(void)
{
    lua_close(state);
}

static lua_State *begin(void)
{
    lua_State *L = luaL_newstate();
    if (!L)
        abort();
    luaL_openlibs(L);
    static const luaL_Reg modules[] = {
#define ENTRY(name, open) {name, open},
        MODULES(ENTRY){NULL, NULL}};
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    luaL_setfuncs(L, modules, 0);
    lua_getglobal(L, "package");
    lua_pushliteral(L, MARE_FUZZ_FOLDER "/../../lua/?.lua");
    lua_setfield(L, -2, "path");
    lua_settop(L, 0);
    lua_pushcfunction(L, traceback);
    must(L, luaL_loadfile(L, MARE_FUZZ_FOLDER "/web.lua"));
    lua_pushcfunction(L, read_address);
    must(L, lua_pcall(L, 1, 1, 1));
    return L;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned count;
    if (!state) {
        state = begin();
        atexit(end);
    }
    lines_left = LINES_ANYWAY + LINES_EACH * size;
    lua_sethook(state, count_step, LUA_MASKLINE, 0);
    lua_pushvalue(state, 2);
    lua_pushlstring(state, (const char *)data, size);
    int status = lua_pcall(state, 1, 0, 1);
    lua_sethook(state, NULL, 0, 0);
    must(state, status);
    if (++count % COLLECT_EACH == 0)
        lua_gc(state, LUA_GCCOLLECT);
    return 0;
}
