-- SPDX-License-Identifier: MIT
-- A service as one runs it: notes over HTTP, on every core, with limits and an orderly end. With a
-- port, `mare examples/24_service.lua 8080`, it serves until SIGTERM or Ctrl-C, and a second
-- argument is how many seconds each step may take; without one it tries itself and ends.
local mare, http, signal = require "mare", require "mare.http", require "mare.signal"

-- One process keeps the notes and answers in turn, so that nobody needs a lock.
local function keep(questions)
    local notes, last = {}, 0
    for answer, method, id, text in questions:messages() do
        if method == "POST" then
            last = last + 1
            notes[last] = text
            answer:send(201, ("/notes/%d"):format(last))
        elseif not notes[id] then
            answer:send(404, "no such note\n")
        elseif method == "DELETE" then
            notes[id] = nil
            answer:send(204)
        else
            answer:send(200, notes[id])
        end
    end
end

-- What becomes of a request: a function from top to bottom, which may wait anywhere.
local function handler(questions, seconds)
    return function(request)
        local id = math.tointeger(request.path:match "^/notes/(%d+)$")
        local allowed = id and "GET DELETE" or request.path == "/notes" and "POST"
        if not allowed then return {status = 404, body = "try /notes\n"} end
        if not allowed:find(request.method, 1, true) then
            return {status = 405, headers = {allow = allowed:gsub(" ", ", ")}}
        end
        local text = request:text()
        if not text then return {status = 400, body = "where is the rest?\n"} end
        local answer = mare.channel(1)
        questions:sendwithin(seconds, answer, request.method, id, text)
        local status, body = answer:receive(seconds)
        return {status = status or 503, body = body or "try again later\n"}
    end
end

-- One of these on every worker: they share the port, and the system spreads the connections.
local function serve(port, seconds, questions, ready, stop, handle)
    local net, web = require "mare.net", require "mare.http"
    local listener = assert(net.listen("127.0.0.1", port, {shared = true}))
    mare.go(function()
        stop:receive() -- closed, for all of us
        listener:close()
    end)
    ready:send(true)
    web.serve(listener, handle(questions, seconds),
        {idle_time = 30, end_time = seconds, limits = {body = 65536}})
end

local port, seconds = tonumber(arg[1]), tonumber(arg[2]) or 5
if not port then
    local free <close> = assert(require "mare.net".listen("127.0.0.1", 0, {shared = true}))
    port = select(2, free:address())
end
local questions, ready, stop, servers = mare.channel(64), mare.channel(), mare.channel(), {}
mare.spawn(keep, questions)
for i = 1, mare.workers() do
    servers[i] = mare.spawn({name = "server " .. i}, serve, port, seconds, questions, ready, stop,
        handler)
    assert(ready:receive(60))
end

if arg[1] then
    local watch <close> = signal.watch("SIGTERM", "SIGINT") -- before anybody knows that it serves
    print("serving on http://127.0.0.1:" .. port .. "/notes")
    print("stopping:", watch:next())
else
    local base = "http://127.0.0.1:" .. port
    local status, place = http.get {url = base .. "/notes", body = "buy bread"}
    print(status, place)
    local note = base .. place
    local _, text = http.get(note)
    print(text)
    print((http.get {url = note, method = "PUT"}))
    print((http.get {url = note, method = "DELETE"}))
    print((http.get(note)))
    print((http.get {url = base .. "/notes", body = ("x"):rep(100000)}))
end
stop:close()
for _, server in ipairs(servers) do
    if not server:join(10 * seconds) then server:kill() end -- somebody takes too long
end
questions:close()
print "stopped"
