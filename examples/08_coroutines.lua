-- SPDX-License-Identifier: MIT
-- Blocking calls work inside the program's own coroutines: what waits is the process, and
-- the program's yield and resume keep their meaning.
local mare = require "mare"

local lines = mare.channel()
mare.spawn(function()
    for _, line in ipairs {"a tide", "of small", "processes"} do lines:send(line) end
    lines:close()
end)

-- An iterator that yields words, and waits for lines in between.
local function words()
    return coroutine.wrap(function()
        for line in lines:messages() do
            for word in line:gmatch("%a+") do coroutine.yield(word) end
        end
    end)
end
for word in words() do io.write(word, " ") end
print()

-- In a metamethod: a table whose fields are asked of another process when they are first read.
local questions, answers = mare.channel(), mare.channel()
mare.spawn(function()
    for name in questions:messages() do answers:send(name:upper()) end
end)
local remote = setmetatable({}, {__index = function(self, name)
    questions:send(name)
    self[name] = answers:receive()
    return rawget(self, name)
end})
print(remote.moon, remote.tide)

-- In pcall, and two coroutines deep.
print(pcall(function()
    local outer = coroutine.wrap(function()
        local inner = coroutine.wrap(function()
            mare.sleep(0.001)
            coroutine.yield("inner")
        end)
        coroutine.yield(inner() .. " and outer")
    end)
    return outer()
end))
questions:close()
