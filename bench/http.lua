-- SPDX-License-Identifier: MIT
-- An HTTP server that says hello: prints its port, and serves until it is ended. Argument: on how
-- many workers, each with a process that accepts.
local mare, net, http = require "mare", require "mare.net", require "mare.http"

local workers = tonumber(arg[1] or 1)
mare.workers(workers)

local function hello() return {headers = {["content-type"] = "text/plain"}, body = "hello"} end

local listener = assert(net.listen("127.0.0.1", 0, {shared = true}))
local _, port = listener:address()
for _ = 2, workers do
    mare.spawn(function()
        http.serve(assert(net.listen("127.0.0.1", port, {shared = true})), hello)
    end)
end
print(port)
http.serve(listener, hello)
