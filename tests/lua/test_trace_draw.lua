-- SPDX-License-Identifier: MIT
-- `mare trace draw`: what is in a drawing of a run, which part of it, and what is said of files
-- that cannot be drawn.
local t, shell, file = require "t", require "shell", require "mare.file"

-- A line of a trace.
local function line(number, time, event, process, rest)
    return ('{"number":%d,"time":%.9f,"event":"%s","process":%d%s}\n'):format(number, time, event,
        process, rest or "")
end

-- Process 1 makes 2, sends it two messages over channel 7, and is told of its end.
local RUN <const> = line(1, 0.001, "start", 1) .. line(2, 0.002, "spawn", 1, ',"other":2')
    .. line(3, 0.003, "start", 2, ',"cause":2') .. line(4, 0.004, "block", 2, ',"channel":7')
    .. line(5, 0.005, "send", 1, ',"channel":7') .. line(6, 0.006, "wake", 2)
    .. line(7, 0.007, "receive", 2, ',"channel":7,"cause":5')
    .. line(8, 0.008, "send", 1, ',"channel":7') .. line(9, 0.009, "send", 1, ',"channel":8')
    .. line(10, 0.010, "receive", 2, ',"channel":7,"cause":8') .. line(11, 0.011, "end", 2)
    .. line(12, 0.012, "receive", 1, ',"cause":11') .. line(13, 0.013, "end", 1)

local function count(text, what) return select(2, text:gsub(what, "")) end

-- How many of each kind of arrow, of ended processes and of waits there are.
local function counts(svg)
    return {spawn = count(svg, 'class="m f0'), message = count(svg, 'class="m f1'),
        ["end"] = count(svg, 'class="m f2'), ended = count(svg, ">ended<"),
        waits = count(svg, 'class="s waits"')}
end

-- Draws the text of a trace: what the program said, and the drawing.
local function draw(folder, text, options, kind)
    local path, out = folder .. "/a.trace", folder .. "/a." .. (kind or "svg")
    assert(file.write(path, text))
    local got = shell.run(("%s trace draw %s --out %s %s"):format(shell.mare, shell.quote(path),
        shell.quote(out), options or ""))
    return got, file.read(out) or ""
end

