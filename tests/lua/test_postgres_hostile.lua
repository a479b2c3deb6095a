-- SPDX-License-Identifier: MIT
-- The client of PostgreSQL against a server that does what none should: it never ends, it begins
-- what nobody asked for, it announces what never comes.
local mare, t, net, postgres = require "mare", require "t", require "mare.net",
    require "mare.postgres"

-- A message: its letter, its length, and what is in it.
local function message(letter, body)
    return letter .. string.pack(">I4", #body + 4) .. body
end

local IDLE <const> = message("Z", "I")

-- Connects to a server that lets everybody in, and answers the n-th query by answer(stream, n).
local function with_answers(answer, f)
    return function()
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        mare.go(net.serve, listener, function(stream)
            local size, kind = string.unpack(">I4I4", stream:read(8) or ("\0"):rep(8))
            if kind ~= 3 << 16 then return end -- a request to stop
            stream:read(size - 8)
            stream:write(message("R", "\0\0\0\0") .. IDLE)
            for n = 1, math.maxinteger do
                local head = stream:read(5)
                if not head or not head:find "^[QP]" then return end -- a text, or one to prepare
                stream:read(string.unpack(">I4", head, 2) - 4)
                if answer(stream, n) then return end -- somebody else has the stream
            end
        end):detach()
        local c <close> = assert(postgres.connect {host = "127.0.0.1", tls = false, username = "x",
            port = select(2, listener:address()), timeout = t.patience})
        f(c)
    end
end

-- One column of text.
local DESCRIPTION <const> =
    message("T", string.pack(">I2zI4I2I4i2i4I2", 1, "v", 0, 0, 25, -1, -1, 0))

local function resident()
    local statm <close> = assert(io.open "/proc/self/statm")
    return tonumber(statm:read "a":match "%S+ (%d+)") * 4096
end

-- Rows, faster than anybody reads them.
local function without_end(stream)
    stream:write(DESCRIPTION)
    local rows = message("D", string.pack(">I2s4", 1, "")):rep(10000)
    mare.spawn(function() repeat until not stream:write(rows) end)
    return true -- it has the stream now
end

return {
    a_replication_that_nobody_asked_for = with_answers(function(stream)
        stream:write(message("W", "\0\0\0"))
    end, function(c)
        local none, why, code = c:exec "SELECT 1"
        t.eq({none, why, code}, {nil, "the server began a replication", "closed"})
        t.fails("closed", c:exec "SELECT 1")
    end),

    one_that_never_stops = with_answers(without_end, function(c)
        t.fails("timeout", c:within(0.05):exec "SELECT 1")
    end),

    there_is_always_more_when_the_deadline_comes = with_answers(without_end, function(c)
        local n = 0
        local fine, why = pcall(function()
            for _ in c:within(0.05):rows "SELECT 1" do
                n = n + 1
                if n % 100 == 0 then mare.sleep(0.001) end
            end
        end)
        t.ok(not fine and why:find "the deadline passed", why)
    end),

    rows_without_end_take_no_memory = with_answers(function(stream)
        local row = message("D", string.pack(">I2s4", 1, ("x"):rep(1000)))
        stream:write(DESCRIPTION)
        for _ = 1, 100 do
            if not stream:write(row:rep(1000)) then return end -- 100 MB in all
        end
        stream:write(message("C", "SELECT 100000\0") .. IDLE)
    end, function(c)
        if t.slow > 1 then t.skip "sanitizers keep what was freed" end
        local before = resident()
        t.eq(c:exec "SELECT 1", 100000)
        t.ok(resident() - before < 50e6)
    end),

    a_length_that_cannot_be = with_answers(function(stream, n)
        stream:write(n == 1 and "D\x10\0\0\0" .. ("x"):rep(100) or "")
        stream:shutdown()
    end, function(c)
        t.fails("closed", c:exec "SELECT 1")
        t.fails("closed", c:exec "SELECT 1")
    end),

    garbage = with_answers(function(stream)
        stream:write(("\0\1\2\3garbage"):rep(100))
    end, function(c)
        t.fails("closed", c:exec "SELECT 1")
    end),
}
