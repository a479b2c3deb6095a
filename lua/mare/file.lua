-- SPDX-License-Identifier: MIT
-- Files, folders and their names, without blocking a worker. The waiting is done in C
-- (src/lua/file.c for open files, src/lua/path.c for names). This file has the options, and
-- functions that make several calls.
local raw = require "mare._file"
local checks = require "mare._check"
local check, call = checks.argument, checks.call

local file = {}

-- Bits of src/platform/file.h.
local READS, WRITES, CREATES, EMPTIES, APPENDS, IS_NEW = 1, 2, 4, 8, 16, 32

-- The last argument of most functions: a timeout, or a table of options with one.
local function options_of(name, value, index, allowed)
    if value == nil then return {} end
    if type(value) == "number" or type(value) == "userdata" then return {timeout = value} end
    if type(value) ~= "table" then
        error(("bad argument #%d to '%s' (table of options or timeout expected, got %s)")
            :format(index, name, type(value)), 3)
    end
    checks.options(name, value, index, allowed, 4)
    return value
end

local function set(...) return checks.set("timeout", ...) end

local NONE = {}

-- ---- Open files ---------------------------------------------------------------------------------

local modes = {
    ["r"] = READS,
    ["w"] = WRITES | CREATES | EMPTIES,
    ["a"] = WRITES | CREATES | APPENDS,
    ["r+"] = READS | WRITES,
    ["w+"] = READS | WRITES | CREATES | EMPTIES,
    ["a+"] = READS | WRITES | CREATES | APPENDS,
}

local function how_to_open(mode)
    local plain, new = mode:gsub("b", "", 1):gsub("x", "", 1)
    local how = modes[plain]
    if how and new == 1 then
        how = how & CREATES ~= 0 and (how & ~EMPTIES) | IS_NEW
    end
    return how or error(("bad argument #2 to 'open' (invalid mode '%s')"):format(mode), 3)
end

local OPEN = set("permissions")

--- Opens a file. Modes are those of io.open, and with "x" it must not exist yet ("wx", "a+x").
function file.open(path, mode, options)
    check("open", path, 1, "string")
    if mode ~= nil then check("open", mode, 2, "string") end
    local o = options_of("open", options, 3, OPEN)
    return call("open", 3, raw.open, path, how_to_open(mode or "r"), o.permissions, o.timeout)
end

--- Iterates over the lines of a file, and closes it at the end. A timeout holds for each step.
--- Raises an error on a failure.
function file.lines(path, what, options)
    check("lines", path, 1, "string")
    local timeout = options_of("lines", options, 3, NONE).timeout
    local opened, message = call("lines", 3, raw.open, path, READS, nil, timeout)
    if not opened then error(message, 2) end
    local next_line = checks.pass("lines", 2, 3, opened.lines, opened, what)
    if not timeout then return next_line, opened, nil, opened end
    local function next_in_time()
        local line, why, code = opened:read(what or "l", timeout)
        if code and code ~= "closed" then error(why, 2) end
        return line
    end
    return next_in_time, nil, nil, opened
end

-- ---- Whole files --------------------------------------------------------------------------------

local READ = set("limit")

--- Everything in a file, up to a limit of 64 MiB or another.
function file.read(path, options)
    check("read", path, 1, "string")
    local o = options_of("read", options, 2, READ)
    return call("read", 2, raw.load, path, o.limit or 64 << 20, o.timeout)
end

local WRITE = set("atomic", "exclusive", "sync", "permissions")

--- Makes a text the contents of a file.
function file.write(path, text, options)
    check("write", path, 1, "string")
    if type(text) ~= "number" then check("write", text, 2, "string") end
    local o = options_of("write", options, 3, WRITE)
    local how = o.exclusive and IS_NEW or EMPTIES
    return call("write", 3, raw.store, path, text, how, o.permissions, o.atomic, o.sync, o.timeout)
end

local APPEND = set("sync", "permissions")

--- Adds a text to the end of a file, in one piece.
function file.append(path, text, options)
    check("append", path, 1, "string")
    if type(text) ~= "number" then check("append", text, 2, "string") end
    local o = options_of("append", options, 3, APPEND)
    return call("append", 3, raw.store, path, text, APPENDS, o.permissions, false, o.sync,
        o.timeout)
end

local COPY = set("exclusive")

--- Copies the contents and permissions of a file.
function file.copy(from, to, options)
    check("copy", from, 1, "string")
    check("copy", to, 2, "string")
    local o = options_of("copy", options, 3, COPY)
    return call("copy", 3, raw.copy, from, to, o.exclusive, o.timeout)
end

-- ---- Names --------------------------------------------------------------------------------------

local STAT = set("follow")

--- Returns the facts about a file, as a table.
function file.stat(path, options)
    check("stat", path, 1, "string")
    local o = options_of("stat", options, 2, STAT)
    return call("stat", 2, raw.stat, path, o.follow ~= false, o.timeout)
end

