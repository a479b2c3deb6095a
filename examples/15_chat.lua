-- SPDX-License-Identifier: MIT
-- A chat server and its page. With a port, `mare examples/15_chat.lua 8080`, it serves for ever:
-- open http://127.0.0.1:8080/ in two windows (http://127.0.0.1:8080/#kitchen is another room).
--
--   page ⇄ WebSocket ⇄ handler ── said, enters, leaves ──▶ doorkeeper
--                         ▲                                    │
--                         └──────── a channel for each ◀───────┘
--
-- Handlers run in several processes, so they use all cores; who is in which room only the
-- doorkeeper knows.
local mare, net, http = require "mare", require "mare.net", require "mare.http"
local websocket = require "mare.websocket"

-- Tells everybody in a room. Nobody is waited for: one who is 64 messages behind is shown out.
local function tell(room, ...)
    for name, outbox in pairs(room) do
        if not outbox:trysend(...) then
            room[name] = nil
            outbox:close()
        end
    end
end

local function doorkeeper(inbox)
    local rooms = setmetatable({}, {__index = function(rooms, name)
        rooms[name] = {}
        return rooms[name]
    end})
    for what, where, name, more in inbox:messages() do
        local room = rooms[where]
        if what == "enters" and room[name] then
            more:send("taken", name)
            more:close()
        elseif what == "enters" then
            room[name] = more
            tell(room, "enters", name)
        elseif what == "said" then
            tell(room, "said", name, more)
        elseif not room[name] or room[name] == more then -- "leaves", but for one not let in
            room[name] = nil
            tell(room, "leaves", name)
            if not next(room) then rooms[where] = nil end
        end
    end
end

-- One page, from its first message, a name, to its last. A message has a thousand characters at the
-- most; what would break a line of ours becomes a space.
local function talk(request, where, inbox)
    local w <close> = websocket.accept(request, {limit = 4000})
    if not w then return end
    local name = (w:receive(60) or ""):gsub("%c", " "):match "^%s*(.-)%s*$"
    if name == "" or #name > 100 then return w:close(4000, "a name, please") end
    local outbox = mare.channel(64)
    inbox:send("enters", where, name, outbox)
    mare.go(function() -- from the page to the room
        for text in w:messages() do inbox:send("said", where, name, (text:gsub("[\t\r]", " "))) end
        outbox:close()
    end)
    for what, who, text in outbox:messages() do -- and from the room to the page
        if not w:send(table.concat({what, who, text}, "\t")) then break end
    end
    inbox:send("leaves", where, name, outbox)
end

local function serve(listener, page, inbox)
    return http.serve(listener, function(request)
        local room = request.path:match "^/room/([%w_-]+)$"
        if room then return talk(request, room, inbox) end
        if request.path ~= "/" then return {status = 404, body = "not here\n"} end
        return {headers = {["content-type"] = "text/html; charset=utf-8"}, body = page}
    end)
end

local folder = arg[0]:match "^(.*/)" or ""
local page = assert(io.open(folder .. "chat.html")):read "a"
local inbox = mare.channel(100)
mare.spawn(doorkeeper, inbox)

local listener = assert(net.listen("127.0.0.1", tonumber(arg[1]) or 0, {shared = true}))
local _, port = listener:address()
local servers = {mare.spawn(serve, listener, page, inbox)}
for i = 2, mare.workers() do
    local another = assert(net.listen("127.0.0.1", port, {shared = true}))
    servers[i] = mare.spawn(serve, another, page, inbox)
end
if arg[1] then
    print("http://127.0.0.1:" .. port .. "/")
    io.stdout:flush()
    return mare.wait()
end

-- Without a port: two who talk to each other, and one whose name is taken.
local function enter(name)
    local w = assert(websocket.connect("ws://127.0.0.1:" .. port .. "/room/harbour"))
    w:send(name)
    return w, function() print(name .. " hears", (w:receive(10))) end
end

local ana, ana_hears = enter "Ana"
ana_hears()
local bo, bo_hears = enter "Bo"
ana_hears()
bo_hears()
ana:send "hello <b>Bo</b>"
ana_hears()
bo_hears()
local _, other_hears = enter "Bo"
other_hears()
bo:close()
ana_hears()
ana:close()
for _, server in ipairs(servers) do server:kill() end
inbox:close()
