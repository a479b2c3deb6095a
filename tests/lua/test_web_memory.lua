-- SPDX-License-Identifier: MIT
-- Processes that run out of memory while something comes in. What they receive later is right and
-- whole, or they are told that it is not: a lost part must not look as if it had never been there.
local mare, t = require "mare", require "t"

-- Runs `begin` in a process with little memory, again and again, each time with other room left.
-- It returns something to receive with: its `call` returns "whole" at the end, or "lost" if it was
-- told that something is missing. It may also raise an error for want of memory; then there is
-- memory again, and the next calls tell the truth.
local function hungry(begin)
    local ok, why = mare.spawn({memory = 12 << 20}, function(p_begin)
        local p_t, lost = require "t", 0
        local function try(size)
            local receiver <close> = p_begin()
            local ballast = {}
            for _, piece in ipairs {1 << 20, 1 << 16, size} do
                repeat
                    local more = pcall(function()
                        ballast[#ballast + 1] = ("x"):rep(piece, tostring(#ballast))
                    end)
                until not more
            end
            local good, done
            repeat
                good, done = pcall(receiver.call)
                if not good then
                    p_t.ok(ballast and tostring(done):find "not enough memory", done)
                    ballast = nil
                    collectgarbage()
                end
            until good and done
            if done == "lost" then lost = lost + 1 end
            ballast = nil
            collectgarbage()
        end
        for size = 4096, 65536, 4096 do try(size) end
        local step = 2048 -- what is free when it matters differs: look closer until it fails
        while lost == 0 and step >= 256 do
            for size = step, 65536, 2 * step do try(size) end
            step = step // 2
        end
        p_t.ok(lost > 0, "nothing was lost")
    end, begin):join(t.patience * 4)
    t.ok(ok, why)
end

-- A response whose body is read part after part, from a server that has sent all of it.
local function reads_body(head, chunked)
    hungry(function()
        local p_mare, p_net, p_http = require "mare", require "mare.net", require "mare.http"
        local p_t = require "t"
        local listener <close> = assert(p_net.listen("127.0.0.1", 0))
        local _, port = listener:address()
        local asking = p_mare.go(p_http.request, {url = "http://127.0.0.1:" .. port .. "/",
            timeout = p_t.patience})
        local stream = assert(listener:accept(p_t.patience))
        stream:read()
        stream:write(head)
        local _, response = assert(asking:join(p_t.patience))
        for _, letter in ipairs {"a", "b", "c"} do
            local text = letter:rep(20000)
            stream:write(chunked and ("4e20\r\n%s\r\n"):format(text) or text)
        end
        if chunked then stream:write "0\r\n\r\n" end
        stream:shutdown()
        local got = {a = 0, b = 0, c = 0}
        return setmetatable({call = function()
            local part, message, code = response:read()
            if message then p_t.eq(code, "nomem") end
            if not part and not message then p_t.eq(got, {a = 20000, b = 20000, c = 20000}) end
            if not part then return message and "lost" or "whole" end
            local b, c, over = part:match "^a*()b*()c*()$"
            got.a, got.b, got.c = got.a + b - 1, got.b + c - b, got.c + over - c
        end}, {__close = function() stream:close() end})
    end)
end

return {
    bytes_that_are_lost_are_missed = {function()
        hungry(function()
            local p_net, p_t = require "mare.net", require "t"
            local here, there = p_net.pair()
            local numbers = {}
            for i = 1, 10000 do numbers[i] = ("%05d"):format(i) end
            local text, at = table.concat(numbers), 1
            there:write(text)
            there:shutdown()
            return setmetatable({call = function()
                local part, _, code = here:read(nil, p_t.patience)
                if part then
                    p_t.ok(text:find(part, at, true) == at, "others follow")
                    at = at + #part
                    return
                end
                p_t.ok(code == "nomem" or code == "closed" and at > #text, code)
                return code == "nomem" and "lost" or "whole"
            end}, {__close = function() here:close() end})
        end)
    end, timeout = 300},

    a_part_of_a_body_that_is_lost_is_missed = {function()
        reads_body "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n"
    end, timeout = 300},

    a_chunk_that_is_lost_is_missed = {function()
        reads_body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true)
    end, timeout = 300},

    a_fragment_that_is_lost_ends_the_conversation = {function()
        hungry(function()
            local frames, p_t = require "frames", require "t"
            local w, stream = frames.served {ping_time = false}
            stream:write(frames.make(frames.BINARY, ("a"):rep(20000)),
                frames.make(frames.CONTINUES, ("b"):rep(20000)),
                frames.make(frames.CONTINUES | frames.FINAL, ("c"):rep(20000)),
                frames.make(frames.TEXT | frames.FINAL, "another"))
            return setmetatable({call = function()
                local data, kind, code, number = w:receive(p_t.patience)
                if data then
                    local a, b, c = data:match "^(a*)(b*)(c*)$"
                    p_t.eq({kind, #(a or ""), #(b or ""), #(c or "")},
                        {"binary", 20000, 20000, 20000})
                else
                    p_t.eq({code, number}, {"nomem", 1011})
                    p_t.fails("closed", w:receive(p_t.patience))
                end
                return data and "whole" or "lost"
            end}, {__close = function() stream:close() end})
        end)
    end, timeout = 300},

    -- Without memory for a routine, nobody waits for the request that it should have served.
    a_request_of_http2_without_a_routine_is_over = function()
        local http, told = require "mare.http", mare.channel(1)
        local server = mare.spawn({name = "server.without"}, function(p_told)
            local p_mare, p_net, p_http = require "mare", require "mare.net", require "mare.http"
            local go, fails = p_mare.go, false
            function p_mare.go(...)
                if not fails then return go(...) end
                fails = false
                error("not enough memory", 0)
            end
            local listener = assert(p_net.listen("127.0.0.1", 0))
            p_told:send(select(2, listener:address()))
            p_http.serve(listener, function(request)
                if request.path == "/fail" then fails = true end
                if request.path == "/end" then listener:close() end
                return "ok"
            end, {http2 = "clear"})
        end, told)
        local url = ("http://127.0.0.1:%d/"):format(told:receive(t.patience))
        local client <close> = http.client {http2 = "clear", timeout = t.patience}
        t.eq(client:get(url .. "fail"), 200)
        t.fails("closed", client:request {url = url, method = "POST"})
        t.reaches(function() -- the routine of that connection is gone
            for _, row in ipairs(mare.processes()) do
                if row.name == "server.without" then return #(row.routines or {}) <= 1 end
            end
        end)
        t.eq(http.get(url .. "end"), 200)
        t.ok(server:join(t.patience))
    end,

    a_server_of_http2_ends_a_connection_of_which_it_lost_something = {function()
        local http, told, go_on = require "mare.http", mare.channel(1), mare.channel(1)
        local options = {memory = 4 << 20, name = "memory.server"}
        local server = mare.spawn(options, function(p_told, p_go_on)
            local p_net, p_http = require "mare.net", require "mare.http"
            local patience = require "t".patience
            local listener = assert(p_net.listen("127.0.0.1", 0))
            p_told:send(select(2, listener:address()))
            local function fill(least)
                local ballast = {}
                for _, size in ipairs {1 << 16, least} do
                    repeat
                        local more = pcall(function()
                            ballast[#ballast + 1] = ("x"):rep(size, tostring(#ballast))
                        end)
                    until not more
                end
                while not pcall(p_told.send, p_told, "filled") do -- that needs some, too
                    ballast[#ballast] = nil
                    collectgarbage()
                end
                p_go_on:receive(patience)
            end
            p_http.serve(listener, function(request)
                if request.path == "/end" then listener:close() end
                if request.path == "/fill" then
                    fill(tonumber(request.query))
                    collectgarbage()
                    p_told:send "free"
                end
                return "ok"
            end, {http2 = "clear", write_time = 1000})
        end, told, go_on)
        local url, lost = ("http://127.0.0.1:%d/"):format(told:receive(t.patience)), 0
        local headers = {}
        for i = 1, 3 do headers["x-" .. i] = tostring(i):rep(8000) end
        for size = 2048, 24576, 2048 do
            local client <close> = http.client {http2 = "clear", timeout = t.patience}
            local function post(path, fields)
                return client:request {url = url .. path, method = "POST", headers = fields,
                    kept = true}
            end
            t.eq(assert(post "").status, 200)
            local filling = mare.go(http.get, url .. "fill?" .. size, t.patience)
            t.eq(told:receive(t.patience), "filled")
            local response, _, code = post("", headers)
            if response then
                t.ok(response.status == 200 or response.status == 500, response.status)
            else
                t.eq(code, "closed")
                lost = lost + 1
            end
            go_on:send(true)
            t.eq(told:receive(t.patience), "free")
            t.ok(filling:join(t.patience))
            go_on:tryreceive()
        end
        t.ok(lost > 0, "nothing was lost")
        t.reaches(function() -- none of the routines of those connections is left
            for _, row in ipairs(mare.processes()) do
                if row.name == "memory.server" then return #(row.routines or {}) <= 1 end
            end
        end)
        t.eq(http.get(url .. "end"), 200)
        t.ok(server:join(t.patience))
    end, timeout = 300},
}
