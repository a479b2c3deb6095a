-- SPDX-License-Identifier: MIT
-- Starts and watches programs of the operating system. The waiting is done in C (src/lua/child.c).
-- This file has the policy: what a child inherits, and how much of its output is collected.
local mare, raw = require "mare", require "mare._child"

local child = {environment = raw.environment}

--- How much `run` collects of each of standard output and standard error, in bytes.
child.limit = 16 << 20

local function refuse(name, text, ...)
    error(("bad argument #1 to '%s' (%s)"):format(name, text:format(...)), 4)
end

-- The options of a program and their types.
local OPTIONS = {
    env = "table", clean = "boolean", cwd = "string", group = "boolean", detached = "boolean",
    grace = "number", stdin = "any", stdout = "any", stderr = "any",
}
local RUN_OPTIONS = {input = "string", limit = "number", timeout = "any"}

local function check_options(name, options, more)
    if type(options) ~= "table" then
        refuse(name, "table expected, got %s", options == nil and "no value" or type(options))
    end
    local count = 0
    for key, value in pairs(options) do
        local expected = OPTIONS[key] or more[key]
        if math.type(key) == "integer" then
            count = count + 1
            if type(value) ~= "string" and type(value) ~= "number" then
                refuse(name, "argument %d of the program: string expected, got %s", key,
                    type(value))
            end
        elseif not expected then
            refuse(name, "unknown option '%s'", tostring(key))
        elseif expected ~= "any" and type(value) ~= expected then
            refuse(name, "option '%s': %s expected, got %s", key, expected, type(value))
        end
    end
    if options[1] == nil then refuse(name, "no program is named") end
    for i = 2, count do -- a nil among them would cut off those behind it
        if options[i] == nil then refuse(name, "argument %d of the program is missing", i) end
    end
    if options.input and options.stdin then refuse(name, "both 'input' and 'stdin' are given") end
    if options.grace and (options.grace < 0 or options.grace ~= options.grace) then
        refuse(name, "option 'grace': a time cannot be negative")
    end
end

-- The program and its arguments, as strings.
local function arguments_of(options)
    local arguments = {}
    for i, argument in ipairs(options) do arguments[i] = tostring(argument) end
    return arguments
end

-- The environment as a list of "NAME=value": this program's, unless `clean`, changed by `env`,
-- where false removes a name.
local function environment_of(name, options)
    if not options.env and not options.clean then return nil end
    local values, list = options.clean and {} or raw.environment(), {}
    for key, value in pairs(options.env or {}) do
        if type(key) ~= "string" or key == "" or key:find "=" then
            refuse(name, "option 'env': '%s' cannot be a name", tostring(key))
        elseif value and type(value) ~= "string" and type(value) ~= "number" then
            refuse(name, "option 'env': %s: string or false expected, got %s", key, type(value))
        end
        values[key] = value and tostring(value) or nil
    end
    for key, value in pairs(values) do list[#list + 1] = key .. "=" .. value end
    return list
end

local INPUT = {pipe = "pipe", inherit = "inherit", null = {"/dev/null", "read"}}
local OUTPUT = {pipe = "pipe", inherit = "inherit", null = {"/dev/null", "write"}}

-- Prepares stdin, stdout or stderr for the C side: a word, {path, how}, a file or a stream.
local function stream_of(name, option, value)
    local words = option == "stdin" and INPUT or OUTPUT
    if type(value) == "userdata" then
        if io.type(value) == "file" and option ~= "stdin" then value:flush() end
        return value
    elseif type(value) == "table" and type(value.path) == "string" and option ~= "stdin" then
        return {value.path, value.append and "append" or "write"}
    elseif type(value) ~= "string" then
        refuse(name, "option '%s': string, stream or file expected, got %s", option, type(value))
    elseif words[value] then
        return words[value]
    elseif value == "stdout" and option == "stderr" then
        return value
    elseif value:find "^[./]" then
        return {value, option == "stdin" and "read" or "write"}
    end
    refuse(name, "option '%s': '%s' is not a stream; a path begins with '/' or '.'", option, value)
end

local function start(name, options, deadline, stdin, stdout, stderr, group)
    local arguments, environment = arguments_of(options), environment_of(name, options)
    stdin = stream_of(name, "stdin", options.stdin or stdin)
    stdout = stream_of(name, "stdout", options.stdout or stdout)
    stderr = stream_of(name, "stderr", options.stderr or stderr)
    if options.group ~= nil then group = options.group end
    io.stdout:flush() -- so that our output comes before the child's
    local c, message, code = raw.spawn(arguments, environment, options.cwd, stdin, stdout, stderr,
        group, options.detached, deadline)
    if not c then return nil, message, code end
    if options.grace then c:grace(options.grace) end
    return c
end

--- Starts a program: `spawn{"program", "argument", ..., option = value}`. Returns a child.
function child.spawn(options)
    check_options("spawn", options, {})
    return start("spawn", options, nil, "null", "inherit", "inherit", false)
end

-- ---- A program from start to end ----------------------------------------------------------------

local function feed(stream, text, deadline)
    local _ <close> = stream
    return stream:writewithin(deadline or math.huge, text) -- it may end before it has read all
end

-- Reads everything, up to the limit.
local function collect(stream, limit, deadline)
    local _ <close> = stream
    local parts, size = {}, 0
    while true do
        local part, message, code = stream:read(nil, deadline)
        if not part then
            if code == "closed" then return table.concat(parts) end
            return nil, message, code
        end
        size = size + #part
        if size > limit then
            return nil, ("the program wrote more than %d bytes"):format(limit), "toobig"
        end
        parts[#parts + 1] = part
    end
end

-- The results of a routine.
local function joined(routine, deadline)
    local got = table.pack(routine:join(deadline))
    if got[1] then return table.unpack(got, 2, got.n) end
    return table.unpack(got, 1, got.n)
end

local function finish(c, options, deadline)
    local limit, out, err = options.limit or child.limit, nil, nil
    if c.stdin then mare.go(feed, c.stdin, options.input or "", deadline) end
    -- Reads both at once: a child that waits to write to one would never finish the other.
    local second = c.stderr and mare.go(collect, c.stderr, limit, deadline)
    local how, message, code
    if c.stdout then
        out, message, code = joined(mare.go(collect, c.stdout, limit, deadline), deadline)
        if not out then return nil, message, code end
    end
    if second then
        err, message, code = joined(second, deadline)
        if not err then return nil, message, code end
    end
    how, message, code = c:wait(deadline)
    if not how then return nil, message, code end
    return {how = how, code = message, ok = how == "exit" and message == 0, out = out, err = err}
end

local function run(options)
    local deadline = options.timeout
    if type(deadline) == "number" then deadline = mare.deadline(deadline) end
    local c <close>, why, what = start("run", options, deadline,
        options.input and "pipe" or "null", "pipe", "pipe", options.stdin ~= "inherit")
    if not c then return nil, why, what end
    local result, message, code = finish(c, options, deadline)
    if result then return result end
    c:kill "SIGKILL"
    return nil, message, code
end

--- Runs a program to its end, gives it `input`, and collects what it writes. Returns a table with
--- `how` ("exit", "signal"), `code`, `ok`, `out` and `err`.
function child.run(options)
    check_options("run", options, RUN_OPTIONS)
    if not raw.in_host then return run(options) end
    -- The stock interpreter's own state has no routines, so a process does it.
    return select(2, assert(mare.spawn(function(given)
        return require "mare.child".run(given)
    end, options):join()))
end

return child
