-- SPDX-License-Identifier: MIT
-- A lock of etcd, taken and given back by one who is alone: URL, and how often. With a file as the
-- third argument, the two requests that this takes are written there instead, a line each, under a
-- lease that stays for a while.
local mare, etcd = require "mare", require "mare.etcd"

local url, rounds, file = arg[1], tonumber(arg[2]), arg[3]
local db = etcd.client(url, {ttl = 300, timeout = 30})

local function round() assert(assert(db:lock("bench", 30)):unlock()) end

round() -- and there is a lease
if file then
    local out <close> = assert(io.open(file, "w"))
    local request = db.http.request
    function db.http:request(what)
        out:write(what.body, "\n")
        return request(self, what)
    end
    round()
else
    for _ = 1, rounds // 10 do round() end
    local begin = mare.now()
    for _ = 1, rounds do round() end
    print(("us %.6g"):format((mare.now() - begin) * 1e6 / rounds))
    db:close()
end
