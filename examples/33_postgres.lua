-- SPDX-License-Identifier: MIT
-- A queue of jobs in PostgreSQL: workers take what is there, each job goes to one of them, and a
-- notification tells when there is more. Without a server the example says so and ends; the usual
-- variables (PGHOST, PGUSER, PGDATABASE) say which one.
local mare, postgres = require "mare", require "mare.postgres"

local c, why = postgres.connect {timeout = 2}
if not c then
    print("no PostgreSQL for this user: " .. why)
    return
end
assert(c:exec [[
    DROP TABLE IF EXISTS tide_jobs;
    CREATE TABLE tide_jobs (id serial PRIMARY KEY, work text NOT NULL, done_by int);
]])

-- Another process works, and waits for news with a connection of its own.
local function work(number)
    local own <close> = assert(postgres.connect {timeout = 10})
    local news <close> = assert(own:listen "tide_jobs")
    local done = 0
    repeat
        local job = own:transaction(function(tx)
            local next = tx:row [[SELECT id, work FROM tide_jobs WHERE done_by IS NULL
                ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED]]
            if next then
                assert(tx:exec("UPDATE tide_jobs SET done_by = $1 WHERE id = $2", number, next.id))
            end
            return next or false
        end)
        if job then done = done + 1 else job = select(2, news:next(10)) ~= "enough" end
    until not job
    return done
end
local workers = {}
for i = 1, 3 do workers[i] = mare.spawn(work, i) end

for i = 1, 20 do c:exec("INSERT INTO tide_jobs (work) VALUES ($1)", "load " .. i) end
c:exec "NOTIFY tide_jobs, 'more'"
repeat
    local left = c:row "SELECT count(*) AS n FROM tide_jobs WHERE done_by IS NULL".n
    mare.sleep(0.01)
until left == 0
local sum = 0
for _, worker in ipairs(workers) do
    repeat
        c:exec "NOTIFY tide_jobs, 'enough'"
        local ok, done, code = worker:join(0.1)
        if ok then sum = sum + done end
    until ok or code ~= "timeout"
end
print("done:", sum)
c:exec "DROP TABLE tide_jobs"
