-- SPDX-License-Identifier: MIT
-- Open files: every promise of docs/reference/file.md about them. Whole files and names are in
-- test_file_names.lua, whole programs (full descriptors, slow names) in test_file_programs.lua.
local mare, file, t = require "mare", require "mare.file", require "t"
local in_folder, descriptors = t.in_folder, t.descriptors

local function text_in(path)
    local f <close> = assert(io.open(path, "rb"))
    return f:read "a"
end

local function put(path, text)
    local f <close> = assert(io.open(path, "wb"))
    f:write(text)
end

local function fifo_in(folder)
    local path = folder .. "/fifo"
    assert(os.execute("mkfifo " .. path))
    return path
end

-- Every byte there is, and line ends among them.
local bytes = {}
for i = 0, 255 do bytes[#bytes + 1] = string.char(i) end
local BINARY = table.concat(bytes):rep(1000)

return {
    -- Opening.

    modes_are_those_of_io_open = in_folder(function(folder)
        local path = folder .. "/f"
        t.fails("noname", file.open(path))
        t.fails("noname", file.open(path, "r+"))
        for _, case in ipairs {
            -- mode, what is there, what is left after writing "XY", what can be read then
            {"w", "12345", "XY"}, {"wb", "12345", "XY"}, {"a", "12345", "12345XY"},
            {"r+", "12345", "XY345", "345"}, {"rb+", "12345", "XY345", "345"},
            {"w+", "12345", "XY", ""}, {"a+", "12345", "12345XY", ""},
        } do
            local mode, before, after, rest = table.unpack(case)
            put(path, before)
            local f = assert(file.open(path, mode))
            t.eq(f:write "XY", true, mode)
            if rest then t.eq(f:read "a", rest, mode) end
            t.eq(f:close(), true)
            t.eq(text_in(path), after, mode)
        end
        local f <close> = assert(file.open(path))
        t.fails("io", f:write "x") -- it is not open for that
    end),

    x_makes_a_new_file_or_none = in_folder(function(folder)
        for i, mode in ipairs {"wx", "ax", "w+x", "a+bx", "xw"} do
            local path = folder .. "/" .. i
            local f <close> = assert(file.open(path, mode))
            t.eq(f:write "new", true)
            t.fails("exists", file.open(path, mode))
            t.eq(text_in(path), "new")
        end
    end),

    a_new_file_has_the_permissions_that_were_asked_for = in_folder(function(folder)
        local f <close> = assert(file.open(folder .. "/f", "w", {permissions = 448})) -- 0700
        t.eq(f:stat().permissions, 448)
    end),

    a_failure_names_the_path = in_folder(function(folder)
        local path = folder .. "/none/f"
        local _, message = file.open(path, "w")
        t.eq(message, path .. ": No such file or directory")
        t.fails("io", file.open(folder, "w"))
        local f <close> = assert(file.open(folder))
        _, message = f:read()
        t.eq(message, folder .. ": Is a directory")
    end),

    misuse_raises = in_folder(function(folder)
        local f <close> = assert(file.open(folder .. "/f", "w+"))
        t.raises("bad argument #1 to 'open'", file.open)
        t.raises("bad argument #2 to 'open' %(invalid mode 'rx'%)", file.open, "f", "rx")
        t.raises("invalid mode 'q'", file.open, "f", "q")
        t.raises("invalid mode ''", file.open, "f", "")
        t.raises("unknown option 'mode'", file.open, "f", "r", {mode = 1})
        t.raises("bad argument #3 to 'open'", file.open, "f", "r", "soon")
        t.raises("zero bytes", file.open, "a\0b")
        t.raises("bad argument #3", file.open, "f", "w", {permissions = 4096})
        local function refuses(pattern, method, ...)
            local arguments = table.pack(...)
            t.raises(pattern, function() -- by its name, so that arguments are counted from there
                f[method](f, table.unpack(arguments, 1, arguments.n))
            end)
        end
        refuses("a number of bytes is positive", "read", 0)
        refuses("expected a number of bytes", "read", "n")
        refuses("string expected, got table", "write", {})
        refuses("string expected, got boolean", "write", "x", true)
        refuses("number of seconds or deadline expected", "writewithin")
        refuses("invalid option 'here'", "seek", "here")
        refuses("a size is not negative", "truncate", -1)
        refuses("cannot be negative", "timeout", -1)
        refuses("a limit is positive", "limit", 0)
        t.raises("file expected", f.read, {})
        t.eq(f:stat().size, 0)
    end),

    -- Reading.

    read_gives_what_is_asked_for = in_folder(function(folder)
        put(folder .. "/f", "one\ntwo\r\n\n\r\nfour\r\nsix\rseven")
        local f <close> = assert(file.open(folder .. "/f"))
        t.eq({f:read "l", f:read "l", f:read "l", f:read "l"}, {"one", "two", "", ""})
        t.eq({f:read "L", f:read "L"}, {"four\r\n", "six\rseven"})
        t.fails("closed", f:read "l")
        t.fails("closed", f:read(1))
        t.fails("closed", f:read())
        t.eq(f:read "a", "")
        f:seek "set"
        t.eq({f:read(2), f:read(3.0), f:read(1000)},
            {"on", "e\nt", "wo\r\n\n\r\nfour\r\nsix\rseven"})
        f:seek "set"
        t.eq(f:read(), "one\ntwo\r\n\n\r\nfour\r\nsix\rseven")
    end),

    every_byte_comes_back_as_it_was = in_folder(function(folder)
        local f <close> = assert(file.open(folder .. "/f", "w+"))
        t.eq(f:write(BINARY, 12, BINARY), true)
        f:seek "set"
        t.ok(f:read "a" == BINARY .. "12" .. BINARY)
        t.ok(text_in(folder .. "/f") == BINARY .. "12" .. BINARY)
        f:seek "set"
        local parts = {}
        for part in function() return f:read(70001) end do parts[#parts + 1] = part end
        t.ok(table.concat(parts) == BINARY .. "12" .. BINARY)
    end),

    lines_go_on_to_the_end = in_folder(function(folder)
        local path, lines, text = folder .. "/f", {}, {}
        for i = 1, 2000 do -- more than is read at once
            lines[i] = ("line %d %s"):format(i, ("."):rep(i % 100))
            text[i] = lines[i] .. "\n"
        end
        put(path, table.concat(text))
        local f, got = assert(file.open(path)), {}
        for line in f:lines() do got[#got + 1] = line end
        t.eq(got, lines)
        f:seek "set"
        got = {}
        for line in f:lines "L" do got[#got + 1] = line end
        t.eq(got, text)
        f:close()
        t.eq(f:lines()(f), nil)
        got = {}
        for line in file.lines(path) do got[#got + 1] = line end
        t.eq(got, lines)
        t.raises("No such file", file.lines, folder .. "/none")
        local fails = assert(file.open(folder))
        t.raises("Is a directory", function() for _ in fails:lines() do end end)
        fails:close()
    end),

    a_line_beyond_the_limit_is_refused = in_folder(function(folder)
        put(folder .. "/f", "0123456789\r\n0123456789\n01234567890\nrest")
        local f <close> = assert(file.open(folder .. "/f"))
        t.eq(f:limit(10), f)
        t.eq({f:read "l", f:read "L"}, {"0123456789", "0123456789\n"})
        t.fails("toobig", f:read "l")
        t.fails("toobig", f:read "L")
        t.raises("longer than 10 bytes", f:lines(), f)
        t.eq(f:read(12), "01234567890\n") -- it can be read otherwise
        t.eq(f:read "l", "rest")
        put(folder .. "/g", ("x"):rep(200000))
        local g <close> = assert(file.open(folder .. "/g"))
        t.fails("toobig", g:read "l") -- though its end has not been seen
        g:limit(200000)
        t.eq(#g:read "l", 200000)
    end),

    more_than_the_limit_is_not_read_at_once = in_folder(function(folder)
        local path = folder .. "/f"
        local f <close> = assert(file.open(path, "w+"))
        t.eq(f:truncate(1 << 40), true) -- a hole, which takes no room
        t.eq(f:limit(65536, 200000), f)
        t.eq({f:read "a"}, {nil, path .. ": there is more than 200000 bytes", "toobig"})
        t.eq({f:read(200001)}, {nil, path .. ": more was asked for than 200000 bytes", "toobig"})
        t.eq(f:seek(), 0) -- it was left unread
        t.ok(f:read(200000) == ("\0"):rep(200000))
        t.eq(f:seek(), 200000)
        t.eq(f:truncate(400000), true)
        t.eq(#f:read "a", 200000) -- as much as may be
        t.eq(f:read "a", "")
        t.eq(f:seek("set", 0), 0)
        f:limit(65536, math.maxinteger)
        t.eq(#f:read "a", 400000)
        t.raises("a limit is positive", f.limit, f, 1, 0)
    end),

    all_of_what_never_ends_is_too_much = function()
        local f <close> = assert(file.open "/dev/zero")
        t.fails("toobig", f:read "a")
        t.eq(f:read(3), "\0\0\0")
    end,

    no_more_is_taken_than_shows_that_it_is_too_much = in_folder(function(folder)
        local path, written = fifo_in(folder), 0
        local writer = mare.go(function()
            local f <close> = assert(file.open(path, "w"))
            while f:write(("x"):rep(4096)) do written = written + 4096 end
        end)
        local f <close> = assert(file.open(path))
        f:limit(65536, 100000)
        t.fails("toobig", f:read("a", t.patience))
        t.eq(#f:read(100000), 100000)
        f:close()
        t.eq({writer:join(t.patience)}, {true})
        t.ok(written <= 100001 + 65536 + 4096, written) -- what a pipe holds, and a piece
    end),

    what_is_added_later_is_read_later = in_folder(function(folder)
        local path = folder .. "/f"
        put(path, "first\n")
        local f <close> = assert(file.open(path))
        t.eq(f:read "l", "first")
        t.fails("closed", f:read "l")
        assert(file.append(path, "second\n"))
        t.eq(f:read "l", "second")
        t.fails("closed", f:read "l")
    end),

    -- The place.

    writing_goes_where_reading_stopped = in_folder(function(folder)
        local path = folder .. "/f"
        put(path, "one\ntwo\nthree\n")
        local f <close> = assert(file.open(path, "r+"))
        t.eq(f:read "l", "one") -- and more was read ahead
        t.eq(f:seek(), 4)
        t.eq(f:write "TWO", true)
        t.eq(f:read "a", "\nthree\n")
        t.eq(text_in(path), "one\nTWO\nthree\n")
    end),

    seek_counts_from_start_here_and_end = in_folder(function(folder)
        put(folder .. "/f", "0123456789")
        local f <close> = assert(file.open(folder .. "/f"))
        t.eq({f:seek("set", 4), f:read(1)}, {4, "4"})
        t.eq({f:seek("cur", 2), f:read(1)}, {7, "7"})
        t.eq({f:seek("cur", -3), f:read(1)}, {5, "5"})
        t.eq({f:seek("end", -1), f:read(1)}, {9, "9"})
        t.eq({f:seek "end", f:seek()}, {10, 10})
        t.fails("io", f:seek("set", -1))
        t.eq(f:seek(), 10) -- as before
        f:seek("set", 3)
        f:read(1)
        t.fails("io", f:seek("cur", -100))
        t.eq(f:read(1), "4") -- though it had been read ahead
    end),

    files_may_be_larger_than_four_gigabytes = in_folder(function(folder)
        local f <close> = assert(file.open(folder .. "/f", "w+"))
        t.eq(f:seek("set", 5 << 30), 5 << 30)
        t.eq(f:write "end", true)
        t.eq(f:stat().size, (5 << 30) + 3)
        t.eq({f:seek("end", -4), f:read "a"}, {(5 << 30) - 1, "\0end"})
        t.eq(f:truncate((4 << 30) + 1), true)
        t.eq(f:seek "end", (4 << 30) + 1)
        t.eq(file.stat(folder .. "/f").size, (4 << 30) + 1)
    end),

    truncate_cuts_at_a_size_or_here = in_folder(function(folder)
        local path = folder .. "/f"
        put(path, "0123456789")
        local f <close> = assert(file.open(path, "r+"))
        t.eq({f:truncate(8), text_in(path)}, {true, "01234567"})
        t.eq({f:truncate(9), text_in(path)}, {true, "01234567\0"})
        t.eq({f:read(4), f:truncate(), text_in(path)}, {"0123", true, "0123"})
        t.fails("closed", f:read())
        t.fails("io", assert(file.open(path)):truncate(1))
    end),

    sync_and_stat = in_folder(function(folder)
        local f <close> = assert(file.open(folder .. "/f", "w"))
        f:write "12345"
        t.eq(f:sync(), true)
        local info = f:stat()
        t.eq({info.size, info.kind, info.links}, {5, "file", 1})
        t.ok(math.abs(info.written - os.time()) < 3600)
    end),

    a_full_disk_is_reported = function()
        local f <close> = assert(file.open("/dev/full", "w"))
        local _, message, code = f:write "x"
        t.eq({message, code}, {"/dev/full: No space left on device", "io"})
        t.fails("io", f:write(("x"):rep(1 << 20)))
        t.eq(f:write(), true) -- nothing fits
    end,

    a_pipe_that_nobody_reads_is_closed = in_folder(function(folder)
        local path = fifo_in(folder)
        local reader = mare.go(file.open, path)
        local writer <close> = assert(file.open(path, "w", t.patience))
        local _, f = reader:join(t.patience)
        t.eq(writer:write "a", true)
        t.eq(f:read(1), "a")
        t.eq(f:close(), true)
        t.fails("closed", writer:write "b") -- and the program goes on
    end),

    -- The end.

    a_closed_file_says_so = in_folder(function(folder)
        local f = assert(file.open(folder .. "/f", "w+"))
        t.eq(tostring(f), "file " .. folder .. "/f")
        t.eq(f:close(), true)
        t.eq(tostring(f), "file " .. folder .. "/f (closed)")
        t.fails("closed", f:close())
        t.fails("closed", f:read())
        t.fails("closed", f:write "x")
        t.fails("closed", f:seek())
        t.fails("closed", f:truncate())
        t.fails("closed", f:sync())
        t.fails("closed", f:stat())
    end),

    files_out_of_scope_or_reach_are_closed = in_folder(function(folder)
        local path = folder .. "/f"
        put(path, "x")
        local before = descriptors()
        for _ = 1, 20 do
            local f <close> = assert(file.open(path))
            if f:read(1) ~= "x" then return end
        end
        for _ = 1, 20 do assert(file.open(path)):read(1) end
        collectgarbage()
        t.reaches(function() return descriptors() <= before end, "descriptors")
    end),

    a_process_that_ends_closes_its_files = in_folder(function(folder)
        local before = descriptors()
        for how = 1, 3 do
            local process = mare.spawn(function(path, way)
                local f = assert(require "mare.file".open(path, "w"))
                f:write(way)
                if way == 2 then error "as told" end
                if way == 3 then require "mare".channel():receive() end
            end, folder .. "/f", how)
            if how == 3 then
                t.reaches(function() return process:status() == "blocked" end)
                process:kill()
            end
            process:join(t.patience)
        end
        t.reaches(function() return descriptors() <= before end, "descriptors")
    end),
}
