-- SPDX-License-Identifier: MIT
-- An HTTP server that says hello: prints its port, and serves until it is ended. Arguments: on how
-- many workers, each with a process that accepts; how many additions each request is worth.
local mare, net, http = require "mare", require "mare.net", require "mare.http"

local workers, additions = tonumber(arg[1] or 1), tonumber(arg[2] or 0)
mare.workers(workers)

local function hello()
    local sum = 0
    for i = 1, additions do sum = sum + i end
    return {headers = {["content-type"] = "text/plain"}, body = "hello"}
end

local options = {http2 = "clear"} -- HTTP/1.1 with those who begin with that
local listener = assert(net.listen("127.0.0.1", 0, {shared = true}))
local _, port = listener:address()
for _ = 2, workers do
    mare.spawn(function()
        http.serve(assert(net.listen("127.0.0.1", port, {shared = true})), hello, options)
    end)
end
print(port)
http.serve(listener, hello, options)
