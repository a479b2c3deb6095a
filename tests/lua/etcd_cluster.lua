-- SPDX-License-Identifier: MIT
-- A cluster of three members of etcd on loopback, for tests. One process has them, for all cases of
-- a file; a case asks it to kill, freeze and start them. What it returns:
--
--     cluster.endpoints       their URLs
--     cluster.leader()        the number of the member that leads
--     cluster.signal(i, s)    sends member i a signal, by name; "SIGKILL" waits for its end
--     cluster.start(i)        starts it again
--     cluster.ready()         waits until all are there and healthy
--     cluster.remove(i)       kills it, takes it out of the cluster and empties its folder
--     cluster.add(i)          has it join again, as a new member
local t = require "t"

-- A cluster waits for disks, which may be busy with other things.
local PATIENCE <const> = 3 * t.patience

local here = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$"

-- A program of etcd's: unpacked, or installed.
local function find(package, name)
    for _, path in ipairs {here .. "/../../build-unpacked/" .. package .. "/usr/bin/" .. name,
        "/usr/bin/" .. name} do
        local file <close> = io.open(path)
        if file then return path end
    end
end

-- ---- The process that has them ------------------------------------------------------------------

-- Runs in a process of its own, so it takes all that it needs from its arguments.
local function keep(path, requests, patience)
    package.path = path
    local mare, net, http = require "mare", require "mare.net", require "mare.http"
    local child, file, etcd = require "mare.child", require "mare.file", require "mare.etcd"
    -- In memory, if there is room: the disk may be busy for longer than any election may take.
    local room = child.run {"df", "--output=avail", "/dev/shm"}
    local roomy = room and (tonumber(room.out:match "%d+") or 0) > 2 << 20
    local folder = assert(file.tempfolder(roomy and {folder = "/dev/shm"} or nil))
    local members, state, extra, program = {}, "new", {}, nil
    local cluster = {}

    -- None of those that the system gives to whoever does not care.
    local function free_port()
        while true do
            local port = math.random(10240, 32767)
            local listener = net.listen("127.0.0.1", port)
            if listener then
                listener:close()
                return port
            end
        end
    end

    local function url(port) return extra.scheme .. "://127.0.0.1:" .. port end
    local function peer_url(port) return "http://127.0.0.1:" .. port end

    local function everybody()
        local list = {}
        for i, member in ipairs(members) do
            if not member.out then
                list[#list + 1] = ("m%d=%s"):format(i, peer_url(member.peer))
            end
        end
        return table.concat(list, ",")
    end

    function cluster.start(i)
        local member = members[i]
        member.number = member.number or 0
        -- Never longer than this, whatever becomes of the test.
        local command = {"timeout", "-s", "KILL", tostring(15 * 60), program,
            "--name", "m" .. i, "--data-dir", ("%s/%d.%d"):format(folder, i, member.number),
            "--listen-client-urls", url(member.client),
            "--advertise-client-urls", url(member.client),
            "--listen-peer-urls", peer_url(member.peer),
            "--initial-advertise-peer-urls", peer_url(member.peer),
            "--initial-cluster", everybody(), "--initial-cluster-state", state,
            "--initial-cluster-token", folder, "--logger", "zap", "--log-level", "error",
            "--log-outputs", folder .. "/log", "--enable-v2=false",
            "--strict-reconfig-check=false",
            "--heartbeat-interval", tostring(extra.election_ms // 10),
            "--election-timeout", tostring(extra.election_ms)}
        table.move(extra, 1, #extra, #command + 1, command)
        command.group, command.grace = true, 0
        command.stdin, command.stdout, command.stderr = "null", "null", "null"
        member.child = assert(child.spawn(command))
    end

    function cluster.signal(i, name)
        local member = members[i]
        assert(member.child:kill(name))
        if name == "SIGKILL" then assert(member.child:wait(patience)) end
    end

    local function client(timeout)
        local urls = {}
        for i, member in ipairs(members) do
            if not member.out then urls[#urls + 1] = url(members[i].client) end
        end
        return etcd.client(urls, {timeout = timeout, tls = extra.tls})
    end

    -- All are healthy, which takes a quorum; false: one has ended, as its port was taken.
    function cluster.ready()
        local asker <close> = http.client {tls = extra.tls}
        local deadline = mare.deadline(patience)
        for _, member in ipairs(members) do
            while not member.out do
                local status = asker:get(url(member.client) .. "/health", 1)
                if status == 200 then break end
                if member.child:status() ~= "running" then return false end
                assert(deadline:left() > 0, "the cluster does not get ready")
                mare.sleep(0.02)
            end
        end
        return true
    end

    function cluster.leader()
        local db <close> = client(patience)
        while true do
            local answer = assert(db:call("maintenance/status", nil, {again = true}))
            local list = assert(db:call("cluster/member/list", nil, {again = true}))
            for _, one in ipairs(list.members) do
                local i = one.ID == answer.leader and tonumber(one.name:match "%d+")
                if i and members[i].child:status() == "running" then return i end
            end
            mare.sleep(0.02)
        end
    end

    function cluster.remove(i)
        cluster.signal(i, "SIGKILL")
        members[i].out = true
        local db <close> = client(patience)
        local list = assert(db:call("cluster/member/list", nil, {again = true}))
        for _, one in ipairs(list.members) do
            if one.name == "m" .. i then
                assert(db:call("cluster/member/remove", {ID = one.ID}, {again = true}))
            end
        end
    end

    function cluster.add(i)
        local member = members[i]
        do
            local db <close> = client(patience)
            assert(db:call("cluster/member/add", {peerURLs = {peer_url(member.peer)}}))
        end
        member.out, member.number, state = nil, member.number + 1, "existing"
        cluster.start(i)
    end

    function cluster.begin(options)
        extra, program = options, options.program
        extra.scheme = extra.scheme or "http"
        repeat
            for i = 1, options.count or 3 do
                if members[i] then members[i].child:close() end
                members[i] = {client = free_port(), peer = free_port(),
                    number = (members[i] or {number = -1}).number + 1}
            end
            for i = 1, #members do cluster.start(i) end
        until cluster.ready()
    end

    function cluster.urls()
        local urls = {}
        for i, member in ipairs(members) do urls[i] = url(member.client) end
        return urls
    end

    -- When all is over this process is killed, and can wait for nothing.
    local _ <close> = setmetatable({}, {__close = function()
        for _, member in ipairs(members) do member.child:kill "SIGKILL" end
        os.execute(("rm -rf '%s' || { sleep 0.5; rm -rf '%s'; }"):format(folder, folder))
    end})
    for reply, what, a, b in requests:messages() do
        reply:send(pcall(cluster[what], a, b))
    end
end

-- ---- The cases ----------------------------------------------------------------------------------

local mare, cluster = require "mare", {here = here, patience = PATIENCE}

local function ask(requests, what, ...)
    local reply = mare.channel(1)
    requests:send(reply, what, ...)
    local ok, result = reply:receive(2 * PATIENCE)
    if not ok then error(("cluster.%s: %s"):format(what, tostring(result)), 3) end
    return result
end

local function handle(requests)
    local made = {endpoints = ask(requests, "urls")}
    for _, what in ipairs {"leader", "signal", "start", "ready", "remove", "add"} do
        made[what] = function(...) return ask(requests, what, ...) end
    end
    return made
end

--- How long members do without a leader before they elect one. Longer than it usually is, so that a
--- busy machine is no reason to elect. No lease is shorter than one and a half times this.
cluster.election_ms = 3000

--- The cluster of this file, which is begun by the first case that asks; the case is left out where
--- there is no etcd. Others, by another name, may have options: `count`, `election_ms`, `scheme`,
--- `tls` for clients, and more words for the command line.
function cluster.get(name, options)
    name = "etcd-" .. (name or "cluster")
    local requests = mare.find(name)
    if not requests then
        options = options or {}
        options.election_ms = options.election_ms or cluster.election_ms
        options.program = cluster.program() or t.skip "etcd is not there: tools/setup.sh test"
        requests = mare.channel(0, name)
        mare.spawn(keep, package.path, requests, PATIENCE)
        ask(requests, "begin", options)
    end
    return handle(requests)
end

--- A client of the cluster, or of the option `endpoints`. Its leases outlive any pause of the
--- machine.
function cluster.connect(options)
    local given = {timeout = PATIENCE, ttl = 300}
    for name, value in pairs(options or {}) do given[name] = value end
    local endpoints = given.endpoints or cluster.get().endpoints
    given.endpoints = nil
    return require "mare.etcd".client(endpoints, given)
end

--- A way to a member that can be cut: what is connected then is; while `closed` nobody comes in.
function cluster.proxy(url)
    local net = require "mare.net"
    local host, port = url:match "//(.*):(%d+)"
    local listener = assert(net.listen("127.0.0.1", 0))
    local streams = {}
    local made = {url = "http://127.0.0.1:" .. select(2, listener:address()), passed = 0}
    local function copy(from, to)
        for part in function() return from:read() end do to:write(part) end
        from:close()
        to:close()
    end
    mare.go(net.serve, listener, function(stream)
        if made.closed then return end
        local other = net.connect(host, tonumber(port), PATIENCE)
        if not other then return end
        made.passed = made.passed + 1
        streams[stream], streams[other] = true, true
        mare.go(copy, other, stream)
        copy(stream, other)
        streams[stream], streams[other] = nil, nil
    end)
    function made.cut()
        for stream in pairs(streams) do stream:close() end
    end
    return setmetatable(made, {__close = function()
        made.closed = true
        listener:close()
        made.cut()
    end})
end

--- Such ways to all members, to be closed together, and their URLs.
function cluster.proxies()
    local ways, urls = {}, {}
    for i, url in ipairs(cluster.get().endpoints) do
        ways[i] = cluster.proxy(url)
        urls[i] = ways[i].url
    end
    return setmetatable(ways, {__close = function()
        for _, way in ipairs(ways) do local _ <close> = way end
    end}), urls
end

--- The cases of a file, each with as much time as a cluster may take.
function cluster.cases(cases)
    for name, case in pairs(cases) do
        if type(case) == "function" then cases[name] = {case, timeout = 10 * PATIENCE} end
    end
    return cases
end

--- The server, or nil.
function cluster.program() return find("etcd-server", "etcd") end

--- etcdctl, or nil.
function cluster.etcdctl() return find("etcd-client", "etcdctl") end

return cluster
