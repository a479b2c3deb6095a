-- SPDX-License-Identifier: MIT
-- HTTP/1.1, server and client. Reading and checking messages is C (src/wire/http.c, strict, with a
-- limit on everything); what a server and a client do with them is in http/_server.lua and
-- http/_client.lua.
require "mare.http._server"
require "mare.http._client"

return require "mare.http._shared".http
