-- SPDX-License-Identifier: MIT
-- Debian's http, smtp, ftp and the rest over our sockets: against servers in Python, with the same
-- results as over Debian's own, and many at once.
local mare, t, shell = require "mare", require "t", require "shell"

local HERE <const> = debug.getinfo(1, "S").source:match "^@(.*)test_luasocket_protocols.lua$"

-- The servers of servers.py: their ports. They end with the variable's scope, or with this program.
local function servers()
    local pipe = assert(io.popen("python3 " .. HERE .. "luasocket/servers.py"))
    local control, http, smtp, ftp = pipe:read("n", "n", "n", "n")
    local hold = assert(require "mare.net".connect("127.0.0.1", control, t.patience))
    return setmetatable({http = http, smtp = smtp, ftp = ftp, base = "http://127.0.0.1:" .. http},
        {__close = function()
            hold:close()
            pipe:close()
        end})
end

local function output(command, s)
    -- Where no name server answers, one is not waited for long.
    local got = shell.run(("RES_OPTIONS='timeout:1 attempts:1' %s %s/protocols.lua %d %d %d")
        :format(command, HERE .. "luasocket", s.http, s.smtp, s.ftp))
    t.eq({err = got.err, code = got.code}, {err = "", code = 0}, command)
    local lines = {}
    for line in got.out:gmatch "[^\n]*" do lines[#lines + 1] = line end
    return lines
end

-- Starts so many routines with the function and their number; what they returned, in order.
local function at_once(count, f)
    local routines, results = {}, {}
    for i = 1, count do routines[i] = mare.go(f, i) end
    for i = 1, count do
        local ok, result = routines[i]:join(t.patience)
        results[i] = ok and result or error(result)
    end
    return results
end

local function all(count, value)
    local list = {}
    for i = 1, count do list[i] = value end
    return list
end

return {
    as_over_the_original = function()
        local s <close> = servers()
        local expected, got = output("lua5.4", s), output(shell.mare, s)
        t.ok(#expected > 60, "the program prints something")
        for number, line in ipairs(expected) do t.eq(got[number], line, "line " .. number) end
        t.eq(#got, #expected)
    end,

    requests_meet = function()
        -- The server answers none of them before all have come.
        t.with_workers(1, function()
            local s <close> = servers()
            local http = require "socket.http"
            local ticks, over = 0, false
            local ticker = mare.go(function()
                while not over do
                    ticks = ticks + 1
                    mare.sleep(0.001)
                end
            end)
            t.eq(at_once(30, function()
                local body = http.request(s.base .. "/meet?count=30&name=routines")
                return body
            end), all(30, "met"))
            over = true
            t.ok(ticker:join(t.patience))
            t.ok(ticks > 1, ticks)
        end)
    end,

    requests_of_processes_meet = function()
        t.with_workers(2, function()
            local s <close> = servers()
            local processes = {}
            for i = 1, 10 do
                processes[i] = mare.spawn(function(base)
                    return (require "socket.http".request(base .. "/meet?count=10&name=processes"))
                end, s.base)
            end
            for i = 1, 10 do t.eq({processes[i]:join(t.patience)}, {true, "met"}) end
        end)
    end,

    all_protocols_at_once = function()
        local s <close> = servers()
        local http, ftp, smtp = require "socket.http", require "socket.ftp", require "socket.smtp"
        local at = "ftp://127.0.0.1:" .. s.ftp
        t.eq(at_once(24, function(i)
            local kind = i % 4
            if kind == 0 then
                return #http.request(s.base .. "/big") == 300000
            elseif kind == 1 then
                local body = http.request(s.base .. "/echo", "number=" .. i)
                return body == "application/x-www-form-urlencoded: number=" .. i
            elseif kind == 2 then
                assert(ftp.put(("%s/file%d;type=i"):format(at, i), ("x"):rep(i * 1000)))
                return #ftp.get(("%s/file%d;type=i"):format(at, i)) == i * 1000
            end
            return smtp.send {from = "<a@example.org>", rcpt = "<b@example.org>",
                server = "127.0.0.1", port = s.smtp,
                source = smtp.message {headers = {subject = "mail " .. i}, body = "."}} == 1
        end), all(24, true))
        local mails = http.request(s.base .. "/mails")
        for i = 3, 24, 4 do t.ok(mails:find(("mail %d\r\n"):format(i), 1, true), i) end
    end,

    against_our_own_server_in_the_same_process = function()
        -- On one worker: whoever blocked it would wait for itself.
        t.with_workers(1, function()
            local net, ours, http = require "mare.net", require "mare.http", require "socket.http"
            local listener = assert(net.listen("127.0.0.1", 0))
            mare.go(ours.serve, listener, function(request)
                mare.sleep(0.001)
                if request.method == "POST" then return request:text():upper() end
                return request.path
            end)
            local base = "http://127.0.0.1:" .. select(2, listener:address())
            t.eq(at_once(20, function(i)
                local got = http.request(base .. "/page" .. i)
                local posted = http.request(base .. "/", "text" .. i)
                return got == "/page" .. i and posted == "TEXT" .. i
            end), all(20, true))
            listener:close()
        end)
    end,

    a_server_that_does_not_answer = function()
        local s <close> = servers()
        local http = require "socket.http"
        http.TIMEOUT = 0.05
        t.eq({http.request(s.base .. "/meet?count=2&name=alone")}, {nil, "timeout"})
    end,
}
