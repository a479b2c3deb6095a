-- SPDX-License-Identifier: MIT
-- Consoles of nodes that run: `mare attach`, who may, and what ends with it.
local mare, node, keys = require "mare", require "mare.node", require "mare.keys"
local log, child = require "mare.log", require "mare.child"
local t, peers, shell = require "t", require "peers", require "shell"

-- Types a text into `mare attach`: what it printed and how it ended. Not by a function that keeps a
-- worker: this program is the node.
local function attach(home, text, ...)
    local words = {shell.mare, "attach", ...}
    words[#words + 1] = home.address
    words.input, words.timeout = text, 3 * t.patience
    return t.ok(child.run(words))
end

-- Calls f with a channel that gets what is logged.
local function logged(f)
    local records = mare.channel(100)
    t.ok(log.setup {to = function(record)
        records:trysend(record.message, record.peer, record.why)
    end})
    local ok, message = pcall(f, records)
    t.ok(log.setup {})
    if not ok then error(message, 0) end
end

return {
    lines_are_evaluated_there = function()
        local home <close> = peers.home {attach = {"everybody"}}
        local tides <close> = mare.channel(1, "tides")
        local result = attach(home, "1 + 1\n#mare.find 'tides', {1, 'x'}\nx = 5\nx\n"
            .. "for i = 1, 2 do\nprint(i)\nend\n(\n1)\nlocal = 1\nnil\n")
        t.eq({result.code, result.err}, {0, ""})
        t.eq(result.out, "2\n0\t{1, \"x\"}\n5\n1\n2\n1\n"
            .. "stdin:1: <name> expected near '='\nnil\n")
        t.ok(attach(home, "error 'oh'\n").out:find "^stdin:1: oh\n")
        t.eq(rawget(_G, "x"), nil) -- it is a process of its own
        t.eq(#tides, 0)
    end,

    who_ends_the_process_of_its_lines_is_told = function()
        local home <close> = peers.home {attach = {"everybody"}}
        for line, why in pairs {["mare.self():kill 'enough'"] = "enough",
            ["debug.sethook(function() error 'oh' end, 'l')"] = "oh"} do
            local result = attach(home, "1\n" .. line .. "\n2\n")
            t.eq({result.code, result.out:match "^%d\n"}, {121, "1\n"}, line)
            t.ok(result.err:find "^mare attach: the console there has ended: ", result.err)
            t.ok(result.err:find(why, 1, true), result.err)
        end
        local result = attach(home, "print = nil\n1\n")
        t.eq({result.code, result.out}, {0, "1\n"})
    end,

    who_is_not_named_is_refused_and_that_is_logged = function()
        logged(function(records)
            for _, names in ipairs {{}, {"submit"}, {"flow"}} do -- names that nobody has proved
                local home <close> = peers.home {attach = names}
                local result = attach(home, "1 + 1\n")
                t.eq({result.code, result.out}, {120, ""})
                t.ok(result.err:find "may not attach", result.err)
                local what, peer, why = records:receive(t.patience)
                t.eq({what, peer:match "^submit%+%x+$" ~= nil, why},
                    {"refused", true, "it may not attach"})
            end
            local home <close> = peers.home()
            local result = attach(home, "1 + 1\n")
            t.eq({result.code, result.out}, {120, ""})
        end)
    end,

    names_are_proved_by_certificates = t.in_folder(function(folder)
        local there = folder .. "/keys"
        t.ok(keys.authority(there, "tides"))
        for _, name in ipairs {"home", "ana", "ben"} do
            t.ok(keys.issue(there, name, {hosts = {"127.0.0.1"}}))
        end
        local home <close> = peers.home {keys = there, attach = {"ana"}}
        local function by(name)
            return attach(home, "7\n", "--keys", there, "--name", name)
        end
        t.eq({by("ana").out, by("ben").code}, {"7\n", 120})
    end),

    -- However it is cut in between: the letters are of two and three bytes.
    large_values_are_shown_whole = function()
        local home <close> = peers.home {attach = {"everybody"}, message = 1 << 15}
        local result = attach(home, "('\u{20ac}'):rep(700000)\n(' \u{e9}'):rep(700001)\n2\n")
        t.eq({result.code, result.err, #result.out}, {0, "", 2100001 + 2100004 + 2})
        t.eq(result.out, ("\u{20ac}"):rep(700000) .. "\n" .. (" \u{e9}"):rep(700001) .. "\n2\n")
        -- Nor is what is typed: it is more than the node takes in one message.
        result = attach(home, "#'" .. ("y"):rep(60000) .. "'\n2\n")
        t.eq({result.code, result.out}, {0, "60000\n2\n"})
        result = attach(home, "1\n" .. ("y"):rep(3 << 20) .. "\n2\n")
        t.eq({result.code, result.out}, {1, "1\n"})
        t.ok(result.err:find "^mare attach: cannot read the next line: ", result.err)
    end,

    -- Not even by a node that was taken over.
    nothing_that_is_shown_commands_the_terminal = function()
        local home <close> = peers.home {attach = {"everybody"}}
        local result = attach(home, "'\\27[2J', '\\x9b2J', '\\u{9b}2J'\nprint '\\27]0;x\\7'\n"
            .. "error('\\27c', 0)\n")
        t.eq(result.code, 0)
        t.eq(result.out:match "^[^\n]*\n[^\n]*\n[^\n]*", "?[2J\t?2J\t??2J\n?]0;x?\n?c")
    end,

    what_was_typed_ends_with_who_typed_it = function()
        local home <close> = peers.home {attach = {"everybody"}}
        local begun <close> = mare.channel(1, "begun")
        local console <close> = t.ok(child.spawn {shell.mare, "attach", home.address,
            stdin = "pipe", stdout = "null", stderr = "inherit"})
        console.stdin:write "mare.find 'begun':send(mare.self()) mare.sleep(1000)\n"
        local process = t.ok(begun:receive(t.patience))
        console:kill "SIGKILL"
        t.eq(select(3, process:join(t.patience)), "killed")
        t.eq(node._name(), "home")
    end,
}
