-- SPDX-License-Identifier: MIT
-- `mare top PATH`: what the processes of a program do, again and again, as a table in the terminal.
-- The program was started with `mare --inspect PATH`.
local mare, net, json = require "mare", require "mare.net", require "mare.json"
local terminal, arguments = require "mare.terminal", require "mare._arguments"

local PATIENCE = 10 -- seconds for an answer

local function fail(code, ...) arguments.fail("top", code, ...) end

local function amount(bytes)
    for _, unit in ipairs {"", "K", "M", "G"} do
        if bytes < 10000 then return ("%.0f%s"):format(bytes, unit) end
        bytes = bytes / 1024
    end
    return ("%.0fT"):format(bytes)
end

-- Anything that a name may hold, in so many columns.
local function fit(text, columns)
    text = tostring(text or ""):gsub("[%c\127-\255]", "?")
    if #text > columns then text = text:sub(1, columns - 1) .. "~" end
    return text .. (" "):rep(columns - #text)
end

-- The share of a processor that each process had since the picture before, and as a whole.
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

local function table_of(now, before, columns, rows)
    local seconds, stats = shares(now, before), now.stats
    local function rate(key)
        return seconds > 0 and (stats[key] - before.stats[key]) / seconds or 0
    end
    local lines = {
        ("%d processes, %d workers, %d channels; a second: %.0f messages, %.0f turns, %.0f new")
            :format(#now.processes, stats.workers, #now.channels, rate "received",
                rate "switches", rate "spawned"),
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

-- Waits for a key or for the time: false, it is over.
local function pause(keys, seconds)
    if not keys then
        mare.sleep(seconds)
        return true
    end
    local key, _, code = keys:read(nil, seconds)
    return code == "timeout" or (key and not key:find "^[qQ\3\27]")
end

return function(...)
    local words, options = arguments.read({["--once"] = true, ["--help"] = true}, ...)
    local path, interval = words[1], tonumber(options["--interval"] or 1)
    if not path or #words > 1 then
        fail(2, "the path that 'mare --inspect PATH' was given is needed")
    end
    if not interval or interval <= 0 then fail(2, "--interval needs a number of seconds") end
    if not path:find "^[/.]" then path = "./" .. path end
    local stream, why = net.connect(path, nil, PATIENCE)
    if not stream then fail(1, "%s: %s", path, why) end
    stream:limit(64 << 20)
    local once = options["--once"] or not terminal.is_tty(1)
    local raw <close> = not once and terminal.raw(true) or nil
    local keys, before = raw and terminal.input(), nil
    repeat
        local now, failure = ask(stream)
        if not now then fail(1, "%s: %s", path, failure) end
        local columns, rows = terminal.size()
        local lines = table_of(now, before, columns or 120, once and math.huge or rows or 24)
        if once then
            for _, line in ipairs(lines) do print((line:gsub("%s+$", ""))) end
        else -- from the top, each line to its end, then nothing below
            io.write("\27[H", table.concat(lines, "\27[K\r\n"), "\27[K\27[J")
            io.flush()
        end
        before = now
    until once or not pause(keys, interval)
    if not once then io.write "\r\n" end
end
