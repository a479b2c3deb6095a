-- SPDX-License-Identifier: MIT
-- Three workers, which could be programs on three machines, share a job by a lock in etcd: each
-- takes the next page of a report, writes it with its fencing number, and a watcher sees it.
--
--     mare 31_etcd.lua http://127.0.0.1:2379 ...
local mare = require "mare"

if #arg == 0 then
    print "usage: mare 31_etcd.lua URL...   (the members of a cluster of etcd)"
    return
end

local PAGES = 6

-- A store that refuses who comes late: the number must not be smaller than the last one.
local function write(db, page, name, fence)
    local _, last = db:get "report/page"
    return db:transaction {
        compare = {{"report/page", "modified", "=", last and last.modified or 0},
            {"report/fence", "value", "<", ("%020d"):format(fence)}},
        success = {{"put", "report/page", ("%d by worker %s"):format(page, name)},
            {"put", "report/fence", ("%020d"):format(fence)}},
    }
end

local function work(name, urls)
    local db <close> = require "mare.etcd".client(urls)
    while true do
        local lock <close> = assert(db:lock("report", 30))
        local page = tonumber(((db:get "report/page") or "0"):match "%d+") + 1
        if page > PAGES then return end
        assert(write(db, page, name, lock:fence()), "somebody else was here")
    end
end

local db <close> = require "mare.etcd".client(arg)
assert(db:delete("report/", {prefix = true}))
assert(db:put("report/fence", ("%020d"):format(0)))
local watch <close> = assert(db:watch "report/page")
local workers = {}
for i, name in ipairs {"a", "b", "c"} do
    workers[i] = mare.spawn(work, name, table.move(arg, 1, #arg, 1, {}))
end
for _ = 1, PAGES do print("page " .. assert(watch:receive(30)).value) end
for _, worker in ipairs(workers) do assert(worker:join(30)) end
print(("%d pages, all by one at a time"):format(PAGES))
