-- SPDX-License-Identifier: MIT
-- A supervision tree, as in Erlang: a stock, a shop that makes no sense without it, and customers
-- who come and go. When the stock dies, the shop is started again with it (rest_for_one).
local mare, supervisor = require "mare", require "mare.supervisor"

-- How a process is a server: it answers requests from a channel with its name.
local function serve(name, handle)
    local requests <close> = mare.channel(0, name)
    supervisor.ready() -- from here on it can be found
    for reply, what in requests:messages() do reply:send(handle(what)) end
end

local function call(name, what)
    local reply = mare.channel(1)
    assert(mare.find(name)):send(reply, what)
    return reply:receive(5)
end

local tree = assert(supervisor.start {
    strategy = "rest_for_one",
    intensity = 3, period = 5, -- more than 3 restarts within 5 seconds, and it gives up
    report = function(event) print(event.child .. " " .. event.what .. ": " .. event.error) end,
    children = {
        {id = "stock", ready = 5, start = function()
            local apples = 10
            serve("stock", function(n)
                if n > apples then error("no apples left", 0) end
                apples = apples - n
                return apples
            end)
        end},
        {id = "shop", ready = 5, start = function()
            serve("shop", function(n) return call("stock", n) and n .. " apples sold" end)
        end},
    },
})

print(call("shop", 3))
print(call("shop", 4))

local news = tree:find("shop"):monitor()
mare.go(call, "shop", 100):detach() -- the stock dies of it
news:receive()
for _, child in ipairs(tree:children()) do
    print(child.id, child.up and "up" or "down", "restarts: " .. child.restarts, child.last)
end
print(call("shop", 10)) -- the new stock is full

-- Customers are temporary: nobody starts them again.
for i = 1, 3 do
    tree:add {id = "customer " .. i, restart = "temporary", args = {i}, start = function(n)
        mare.find("shop")
        mare.channel():receive(60 * n)
    end}
end
print(#tree:children() .. " children")
print(tree:stop()) -- the customers end first, the stock last
