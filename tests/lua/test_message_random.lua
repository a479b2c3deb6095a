-- SPDX-License-Identifier: MIT
-- Random values through every way a message can go: each must arrive equal, whatever its shape.
local mare, t = require "mare", require "t"

local random = math.random

local function scalar(pick)
    local kind = pick or random(9)
    if kind == 1 then return random(0) end
    if kind == 2 then return random(-200, 200) end
    if kind == 3 then return (random() - 0.5) * 10 ^ random(-300, 300) end
    if kind == 4 then return random(2) == 1 end
    if kind == 5 then return ("x"):rep(random(0, 300)) end
    if kind == 6 then
        local bytes = {}
        for i = 1, random(0, 40) do bytes[i] = string.char(random(0, 255)) end
        return table.concat(bytes)
    end
    if kind == 7 then return ({math.huge, -math.huge, -0.0, 0.0, math.mininteger})[random(5)] end
    if kind == 8 then return "k" .. random(10) end
    return random(0, 1 << random(1, 62))
end

-- `pool` holds the tables made so far, for shared references and cycles.
local function value(depth, pool)
    local kind = random(10)
    if depth == 0 or kind <= 5 then return scalar() end
    if kind == 6 and #pool > 0 then return pool[random(#pool)] end
    local made = {}
    pool[#pool + 1] = made
    for i = 1, random(0, 6) do
        if random(8) > 1 then made[i] = value(depth - 1, pool) end
    end
    for _ = 1, random(0, 4) do
        local key = random(10) == 1 and pool[random(#pool)] or scalar()
        if key == key then made[key] = value(depth - 1, pool) end
    end
    return made
end

-- Equal up to the identity of tables, which must match one to one; keys that are tables are matched
-- through their partners.
local function same(a, b, there, back)
    if type(a) ~= "table" or type(b) ~= "table" then
        return math.type(a) == math.type(b) and (a == b or a ~= a and b ~= b)
            and (a ~= 0 or math.type(a) == "integer" or 1 / a == 1 / b)
    end
    if there[a] or back[b] then return there[a] == b and back[b] == a end
    there[a], back[b] = b, a
    local plain, tables = 0, {}
    for k, v in pairs(a) do
        if type(k) == "table" then
            tables[#tables + 1] = k
        else
            plain = plain + 1
            if not same(v, b[k], there, back) then return false end
        end
    end
    for k in pairs(b) do
        if type(k) ~= "table" then plain = plain - 1 else tables[k] = true end
    end
    if plain ~= 0 then return false end
    for _, k in ipairs(tables) do
        local partner = there[k]
        if partner then
            if not tables[partner] or not same(a[k], b[partner], there, back) then return false end
        end
    end
    return true
end

local function check(sent, got, path)
    if not same(sent, got, {}, {}) then
        error(("%s: sent %.1000s, got %.1000s"):format(path, t.show(sent), t.show(got)))
    end
end

return {
    random_values_come_back_equal = function()
        t.seed()
        local there, back = mare.channel(), mare.channel(3)
        mare.spawn(function()
            for list in there:messages() do back:send(list) end
        end)
        for round = 1, 400 do
            local sent = {value(random(6), {})}
            local path = round % 3
            if path == 0 then
                local buffered = mare.channel(1)
                buffered:send(sent)
                check(sent, buffered:receive(0), "buffered")
            elseif path == 1 then
                there:send(sent)
                check(sent, back:receive(t.patience), "there and back")
            else
                local p = mare.spawn(function(list) return list end, sent)
                check(sent, select(2, p:join(t.patience)), "argument and result")
            end
        end
        there:close()
    end,

    random_values_in_upvalues_and_selects = function()
        t.seed()
        for _ = 1, 100 do
            local held = {value(random(5), {})}
            local ch = mare.channel()
            local p = mare.spawn(function()
                local f = function() return held end
                mare.select({{ch, f}})
            end)
            check(held, ch:receive(t.patience)(), "upvalue")
            p:join(t.patience)
        end
    end,

    the_check_itself_can_fail = function()
        t.eq(same({1}, {1.0}, {}, {}), false)
        t.eq(same({0.0}, {-0.0}, {}, {}), false)
        t.eq(same({1, x = 1}, {1}, {}, {}), false)
        t.eq(same({1}, {1, x = 1}, {}, {}), false)
        local shared = {}
        t.eq(same({shared, shared}, {{}, {}}, {}, {}), false)
        t.eq(same({{}, {}}, {shared, shared}, {}, {}), false)
        t.eq(same({1, {2}}, {1, {2}}, {}, {}), true)
    end,
}
