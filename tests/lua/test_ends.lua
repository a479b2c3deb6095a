-- SPDX-License-Identifier: MIT
-- Programs that end, each in one of all ways, while something is under way: the exit code is what
-- was asked for, nothing is said that nobody expects (a sanitizer would), and nobody hangs.
-- MARE_STRESS_SECONDS makes it longer; the seed is printed.
local mare, t, shell = require "mare", require "t", require "shell"

local SECONDS = tonumber(os.getenv "MARE_STRESS_SECONDS" or "2")

local HEAD = [[
    local mare, net, file = require "mare", require "mare.net", require "mare.file"
    local tls, http, child = require "mare.tls", require "mare.http", require "mare.child"
    local signal, websocket = require "mare.signal", require "mare.websocket"
    local function endlessly(f) mare.go(function() while true do f() end end) end
    local function listener() return assert(net.listen("127.0.0.1", 0)) end
]]

-- What goes on in a process, or in a routine of the main one, until the end of the program. Each
-- gives way to the others now and then.
local UNDER_WAY = {
    a_file_is_written = [[while true do file.write(FOLDER .. "/w", ("x"):rep(1e5)) end]],
    files_are_opened = [[while true do file.open(FOLDER .. "/o", "a"):close() end]],
    files_are_left = [[while true do file.list("/usr/lib", {timeout = 0.0001}) end]],
    temporary_files = [[
        while true do file.remove(select(2, file.tempfile {folder = FOLDER})) end]],
    a_folder_is_watched = [[
        local watcher = file.watch(FOLDER)
        endlessly(function() file.write(FOLDER .. "/" .. math.random(9), "x") end)
        while true do watcher:next() end]],
    names_are_looked_up = [[while true do net.resolve("localhost", math.random() / 1000) end]],
    connections = [[
        local l = listener()
        endlessly(function() l:accept():write "hello\n" end)
        while true do net.connect(l:address()):read "l" mare.yield() end]],
    a_stream_is_read = [[
        local l = listener()
        local stream = net.connect(l:address())
        l:accept():read "a"]],
    datagrams = [[net.udp("127.0.0.1"):receive()]],
    handshakes = [[
        local certificate, key = tls.selfsigned "localhost"
        local l = tls.listen("127.0.0.1", 0, {certificate = certificate, key = key})
        endlessly(function() l:accept():handshake(1) end)
        local host, port = l:address()
        while true do tls.connect(host, port, {name = "localhost"}, math.random() / 100) end]],
    requests = [[
        local l = listener()
        mare.go(http.serve, l, function() return "hello" end)
        while true do http.get("http://127.0.0.1:" .. select(2, l:address())) end]],
    a_websocket = [[
        local l = listener()
        mare.go(http.serve, l, function(request)
            local w <close> = websocket.accept(request)
            for text in w:messages() do w:send(text) end
        end)
        local w = websocket.connect("ws://127.0.0.1:" .. select(2, l:address()))
        while true do w:send "hello" w:receive() mare.yield() end]],
    programs_are_run = [[while true do child.run {"true"} end]],
    programs_are_left = [[while true do child.run {"sleep", "60", timeout = 0.001} end]],
    a_program_is_talked_to = [[
        local cat = child.spawn {"cat", stdin = "pipe", stdout = "pipe"}
        endlessly(function() cat.stdin:write(("x"):rep(1e4)) mare.yield() end)
        while true do cat.stdout:read(1000) mare.yield() end]],
    signals_come = [[
        local watch = signal.watch "SIGWINCH"
        endlessly(function() signal.send(signal.pid(), "SIGWINCH") mare.sleep(0.0001) end)
        while true do watch:next() end]],
    timers = [[local timer = mare.timer(0.001, 0.001) while true do timer:wait() end]],
    messages = [[
        local ch = mare.channel()
        mare.spawn({link = true}, function() while true do ch:send {ch} end end)
        while true do mare.select({ch, mare.timer(0.001)}) mare.yield() end]],
    processes_are_killed = [[
        while true do
            mare.spawn({thread = math.random(2) == 1}, function() mare.sleep(1) end):kill()
            mare.yield()
        end]],
    processes_come_and_go = [[while true do mare.spawn(function() end):join() end]],
    workers_come_and_go = [[
        while true do mare.workers(math.random(4)) mare.sleep(math.random() / 1000) end]],
    an_end_that_takes_time = [[
        local c <close> = setmetatable({}, {__close = function()
            child.run {"true"}
            file.read "/etc/passwd"
        end})
        mare.sleep(3600)]],
}

-- How it ends: the code, what the main script does last, and what is said, if anything. All others
-- are linked to the main script, so that they end with it.
local ENDS = {
    {0, "os.exit(0)"},
    {3, "os.exit(3)"},
    {0, "os.exit(0, true)"},
    {5, "mare.exit(5)"},
    {6, "mare.spawn(function() os.exit(6) end) mare.sleep(3600)"},
    {7, "mare.go(function() os.exit(7) end) mare.sleep(3600)"},
    {1, "error('told', 0)", "^mare: told\nstack traceback:\n"},
    {1, "mare.self():kill()", "^mare: the main process was killed\n$"},
    {130, "send(own, 'SIGINT') mare.sleep(3600)"},
    {143, "send(own, 'SIGTERM') mare.sleep(3600)"},
    {130, "send(own, 'SIGINT') send(own, 'SIGINT') mare.sleep(3600)"},
}

local function names()
    local list = {}
    for name in pairs(UNDER_WAY) do list[#list + 1] = name end
    table.sort(list)
    return list
end

-- A program of a few of those, and a moment before the end. Returns its text and what is expected.
local function draw(all, folder)
    local parts = {("mare.workers(%d)"):format(math.random(4))}
    for _ = 1, math.random(3) do
        local name = all[math.random(#all)]
        local where = math.random(3) == 1 and "mare.go(function()" or
            "mare.spawn({link = true}, function()"
        parts[#parts + 1] = ("%s -- %s\n%s pcall(function() %s end) end)")
            :format(where, name, HEAD, UNDER_WAY[name])
    end
    parts[#parts + 1] = ("mare.sleep(%f)"):format(math.random(3) * math.random(10) / 1000)
    local ending = ENDS[math.random(#ENDS)]
    return ([[
        local mare, signal = require "mare", require "mare.signal"
        local FOLDER, own, send = %q, signal.pid(), signal.send
    ]]):format(folder) .. table.concat(parts, "\n") .. "\n" .. ending[2], ending
end

return {
    whatever_is_under_way_a_program_ends_as_it_was_asked_to = {t.in_folder(function(folder)
        t.seed()
        local all, begun = names(), mare.now()
        repeat
            local text, ending = draw(all, folder)
            local got = shell.lua(text)
            if got.code ~= ending[1] or not got.err:find(ending[3] or "^$") then
                error(("code %d, not %d; it said: %s\n%s"):format(got.code, ending[1], got.err,
                    text), 0)
            end
        until mare.now() - begun > SECONDS
    end), timeout = SECONDS + 90},
}
