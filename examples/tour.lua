-- SPDX-License-Identifier: MIT
-- The tour that `make run` plays. Each step is a function in this file: its source is shown, then
-- it runs. It ends by itself; without a terminal, or with MARE_TOUR_FAST set, it does not pause.
local mare = require "mare"

local terminal = os.execute("test -t 1") == true
local fast = not terminal or os.getenv("MARE_TOUR_FAST") ~= nil
local colours = terminal and not os.getenv("NO_COLOR") and os.getenv("TERM") ~= "dumb"
local cores = mare.workers()
local steps = {}

local function step(title, text, run)
    steps[#steps + 1] = {title = title, text = text, run = run}
end

-- ---- The steps ---------------------------------------------------------------------------------

step("Processes", [[
A process is a Lua state of its own. It shares nothing; what goes in and
what comes out is copied. All the cores run them.]], function()
    local sum = mare.spawn(function(a, b)
        print("adding in " .. tostring(mare.self()))
        return a + b
    end, 30, 12)

    print(sum:join())
end)

step("Channels", [[
Processes meet in channels. A loop over a channel's messages ends when it
is closed.]], function()
    local words = mare.channel()
    local listener = mare.spawn(function()
        local heard = {}
        for word in words:messages() do heard[#heard + 1] = word end
        return table.concat(heard, " ")
    end)

    for word in ("the moon moves the tide"):gmatch("%a+") do
        words:send(word)
    end
    words:close()
    print(listener:join())
end)

step("A table crosses", [[
Messages are whole values: nested tables, shared references, cycles,
functions. Integers stay integers and floats floats.]], function()
    local there, back = mare.channel(), mare.channel()
    mare.spawn(function() back:send(there:receive()) end)

    local bay = {heights = {1, 2.5, math.maxinteger}}
    bay.itself = bay
    bay.mean = function(a, b) return (a + b) / 2 end
    there:send(bay)

    local copy = back:receive()
    print("another table:", copy ~= bay)
    print("the cycle is kept:", copy.itself == copy)
    print("heights:", table.unpack(copy.heights))
    print("its function works:", copy.mean(1, 2))
end)

step("Deadlines", [[
Whatever can wait takes a deadline, and says in a short word what went
wrong. Waiting for ever is a choice, never an accident.]], function()
    local silent, closed = mare.channel(), mare.channel()
    closed:close()

    print(silent:receive(0.3))
    print(closed:receive(0.3))
    print(mare.select({silent, {silent, "hello?"}}, 0.3))
end)

step("An endless loop", [[
One worker thread, and a process that never pauses. It is preempted: the
clock beside it keeps ticking.]], function()
    mare.workers(1)
    local endless = mare.spawn(function() while true do end end)

    for tick = 1, 5 do
        local before = mare.now()
        mare.sleep(0.2)
        local passed = (mare.now() - before) * 1e3
        print(("tick %d after %3.0f ms"):format(tick, passed))
    end
    endless:kill()
    print(endless:join())
    mare.workers(cores)
end)

step("A process dies", [[
An error ends one process and no other. Whoever monitors it is told how
and why.]], function()
    local patient, news = mare.spawn({monitor = true}, function()
        local moon = nil
        return moon.tide
    end)

    local who, how, why = news:receive()
    print(who == patient, how)
    print(why)
    print("and here life goes on")
end)

local width, height, depth = 64, 20, 60000

-- One row of the picture in the step below.
local function row(y)
    local line, shades = {}, ".:-=+*#%@"
    for x = 1, width do
        local cr, ci = (x / width) * 3.2 - 2.3, (y / height) * 2.4 - 1.25
        local zr, zi, n = 0.0, 0.0, 0
        while n < depth and zr * zr + zi * zi < 4 do
            zr, zi, n = zr * zr - zi * zi + cr, 2 * zr * zi + ci, n + 1
        end
        line[x] = n == depth and " " or shades:sub(n % 9 + 1, n % 9 + 1)
    end
    return table.concat(line)
end

step("All the cores", [[
The rows of a picture are jobs in a channel; processes take them as they
come. First on one worker, then on one per core.]], function()
    local function draw(workers)
        mare.workers(workers)
        local jobs, rows = mare.channel(height), mare.channel()
        local picture = {}
        for y = 1, height do jobs:send(y) end
        jobs:close() -- what is in it can still be received

        local start = mare.now()
        for _ = 1, workers do
            mare.spawn(function()
                for y in jobs:messages() do rows:send(y, row(y)) end
            end)
        end
        for _ = 1, height do
            local y, line = rows:receive()
            picture[y] = line
        end
        return mare.now() - start, picture
    end

    local alone = draw(1)
    local together, picture = draw(cores)
    print(table.concat(picture, "\n"))
    print(("1 worker %.2f s, %d workers %.2f s: %.2f times as fast")
        :format(alone, cores, together, alone / together))
end)

step("A web server", [[
Routines share a process, and whatever waits holds back only its own. Here
a server and its visitors: ten at once, each served after a nap.]], function()
    local net, http = require "mare.net", require "mare.http"
    local listener = assert(net.listen("127.0.0.1", 0))
    mare.go(http.serve, listener, function(request)
        mare.sleep(0.2)
        return "the tide at " .. request.path:sub(2) .. " is high"
    end)

    local _, port = listener:address()
    local start, visits = mare.now(), {}
    for hour = 1, 10 do
        visits[hour] = mare.go(http.get, ("http://127.0.0.1:%d/%d"):format(port, hour))
    end
    for hour = 1, 10 do
        local _, status, text = visits[hour]:join()
        print(status, text)
    end
    print(("ten naps of 0.2 s in %.1f s"):format(mare.now() - start))
    listener:close()
end)

-- The resident memory of this program, in bytes.
local function resident()
    local status <close> = io.open("/proc/self/status")
    return status:read("a"):match("VmRSS:%s+(%d+)") * 1024
end

-- Builds with sanitizers are slow and large, so the suite asks for less.
local count = os.getenv("MARE_TEST_SLOW") and 10000 or 100000

step(count // 1000 .. ",000 processes", [[
A chain of processes, each waiting for a number from its neighbour on the
left, to hand it on to the right, plus one. Then one number goes through.]], function()
    local before, start = resident(), mare.now()
    local first = mare.channel()
    local left = first
    for _ = 1, count do
        local right = mare.channel()
        mare.spawn(function()
            for n in left:messages() do right:send(n + 1) end
            right:close()
        end)
        left = right
    end
    print(("%d processes in %.2f s"):format(count, mare.now() - start))

    start = mare.now()
    first:send(0)
    local n = left:receive()
    print(("%d came out after %.2f s"):format(n, mare.now() - start))
    local bytes = (resident() - before) / count
    print(("%.1f KB each, channel included"):format(bytes / 1e3))

    first:close() -- the first loop ends and closes the next, and so on
    mare.wait()
end)

