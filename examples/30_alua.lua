-- SPDX-License-Identifier: MIT
-- A program as ALua's are: three daemons, here programs of this machine, divide the processes among
-- them. Each process is sent code, and sends back code that notes what it has found.
local alua = require "alua"

local DATA = {3, 1, 4, 1, 5, 9, 2, 6, 5}
local sum, expected, workers = 0, #DATA, {}

-- Called by the chunks that come back.
function note(square)
    sum, expected = sum + square, expected - 1
    if expected > 0 then return end
    print("sum of squares", sum)
    alua.exit(workers, 0, function(reply)
        print("workers ended", reply.status)
        alua.exit(0) -- and with this program the daemons that it has made
    end)
end

local WORK = [[
    function square(n) alua.send(%q, "note(" .. n * n .. ")") end
]]

local function work(reply)
    local daemons, count = {}, 0
    for id, process in pairs(reply.processes) do
        workers[#workers + 1] = id
        if not daemons[process.daemon] then count = count + 1 end
        daemons[process.daemon] = true
    end
    print("processes", #workers, "daemons", count)
    alua.send(workers, WORK:format(alua.id), function(answer)
        print("told what to do", answer.status)
        alua.send({workers[1], "nobody"}, "error 'no such thing'", function(failed)
            print(failed[workers[1]].error, failed.nobody.error)
            for i, n in ipairs(DATA) do
                alua.send(workers[i % #workers + 1], ("square(%d)"):format(n))
            end
        end)
    end)
end

-- Who may send code: everybody who can come, and without keys that is programs of this machine.
local cfg = {addr = "127.0.0.1", port = 0, code = "source"}

alua.open(cfg, function()
    alua.create(cfg, function(first)
        alua.create(cfg, function(second)
            alua.link({first.daemon, second.daemon}, function(reply)
                print("linked", reply.status, #reply.daemons)
                alua.spawn(6, work)
            end)
        end)
    end)
end)
alua.loop()
