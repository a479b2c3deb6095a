-- SPDX-License-Identifier: MIT
-- A real PostgreSQL in a folder of its own, for tests: on a Unix-domain socket and a port. It does
-- not run as root, so that root starts it as `nobody`.
local mare, t = require "mare", require "t"
local child, file, net = require "mare.child", require "mare.file", require "mare.net"

local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local PROGRAMS <const> = "/usr/lib/postgresql/15/bin/"

-- A cluster is made of some thousand files: that takes long where others work.
local LONG <const> = 6 * t.patience

local Server = {}
Server.__index = Server

local function is_root() return assert(file.stat "/proc/self").owner == 0 end

-- The program's words, as the user who may run it.
local function as_user(words)
    if is_root() then
        table.move({"setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"}, 1, 4, 1,
            table.move(words, 1, #words, 5))
    end
    return words
end

local function run(words)
    words.stdout, words.stderr = "null", "null"
    local kind, code = assert(child.spawn(words)):wait(LONG)
    return kind == "exit" and code == 0
end

-- Where the programs are: unpacked for the tests, or installed.
local function find()
    for _, folder in ipairs {here .. "/../../build-unpacked/postgresql-15" .. PROGRAMS, PROGRAMS} do
        if run(as_user {"test", "-x", folder .. "postgres"}) then return folder end
    end
    t.skip "there is no PostgreSQL that this user can run"
end

local function free_port()
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    return select(2, listener:address())
end

-- Starts it; false: the port was taken meanwhile.
local function try(self)
    self.child = assert(child.spawn(as_user {self.programs .. "postgres", "-D",
        self.folder .. "/data", "-k", self.folder, "-h", "127.0.0.1", "-p", tostring(self.port),
        "-F", "-c", "logging_collector=off", "-c", "max_connections=20", "-c", "shared_buffers=2MB",
        "-c", "autovacuum=off", "-c", "ssl=" .. (self.tls or "off"), "-c", "ssl_cert_file="
        .. self.folder .. "/data/server.pem", "-c", "ssl_key_file=" .. self.folder
        .. "/data/key.pem", stdout = "null", stderr = "null"})):grace(0)
    local postgres, deadline = require "mare.postgres", mare.deadline(LONG)
    while deadline:left() > 0 do
        local connection = postgres.connect(self:options())
        if connection then
            connection:close()
            return true
        end
        if self.child:wait(0.02) then return false end
    end
    error "PostgreSQL does not start"
end

function Server:options(more)
    local options = {path = self.folder, port = self.port, username = "mare", database = "postgres",
        timeout = t.patience}
    for key, value in pairs(more or {}) do options[key] = value end
    return options
end

function Server:start()
    for _ = 1, 10 do
        if try(self) then return self end
        self.port = free_port()
    end
    error "PostgreSQL finds no port"
end

--- At once, as by a loss of power.
function Server:stop()
    self.child:kill "QUIT"
    assert(self.child:wait(t.patience))
end

--- Restarts it with a certificate for the name, which is returned.
function Server:use_tls(name)
    local certificate, key = require "mare.tls".selfsigned(name)
    for suffix, text in pairs {["server.pem"] = certificate, ["key.pem"] = key} do
        local path = self.folder .. "/data/" .. suffix
        assert(file.write(path, text))
        assert(run {"chmod", "600", path})
        if is_root() then assert(run {"chown", "nobody:nogroup", path}) end
    end
    self:stop()
    self.tls = "on"
    self:start()
    return certificate
end

--- Calls f(server), and removes what is left of it.
return function(f)
    return t.in_folder(function(folder)
        local self = setmetatable({folder = folder, programs = find(), port = free_port()}, Server)
        assert(run {"chmod", "755", folder})
        assert(run {"mkdir", folder .. "/data"})
        if is_root() then
            assert(run {"chown", "nobody:nogroup", folder, folder .. "/data"})
        end
        if not run(as_user {self.programs .. "initdb", "-D", folder .. "/data", "-U", "mare", "-A",
            "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"}) then
            error "initdb failed"
        end
        local _ <close> = setmetatable({}, {__close = function()
            if self.child then
                self.child:close()
                self.child:wait(t.patience)
            end
        end})
        f(self:start())
    end)
end