-- ---- How they are shown ------------------------------------------------------------------------

local codes = {title = "1;36", text = "0", gutter = "2", keyword = "35", string = "33",
               comment = "2;3", output = "32"}

local function paint(kind, text)
    return colours and "\27[" .. codes[kind] .. "m" .. text .. "\27[0m" or text
end

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or
               repeat return then true until while]]):gmatch("%a+") do
    keywords[word] = true
end

-- Strings first, then words, so that a keyword inside a string stays as it is.
local function highlight(line)
    local code, comment = line:match("^(.-)(%-%-.*)$")
    local painted = {}
    for plain, text in ((code or line) .. '""'):gmatch('(.-)(%b"")') do
        painted[#painted + 1] = plain:gsub("%a+", function(word)
            return keywords[word] and paint("keyword", word)
        end)
        painted[#painted + 1] = text ~= '""' and paint("string", text) or ""
    end
    return table.concat(painted) .. (comment and paint("comment", comment) or "")
end

local function pause(seconds)
    if not fast then mare.sleep(seconds) end
end

-- The lines of this file between a function's first and last.
local source = {}
for line in io.lines(arg[0]) do source[#source + 1] = line end

local function show(run)
    local where = debug.getinfo(run, "S")
    for number = where.linedefined + 1, where.lastlinedefined - 1 do
        print(paint("gutter", "  │ ") .. highlight((source[number]:gsub("^    ", ""))))
        pause(0.03)
    end
end

-- However it ends, the terminal gets its colour back.
local _ <close> = setmetatable({}, {__close = function()
    if colours then io.write("\27[0m") end
end})

print(paint("title", "Maré " .. mare.version) .. ": concurrent Lua 5.4, on " .. cores ..
      (cores == 1 and " core" or " cores"))
for number, this in ipairs(steps) do
    print()
    print(paint("title", number .. ". " .. this.title))
    print(this.text)
    print()
    show(this.run)
    print()
    pause(0.8)
    if colours then io.write("\27[" .. codes.output .. "m") end
    this.run()
    if colours then io.write("\27[0m") end
    pause(0.8)
end
print()
print(paint("title", "That was it."))
print("Next: docs/guide/getting-started.md, then examples/01_hello.lua onwards.")
