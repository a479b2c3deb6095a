-- SPDX-License-Identifier: MIT
-- The examples at the heads of the coordination modules run, and print what they say; and the guide
-- to one's own mechanism keeps its promise of forty lines.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"

local ROOT = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$" .. "/../.."

local function read(path)
    local file <close> = assert(io.open(ROOT .. path))
    return file:read "a"
end

-- The indented lines of the comment that a module begins with, and how many there are.
local function example_of(module)
    local lines = {}
    for line in read("/lua/mare/" .. module .. ".lua"):gmatch "([^\n]*)\n" do
        if not line:find "^%-%-" or line == "--" and lines[1] then break end
        lines[#lines + 1] = line:match "^%-%-     (.*)$"
    end
    t.ok(#lines >= 5 and #lines <= 12, #lines .. " lines")
    return table.concat(lines, "\n")
end

-- Runs it in this process. Returns what it prints, as a channel, and what `more` returns.
local function run(module, more)
    local printed, spawn, list = mare.channel(100), mare.spawn, {}
    function _G.print(...)
        local texts = table.pack(...)
        for i = 1, texts.n do texts[i] = tostring(texts[i]) end
        printed:send(table.concat(texts, " "))
    end
    function mare.spawn(...)
        list[#list + 1] = spawn(...)
        return list[#list]
    end
    local results = table.pack(assert(load(example_of(module) .. (more or "")))())
    mare.spawn = spawn
    return printed, list, table.unpack(results, 1, results.n)
end

-- A process that runs it, and serves.
local function serving(module)
    local ready = mare.channel(1)
    local process = mare.spawn("ready, lamps = ... " .. example_of(module)
        .. "\nready:send(true)", ready, _G.lamps)
    t.ok(ready:receive(t.patience))
    return process
end

local function sync(process, fname) return rpc.sync(process, fname, t.patience) end

return {
    rpc = function()
        local printed, list = run "rpc"
        local seen = {}
        for _ = 1, 3 do seen[printed:receive(t.patience)] = true end
        t.eq(seen, {["2 5"] = true, ["9"] = true, denied = true})
        list[1]:kill()
    end,

    monitor = function()
        local written
        _G.text = "a line"
        _G.store = {write = function(_, text, fence) written = {text, fence} end}
        local _, _, add, m, mnt = run("monitor", " return add, monitor, mnt")
        t.eq(written, {"a line", 1})
        t.eq(add({deposit = function(_, sum) return sum, m.fence(mnt) end}, 5), 5)
        t.eq(m.fence(mnt), nil)
    end,

    sc = function()
        local process = serving "sc"
        local waiting = mare.go(sync(process, "get"))
        t.eq(select("#", sync(process, "put")("a fish")), 0)
        t.eq({waiting:join(t.patience)}, {true, "a fish"})
        process:kill()
    end,

    synchronizer = function()
        local function lamp()
            function on() return "lit" end -- luacheck: ignore
            function off() return "dark" end -- luacheck: ignore
            require "mare.rpc".serve()
        end
        local lamps = {mare.spawn(lamp), mare.spawn(lamp)}
        _G.lamps = lamps
        local keeper = serving "synchronizer"
        t.eq(sync(lamps[1], "on")(), "lit")
        local other = mare.go(sync(lamps[2], "on"))
        t.fails("timeout", other:join(0.01))
        t.eq(sync(lamps[1], "off")(), "dark")
        t.eq({other:join(t.patience)}, {true, "lit"})
        keeper:kill()
        for _, it in ipairs(lamps) do it:kill() end
    end,

    tuple = function()
        local printed = run "tuple"
        t.eq(printed:receive(t.patience), "done 1")
        t.ok(printed:receive(t.patience):find "^nil .* empty$")
    end,

    pubsub = function()
        t.eq(run "pubsub":receive(t.patience), "tide/recife/level 2.1")
    end,

    mechanisms_of_the_guide_have_less_than_forty_lines = function()
        local count = 0
        for block in read "/docs/guide/own-mechanism.md":gmatch "```lua\n(.-)```" do
            local lines, last = 0, 0 -- the last one that ends a function of the mechanism
            for line in block:gmatch "([^\n]*)\n" do
                lines = lines + 1
                if line == "end" then last = lines end
            end
            t.ok(last > 10 and last < 40, last .. " lines")
            count = count + 1
        end
        t.eq(count, 2)
    end,
}
