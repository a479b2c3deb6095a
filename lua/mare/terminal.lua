-- SPDX-License-Identifier: MIT
-- The terminal of a program: what the user types, read without blocking a worker; its size; and its
-- modes, which the program restores in the end (src/platform/terminal.c).
local raw, signal = require "mare._terminal", require "mare.signal"
local checks = require "mare._check"
local check = checks.argument

local terminal = {is_tty = raw.is_tty}

local input -- one for each process: it has read bytes in its buffer

--- Standard input as a stream, the same one each time.
function terminal.input()
    if not input or tostring(input):find "[(]" then -- closed, or sent away
        local message, code
        input, message, code = raw.input()
        if not input then return nil, message, code end
    end
    return input
end

--- Columns and rows of a descriptor's terminal, or of the first that is one: output, error, input.
function terminal.size(descriptor)
    if descriptor then
        check("size", descriptor, 1, "number")
        return checks.call("size", 1, raw.size, descriptor)
    end
    for _, fd in ipairs {1, 2, 0} do
        if raw.is_tty(fd) then return raw.size(fd) end
    end
    return nil, "there is no terminal", "io"
end

--- A watch for changes of the size: `w:next()` returns when there was one.
function terminal.resizes() return signal.watch "SIGWINCH" end

-- A value that restores the mode when it is closed.
local function guard(mode)
    local ok, message, code = raw.raw(mode)
    if not ok then return nil, message, code end
    return setmetatable({}, {
        __close = function() raw.raw "usual" end,
        __name = "terminal mode",
    })
end

--- Makes keys come one by one, unseen and without a meaning of their own; or as usual. Returns
--- something for a `<close>` variable.
function terminal.raw(on) return guard(on and "raw" or "usual") end

--- Asks for a line that is not shown while it is typed.
function terminal.password(prompt, timeout)
    if prompt ~= nil then check("password", prompt, 1, "string") end
    local stream, message, code = terminal.input()
    if not stream then return nil, message, code end
    local quiet <close> = raw.is_tty(0) and guard "quiet" or nil
    io.stderr:write(prompt or "")
    local line
    line, message, code = stream:read("l", timeout)
    if quiet then io.stderr:write "\n" end -- the one that was typed was not shown either
    if line then return line end
    return nil, message, code
end

return terminal
