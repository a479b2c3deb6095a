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
        for size = 4096, 65536, 4096 do
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
}
