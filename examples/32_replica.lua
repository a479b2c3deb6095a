-- SPDX-License-Identifier: MIT
-- A state that all members of a group share: every change is applied in the same order on each of
-- them, and is on the disks of more than half before anybody is told. Here the group has one
-- member, to be a whole program; with three, each runs this with its own name and folder.
local node, group, file = require "mare.node", require "mare.group", require "mare.file"

local folder <const> = assert(file.tempfolder())
node.start {name = "ebb", listen = "127.0.0.1:0"}
local options = {members = {"ebb"}, folder = folder}
assert(group.found("shop", options))             -- once in the life of the group

-- Runs on every member, so it uses nothing but what it is given.
local function sell(stock, order)
    local left = (stock[order.item] or 0) - order.count
    if left < 0 then error("not enough " .. order.item, 0) end
    stock[order.item] = left
    return stock, left
end

for day = 1, 2 do                                -- the second day begins where the first one ended
    local shop = assert(group.join("shop", options))
    local stock = assert(shop:replica("stock", {nets = 5, hooks = 100}, sell))
    local orders = assert(shop:multicast("orders", {order = "total"}))
    orders:send {item = "nets", count = 2}
    orders:send {item = "hooks", count = 30 * day}
    for _ = 1, 2 do
        local from, order = orders:receive(10)
        local ok, left = stock:apply(order, 10)
        print(("day %d: %s orders %d %s, %s left"):format(day, from, order.count, order.item,
            ok and left or "none"))
    end
    print(stock:apply({item = "sails", count = 1}, 10))
    orders:leave()
    stock:leave()
    shop:leave()
end
node.stop()
file.remove(folder, {tree = true})
