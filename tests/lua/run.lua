-- SPDX-License-Identifier: MIT
-- Runs files of tests as `mare test` does, also under the stock interpreter, which has no commands:
--
--     build/mare tests/lua/run.lua tests/lua/test_channel.lua [pattern]
local here = arg[0]:match "^(.*)/[^/]*$" or "."
package.path = package.path .. ";" .. here .. "/../../lua/?.lua;" .. here .. "/?.lua"
if #arg == 0 then
    io.stderr:write "usage: mare tests/lua/run.lua FILE.lua... [pattern]\n"
    os.exit(2)
end
require "mare._test"(false, table.unpack(arg))
