-- SPDX-License-Identifier: MIT
-- Follows a log as `tail -F` does: prints what is added, and goes on with the new file when the log
-- is rotated. With a path, `mare examples/22_files.lua /var/log/syslog`, it follows that for ever;
-- alone, it follows one that a process of its own writes and rotates.
local mare, file = require "mare", require "mare.file"

-- Calls `handle` for each whole line that a file has and gets; true: it shall stop. What is left of
-- a line that has not ended yet is kept in the table.
local function read_on(log, kept, handle)
    while true do
        local line, message, code = log:read "L"
        if code == "closed" then return false end -- the end, for now
        if not line then error(message) end
        kept.text = kept.text .. line
        if line:find "\n$" then
            if handle(kept.text) then return true end
            kept.text = ""
        end
    end
end

-- The file that has the name now, if it is another one than before.
local function another(path, log)
    local new = file.open(path)
    if new and log and new:stat().inode == log:stat().inode then
        new:close()
        return nil
    end
    return new
end

-- The folder is watched, not the file: a name may get another file, and that is what rotation is.
local function follow(path, handle)
    local watcher <close> = assert(file.watch(path:match "^(.*)/[^/]*$" or "."))
    local log, kept = another(path), {text = ""}
    while not (log and read_on(log, kept, handle)) do
        local event = assert(watcher:next())
        if event.kind == "created" or event.kind == "renamed" or event.kind == "overflow" then
            local new = another(path, log)
            if new and log then
                if read_on(log, kept, handle) then return end -- the last that it got
                log:close()
            end
            log = new or log
        end
    end
end

if arg[1] then
    return follow(arg[1], function(line) io.write(line) end)
end

local folder = assert(file.tempfolder())
local path = folder .. "/tides.log"

-- Writes to a log, three lines a file: when they have been read it is renamed, and a new one
-- begins. (A log that is rotated twice before anybody looks has a file that `tail -F` misses too.)
local seen = mare.channel(3)
local writer = mare.spawn(function()
    for day = 1, 3 do
        local log <close> = assert(file.open(path, "a"))
        for tide, name in ipairs {"low", "high", "low"} do
            assert(log:write(("day %d: %s "):format(day, name), day * tide / 10, "\n"))
        end
        for _ = 1, 3 do seen:receive() end
        if day < 3 then assert(file.rename(path, ("%s.%d"):format(path, day))) end
    end
end)

follow(path, function(line)
    io.write(line)
    seen:send(true)
    return line == "day 3: low 0.9\n"
end)

assert(writer:join())
print(table.concat(file.list(folder), " "))
assert(file.remove(folder, {tree = true}))
