-- SPDX-License-Identifier: MIT
-- Waiting for files: a pipe with a name (FIFO) blocks who opens it until somebody opens the other
-- end, for as long as a test likes. Nobody else is held back, deadlines hold, and nothing is left
-- behind by those who went away.
local mare, file, t = require "mare", require "mare.file", require "t"
local in_folder, descriptors = t.in_folder, t.descriptors

local function fifo_in(folder, name)
    local path = folder .. "/" .. (name or "fifo")
    assert(os.execute("mkfifo " .. path))
    return path
end

-- Both ends: what is written to the one is read from the other.
local function ends(folder)
    local path = fifo_in(folder)
    local reader = mare.go(file.open, path)
    local writer = assert(file.open(path, "w", t.patience))
    return select(2, assert(reader:join(t.patience))), writer
end

-- Lets those who still wait for the other end of a pipe have it for a moment, and counts
-- descriptors until there are no more than before.
local function nothing_is_left(path, before)
    assert(file.open(path, "r+")):close() -- which never waits
    t.reaches(function() return descriptors() <= before end, "descriptors")
end

return {
    nobody_else_is_held_back = in_folder(function(folder)
        local path = fifo_in(folder)
        t.with_workers(1, function()
            local ticks, opened = 0, false
            local opens = mare.go(function()
                local f <close> = assert(file.open(path))
                opened = true
                return f:read "a"
            end)
            for _ = 1, 10 do
                mare.sleep(0.001)
                ticks = ticks + (opened and 0 or 1)
            end
            t.eq(ticks, 10)
            t.eq(mare.spawn(function() return 7 end):join(t.patience), true)
            t.eq(file.write(path, "late", t.patience), true)
            t.eq({opens:join(t.patience)}, {true, "late"})
        end)
    end),

    a_deadline_ends_the_wait = in_folder(function(folder)
        local from, to, before = fifo_in(folder), fifo_in(folder, "to"), descriptors()
        t.fails("timeout", file.open(from, "r", 0.01))
        t.fails("timeout", file.open(from, nil, {timeout = mare.deadline(0.01)}))
        t.fails("timeout", file.read(from, 0.01))
        t.fails("timeout", file.open(to, "w", 0.01))
        t.fails("timeout", file.append(to, "x", 0.01))
        nothing_is_left(from, before)
        nothing_is_left(to, before)
    end),

    a_cancelled_routine_leaves_nothing_behind = in_folder(function(folder)
        local path, before = fifo_in(folder), descriptors()
        local routine = mare.go(file.open, path)
        mare.yield()
        assert(file.stat(path)) -- by the pool too, which began with the other
        routine:cancel()
        t.eq(select(4, routine:join(t.patience)), "cancelled")
        nothing_is_left(path, before)
    end),

    a_killed_process_leaves_nothing_behind = in_folder(function(folder)
        local path, before = fifo_in(folder), descriptors()
        local killed = {}
        for i = 1, 5 do
            killed[i] = mare.spawn(function(name)
                local opened = require "mare.file".open(name)
                return opened:read()
            end, path)
        end
        for _, process in ipairs(killed) do
            t.reaches(function() return process:status() == "blocked" end)
            process:kill()
            t.eq(select(3, process:join(t.patience)), "killed")
        end
        nothing_is_left(path, before)
    end),

    -- Threads that are stuck for nobody do not count: more than there can be at work.
    those_who_went_away_hold_back_nobody = in_folder(function(folder)
        local path, before = fifo_in(folder), descriptors()
        for _ = 1, 20 do t.fails("timeout", file.open(path, "r", 0.002)) end
        assert(file.write(folder .. "/f", "x", t.patience))
        t.eq(file.read(folder .. "/f", t.patience), "x")
        nothing_is_left(path, before)
    end),

    who_finds_no_thread_is_told_why = in_folder(function(folder)
        local path, before = fifo_in(folder), descriptors()
        local told
        for _ = 1, 1000 do
            local opened, message, code = file.open(path, "r", 0.005)
            t.eq({opened, code}, {nil, "timeout"})
            told = message:match "(%d+) are stuck" -- as many as there can be, and not before
            if told then break end
        end
        t.eq(told, "64")
        local _, message, code = file.stat(folder, 0.005)
        t.eq({code, message:match "%d+ are stuck"}, {"timeout", "64 are stuck"})
        io.open(path, "r+"):close() -- they come loose, and give back what they have opened
        t.eq(file.stat(folder, t.patience).kind, "folder")
        nothing_is_left(path, before)
    end),

    many_who_wait_are_served_in_the_end = in_folder(function(folder)
        local path, routines = fifo_in(folder), {}
        for i = 1, 40 do
            routines[i] = mare.go(function()
                local _ <close> = assert(file.open(path, "r", t.patience))
                return true
            end)
        end
        local _ <close> = assert(file.open(path, "r+", t.patience))
        for _, routine in ipairs(routines) do t.eq({routine:join(t.patience)}, {true, true}) end
    end),

    a_read_that_was_given_up_is_not_lost = in_folder(function(folder)
        local reader, writer = ends(folder)
        t.fails("timeout", reader:read("l", 0.01))
        t.eq(writer:write "one\ntwo\n", true)
        t.eq({reader:read("l", t.patience), reader:read("l", t.patience)}, {"one", "two"})
        local routine = mare.go(function() return reader:read "l" end)
        mare.yield()
        routine:cancel()
        t.eq(select(4, routine:join(t.patience)), "cancelled")
        t.eq(writer:write "three\n", true)
        t.eq(reader:read("l", t.patience), "three")
    end),

    a_file_has_a_timeout_of_its_own = in_folder(function(folder)
        local reader, writer = ends(folder)
        t.eq(reader:timeout(0.01), reader)
        t.fails("timeout", reader:read())
        t.eq(reader:timeout(), reader)
        t.eq(writer:write "x", true)
        t.eq(reader:read(1, t.patience), "x")
        t.eq(reader:stat(t.patience).kind, "pipe")
    end),

    what_was_begun_goes_on = in_folder(function(folder)
        local reader, writer = ends(folder)
        local much = ("0123456789"):rep(100000) -- a pipe has room for 64 KiB
        local first = mare.go(function() return writer:write(much) end)
        t.eq(reader:read(1, t.patience), "0")
        first:cancel()
        t.eq(select(4, first:join(t.patience)), "cancelled")
        local second = mare.go(function() return writer:write "end" end)
        t.ok(reader:read(#much - 1, t.patience) == much:sub(2))
        t.eq(reader:read(3, t.patience), "end")
        t.eq({second:join(t.patience)}, {true, true})
    end),

    what_fails_later_is_told_to_the_next = in_folder(function(folder)
        local reader, writer = ends(folder)
        local first = mare.go(function() return writer:write(("x"):rep(1000000)) end)
        t.eq(reader:read(1, t.patience), "x")
        first:cancel()
        t.eq(select(4, first:join(t.patience)), "cancelled")
        reader:close()
        t.fails("closed", writer:stat()) -- nobody reads: the write ended so
        t.eq(writer:stat().kind, "pipe")
    end),

    closing_ends_the_waits_of_others = in_folder(function(folder)
        local before = descriptors()
        local reader, writer = ends(folder)
        local one = mare.go(function() return reader:read "l" end)
        local two = mare.go(function() return reader:stat() end)
        mare.yield()
        t.eq(reader:close(), true)
        t.eq(select(4, one:join(t.patience)), "closed")
        t.eq(select(4, two:join(t.patience)), "closed")
        t.fails("closed", reader:read())
        writer:close() -- which ends the read that was under way
        t.reaches(function() return descriptors() <= before end, "descriptors")
    end),

    routines_write_whole_pieces_and_read_different_ones = in_folder(function(folder)
        local f <close> = assert(file.open(folder .. "/f", "w+"))
        local writers, readers, count, sum = {}, {}, 0, 0
        for i = 1, 20 do
            writers[i] = mare.go(function()
                for k = 1, 10 do assert(f:write(("%d %d\n"):format(i, k))) end
            end)
        end
        for _, routine in ipairs(writers) do assert(routine:join(t.patience)) end
        f:seek "set"
        for i = 1, 5 do
            readers[i] = mare.go(function()
                for line in f:lines() do
                    local a, b = line:match "^(%d+) (%d+)$"
                    count, sum = count + 1, sum + a * b
                end
            end)
        end
        for _, routine in ipairs(readers) do assert(routine:join(t.patience)) end
        t.eq({count, sum}, {200, 210 * 55})
    end),

    -- Changing hands.

    a_file_changes_hands_with_what_it_has_read = in_folder(function(folder)
        assert(file.write(folder .. "/f", "one\ntwo\nthree"))
        local f = assert(file.open(folder .. "/f"))
        t.eq(f:read "l", "one")
        local process = mare.spawn(function(got)
            return got:read "l", got:read "a", got:close()
        end, f)
        t.eq({process:join(t.patience)}, {true, "two", "three", true})
        t.raises("sent to another process", f.read, f)
        t.eq(tostring(f), "file (sent)")
        t.raises("a file, folder or watcher that was sent before", mare.spawn, print, f)
    end),

    a_file_that_a_routine_waits_for_cannot_be_sent = in_folder(function(folder)
        local reader, writer = ends(folder)
        local routine = mare.go(function() return reader:read "l" end)
        mare.yield()
        t.raises("a routine waits for", mare.spawn, print, reader)
        writer:write "x\n"
        t.eq({routine:join(t.patience)}, {true, "x"})
    end),

    a_file_sent_to_nobody_is_closed = in_folder(function(folder)
        local before = descriptors()
        local channel = mare.channel(1)
        channel:send(assert(file.open(folder .. "/f", "w")))
        channel:close()
        channel = nil -- luacheck: ignore
        collectgarbage()
        t.reaches(function()
            collectgarbage()
            return descriptors() <= before
        end, "descriptors")
    end),
}
