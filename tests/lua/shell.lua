-- SPDX-License-Identifier: MIT
-- Programs of their own, for tests of the command line: what they print and how they end.
local shell = {}

local running = require "mare.file".readlink "/proc/self/exe"

--- The mare command that is tested: the one that runs this, if a test is run by hand. Under the
--- stock interpreter there is none.
shell.mare = os.getenv "MARE_BINARY" or running and running:match "^.*/mare$"

--- A temporary file with the text; removed when closed. `name` is its name.
function shell.file(text)
    local name = os.tmpname()
    local file = assert(io.open(name, "w"))
    file:write(text)
    file:close()
    return setmetatable({name = name}, {
        __close = function() os.remove(name) end,
        __tostring = function() return name end,
    })
end

function shell.quote(text)
    return "'" .. tostring(text):gsub("'", "'\\''") .. "'"
end

local function slurp(name)
    local file = assert(io.open(name, "rb"))
    local text = file:read "a"
    file:close()
    os.remove(name)
    return text
end

--- Runs a shell command: returns {out = , err = , code = }. A program that hangs is ended after a
--- minute, with code 137.
function shell.run(command)
    local out, err = os.tmpname(), os.tmpname()
    local _, how, code = os.execute(("timeout -s KILL %d sh -c %s >%s 2>%s </dev/null")
        :format(60 * tonumber(os.getenv "MARE_TEST_SLOW" or "1"), shell.quote(command), out, err))
    if how == "signal" then code = code + 128 end
    return {out = slurp(out), err = slurp(err), code = code}
end

--- Runs a piece of Lua as a program, from a file; arguments as words of the shell.
function shell.lua(text, arguments)
    local file <close> = shell.file(text)
    return shell.run(("%s %s %s"):format(shell.mare, file.name, arguments or ""))
end

--- Runs a piece of Lua under the stock interpreter, with the mare.so that lies beside mare.
function shell.stock(text, arguments)
    local file <close> = shell.file(text)
    return shell.run(("LUA_CPATH='%s/?.so;;' lua5.4 %s %s")
        :format(shell.mare:match "^(.*)/", file.name, arguments or ""))
end

--- Runs a piece of Lua as a program, on one worker, with a file system that hangs for paths with
--- "hangs" in them until it calls `answer`. False: meson does not run this.
function shell.slow_files(text, environment)
    local library = os.getenv "MARE_SLOW_FILES"
    if not library then return false end
    local flag <close> = shell.file ""
    local program <close> = shell.file(("local function answer() os.remove(%q) end\n"
        .. "require 'mare'.workers(1)\n"):format(flag.name) .. text)
    return shell.run(("MARE_HANGS=%s LD_PRELOAD=%s %s %s %s")
        :format(flag, library, environment or "", shell.mare, program))
end

--- Whether that can be: lua5.4 is there, and mare.so fits it (one with sanitizers does not).
function shell.has_stock()
    return shell.stock("require 'mare'").code == 0
end

return shell
