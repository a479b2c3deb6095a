-- SPDX-License-Identifier: MIT
-- A console in a node. `mare attach` starts it with a function that the node exports if its option
-- `attach` names somebody. A process evaluates the lines. It can do everything that the program
-- can, and ends when the attached peer leaves.
--
--     lines: text, whether more of it follows
--     answers: "ready" name | "text" text | "done" more | "refused" why
local mare, node, log = require "mare", require "mare.node", require "mare.log".new "node"
local line, pcall, xpcall, select, tostring = require "mare._line", pcall, xpcall, select, tostring
local concat, pack, sub = table.concat, table.pack, string.sub

local PIECE = 16 << 10 -- bytes of what is printed, in one message

-- The name of the node to which all these references belong, or nil.
local function owner_of(...)
    local owner
    for i = 1, select("#", ...) do
        local known, home = pcall(node.home, (select(i, ...)))
        if not known or not home or owner and home ~= owner then return nil end
        owner = home
    end
    return owner
end

-- Whether a node may attach: by its name if a certificate proves that; otherwise only if everybody
-- may.
local function may(rights, from)
    if rights.names.everybody then return true end
    return node._proves() and rights.names[from:match "^[^+]*"] or false
end

local function evaluate(text, print)
    local chunk, message = line.compile(text)
    if not chunk then
        if message then print(message) end
        return message == nil
    end
    local function show(ok, ...)
        if not ok then print((...)) elseif select("#", ...) > 0 then print(line.readable(...)) end
    end
    show(xpcall(chunk, line.explain))
    return false
end

return function(rights, lines, answers, client)
    local from = owner_of(lines, answers, client)
    if not from or not client.monitor or not answers.send or not lines.receive then return end
    if not may(rights, from) then
        log.warn("refused", {peer = from, why = "it may not attach", code = "denied"})
        return answers:trysend("refused", ("'%s' may not attach to this node"):format(from))
    end
    log.info("attached", {peer = from})
    -- A line may loop forever. So another process ends this one when the connection ends.
    mare.spawn(function(whom, console)
        whom:monitor():receive()
        console:kill()
    end, client, mare.self())
    _G.mare = mare
    local function print(...)
        local words = pack(...)
        for i = 1, words.n do words[i] = tostring(words[i]) end
        local text = concat(words, "\t") .. "\n"
        for at = 1, #text, PIECE do answers:send("text", sub(text, at, at + PIECE - 1)) end
    end
    _G.print = print
    answers:send("ready", node._name())
    local function typed()
        local parts = {}
        repeat
            local part, more = lines:receive()
            if part == nil then return nil end
            parts[#parts + 1] = tostring(part)
        until not more
        return concat(parts)
    end
    local text = typed()
    while text do
        log.info("typed", {peer = from, text = text})
        local ok, more = pcall(evaluate, text, print)
        if not answers:send("done", ok and more) then break end
        text = typed()
    end
    log.info("detached", {peer = from})
end
