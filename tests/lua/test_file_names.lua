-- SPDX-License-Identifier: MIT
-- Whole files, names and folders: the rest of what docs/reference/file.md promises.
local mare, file, t = require "mare", require "mare.file", require "t"
local in_folder, descriptors = t.in_folder, t.descriptors

local function is_root()
    local pipe <close> = assert(io.popen "id -u")
    return pipe:read "n" == 0
end

return {
    -- Whole files.

    whole_files_are_read_and_written = in_folder(function(folder)
        local path = folder .. "/f"
        t.fails("noname", file.read(path))
        t.eq(file.write(path, "a\0b\r\n"), true)
        t.eq(file.read(path), "a\0b\r\n")
        t.eq(file.write(path, 12), true)
        t.eq(file.append(path, "34"), true)
        t.eq(file.append(folder .. "/g", "new", {sync = true}), true)
        t.eq({file.read(path), file.read(folder .. "/g")}, {"1234", "new"})
        t.eq(file.write(path, "", {sync = true}), true)
        t.eq(file.read(path), "")
        t.fails("io", file.read(folder))
        t.fails("io", file.write("/dev/full", "x"))
        t.ok(#file.read "/proc/self/status" > 100) -- whose size is said to be 0
        local big = ("0123456789abcdef"):rep(100000)
        t.eq(file.write(path, big), true)
        t.ok(file.read(path) == big)
    end),

    a_limit_holds_for_what_is_read = in_folder(function(folder)
        local path = folder .. "/f"
        file.write(path, "12345")
        t.eq(file.read(path, {limit = 5}), "12345")
        local _, message, code = file.read(path, {limit = 4})
        t.eq({message, code}, {path .. ": File too large", "toobig"})
        t.fails("toobig", file.read(path, {limit = 0}))
        t.fails("toobig", file.read("/dev/zero", {limit = 1000000})) -- that has no end
        t.fails("toobig", file.read("/proc/self/status", {limit = 10}))
    end),

    an_exclusive_write_never_replaces = in_folder(function(folder)
        local path = folder .. "/f"
        for _, atomic in ipairs {false, true} do
            t.eq(file.write(path, "first", {exclusive = true, atomic = atomic}), true)
            t.fails("exists", file.write(path, "second", {exclusive = true, atomic = atomic}))
            t.eq(file.read(path), "first")
            t.eq(file.list(folder), {"f"})
            file.remove(path)
        end
    end),

    an_atomic_write_is_seen_whole_or_not_at_all = in_folder(function(folder)
        local path = folder .. "/f"
        assert(file.write(path, ("a"):rep(100000), {atomic = true}))
        local done, seen = false, {a = 0, b = 0}
        local reader = mare.go(function()
            repeat
                local text = assert(file.read(path))
                t.eq(#text, 100000)
                t.eq(text, text:sub(1, 1):rep(100000))
                seen[text:sub(1, 1)] = seen[text:sub(1, 1)] + 1
            until done
        end)
        for i = 1, 8 do -- each of which the disk has to confirm
            assert(file.write(path, (i % 2 == 0 and "a" or "b"):rep(100000), {atomic = true}))
        end
        done = true
        t.eq({reader:join(t.patience)}, {true})
        t.ok(seen.a + seen.b > 0)
        t.eq(file.list(folder), {"f"}) -- nothing is left beside it
    end),

    an_atomic_write_keeps_permissions_and_links = in_folder(function(folder)
        local path, link = folder .. "/f", folder .. "/link"
        assert(file.write(path, "old", {permissions = 416})) -- 0640
        assert(file.symlink("f", link))
        t.eq(file.write(link, "new", {atomic = true}), true)
        t.eq({file.read(path), file.stat(path).permissions}, {"new", 416})
        t.eq(file.stat(link, {follow = false}).kind, "link")
        t.fails("noname", file.write(folder .. "/none/f", "x", {atomic = true}))
        t.eq(file.list(folder), {"f", "link"})
    end),

    an_atomic_write_that_fails_leaves_the_old = in_folder(function(folder)
        assert(file.mkdir(folder .. "/d"))
        assert(os.execute("mkfifo " .. folder .. "/d/pipe"))
        t.fails("io", file.write(folder .. "/d/pipe", "x", {atomic = true})) -- nor what is no file
        t.eq(file.stat(folder .. "/d/pipe").kind, "pipe")
        assert(file.remove(folder .. "/d/pipe"))
        t.fails("io", file.write(folder .. "/d", "x", {atomic = true})) -- a folder has that name
        t.eq(file.list(folder), {"d"})
        t.eq(file.list(folder .. "/d"), {})
    end),

    copies_have_contents_and_permissions = in_folder(function(folder)
        local from, to = folder .. "/f", folder .. "/g"
        local text = ("0123456789"):rep(100000)
        assert(file.write(from, text, {permissions = 448}))
        t.eq(file.copy(from, to), true)
        t.ok(file.read(to) == text)
        t.eq(file.stat(to).permissions, 448)
        t.fails("exists", file.copy(from, to, {exclusive = true}))
        file.write(from, "short")
        t.eq(file.copy(from, to), true)
        t.eq(file.read(to), "short")
        local _, message, code = file.copy(from, from)
        t.eq({message, code}, {from .. ", " .. from .. ": File exists", "exists"})
        assert(file.symlink(from, folder .. "/link"))
        t.fails("exists", file.copy(from, folder .. "/link")) -- the same one
        t.eq(file.read(from), "short") -- it was not emptied
        t.fails("noname", file.copy(folder .. "/none", to))
        t.fails("io", file.copy(folder, to))
        t.fails("io", file.copy(from, "/dev/full"))
        t.eq(file.read(to), "short")
    end),

    a_copy_that_nobody_waits_for_stops = in_folder(function(folder)
        t.fails("timeout", file.copy("/dev/zero", folder .. "/f", 0.02)) -- would fill the disk
        t.reaches(function() return file.exists(folder .. "/f") == false end, "nothing is left")
    end),

    -- Names.

    what_is_known_of_a_file = in_folder(function(folder)
        local path = folder .. "/f"
        assert(file.write(path, "12345", {permissions = 384})) -- 0600
        assert(file.symlink("f", folder .. "/link"))
        local info = file.stat(path)
        t.eq({info.kind, info.size, info.permissions, info.links}, {"file", 5, 384, 1})
        t.ok(info.inode > 0 and math.type(info.owner) == "integer")
        t.ok(math.abs(info.written - os.time()) < 3600)
        t.eq(file.stat(folder).kind, "folder")
        t.eq(file.stat(folder .. "/link").kind, "file")
        t.eq(file.stat(folder .. "/link", {follow = false}).kind, "link")
        t.eq(file.stat("/dev/null").kind, "device")
        t.fails("noname", file.stat(folder .. "/none"))
        t.fails("noname", file.stat(path .. "/in_a_file"))
        t.eq(file.chmod(path, 420), true) -- 0644
        t.eq(file.stat(path).permissions, 420)
        t.fails("noname", file.chmod(folder .. "/none", 420))
    end),

    existence_is_known_or_not = in_folder(function(folder)
        t.eq(file.exists(folder), true)
        t.eq(file.exists(folder .. "/none"), false)
        t.eq(file.exists(folder .. "/none/none"), false)
        assert(file.symlink("nowhere", folder .. "/link"))
        t.eq(file.exists(folder .. "/link"), true)
        t.fails("io", file.exists(("x"):rep(5000))) -- nobody can say
    end),

    links_lead_somewhere = in_folder(function(folder)
        t.eq(file.symlink("some/where", folder .. "/link"), true)
        t.eq(file.readlink(folder .. "/link"), "some/where")
        t.fails("exists", file.symlink("x", folder .. "/link"))
        t.fails("io", file.readlink(folder))
        assert(file.mkdir(folder .. "/d"))
        local real = file.realpath(folder)
        t.eq(file.realpath(folder .. "/d/../d/."), real .. "/d")
        t.fails("noname", file.realpath(folder .. "/link"))
    end),

    folders_are_made_with_parents_if_asked = in_folder(function(folder)
        t.eq(file.mkdir(folder .. "/a"), true)
        t.fails("exists", file.mkdir(folder .. "/a"))
        t.fails("noname", file.mkdir(folder .. "/b/c/d"))
        t.eq(file.mkdir(folder .. "/b/c//d/", {parents = true}), true)
        t.eq(file.mkdir(folder .. "/b/c/d", {parents = true}), true)
        t.eq(file.stat(folder .. "/b/c/d").kind, "folder")
        assert(file.write(folder .. "/f", ""))
        t.fails("exists", file.mkdir(folder .. "/f", {parents = true}))
        t.fails("noname", file.mkdir(folder .. "/f/g", {parents = true}))
        assert(file.mkdir(folder .. "/p", {permissions = 448}))
        t.eq(file.stat(folder .. "/p").permissions, 448)
    end),

    removing_is_for_files_folders_and_trees = in_folder(function(folder)
        local tree = folder .. "/a"
        assert(file.mkdir(tree .. "/b/c", {parents = true}))
        assert(file.write(tree .. "/b/f", "x"))
        assert(file.write(folder .. "/outside", "x"))
        assert(file.symlink(folder .. "/outside", tree .. "/link"))
        assert(file.symlink(folder, tree .. "/up"))
        t.fails("exists", file.remove(tree))
        t.eq(file.remove(tree .. "/b/c"), true)
        t.eq(file.remove(tree .. "/b/f"), true)
        t.fails("noname", file.remove(tree .. "/b/f"))
        assert(file.mkdir(tree .. "/x/y/z", {parents = true}))
        assert(file.write(tree .. "/x/y/f", "x"))
        t.eq(file.remove(tree, {tree = true}), true)
        t.eq(file.list(folder), {"outside"}) -- links were not followed
        t.fails("noname", file.remove(tree, {tree = true}))
        t.eq(file.remove(folder .. "/outside", {tree = true}), true)
    end),

    renaming_replaces = in_folder(function(folder)
        local a, b = folder .. "/a", folder .. "/b"
        file.write(a, "1")
        file.write(b, "2")
        t.eq(file.rename(a, b), true)
        t.eq({file.read(b), file.exists(a)}, {"1", false})
        local _, message = file.rename(a, b)
        t.eq(message, a .. ", " .. b .. ": No such file or directory")
    end),

    temporary_files_are_new_and_private = in_folder(function(folder)
        local f, path = file.tempfile {folder = folder, prefix = "x-"}
        t.ok(path:sub(1, #folder + 3) == folder .. "/x-", path)
        t.eq(f:write "text", true)
        t.eq({f:seek "set", f:read "a", file.read(path)}, {0, "text", "text"})
        t.eq(file.stat(path).permissions, 384) -- 0600
        f:close()
        local inner = file.tempfolder {folder = folder}
        t.eq({file.stat(inner).kind, file.stat(inner).permissions}, {"folder", 448})
        t.fails("noname", file.tempfile {folder = folder .. "/none"})
        t.fails("noname", file.tempfolder {folder = folder .. "/none"})
        local g, elsewhere = file.tempfile()
        g:close()
        t.eq(file.remove(elsewhere), true)
    end),

    what_is_not_allowed_is_denied = in_folder(function(folder)
        if is_root() then t.skip "root may do everything" end
        assert(file.write(folder .. "/f", "x", {permissions = 0}))
        t.fails("denied", file.open(folder .. "/f"))
        t.fails("denied", file.read(folder .. "/f"))
        t.fails("denied", file.write(folder .. "/f", "y"))
    end),

    what_not_even_root_may_is_denied = function()
        t.fails("denied", file.remove("/proc/version"))
    end,

    -- Folders.

    large_folders_are_gone_through_in_pieces = in_folder(function(folder)
        local expected = {}
        assert(os.execute(("cd %s && seq 1100 | xargs touch && mkdir d && ln -s d l && mkfifo p")
            :format(folder)))
        for i = 1, 1100 do expected[i] = tostring(i) end
        for _, name in ipairs {"d", "l", "p"} do expected[#expected + 1] = name end
        table.sort(expected)
        t.eq(file.list(folder), expected)
        local kinds, names, before = {}, {}, descriptors()
        for name, kind in file.scan(folder) do
            names[#names + 1] = name
            kinds[kind] = (kinds[kind] or 0) + 1
        end
        table.sort(names)
        t.eq(names, expected)
        t.eq(kinds, {file = 1100, folder = 1, link = 1, pipe = 1})
        for name in file.scan(folder) do
            if name ~= "." then break end -- always
        end
        t.reaches(function() return descriptors() <= before end, "descriptors")
        t.eq(#file.list(folder, {limit = 1103}), 1103)
        t.fails("toobig", file.list(folder, {limit = 1102}))
    end),

    folders_that_are_none_cannot_be_listed = in_folder(function(folder)
        t.eq(file.list(folder), {})
        t.fails("noname", file.list(folder .. "/none"))
        file.write(folder .. "/f", "")
        t.fails("noname", file.list(folder .. "/f"))
        t.raises("none: No such file or directory", file.scan, folder .. "/none")
    end),

    misuse_raises = function()
        t.raises("bad argument #1 to 'read' %(string expected, got no value%)", file.read)
        t.raises("unknown option 'atomically'", file.write, "f", "x", {atomically = true})
        t.raises("bad argument #3 to 'copy'", file.copy, "a", "b", true)
        t.raises("bad argument #2 to 'copy'", file.copy, "a")
        t.raises("zero bytes", file.stat, "a\0")
        t.raises("permissions are octal digits", file.chmod, "f", 10000)
        t.raises("bad argument #2 to 'chmod'", file.chmod, "f")
        t.raises("string expected", file.write, "/dev/null", {})
        t.raises("a limit is not negative", file.read, "f", {limit = -1})
        t.raises("number of seconds or deadline", file.stat, "f", {timeout = "soon"})
    end,

    permissions_in_octal = t.in_folder(function(folder)
        local path = folder .. "/f"
        t.ok(file.write(path, "x", {permissions = "600"}))
        t.eq({file.stat(path).mode, file.stat(path).permissions}, {"0600", 0x180})
        t.ok(file.chmod(path, "0644"))
        t.eq(file.stat(path).mode, "0644")
        for _, bad in ipairs {"888", "", "10000", "77777", "rw", -1, 4096} do
            t.raises("octal digits", file.chmod, path, bad)
        end
    end),
}
