-- SPDX-License-Identifier: MIT
-- Random programs in which any callback may do any operation, one after the other. Each must end by
-- itself, with nothing but the errors of processes on its standard error.
-- MARE_STRESS_SECONDS makes it longer. What failed can be run again:
--     mare tests/lua/anything.lua SEED 200
local mare, t, shell = require "mare", require "t", require "shell"

local SECONDS = tonumber(os.getenv "MARE_STRESS_SECONDS" or "2")
local PROGRAM = debug.getinfo(1, "S").source:match "^@(.-)[^/]*$" .. "anything.lua"

return {
    any_callback_may_do_anything = {function()
        local seed, time = t.seed() % (1 << 40), mare.deadline(SECONDS)
        repeat
            seed = seed + 1
            local got = shell.run(("%s %s %d 200"):format(
                shell.quote(shell.mare), shell.quote(PROGRAM), seed))
            local ended = got.code == 0 and got.out == "done\n" or got.code == 7
            t.ok(ended and not got.err:find "Sanitizer", ("seed %d: code %s\n%s%s"):format(
                seed, got.code, got.out, got.err))
        until time:left() == 0
    end, timeout = 60 + 2 * SECONDS},
}
