-- SPDX-License-Identifier: MIT
-- Watching files and folders: what docs/reference/file.md promises of watchers.
local mare, file, t = require "mare", require "mare.file", require "t"
local in_folder = t.in_folder

-- The next event as text, its paths seen from the folder: "renamed b<a", "created d/".
local function told(watcher, folder, timeout)
    local event, message, code = watcher:next(timeout or t.patience)
    if not event then return nil, message, code end
    local function short(path) return (path:gsub("^" .. folder:gsub("%p", "%%%0") .. "/?", "")) end
    return ("%s %s%s%s"):format(event.kind, short(event.path), event.folder and "/" or "",
        event.from and "<" .. short(event.from) or "")
end

-- What is told up to the creation of a file that nobody else names.
local function all_told(watcher, folder)
    assert(file.write(folder .. "/END", ""))
    local events = {}
    while true do
        local event = t.ok(told(watcher, folder))
        if event == "created END" then break end
        if event ~= events[#events] then events[#events + 1] = event end -- often twice in a row
    end
    told(watcher, folder) -- written END
    file.remove(folder .. "/END")
    told(watcher, folder) -- removed END
    return events
end

-- Whether an event comes, with others before it.
local function comes(watcher, folder, expected)
    local deadline = mare.deadline(t.patience)
    repeat
        local event, message = told(watcher, folder, deadline)
        if not event then error(("%s did not come: %s"):format(expected, message), 2) end
    until event == expected
end

-- How many descriptors of watchers this program has open.
local function descriptors()
    return t.descriptors "inotify"
end

return {
    what_happens_in_a_folder_is_told_in_order = in_folder(function(folder)
        local w <close> = assert(file.watch(folder))
        assert(file.write(folder .. "/a", "x"))
        assert(file.append(folder .. "/a", "y"))
        assert(file.chmod(folder .. "/a", 384))
        assert(file.rename(folder .. "/a", folder .. "/b"))
        assert(file.remove(folder .. "/b"))
        assert(file.mkdir(folder .. "/d"))
        assert(file.write(folder .. "/d/inside", "x")) -- not told
        assert(file.remove(folder .. "/d", {tree = true}))
        t.eq(all_told(w, folder), {"created a", "changed a", "written a", "changed a", "written a",
            "changed a", "renamed b<a", "removed b", "created d/", "removed d/"})
    end),

    what_comes_from_outside_is_created_and_what_goes_there_removed = in_folder(function(folder)
        local inside = folder .. "/in"
        assert(file.mkdir(inside))
        assert(file.write(folder .. "/a", ""))
        local w <close> = assert(file.watch(inside))
        assert(file.rename(folder .. "/a", inside .. "/a"))
        assert(file.rename(inside .. "/a", folder .. "/a"))
        t.eq(all_told(w, inside), {"created a", "removed a"})
    end),

    an_atomic_write_is_a_renaming_in_the_end = in_folder(function(folder)
        local w <close> = assert(file.watch(folder))
        assert(file.write(folder .. "/f", "x", {atomic = true}))
        local events = all_told(w, folder)
        local beside = events[1]:match "^created (%.mare%-%x+)$"
        t.ok(beside, events[1])
        t.eq(events[#events], "renamed f<" .. beside)
    end),

    a_file_is_watched_alone = in_folder(function(folder)
        local path = folder .. "/f"
        assert(file.write(path, ""))
        local w <close> = assert(file.watch(path))
        assert(file.write(folder .. "/other", "x"))
        assert(file.append(path, "x"))
        t.eq(told(w, folder), "changed f")
        t.eq(told(w, folder), "written f")
        assert(file.rename(path, folder .. "/g"))
        t.eq(told(w, folder), "removed f") -- the path leads nowhere
        local _, message, code = w:next(t.patience)
        t.eq({message, code}, {path .. ": the watched file or folder is gone", "closed"})
        t.fails("closed", w:next(t.patience))
    end),

    a_folder_that_is_removed_ends_it = in_folder(function(folder)
        local inside = folder .. "/in"
        assert(file.mkdir(inside))
        local w <close> = assert(file.watch(inside))
        assert(file.remove(inside))
        comes(w, folder, "removed in")
        t.fails("closed", w:next(t.patience))
    end),

    folders_in_folders_are_watched_if_asked = in_folder(function(folder)
        assert(file.mkdir(folder .. "/a/b", {parents = true}))
        local w <close> = assert(file.watch(folder, {recursive = true}))
        assert(file.write(folder .. "/a/b/f", ""))
        comes(w, folder, "created a/b/f")
        -- Folders that come later, with what is in them already.
        assert(file.mkdir(folder .. "/c/d/e", {parents = true}))
        assert(file.write(folder .. "/c/d/e/f", ""))
        comes(w, folder, "created c/")
        comes(w, folder, "created c/d/e/f")
        assert(file.write(folder .. "/c/d/e/g", ""))
        comes(w, folder, "created c/d/e/g")
        -- Renamed, they are told of by their new names.
        assert(file.rename(folder .. "/c", folder .. "/x"))
        comes(w, folder, "renamed x/<c")
        assert(file.write(folder .. "/x/d/e/h", ""))
        comes(w, folder, "created x/d/e/h")
        assert(file.remove(folder .. "/x", {tree = true}))
        comes(w, folder, "removed x/d/e/h")
        comes(w, folder, "removed x/")
        t.eq(all_told(w, folder), {})
    end),

    a_folder_that_left_is_watched_no_more = in_folder(function(folder)
        local inside = folder .. "/in"
        assert(file.mkdir(inside .. "/a/b", {parents = true}))
        local w <close> = assert(file.watch(inside, {recursive = true}))
        assert(file.rename(inside .. "/a", folder .. "/a"))
        comes(w, inside, "removed a/")
        assert(file.write(folder .. "/a/b/f", ""))
        t.eq(all_told(w, inside), {})
        assert(file.rename(folder .. "/a", inside .. "/a")) -- and back
        comes(w, inside, "created a/b/f")
    end),

    many_folders_are_refused_or_reported = in_folder(function(folder)
        for i = 1, 5 do assert(file.mkdir(folder .. "/" .. i)) end
        local _, message, code = file.watch(folder, {recursive = true, limit = 5})
        t.eq({message, code}, {folder .. ": there are more than 5 folders", "toobig"})
        local w <close> = assert(file.watch(folder, {recursive = true, limit = 6}))
        assert(file.mkdir(folder .. "/6"))
        t.eq({told(w, folder), told(w, folder)}, {"created 6/", "overflow "})
    end),

    an_overflow_is_an_event = in_folder(function(folder)
        local limit = tonumber(file.read "/proc/sys/fs/inotify/max_queued_events")
        if not limit or limit > 20000 then t.skip "the system keeps too many events" end
        local w <close> = assert(file.watch(folder))
        local path = folder .. "/f"
        for _ = 1, limit // 2 + 100 do -- no two in a row are alike, or the system would join them
            local _ <close> = assert(io.open(path, "w"))
            os.remove(path)
        end
        comes(w, folder, "overflow ")
        assert(file.write(folder .. "/g", "")) -- it goes on
        comes(w, folder, "created g")
    end),

    -- Waiting.

    a_wait_ends_by_deadline_cancel_close_and_kill = in_folder(function(folder)
        local before = descriptors()
        local w = assert(file.watch(folder))
        t.fails("timeout", w:next(0.01))
        t.fails("timeout", w:next(0))
        t.eq(w:timeout(0.01), w)
        t.fails("timeout", w:next())
        w:timeout()
        local routine = mare.go(function() return w:next() end)
        mare.yield()
        routine:cancel()
        t.eq(select(4, routine:join(t.patience)), "cancelled")
        routine = mare.go(function() return w:next() end)
        mare.yield()
        t.raises("a routine waits for", mare.spawn, print, w)
        t.eq(w:close(), true)
        t.eq(select(4, routine:join(t.patience)), "closed")
        t.eq({w:close(), tostring(w)}, {false, ("watcher %s (closed)"):format(folder)})
        t.fails("closed", w:next())
        local process = mare.spawn(function(path)
            assert(require "mare.file".watch(path, {recursive = true})):next()
        end, folder)
        t.reaches(function() return process:status() == "blocked" end)
        process:kill()
        process:join(t.patience)
        assert(file.watch(folder)) -- left to the collector
        collectgarbage()
        t.reaches(function() return descriptors() <= before end, "descriptors")
    end),

    nobody_else_is_held_back = in_folder(function(folder)
        t.with_workers(1, function()
            local w <close> = assert(file.watch(folder))
            local ticks, came = 0, false
            local waits = mare.go(function()
                local event = w:next(t.patience)
                came = true
                return event.kind
            end)
            for _ = 1, 10 do
                mare.sleep(0.001)
                ticks = ticks + (came and 0 or 1)
            end
            t.eq(ticks, 10)
            assert(file.write(folder .. "/f", ""))
            t.eq({waits:join(t.patience)}, {true, "created"})
        end)
    end),

    each_event_is_told_to_one_of_those_who_wait = in_folder(function(folder)
        local w = assert(file.watch(folder))
        local seen, routines = {}, {}
        for i = 1, 3 do
            routines[i] = mare.go(function()
                while true do
                    local event = w:next(t.patience)
                    if not event then return end
                    if event.kind == "created" then
                        seen[event.path] = (seen[event.path] or 0) + 1
                    end
                end
            end)
        end
        for i = 1, 50 do assert(file.write(folder .. "/" .. i, "")) end
        t.reaches(function()
            local count = 0
            for _ in pairs(seen) do count = count + 1 end
            return count == 50
        end)
        for _, times in pairs(seen) do t.eq(times, 1) end
        w:close()
        for _, routine in ipairs(routines) do t.ok(routine:join(t.patience)) end
    end),

    a_watcher_is_a_case_of_select = in_folder(function(folder)
        local w <close> = assert(file.watch(folder))
        local channel = mare.channel()
        t.fails("timeout", mare.select({channel, w}, 0.01))
        mare.go(function() channel:send "x" end)
        t.eq({mare.select({channel, w}, t.patience)}, {1, "x"})
        mare.go(function() assert(file.write(folder .. "/f", "x")) end)
        t.eq({mare.select({channel, w}, t.patience)}, {2, true})
        t.eq(told(w, folder), "created f")
        t.reaches(function() return mare.select({w}, 0) == 1 end) -- there is more
        comes(w, folder, "written f")
        t.fails("timeout", w:next(0))
    end),

    a_watcher_changes_hands = in_folder(function(folder)
        local w = assert(file.watch(folder, {recursive = true}))
        assert(file.write(folder .. "/a", ""))
        assert(file.write(folder .. "/b", ""))
        t.eq(told(w, folder), "created a") -- and more was read
        local process = mare.spawn(function(got)
            local events = {}
            repeat
                local event = got:next()
                events[#events + 1] = event.kind .. " " .. event.path:match "[^/]*$"
            until event.path:find "c$"
            return table.concat(events, ", ")
        end, w)
        assert(file.write(folder .. "/c", ""))
        t.eq({process:join(t.patience)}, {true, "written a, created b, written b, created c"})
        t.raises("sent to another process", w.next, w)
    end),

    the_scheduler_takes_a_watcher = in_folder(function(folder)
        local process = mare.spawn(function(path)
            local f, scheduler = require "mare.file", require "mare.scheduler"
            local got, w = {}, assert(f.watch(path))
            scheduler.register_source(w, function(event)
                got[#got + 1] = event.kind
                if event.kind == "removed" then w:close() end
            end, function(_, code) got[#got + 1] = code end)
            assert(f.mkdir(path .. "/d"))
            assert(f.remove(path .. "/d"))
            scheduler.loop() -- until it was closed
            return table.concat(got, " ")
        end, folder)
        t.eq({process:join(t.patience)}, {true, "created removed closed"})
    end),

    what_does_not_exist_cannot_be_watched = in_folder(function(folder)
        local _, message, code = file.watch(folder .. "/none")
        t.eq({message, code}, {folder .. "/none: No such file or directory", "noname"})
        t.raises("bad argument #1 to 'watch'", file.watch)
        t.raises("unknown option 'deep'", file.watch, folder, {deep = true})
        t.raises("a limit is positive", file.watch, folder, {limit = 0})
    end),
}
