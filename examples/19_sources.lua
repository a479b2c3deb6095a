-- SPDX-License-Identifier: MIT
-- The three kinds of source that a program can bring, each with a handler. The scheduler waits for
-- them beside channels, timers and sockets; a handler may wait as long as it likes.
local mare, scheduler = require "mare", require "mare.scheduler"

local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir " .. folder .. " && mkfifo " .. folder .. "/device")

-- 1. Asynchronous: something tells when it has an event. A device file is watched by the system; a
-- FIFO stands here for a serial port, opened in the same way: scheduler.device "/dev/ttyS0".
local rest, id = "", nil
id = scheduler.register_source(assert(scheduler.device(folder .. "/device")), function(bytes)
    rest = rest .. bytes -- what came, be it half a line or three
    for line in rest:gmatch "(.-)\n" do
        print("device: " .. line)
        if line == "bye" then scheduler.remove_source(id) end
    end
    rest = rest:match "[^\n]*$"
end)
local device <close> = assert(io.open(folder .. "/device", "w"))
device:write "hello\ngood" device:flush()
mare.go(function() mare.sleep(0.01) device:write "bye\nbye\n" device:flush() end)
scheduler.loop() -- until no source is left

-- Of one's own making: a table with `start`, which keeps `notify` and calls it for each event.
scheduler.register_source({start = function(_, notify, finish)
    mare.go(function()
        for i = 3, 1, -1 do notify(i) end
        finish()
    end)
end}, function(i) print("countdown: " .. i) end)
scheduler.loop()

-- 2. Synchronous with a time limit: it is asked in turn with others of its kind, all together for
-- 10 milliseconds. This one is a demultiplexer of its own: it watches several files, and tells in
-- which of them there is a new line. The same loop waits for a timer, which writes to them, and
-- would wait for sockets.
local logs, followed = {}, {}
for _, name in ipairs {"north", "south"} do
    logs[name] = assert(io.open(folder .. "/" .. name, "w"))
    followed[name] = assert(io.open(folder .. "/" .. name))
end
local demultiplexer = {poll = function()
    for name, file in pairs(followed) do
        file:seek("cur", 0)
        local line = file:read "l"
        if line then return name, line end
    end -- nil: nothing new; the scheduler waits, nobody spins
end}
local tides, read = {{"north", "rises"}, {"south", "falls"}, {"north", "falls"}}, 0
local timer <close> = mare.timer(0.01, 0.01)
local written = 0
local clock = scheduler.register_source(timer, function()
    if written > read or written == #tides then return end
    written = written + 1
    local name, word = table.unpack(tides[written])
    logs[name]:write(word, "\n") logs[name]:flush()
end)
id = scheduler.register_source(demultiplexer, function(name, line)
    print(name .. ": " .. line)
    read = read + 1
    if read == #tides then
        scheduler.remove_source(id)
        scheduler.remove_source(clock)
    end
end)
scheduler.loop()

-- 3. Synchronous without a limit: a call that blocks, in C too, gets a thread of its own. `wait` is
-- copied to another Lua state, with what it refers to; nil is the end.
local calls = 0
scheduler.register_source({wait = function()
    calls = calls + 1
    if calls > 2 then return nil end
    local pipe <close> = io.popen("sleep 0.02; echo call " .. calls)
    return pipe:read "l" -- blocks this thread, and nothing else
end}, function(answer) print("blocking: " .. answer) end, function(_, why)
    print("blocking: " .. why)
end)
scheduler.loop()

os.execute("rm -r " .. folder)
