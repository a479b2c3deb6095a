-- SPDX-License-Identifier: MIT
-- Sources that a C module brings, and device files: what Lua programs do with them.
local mare, t = require "mare", require "t"

local build = assert(os.getenv "MARE_BUILD", "MARE_BUILD is not set")
package.cpath = build .. "/tests/lua/?.so;" .. package.cpath
local path = package.cpath

-- For what runs in another process, which has a path of its own.
local function module()
    package.cpath = path
    return require "source_module"
end

-- Calls f with the name of a FIFO that exists meanwhile.
local function with_fifo(f)
    local name = os.tmpname()
    os.remove(name)
    t.ok(os.execute("mkfifo " .. name))
    local ok, err = pcall(f, name)
    os.remove(name)
    if not ok then error(err, 0) end
end

local device = require "mare._source".device

return {
    a_c_module_brings_a_source = function()
        local source <close> = module().countdown(3)
        t.eq(tostring(source), "source countdown")
        t.eq({source:next(), source:next(), source:next()}, {3, 2, 1})
        t.fails("closed", source:next(t.patience))
        t.fails("closed", source:next()) -- and again
    end,

    one_that_fails_says_why = function()
        local source = module().countdown(1, true)
        t.eq({source:next()}, {1})
        t.fails("refused", source:next(t.patience))
        local case, nothing, _, code = mare.select {source}
        t.eq({case, nothing, code}, {1, nil, "refused"})
    end,

    a_source_can_be_sent_and_shared = function()
        local source = module().countdown(100)
        local total, p = 0, {}
        for i = 1, 3 do
            p[i] = mare.spawn(function()
                local sum = 0
                for event in function() return source:next() end do sum = sum + event end
                return sum
            end)
        end
        for i = 1, 3 do
            local ok, sum = p[i]:join(t.patience)
            t.ok(ok, sum)
            total = total + sum
        end
        t.eq(total, 5050) -- each event went to one of them
    end,

    sources_that_nobody_refers_to_end = function()
        local threads = function()
            local count, pipe = 0, assert(io.popen "cat /proc/$PPID/task/*/comm 2>/dev/null")
            for name in pipe:lines() do count = count + (name == "mare-source" and 1 or 0) end
            pipe:close()
            return count
        end
        local sources = {}
        for i = 1, 5 do sources[i] = module().countdown(100) end -- each waits for room
        t.reaches(function() return threads() >= #sources end)
        for i = 1, 5 do sources[i] = nil end
        collectgarbage()
        collectgarbage()
        t.reaches(function() return threads() == 0 end)
    end,

    next_is_cancelled_and_timed_as_any_wait = function()
        with_fifo(function(name)
            local source <close> = t.ok(device(name))
            t.fails("timeout", source:next(0))
            t.fails("timeout", source:next(0.001))
            if not pcall(mare.go, function() end) then return end -- a host has no routines
            local outcome = mare.channel(1)
            local r = mare.go(function() outcome:send(select(3, source:next())) end)
            mare.yield()
            r:cancel()
            t.eq(outcome:receive(t.patience), "cancelled")
            mare.go(function() outcome:send(select(3, source:next())) end)
            mare.yield()
            source:close()
            t.eq(outcome:receive(t.patience), "closed")
        end)
    end,

    a_device_brings_what_is_written_to_it = function()
        with_fifo(function(name)
            local source <close> = t.ok(device(name))
            local writer = assert(io.open(name, "w"))
            writer:setvbuf "no"
            for i = 1, 3 do
                writer:write("message ", i)
                t.eq(source:next(t.patience), "message " .. i)
            end
            writer:close()
            t.fails("timeout", source:next(0)) -- it is not at its end
            writer = assert(io.open(name, "w"))
            writer:write(("x"):rep(10000))
            writer:close()
            local got = ""
            while #got < 10000 do
                local chunk = t.ok(source:next(t.patience))
                t.ok(#chunk <= 4096)
                got = got .. chunk
            end
            t.eq(got, ("x"):rep(10000))
        end)
    end,

    a_file_is_read_to_its_end = function()
        local name = os.tmpname()
        local file = assert(io.open(name, "w"))
        file:write "all of it"
        file:close()
        local source = t.ok(device(name))
        t.eq(source:next(t.patience), "all of it")
        t.fails("closed", source:next(t.patience))
        os.remove(name)
    end,

    what_cannot_be_opened_says_so = function()
        t.fails("io", device "/nonexistent/device")
        t.raises("bad argument #1", device)
        t.raises("zero bytes", device, "a\0b")
    end,

    misuse_names_the_argument = function()
        local source <close> = module().countdown(1)
        t.raises("bad argument #[12]", source.next, source, "soon")
        t.raises("source expected", source.next, {})
        t.raises("source expected", source.close)
    end,
}