return {
    a_run_is_drawn = t.in_folder(function(folder)
        local got, svg = draw(folder, RUN)
        t.eq({got.code, got.err}, {0, ""})
        t.eq(counts(svg), {spawn = 1, message = 2, ["end"] = 1, ended = 2, waits = 1})
        t.ok(svg:find("#7  1 → 2\nsent 5 ms\narrived 7 ms, after 2 ms<", 1, true), svg)
        t.eq(count(svg, '<text x="40" y="[%d.]+">[12]</text>'), 2) -- their names
        local page
        got, page = draw(folder, RUN, "", "html")
        t.eq(got.code, 0)
        t.ok(page:find("2 processes · 4 messages · 13 ms", 1, true))
        t.eq(counts(page), {spawn = 1, message = 2, ["end"] = 1, ended = 2, waits = 1})
        t.eq(count(page, "virtual time"), 0)
    end),

    -- The messages of a channel that has a name are a kind of their own, as long as there are not
    -- too many. Names of which a letter is no UTF-8, or means something, make no bad drawing.
    channels_with_names_are_told_apart = t.in_folder(function(folder)
        local function run(...)
            local lines = {line(1, 0, "start", 1), line(2, 0, "start", 2)}
            for i, name in ipairs {...} do
                local rest = (',"channel":%d'):format(i)
                local named = (',"channel_name":"%s"'):format(name)
                lines[#lines + 1] = line(2 * i + 1, i / 1000, "send", 1, rest
                    .. (name == "" and "" or named))
                -- Of a channel of another node only the receiver knows the name.
                lines[#lines] = i % 2 == 0 and lines[#lines]:gsub(named, "", 1) or lines[#lines]
                lines[#lines + 1] = line(2 * i + 2, i / 1000, "receive", 2,
                    ('%s,"cause":%d%s'):format(rest, 2 * i + 1, name == "" and "" or named))
            end
            return table.concat(lines)
        end
        local got, svg = draw(folder, run("jobs", "", "a<b", "jobs", ("\u{e9}"):rep(20), "\xe9"))
        t.eq({got.code, got.err}, {0, ""})
        t.eq({count(svg, 'class="m f1'), count(svg, 'class="m f3'), count(svg, 'class="m f4')},
            {1, 2, 1})
        for _, name in ipairs {"jobs", "a_b", ("\u{e9}"):rep(7), "_"} do
            t.ok(svg:find(("<title>%s channel="):format(name), 1, true), name)
        end
        t.ok(utf8.len(svg))
        local many = {}
        for i = 1, 50 do many[i] = "c" .. i end
        got, svg = draw(folder, run(table.unpack(many)))
        t.eq({got.code, count(svg, 'class="m f42'), count(svg, 'class="m f1 ')}, {0, 1, 10})
        local page
        got, page = draw(folder, run("jobs"), "", "html")
        t.eq({got.code, count(page, "</i>jobs</button>")}, {0, 1})
    end),

    a_part_is_drawn = t.in_folder(function(folder)
        local _, svg = draw(folder, RUN, "--from 0.0045 --to 0.0075")
        t.eq(counts(svg), {spawn = 0, message = 1, ["end"] = 0, ended = 0, waits = 0})
        _, svg = draw(folder, RUN, "--process 2")
        t.eq(counts(svg), {spawn = 0, message = 0, ["end"] = 0, ended = 1, waits = 1})
        _, svg = draw(folder, RUN, "--process 1,2 --to 0.0085")
        t.eq(counts(svg), {spawn = 1, message = 1, ["end"] = 0, ended = 0, waits = 1})
    end),

    the_order_is_that_of_the_numbers = t.in_folder(function(folder)
        local lines = {}
        for one in RUN:gmatch "[^\n]+\n" do table.insert(lines, 1, one) end
        local _, svg = draw(folder, RUN)
        local _, turned = draw(folder, table.concat(lines))
        t.eq(turned, svg)
    end),

    -- Process 1 of ebb sends to process 1 of flow, which answers. The clock of flow is 5 s behind,
    -- and it began 1 s later.
    several_nodes_are_drawn_together = t.in_folder(function(folder)
        local function node(number, name, life)
            return line(number, 0, "node", 0, (',"life":%d,"node":"%s"'):format(life, name))
        end
        local function arrive(number, time, name, life, cause)
            return line(number, time, "arrive", 0,
                (',"channel":7,"life":%d,"cause":%d,"node":"%s"'):format(life, cause, name))
        end
        local EBB, FLOW = 1700000000000000000, 1699999996000000000
        local ebb = node(1, "ebb", EBB) .. line(2, 2.0, "start", 1, ',"name":"a<b"')
            .. line(3, 2.1, "send", 1, ',"channel":7') .. arrive(9, 2.3, "flow", FLOW, 7)
            .. line(10, 2.4, "receive", 1, ',"channel":8,"cause":9') .. line(11, 2.5, "end", 1)
        local flow = node(1, "flow", FLOW) .. line(2, 1.0, "start", 1)
            .. arrive(4, 1.2, "ebb", EBB, 3)
            .. line(5, 1.3, "receive", 1, ',"channel":7,"cause":4')
            .. line(7, 1.4, "send", 1, ',"channel":8') .. line(8, 1.5, "end", 1)
        assert(file.write(folder .. "/flow", flow))
        local got, svg = draw(folder, ebb, shell.quote(folder .. "/flow"))
        t.eq({got.code, got.err}, {0, ""})
        t.eq(counts(svg), {spawn = 0, message = 2, ["end"] = 0, ended = 2, waits = 0})
        t.eq({count(svg, "ebb/1:a_b → flow/1"), count(svg, "flow/1 → ebb/1:a_b")}, {1, 1})
        -- By the clocks it would arrive 4.8 s before it was sent.
        t.ok(svg:find("arrived 6200 ms, after 100 ms<", 1, true), svg)
        t.eq(count(svg, "outside"), 0)
        got, svg = draw(folder, ebb, ("--process flow/1 %s/flow"):format(folder))
        t.eq(got.code, 0)
        t.eq({counts(svg).message, counts(svg).ended}, {0, 1})
        local _
        got, svg = draw(folder, ebb) -- what flow did is missing
        t.eq({got.code, counts(svg).message, count(svg, "outside → 1:a_b")}, {0, 1, 1})
        -- Of another life of flow nothing is known, nor is an effect before its cause.
        _, svg = draw(folder, ebb:gsub('"life":1699999996', '"life":1699999990'),
            folder .. "/flow")
        t.eq(count(svg, "ebb/outside → ebb/1:a_b"), 1)
        _, svg = draw(folder, ebb:gsub('"cause":7', '"cause":700'), folder .. "/flow")
        t.eq(count(svg, "ebb/outside → ebb/1:a_b"), 1)
        got = draw(folder, ebb, folder .. "/a.trace") -- the same file again
        t.eq(got.code, 0)
        got = draw(folder, ebb, "/nosuch")
        t.eq(got.err, "mare trace draw: /nosuch: No such file or directory\n")
        got = draw(folder, ebb, (folder .. "/flow "):rep(60))
        t.eq(got.code, 2)
        t.ok(got.err:find "more than 60 files", got.err)
        assert(file.write(folder .. "/flow", ""))
        got = draw(folder, ebb, folder .. "/flow")
        t.eq({got.code, got.err},
            {1, ("mare trace draw: %s/flow: there is no event in it\n"):format(folder)})
    end),

    there_are_limits = t.in_folder(function(folder)
        local lines = {}
        for i = 1, 61 do lines[i] = line(i, i / 1000, "start", i) end
        local got = draw(folder, table.concat(lines))
        t.eq(got.code, 1)
        t.ok(got.err:find "more than 60 processes do something in that time; choose", got.err)
        t.eq(draw(folder, table.concat(lines), "--to 0.060").code, 0)
        lines = {line(1, 0, "start", 1), line(2, 0, "start", 2)}
        for i = 3, 1203, 2 do
            lines[#lines + 1] = line(i, i / 1000, "send", 1, ',"channel":7')
                .. line(i + 1, (i + 1) / 1000, "receive", 2, (',"channel":7,"cause":%d'):format(i))
        end
        local svg
        got, svg = draw(folder, table.concat(lines))
        t.ok(got.err:find "only the first 500 messages, to 1.004000 s; %-%-from and", got.err)
        t.eq(counts(svg).message, 501)
        got, svg = draw(folder, table.concat(lines), "--from 0")
        t.eq({got.err, counts(svg).message}, {"", 601})
    end),

    what_is_no_trace_is_told = t.in_folder(function(folder)
        for text, why in pairs {
            [""] = "there is no event in it",
            [RUN .. "nonsense\n"] = "line 14 is not an event of a trace",
            [RUN:gsub("receive", "recieve", 1)] = "line 7 is not an event of a trace",
            [RUN:gsub('"time":0.003', '"time":x', 1)] = "line 3 is not an event of a trace",
            [("x"):rep(2000) .. "\n" .. RUN] = "line 1 is not an event of a trace",
            [RUN .. RUN] = "two events have the same number: it is of two runs",
            ["\0\1\2\n"] = "line 1 is not an event of a trace",
        } do
            local got = draw(folder, text)
            t.eq({got.code, got.err}, {1, ("mare trace draw: %s/a.trace: %s\n"):format(folder,
                why)})
        end
        local got, svg = draw(folder, RUN:sub(1, -20)) -- by a kill
        t.eq(got.code, 0)
        t.ok(got.err:find "line 13, the last, is cut off", got.err)
        t.eq(counts(svg).ended, 1)
        t.ok(draw(folder, RUN, "--from 5").err:find "no event is in that part of it")
        got = draw(folder, RUN, "--process 1,tlil")
        t.eq({got.code, got.err}, {1, ("mare trace draw: %s/a.trace: no process is called 'tlil'\n")
            :format(folder)})
        got = draw(folder, RUN, "--process main") -- as a profile calls it
        t.eq({got.code, got.err}, {1, ("mare trace draw: %s/a.trace: no process is called 'main' "
            .. "(the main script is 1)\n"):format(folder)})
        -- A cause that is missing, or comes after its effect, is no arrow.
        got, svg = draw(folder, line(1, 0, "receive", 1, ',"cause":2') .. line(2, 0, "send", 2)
            .. line(3, 0, "receive", 1, ',"cause":99'))
        t.eq({got.code, counts(svg).message}, {0, 0})
    end),

    how_it_is_called = t.in_folder(function(folder)
        for _, options in ipairs {"", "--out", "--out a.png", "--from x", "--process 1,",
            "--speed 1"} do
            local got = options == "" and shell.run(shell.mare .. " trace draw")
                or draw(folder, RUN, options)
            t.eq(got.code, 2)
        end
        local got = shell.run(shell.mare .. " trace draw /nosuch/file")
        t.eq({got.code, got.err}, {1, "mare trace draw: /nosuch/file: No such file or directory\n"})
        assert(file.write(folder .. "/a.trace", RUN))
        got = shell.run(("%s trace draw %s/a.trace --out /nosuch/a.svg"):format(shell.mare, folder))
        t.eq({got.code, got.err},
            {1, "mare trace draw: /nosuch/a.svg: No such file or directory\n"})
    end),

    a_real_run = t.in_folder(function(folder)
        local program = [[
            local mare = require "mare"
            local ch = mare.channel()
            local p = mare.spawn(function() for _ in ch:messages() do end end)
            for i = 1, 10 do ch:send(i) end
            ch:close()
            p:join()]]
        local got = shell.run(("%s --trace %s/a -e %s && %s trace draw %s/a"):format(shell.mare,
            folder, shell.quote(program), shell.mare, folder))
        t.eq(got.code, 0, got.err)
        local drawn = counts(assert(file.read(folder .. "/a.html")))
        t.eq({drawn.message, drawn.spawn, drawn["end"], drawn.ended}, {10, 2, 1, 2})
    end),
}
