-- SPDX-License-Identifier: MIT
-- A module is changed while three processes use it: they go on, with new code and the old state.
local mare, file, reload = require "mare", require "mare.file", require "mare.reload"

local folder <const> = assert(file.tempfolder())
package.path = folder .. "/?.lua;" .. package.path

local function write(version) assert(file.write(folder .. "/greeter.lua", version)) end

write [[
    local greeter = {greeted = 0}
    function greeter.greet(name)
        greeter.greeted = greeter.greeted + 1
        return ("hello %s, you are number %d"):format(name, greeter.greeted)
    end
    return greeter
]]

local requests, answers = {}, mare.channel()
for i = 1, 3 do
    local inbox, ready = mare.channel(), mare.channel(1)
    mare.spawn(function()
        local greeter = require "mare.reload".follow "greeter"
        ready:send(true)
        for name in inbox:messages() do answers:send(greeter.greet(name)) end
    end)
    ready:receive()
    requests[i] = inbox
end
local function ask(name)
    for _, inbox in ipairs(requests) do
        inbox:send(name)
        print(answers:receive())
    end
end

ask "Ana"
write [[
    local greeter = {}
    function greeter.__reload(old) greeter.greeted = old.greeted end
    function greeter.greet(name)
        greeter.greeted = greeter.greeted + 1
        return ("bom dia %s, number %d"):format(name, greeter.greeted)
    end
    return greeter
]]
print("reloaded:", (reload "greeter"))
ask "Rui"

write "return {greet = function(name) return name .. 1 + end}"
local _, why = reload "greeter"
print("refused:", (why:gsub("^.*/", "")))
ask "Eva"

for _, inbox in ipairs(requests) do inbox:close() end
file.remove(folder, {tree = true})
