-- SPDX-License-Identifier: MIT
-- Files with keys: checks who else may read or change them, and replaces them safely.
--
-- Files are written to NAME.new first, forced to the disk, and then renamed. So a full disk leaves
-- everything as it was. To change a folder, hold its file `lock`.
local file, raw, secrets = require "mare.file", require "mare._file", require "mare._secret"

local store = {}

local READS, AT_ONCE = 1, 64 -- bits of src/platform/file.h
local LIMIT = 1 << 20

local OTHERS, OTHERS_WRITE = 0x3f, 0x12 -- rwx of the group and of all others; w of both
local SECRET, PUBLIC, PRIVATE_FOLDER = 0x180, 0x1a4, 0x1c0 -- 0600, 0644, 0700

-- Quotes a word for the shell, because people copy commands from messages.
local function quoted(path)
    if path:find "^[%w_./+,:@%%][%w_./+,:@%%-]*$" then return path end
    return "'" .. path:gsub("'", "'\\''") .. "'"
end

local function folder_of(path) return path:match "^(.*)/[^/]*$" or "." end

local function permissions_of(info) return ("0%o"):format(info.permissions & 0x1ff) end

--- Returns true if only the owner can change what is in a folder; else nil, message, code.
function store.check_folder(folder)
    local info, message, code = file.stat(folder)
    if not info then return nil, message, code end
    if info.kind ~= "folder" then return nil, folder .. ": it is no folder", "invalid" end
    if info.permissions & OTHERS_WRITE == 0 then return true end
    return nil, ("%s: others may change what is in it (%s); mend it with: chmod go-w %s"):format(
        folder, permissions_of(info), quoted(folder)), "denied"
end

local function not_a_file(path, kind)
    return ("%s: it is not a file, but a %s"):format(path, kind)
end

-- Reads a regular file. A pipe or a device is refused: opening or reading it might never end. The
-- permissions are those of the open file, so nobody can exchange it between the check and the read.
-- `trouble` is a function that says what is wrong with the permissions, or nil.
local function read_file(path, trouble)
    local opened <close>, message, code = raw.open(path, READS | AT_ONCE)
    if not opened then return nil, message, code end
    local info, text
    info, message, code = opened:stat()
    if not info then return nil, message, code end
    if info.kind ~= "file" then
        return nil, not_a_file(path, info.kind), "invalid"
    end
    local wrong = trouble and trouble(info)
    if wrong then return nil, wrong, "denied" end
    text, message, code = opened:limit(LIMIT, LIMIT):read "a"
    if code == "closed" then return "" end
    return text, message, code
end

--- Returns the contents of a file, a mebibyte at most; or nil, message, code.
function store.read(path) return read_file(path) end

local function trouble_of(path, permissions, why, mends)
    return ("%s: %s (%s); mend it with: chmod %s %s"):format(path, why,
        permissions_of {permissions = permissions}, mends, quoted(path))
end

--- Reads a file that only its owner may read, into an object outside of Lua: a string could not be
--- wiped. Nobody else may change its folder.
function store.read_secret(path)
    local ok, message, code = store.check_folder(folder_of(path))
    if not ok then return nil, message, code end
    local secret, why, what = secrets.read(path, OTHERS)
    if secret then return secret end
    if secret == nil then return nil, why, what end
    if why ~= "file" then return nil, not_a_file(path, why), "invalid" end
    return nil, trouble_of(path, what, "others may use this key", "600"), "denied"
end

--- Reads a file that only its owner may change. Nobody else may change its folder.
function store.read_own(path)
    local ok, message, code = store.check_folder(folder_of(path))
    if not ok then return nil, message, code end
    return read_file(path, function(info)
        if info.permissions & OTHERS_WRITE == 0 then return nil end
        return trouble_of(path, info.permissions, "others may change it", "go-w")
    end)
end

--- Makes a folder, for its owner alone, unless it is there.
function store.make_folder(folder)
    local ok, message, code = file.mkdir(folder, {parents = true, permissions = PRIVATE_FOLDER})
    if not ok then return nil, message, code end
    return store.check_folder(folder)
end

local function write_beside(path, contents)
    local beside = path .. ".new"
    file.remove(beside) -- of somebody who was cut off; it would lend the new one its permissions
    if type(contents) ~= "string" then return secrets.write(beside, contents) end
    return file.write(beside, contents, {exclusive = true, sync = true, permissions = PUBLIC})
end

-- Forces the new names to the disk, as `sync` does for contents.
local function sync_folder(folder)
    local opened <close>, message, code = file.open(folder)
    if not opened then return nil, message, code end
    return opened:sync()
end

--- Writes files, all or none: a list of {path, contents}. A secret is for the owner alone.
function store.commit(files)
    local failed
    for _, one in ipairs(files) do
        failed = failed or table.pack(write_beside(one[1], one[2]))
        if failed[1] then failed = nil else break end
    end
    if failed then
        for _, one in ipairs(files) do file.remove(one[1] .. ".new") end
        return nil, failed[2], failed[3]
    end
    for _, one in ipairs(files) do
        local ok, message, code = file.rename(one[1] .. ".new", one[1])
        if ok then ok, message, code = sync_folder(folder_of(one[1])) end
        if not ok then return nil, message, code end
    end
    return true
end

--- Calls a function while nobody else changes the folder, and returns what it returns.
function store.locked(folder, f, ...)
    local ok, message, code = store.check_folder(folder)
    if not ok then return nil, message, code end
    local path = folder .. "/lock"
    ok, message, code = file.write(path, "", {exclusive = true, permissions = SECRET})
    if code == "exists" then
        return nil, ("%s: another program changes this folder; if none does: rm %s"):format(path,
            quoted(path)), "exists"
    elseif not ok then
        return nil, message, code
    end
    local _ <close> = setmetatable({}, {__close = function() file.remove(path) end})
    return f(...)
end

return store
