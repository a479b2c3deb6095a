-- SPDX-License-Identifier: MIT
-- `mare clock`, on the modules mare.ntp and mare.rbs: what it prints, and when it ends.
-- src/cli/clock.c has checked the form of the options. `mare clock simulate` is in C.
local mare, net, ntp = require "mare", require "mare.net", require "mare.ntp"
local rbs, terminal, time = require "mare.rbs", require "mare.terminal", require "mare.time"
local words = require "mare._clock_words"
local address_of, arguments = require "mare._address", require "mare._arguments"

local span, quoted = words.span, arguments.quoted
local NTP_PORT, LEAST_INTERVAL, SAID, LINGER = 123, 0.01, 64, 1

local function fail(code, ...) arguments.fail("clock", code, ...) end
local function refuse(what, word) fail(2, "%s '%s'; 'mare help clock' tells more", what, word) end

-- ---- Options ------------------------------------------------------------------------------------

local function nanoseconds(value, unit)
    return value and math.floor(tonumber(value) * unit + 0.5)
end

-- The keys in the file of --keys, as a list, and the one that --key chooses.
local function keys_of(options)
    local path, number = options["--keys"], options["--key"]
    local list, chosen = {}, nil
    if path then
        local keys, message = ntp.keys(path)
        if not keys then fail(2, "%s", message) end
        for _, key in pairs(keys) do list[#list + 1] = key end
        if #list > 16 then fail(2, "%s: 16 keys at most", path) end
    end
    if number then
        if not path then fail(2, "--key %s is not in a file: where is --keys?", number) end
        local message
        chosen, message = ntp.keys(path, math.tointeger(tonumber(number)))
        if not chosen then fail(2, "--key %s: %s", number, message) end
    end
    return list, chosen
end

-- The settings for asking `count` servers, from the options.
local function asking(options, count, key)
    return {
        samples = options["--samples"] and math.tointeger(tonumber(options["--samples"])),
        interval = tonumber(options["--interval"]), wait = tonumber(options["--timeout"]),
        drift = nanoseconds(options["--drift"], 1000), key = key,
        liars = options["--liars"] and math.tointeger(tonumber(options["--liars"]))
            or (count - 1) // 2,
    }
end

-- Splits the servers into those whose address can be read, and the others, with their position in
-- the list and the reason.
local function sorted_out(names)
    local good, bad = {}, {}
    for i, name in ipairs(names) do
        local host, why = address_of(name, NTP_PORT)
        if host then
            good[#good + 1] = name
        else
            bad[#bad + 1] = {at = i, entry = {server = name, why = why, packets = {}}}
        end
    end
    return good, bad
end

-- ---- Reports ------------------------------------------------------------------------------------

local LEAPS = {[0] = "none", "insert", "delete", "unknown"}

-- "refused" counts as silence: not every machine reports that nobody listens at a port.
local function why_of(entry)
    if entry.code == "refused" and not next(entry.packets) then return "no answer" end
    return entry.why
end

local function server_line(entry)
    if entry.why then return ("%-24s %s\n"):format(entry.server, why_of(entry)) end
    return ("%-24s %7d %-15s %12s %12s %10s %10s%s\n"):format(entry.server, entry.stratum,
        words.reference(entry.reference_id, entry.stratum), span(entry.offset, true, entry.error),
        span(entry.error), span(entry.delay), span(entry.jitter),
        entry.outlier and "  outlier" or "")
end

local VERDICTS = {"taken", "kiss", "malformed", "bogus", "duplicate", "forged", "unfit", "absurd",
    "ambiguous"}

local function server_json(entry)
    local packets = {}
    for _, verdict in ipairs(VERDICTS) do
        local count = entry.packets[verdict]
        if count then packets[#packets + 1] = ('"%s":%d'):format(verdict, count) end
    end
    local known = entry.why and ('"why":%s'):format(quoted(why_of(entry))) or
        ('"stratum":%d,"reference":"%s","offset_ns":%d,"delay_ns":%d,"round_trip_ns":%d,'
        .. '"error_ns":%d,"jitter_ns":%d,"root_delay_ns":%d,"samples":%d,"leap":"%s","outlier":%s')
        :format(entry.stratum, words.reference(entry.reference_id, entry.stratum), entry.offset,
        entry.delay, 2 * entry.delay, entry.error, entry.jitter, entry.root_delay, entry.samples,
        LEAPS[entry.leap], tostring(entry.outlier or false))
    local kiss = entry.kiss and (',"kiss":"%s"'):format(words.reference(
        string.unpack(">I4", entry.kiss), 0)) or ""
    return ('{"server":%s,%s,"packets":{%s}%s}'):format(quoted(entry.server), known,
        table.concat(packets, ","), kiss)
end

local function view_json(view)
    local agreed, servers = "", {}
    if view.time then
        local tai, certain = time.tai(view.time)
        agreed = ('"offset_ns":%d,"error_ns":%d,"delay_ns":%d,"stratum":%d,"server":%s,'
            .. '"utc_ns":%d,"tai_ns":%d,"tai_certain":%s,'):format(view.offset, view.error,
            view.delay, view.stratum, quoted(view.server), view.time, tai, tostring(certain))
    end
    for i, entry in ipairs(view.servers) do servers[i] = server_json(entry) end
    return ('{"agreed":%s,%s"servers":[%s]}\n'):format(tostring(view.time ~= nil), agreed,
        table.concat(servers, ","))
end

local function view_table(view)
    local rows = {("%-24s %7s %-15s %12s %12s %10s %10s\n"):format("server", "stratum",
        "reference", "offset", "error bound", "delay", "jitter")}
    for _, entry in ipairs(view.servers) do rows[#rows + 1] = server_line(entry) end
    rows[#rows + 1] = view.time
        and ("\nThis clock is %s %s, give or take %s; stratum %d, after %s.\n"):format(
            span(math.abs(view.offset), false, view.error), view.offset < 0 and "ahead" or "behind",
            span(view.error), view.stratum + 1, view.server)
        or "\nThere is no time to be had: too few servers answered, or they do not agree.\n"
    return table.concat(rows)
end

-- The result of one round, in one line.
local function view_line(view)
    if view.time then
        return ("%s ± %s  delay %s  stratum %d  %s"):format(span(view.offset, true, view.error),
            span(view.error), span(view.delay), view.stratum, view.server)
    end
    local silent = {}
    for _, entry in ipairs(view.servers) do
        if entry.why then silent[#silent + 1] = entry.server .. ": " .. why_of(entry) end
    end
    return "no time: " .. (silent[1] and table.concat(silent, "; ") or "they do not agree")
end

-- ---- Asking -------------------------------------------------------------------------------------

-- The table that `ask` returns, with the servers added that could not be asked.
local function view_of(bad, ask, ...)
    local said, _, _, known = nil, nil, nil, nil
    if ask then said, _, _, known = ask(...) end
    local view = said or known or {servers = {}}
    for _, one in ipairs(bad) do table.insert(view.servers, one.at, one.entry) end
    return view
end

local function query(names, options)
    local _, key = keys_of(options)
    local good, bad = sorted_out(names)
    local view = view_of(bad, good[1] and ntp.query, good, asking(options, #names, key))
    io.write((options["--json"] and view_json or view_table)(view))
    os.exit(view.time and 0 or 1)
end

-- Whether the chart can be drawn: the terminal must be able to move its cursor.
local function draws()
    return terminal.is_tty(1) and os.getenv "TERM" ~= "dumb"
end

local function show(view, chart, json)
    if json then return view_json(view) end
    local line, drawing = view_line(view), ""
    if draws() then
        local columns, rows = terminal.size(1)
        if not columns or columns == 0 or rows == 0 then columns, rows = 80, 24 end
        drawing, line = chart:draw(columns, rows), words.cut(line, columns)
    end
    return drawing .. line .. "\n"
end

local function watch(names, options)
    local ended, code = arguments.ending(), 1
    mare.go(function()
        ended()
        os.exit(code)
    end)
    local _, key = keys_of(options)
    local good, bad = sorted_out(names)
    local chart, count = words.chart(), tonumber(options["--count"]) or math.huge
    local settings = asking(options, #names, key)
    local asker = good[1] and ntp.asker(good, settings)
    local round = 0
    while round < count do
        if round > 0 then mare.sleep(settings.interval or 1) end
        round = round + 1
        local view = view_of(bad, asker and asker.ask, asker)
        code = view.time and 0 or 1
        chart:add(view.offset, view.error)
        io.write(show(view, chart, options["--json"]))
        io.flush()
    end
    os.exit(code)
end

-- ---- Serving ------------------------------------------------------------------------------------

-- Prints lines without blocking: a process with a thread of its own writes them. When nobody reads
-- and there is no more room, lines are dropped, counted, and reported later.
local function printer(unsaid_line)
    local lines, unsaid = mare.channel(SAID), 0
    local writer = mare.spawn({thread = true}, function()
        for line in function() return lines:receive() end do
            io.write(line)
            io.flush()
        end
    end)
    local function say(line)
        if unsaid > 0 and lines:trysend(unsaid_line:format(unsaid)) then unsaid = 0 end
        if unsaid > 0 or not lines:trysend(line) then unsaid = unsaid + 1 end
    end
    return say, function() -- ends it; waits a little for a slow reader
        lines:close()
        writer:join(LINGER)
    end
end

-- A span in NTP's short format.
local function unshort(value) return (value * 1000000000 + 0xffff) >> 16 end

local function answer_text(host, port, answer, json)
    local packet = time.decode(answer)
    local who = arguments.address(host, port)
    local bound = unshort(packet.root_delay) // 2 + unshort(packet.root_dispersion)
    if json then
        return ('{"client":"%s","stratum":%d,"error_ns":%d}\n'):format(who, packet.stratum, bound)
    end
    return ("%-24s answered, stratum %d, within %s\n"):format(who, packet.stratum, span(bound))
end

-- Starts a follower of these servers; false if there are none. Prints the names of those that
-- cannot be found.
local function follow(names, options, key)
    if not names then return false end
    local some = false
    for _, name in ipairs(names) do
        local host, why = address_of(name, NTP_PORT)
        local found
        if host then found, why = net.resolve(host) end
        if not found then io.stderr:write(("mare clock: %s: %s\n"):format(name, why)) end
        some = some or found
    end
    if not some then os.exit(1) end
    local settings = asking(options, #names, key)
    -- A question counts until the next one is sent.
    settings.interval = settings.interval or 4
    settings.wait, settings.samples = settings.interval, nil
    settings.slew = nanoseconds(options["--slew"], 1000)
    local follower = ntp.follower((sorted_out(names)), settings)
    mare.go(follower.run, follower)
    return follower
end

local function serve(listen, options, all)
    local ended, json = arguments.ending(), options["--json"]
    local host, port = address_of(listen, nil, true)
    if not host then fail(2, "%s: %s", listen, port) end
    local list, key = keys_of(options)
    local upstream = follow(all["--follow"], options, key)
    local count, say = tonumber(options["--count"]) or math.huge, nil
    local server, message, code
    server, message, code = ntp.server {
        host = host, port = port, follow = upstream, keys = list,
        stratum = options["--stratum"] and math.tointeger(tonumber(options["--stratum"])),
        error = nanoseconds(options["--error"], 1000000),
        authenticated = options["--authenticated"] or false,
        told = function(who, at, answer)
            say(answer_text(who, at, answer, json))
            if server.answered >= count then server:close() end
        end,
    }
    if not server then fail(code == "noname" and 2 or 1, "%s: %s", listen, message) end
    local finish
    say, finish = printer(json and '{"unsaid":%d}\n' or "%d more answered\n")
    io.write((json and '{"serving":"%s"}\n' or "serving on %s\n"):format(
        arguments.address(server:address())))
    io.flush()
    mare.go(function()
        ended()
        server:close()
    end)
    server:run()
    finish()
    os.exit(0)
end

-- ---- Reference broadcasts -----------------------------------------------------------------------

-- The multicast group and the port of an address. Anything else ends the command.
local function group_of(listen, interface)
    local host, port = address_of(listen)
    local first = host and tonumber(host:match "^(%d+)%.%d+%.%d+%.%d+$")
    local why = not host and port or (not first or first < 224 or first > 239)
        and "a group is an IPv4 address from 224.0.0.0 to 239.255.255.255"
    if why then fail(2, "%s on %s: %s", listen, interface, why) end
    return host, port
end

-- Checks the address. Whether the interface exists is known only when the group is joined.
local function broadcasts(listen, options)
    local interface = options["--interface"] or "127.0.0.1"
    local group, port = group_of(listen, interface)
    local trouble = function(message) fail(2, "%s on %s: %s", listen, interface, message) end
    return group, port, interface, trouble
end

local function beacon(listen, options)
    local ended = arguments.ending()
    local group, port, interface, trouble = broadcasts(listen, options)
    mare.go(function()
        ended()
        os.exit(0)
    end)
    local sent, message = rbs.beacon(group, port, {interface = interface,
        interval = tonumber(options["--interval"]),
        count = options["--count"] and math.tointeger(tonumber(options["--count"]))})
    if not sent then trouble(message) end
    os.exit(0)
end

local function comparison_text(compared, json)
    local mean, line = compared.mean, compared.line
    if json then
        return ('{"peer":%s,"pairs":%d,"mean_ns":%d,"mean_error_ns":%d%s}\n'):format(
            quoted(compared.peer), mean.pairs, mean.offset, mean.error, line
            and (',"line_ns":%d,"line_error_ns":%d,"alpha_ppb":%d'):format(line.offset, line.error,
                line.alpha) or "")
    end
    return ("ahead of %-8s by %s ± %s on average of %d%s\n"):format(compared.peer,
        span(mean.offset, true, mean.error), span(mean.error), mean.pairs, line
        and (", by the line %s ± %s, %+.1f ppm"):format(span(line.offset, true, line.error),
            span(line.error), line.alpha / 1000) or "")
end

local function hear(listen, options)
    local ended, json = arguments.ending(), options["--json"]
    local group, port, interface, trouble = broadcasts(listen, options)
    local name = options["--name"] or ""
    if #name > 8 or name:find "[^%w._-]" then
        refuse("--name has up to 8 letters, digits, dots and dashes, not", name)
    end
    local receiver, message = rbs.receiver(group, port, {interface = interface, name = name,
        jitter = nanoseconds(options["--jitter"], 1000),
        drift = nanoseconds(options["--drift"], 1000),
        wander = nanoseconds(options["--wander"], 1000),
        ahead = nanoseconds(options["--ahead"], 1000000000)})
    if not receiver then trouble(message) end
    io.write((json and '{"hearing":%s}\n' or "hearing %s\n"):format(
        json and quoted(listen) or listen))
    io.flush()
    mare.go(function()
        ended()
        os.exit(0)
    end)
    for _ = 1, tonumber(options["--count"]) or math.huge do
        io.write(comparison_text(assert(receiver:next()), json))
        io.flush()
    end
    os.exit(0)
end

-- ---- The commands -------------------------------------------------------------------------------

-- A loop that waits for no answer needs a pause.
local function check_pace(command, options)
    local interval = tonumber(options["--interval"])
    if interval and interval < LEAST_INTERVAL then
        refuse("--interval is at least 0.01 with", command)
    end
end

--- Runs `mare clock WORD ...`.
return function(...)
    local given, options, all = arguments.read({["--json"] = true, ["--authenticated"] = true}, ...)
    local command = table.remove(given, 1)
    if command == "query" then return query(given, options) end
    if command == "watch" then return watch(given, options) end
    if command == "beacon" or all["--follow"] then check_pace(command, options) end
    return ({serve = serve, beacon = beacon, hear = hear})[command](given[1], options, all)
end
