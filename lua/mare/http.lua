-- SPDX-License-Identifier: MIT
-- HTTP/1.1, server and client. Reading and checking messages is C (src/wire/http.c, strict, with a
-- limit on everything); what a server and a client do with them is in http/_server.lua, with what
-- handlers answer in http/_answer.lua, and in http/_client.lua.
require "mare.http._server"
require "mare.http._client"

return require "mare.http._shared".http