--- Whether something has that name, even a link that leads nowhere.
function file.exists(path, options)
    check("exists", path, 1, "string")
    local o = options_of("exists", options, 2, NONE)
    local info, message, code = call("exists", 2, raw.stat, path, false, o.timeout)
    if info then return true end
    if code == "noname" then return false end
    return nil, message, code
end

local MKDIR = set("parents", "permissions")

--- Makes a folder; with `parents`, those above it too, and it may be there already.
function file.mkdir(path, options)
    check("mkdir", path, 1, "string")
    local o = options_of("mkdir", options, 2, MKDIR)
    return call("mkdir", 2, raw.mkdir, path, o.permissions, o.parents, o.timeout)
end

local REMOVE = set("tree")

--- Removes a file or an empty folder; with `tree`, a folder and all that is in it.
function file.remove(path, options)
    check("remove", path, 1, "string")
    local o = options_of("remove", options, 2, REMOVE)
    return call("remove", 2, raw.remove, path, o.tree, o.timeout)
end

--- Gives a file another name, in the same file system. What had that name is replaced.
function file.rename(from, to, options)
    check("rename", from, 1, "string")
    check("rename", to, 2, "string")
    local o = options_of("rename", options, 3, NONE)
    return call("rename", 3, raw.rename, from, to, false, o.timeout)
end

--- Makes a symbolic link at `path` that leads to `target`.
function file.symlink(target, path, options)
    check("symlink", target, 1, "string")
    check("symlink", path, 2, "string")
    local o = options_of("symlink", options, 3, NONE)
    return call("symlink", 3, raw.symlink, path, target, false, o.timeout)
end

--- Where a symbolic link leads to.
function file.readlink(path, options)
    check("readlink", path, 1, "string")
    local o = options_of("readlink", options, 2, NONE)
    return call("readlink", 2, raw.readlink, path, false, o.timeout)
end

--- The path from the root, without links, "." and "..".
function file.realpath(path, options)
    check("realpath", path, 1, "string")
    local o = options_of("realpath", options, 2, NONE)
    return call("realpath", 2, raw.realpath, path, false, o.timeout)
end

--- Sets the permissions: octal digits ("644" is rw-r--r--), or a number.
function file.chmod(path, permissions, options)
    check("chmod", path, 1, "string")
    check("chmod", permissions, 2, type(permissions) == "string" and "string" or "number")
    local o = options_of("chmod", options, 3, NONE)
    return call("chmod", o.timeout and 3 or 2, raw.chmod, path, permissions, false, o.timeout)
end

local TEMPORARY = set("folder", "prefix")

local function temporary(name, options, is_folder)
    local o = options_of(name, options, 1, TEMPORARY)
    local folder = o.folder or os.getenv "TMPDIR" or "/tmp"
    for _, key in ipairs {"folder", "prefix"} do
        checks.option(name, o, 1, key, "string", "a string")
    end
    return call(name, 1, raw.temporary, ("%s/%s"):format(folder, o.prefix or "mare-"), is_folder,
        o.timeout)
end

--- A new file that nobody else has, open for reading and writing, and its path.
function file.tempfile(options) return temporary("tempfile", options, false) end

--- The path of a new folder that nobody else has.
function file.tempfolder(options) return temporary("tempfolder", options, true) end

-- ---- Folders ------------------------------------------------------------------------------------

--- Goes through what is in a folder, in no order: `for name, kind in file.scan(path) do`. Only some
--- of it is in memory at a time. A timeout is that of each step. An error is raised.
function file.scan(path, options)
    check("scan", path, 1, "string")
    local timeout = options_of("scan", options, 2, NONE).timeout
    local folder, message = call("scan", 2, raw.scan, path, false, timeout)
    if not folder then error(message, 2) end
    local function next_entry()
        local name, kind, code = folder:next(timeout)
        if code then error(kind, 2) end
        return name, kind
    end
    return next_entry, nil, nil, folder
end

local LIST = set("limit")

--- The names in a folder, sorted, up to a limit of 100,000 or another.
function file.list(path, options)
    check("list", path, 1, "string")
    local o = options_of("list", options, 2, LIST)
    local deadline = checks.deadline("list", o.timeout, 2)
    local folder <close>, message, code = raw.scan(path, false, deadline)
    if not folder then return nil, message, code end
    local names, limit = {}, o.limit or 100000
    while true do
        local name, text, failed = folder:next(deadline)
        if failed then return nil, text, failed end
        if not name then break end
        if #names == limit then
            return nil, ("%s: there are more than %d names"):format(path, limit), "toobig"
        end
        names[#names + 1] = name
    end
    table.sort(names)
    return names
end

-- ---- Watching -----------------------------------------------------------------------------------

local WATCH = set("recursive", "limit")

--- A watcher of a file or a folder; with `recursive`, of all folders in it too, up to a limit of
--- 4,096 or another.
function file.watch(path, options)
    check("watch", path, 1, "string")
    local o = options_of("watch", options, 2, WATCH)
    return call("watch", 2, raw.watch, path, o.recursive, o.limit or 4096, o.timeout)
end

return file
