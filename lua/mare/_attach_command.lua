-- SPDX-License-Identifier: MIT
-- `mare attach`: evaluates the lines that you type in a running node, if that node allows it.
local mare, node, client = require "mare", require "mare.node", require "mare._job_client"
local terminal = require "mare.terminal"

local PIECE, LATE = 16 << 10, 5 -- bytes typed, in one message; seconds for answers after the end
local FLAGS = {["--insecure"] = true, ["--json"] = true}

-- The next answer, or the end.
local function next_answer(answers, server, watch)
    local outcome = table.pack(node._await(answers, server, watch))
    if outcome[1] == nil then client.give_up(outcome[2], outcome[3]) end
    if outcome[1] == "refused" then client.give_up(outcome[2], "denied") end
    if outcome[1] == "gone" then client.give_up(outcome[2], "nonode") end
    return outcome[1], outcome[2]
end

return function(...)
    local options, _, rest = client.gather("attach", FLAGS, {}, ...)
    if #rest ~= 1 then client.fail(2, "which node? [NAME@]HOST:PORT") end
    local server = client.connect(rest[1])
    local lines, answers, watch = mare.channel(), mare.channel(64), assert(node.monitor())
    local process, message, code = mare.spawn({node = server, timeout = options.timeout},
        "mare.attach", lines, answers, mare.self())
    if not process and code == "noname" then message, code = "nobody may attach to it", "denied" end
    if not process then client.give_up(message, code) end
    mare.go(function() -- a line may end the process that evaluates it
        local why = select(2, process:join())
        mare.sleep(LATE) -- what it has answered may still be on its way
        answers:send("gone", ("the console there has ended: %s"):format(why))
    end):detach()
    local _, name = next_answer(answers, server, watch)
    local input, talks, pending = terminal.input(), terminal.is_tty(0), ""
    local function prompt(text)
        if talks then io.stdout:write(text):flush() end
    end
    prompt(("attached to %s; Ctrl-D ends\n> "):format(client.harmless(name)))
    local text, why, problem = input:read "l"
    while text do
        pending = pending .. text .. "\n"
        for from = 1, #pending, PIECE do
            lines:send(pending:sub(from, from + PIECE - 1), from + PIECE <= #pending)
        end
        local what, value = next_answer(answers, server, watch)
        local joined = client.joiner() -- what is printed, whatever pieces it comes in
        while what ~= "done" do
            io.stdout:write(client.harmless(joined(tostring(value)))):flush()
            what, value = next_answer(answers, server, watch)
        end
        io.stdout:write(client.harmless(joined())):flush()
        if not value then pending = "" end
        prompt(value and ">> " or "> ")
        text, why, problem = input:read "l"
    end
    if problem ~= "closed" then client.fail(1, "cannot read the next line: %s", why) end
    prompt "\n"
    client.finish(0)
end
