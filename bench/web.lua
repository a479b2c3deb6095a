-- SPDX-License-Identifier: MIT
-- A web server of one worker: prints its port, and serves until it is ended. Arguments: "string",
-- an answer of 1 MiB, "file", the same from a file that the second argument names, "https", hello
-- over TLS with the certificate and key that the others name, or "websocket", which sends back what
-- comes.
local mare, net, http = require "mare", require "mare.net", require "mare.http"
local kind, path, key = table.unpack(arg)
mare.workers(1)

local large = ("x"):rep(1 << 20)
local plain = {["content-type"] = "text/plain"}

local handlers = {
    string = function() return {headers = plain, body = large} end,
    file = function() return {headers = plain, file = path} end,
    https = function() return {headers = plain, body = "hello"} end,
}

function handlers.websocket(request)
    local w <close> = assert(require "mare.websocket".accept(request))
    while true do
        local message = w:receive()
        if not message then return end
        w:sendbinary(message)
    end
end

local listener
if kind == "https" then
    listener = assert(require "mare.tls".listen("127.0.0.1", 0, {certificate = path, key = key,
        resume = true}))
else
    listener = assert(net.listen("127.0.0.1", 0))
end
print((select(2, listener:address())))
http.serve(listener, handlers[kind])
