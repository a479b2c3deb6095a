-- SPDX-License-Identifier: MIT
-- `mare top PATH`: what the processes of a program do, again and again, as a table in the terminal.
-- The program runs with `mare --inspect PATH`.
local mare, net, json = require "mare", require "mare.net", require "mare.json"
local terminal, signal = require "mare.terminal", require "mare.signal"
local arguments = require "mare._arguments"

local PATIENCE = 10 -- seconds for an answer
local OPTIONS = {["--once"] = true, ["--interval"] = true}

local function fail(code, ...) arguments.fail("top", code, ...) end

local function amount(bytes)
    for _, unit in ipairs {"", "K", "M", "G"} do
        if bytes < 10000 then return ("%.0f%s"):format(bytes, unit) end
        bytes = bytes / 1024
    end
    return ("%.0fT"):format(bytes)
end

-- Fits a text, which may have any bytes, into so many columns.
local function fit(text, columns)
    text = tostring(text or ""):gsub("[%c\127-\255]", "?")
    if #text > columns then text = text:sub(1, columns - 1) .. "~" end
    return text .. (" "):rep(columns - #text)
end

-- The share of a processor that each process had since the last picture, and all of them together.
local function shares(now, before)
    local past, seconds = {}, before and now.time - before.time or 0
    for _, row in ipairs(before and before.processes or {}) do past[row.id] = row.cpu end
    for _, row in ipairs(now.processes) do
        row.share = seconds > 0 and past[row.id] and (row.cpu - past[row.id]) / seconds or 0
    end
    table.sort(now.processes, function(a, b)
        if a.share ~= b.share then return a.share > b.share end
        if a.cpu ~= b.cpu then return a.cpu > b.cpu end
        return a.id < b.id
    end)
    return seconds
end

local function count(number, word)
    return ("%d %s"):format(number, word .. (number == 1 and "" or word:find "s$" and "es" or "s"))
end

local function table_of(now, before, columns, rows)
    local seconds, stats = shares(now, before), now.stats
    local function rate(key)
        return seconds > 0 and (stats[key] - before.stats[key]) / seconds or 0
    end
    local lines = {
        ("%s, %s, %s; a second: %.0f messages, %.0f turns, %.0f new"):format(
            count(#now.processes, "process"), count(stats.workers, "worker"),
            count(#now.channels, "channel"), rate "received", rate "switches", rate "spawned"),
        ("%8s %-16s %-8s %6s %9s %7s  %s"):format("PROCESS", "NAME", "STATUS", "CPU %", "CPU s",
            "MEMORY", "WHERE, AND WHAT IT WAITS FOR")}
    for _, row in ipairs(now.processes) do
        if #lines >= rows then break end
        local place = (row.at or "") .. (row.waits_text and " " .. row.waits_text or "")
        lines[#lines + 1] = ("%8d %s %-8s %6.1f %9.2f %7s  %s"):format(row.id, fit(row.name, 16),
            row.status, 100 * row.share, row.cpu, amount(row.memory), place)
    end
    for i, line in ipairs(lines) do lines[i] = fit(line, columns) end
    return lines
end

local function ask(stream)
    local line, why
    if stream:writewithin(PATIENCE, "?\n") then line, why = stream:read("l", PATIENCE) end
    return line and json.decode(line), why or "the program has ended"
end

-- Draws one picture: clears each line to its end, and the screen below. The last column stays free,
-- because terminals differ in what they do when it is written.
local function draw(lines)
    io.write("\27[H", table.concat(lines, "\27[K\r\n"), "\27[K\27[J")
    io.flush()
end

-- Opens a separate screen without a cursor: afterwards the old content of the terminal is back.
local function open_screen()
    local raw = terminal.raw(true)
    if not raw then return nil end
    io.write "\27[?1049h\27[?25l"
    return setmetatable({}, {__close = function()
        io.write "\27[?25h\27[?1049l"
        io.flush()
        getmetatable(raw).__close(raw)
    end})
end

-- Shows one picture after the other, until a key or a signal ends it. Any other key, and a new size
-- of the terminal, show the next picture at once. Returns why it ended, if for another reason.
local function watch(stream, interval)
    local _ <close> = open_screen()
    local keys, before = terminal.input(), nil
    local resized <close> = terminal.resizes()
    local ended <close> = signal.watch("SIGINT", "SIGTERM", "SIGHUP")
    local now, why = ask(stream)
    while now do
        local columns, rows = terminal.size()
        draw(table_of(now, before, (columns or 120) - 1, rows or 24))
        local which = mare.select({keys, resized, ended}, interval)
        if which == 3 then return end
        local key = which == 1 and keys:read(nil, 0)
        if which == 1 and (not key or key:find "[qQ\3]" or key == "\27") then return end
        before = now
        now, why = ask(stream)
    end
    return why
end

-- Processor use is the difference between two looks.
local function print_once(stream, interval)
    local before, why = ask(stream)
    local now
    if before then
        mare.sleep(math.min(interval, 0.5))
        now, why = ask(stream)
    end
    local columns = terminal.size()
    for _, line in ipairs(now and table_of(now, before, columns or 120, math.huge) or {}) do
        print((line:gsub("%s+$", "")))
    end
    return not now and why or nil
end

return function(...)
    local words, options = arguments.read({["--once"] = true}, ...)
    for name in pairs(options) do
        if not OPTIONS[name] then
            fail(2, "there is no option '%s'; %s'mare help top' lists them", name,
                arguments.near(name, OPTIONS))
        end
    end
    local path, interval = words[1], tonumber(options["--interval"] or 1)
    if not path or #words > 1 then
        fail(2, "the path that 'mare --inspect PATH' was given is needed")
    end
    if not interval or interval <= 0 then fail(2, "--interval needs a number of seconds") end
    if not path:find "^[/.]" then path = "./" .. path end
    local stream, why = net.connect(path, nil, PATIENCE)
    if not stream then
        fail(1, "%s; was the program started with 'mare --inspect %s'?", why, path)
    end
    stream:limit(64 << 20)
    local on_screen = not options["--once"] and terminal.is_tty(0) and terminal.is_tty(1)
    local failure = on_screen and watch(stream, interval)
    if not on_screen then failure = print_once(stream, interval) end
    if failure then fail(1, "%s: %s", path, failure) end
end
