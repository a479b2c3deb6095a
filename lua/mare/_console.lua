-- SPDX-License-Identifier: MIT
-- A console of a node: what `mare attach` starts there, by a function that the node exports if its
-- option `attach` names somebody. A process of its own evaluates lines, with all that the program
-- can, and ends with who is attached.
--
--     lines: text      answers: "ready" name | "text" text | "done" more | "refused" why
local mare, node, log = require "mare", require "mare.node", require "mare.log".new "node"
local line, pcall, xpcall, select, tostring = require "mare._line", pcall, xpcall, select, tostring
local concat, pack = table.concat, table.pack

-- Whose references these are: the name of a node, or nil.
local function owner_of(...)
    local owner
    for i = 1, select("#", ...) do
        local known, home = pcall(node.home, (select(i, ...)))
        if not known or not home or owner and home ~= owner then return nil end
        owner = home
    end
    return owner
end

-- Whether a node may attach: by its name, where that is proved; else only if everybody may.
local function may(rights, from)
    if rights.names.everybody then return true end
    return node._proves() and rights.names[from:match "^[^+]*"] or false
end

local function evaluate(text)
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
    -- What is typed may loop for ever: another process ends this one with who typed it.
    mare.spawn(function(whom, console)
        whom:monitor():receive()
        console:kill()
    end, client, mare.self())
    _G.mare = mare
    function _G.print(...)
        local words = pack(...)
        for i = 1, words.n do words[i] = tostring(words[i]) end
        answers:send("text", concat(words, "\t") .. "\n")
    end
    answers:send("ready", node._name())
    local text = lines:receive()
    while text do
        log.info("typed", {peer = from, text = tostring(text)})
        local ok, more = pcall(evaluate, tostring(text))
        if not answers:send("done", ok and more) then break end
        text = lines:receive()
    end
    log.info("detached", {peer = from})
end
