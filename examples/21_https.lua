-- SPDX-License-Identifier: MIT
-- HTTPS, server and client in one program. The certificate is made on the spot, signed by nobody
-- but itself; a real one is in files, whose paths are given instead of their text.
local mare, tls, http = require "mare", require "mare.tls", require "mare.http"

local certificate, key = assert(tls.selfsigned "localhost")
local listener = assert(tls.listen("localhost", 0, {certificate = certificate, key = key}))
mare.go(http.serve, listener, function(request)
    return ("%s over %s\n"):format(request.path, request.stream:tls().version)
end)

local _, port = listener:address()
local page = ("https://localhost:%d/secret"):format(port)

-- A client believes those whom the system's authorities vouch for, and nobody else.
print(http.get(page))

-- Unless it is told whom to believe. Made once, a context serves every request.
local trusting = assert(tls.context {authorities = certificate})
local status, text = http.get {url = page, tls = trusting}
io.write(status, " ", text)

-- And the certificate must be for the host that was asked for, not for any that is in it.
local _, message, code = http.get {url = page, tls = {context = trusting, name = "bank.example"}}
print(code, message)

-- Many at once: each handshake is done by the routine of its connection.
local replies = mare.channel(10)
for _ = 1, 10 do
    mare.go(function() replies:send((http.get {url = page, tls = trusting})) end)
end
local good = 0
for _ = 1, 10 do good = good + (replies:receive(20) == 200 and 1 or 0) end
print(good .. " of 10 were served")
listener:close()
