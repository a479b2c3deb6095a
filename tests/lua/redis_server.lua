-- SPDX-License-Identifier: MIT
-- A real Redis in a folder of its own, for tests: at a Unix-domain socket. It keeps nothing on
-- disk.
local t, net = require "t", require "mare.net"
local child, file = require "mare.child", require "mare.file"

-- redis-tools has the server, under another name: it does what it is called by.
local SERVER <const> = "/usr/bin/redis-check-rdb"

local Server = {}
Server.__index = Server

--- Returns when it can be connected to, which is a moment after its socket is there.
function Server:start()
    os.remove(self.path) -- one that stopped left it behind
    local words = {self.folder .. "/redis-server", "--port", "0", "--unixsocket", self.path,
        "--save", "", "--appendonly", "no", "--dir", self.folder, "--loglevel", "warning",
        stdout = "null", stderr = "null"}
    table.move(self.extra, 1, #self.extra, #words + 1, words)
    self.child = assert(child.spawn(words)):grace(0)
    t.reaches(function()
        local stream = net.connect(self.path, nil, t.patience)
        if stream then stream:close() end
        return stream ~= nil
    end, "Redis listens")
end

--- At once, as by a loss of power.
function Server:stop()
    self.child:kill "SIGKILL"
    self.child:wait(t.patience)
end

--- It stands still until `thaw`: it takes what it is sent, and says nothing.
function Server:freeze() assert(self.child:kill "SIGSTOP") end

function Server:thaw() assert(self.child:kill "SIGCONT") end

Server.__close = function(self)
    self.child:close()
    self.child:wait(t.patience)
end

--- A test: calls f(path, server, folder) with a server that got these words more, and ends it.
local function with_server(f, ...)
    local extra = {...}
    return t.in_folder(function(folder)
        if not file.exists(SERVER) then t.skip "there is no Redis" end
        assert(file.symlink(SERVER, folder .. "/redis-server"))
        local server = setmetatable({folder = folder, path = folder .. "/redis", extra = extra},
            Server)
        server:start()
        local _ <close> = server
        f(server.path, server, folder)
    end)
end

return {with = with_server, program = SERVER}
