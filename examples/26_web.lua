-- SPDX-License-Identifier: MIT
-- A small web application out of pieces: routes with parameters, JSON, a form, a signed cookie,
-- files of a folder, answers that are compressed, a limit for each client. It asks itself.
--
--   build/mare examples/26_web.lua
local mare, net, http, file = require "mare", require "mare.net", require "mare.http",
    require "mare.file"
local json, route, form = require "mare.json", require "mare.http.route", require "mare.http.form"
local cookie, static = require "mare.http.cookie", require "mare.http.static"
local gzip, rate = require "mare.http.gzip", require "mare.http.rate"

local folder = assert(file.tempfolder())
file.write(folder .. "/index.html", "<h1>Tides</h1>" .. ("<p>high, low"):rep(200))
local signer = cookie.signer "a secret of 32 bytes or more, from a file"
local tides = {brest = 6.95, faro = 3.42}

local routes = route.new():use(rate.limit(100)):use(gzip.answers())
routes:get("/tides/:place", function(_, parameters)
    local height = tides[parameters.place]
    if not height then return {status = 404, body = "no such place\n"} end
    return {headers = {["content-type"] = "application/json"},
        body = json.encode({place = parameters.place, height = height}, {sorted = true})}
end)
routes:post("/login", function(request)
    local fields, message = form.body(request)
    if not fields then return {status = 400, body = message .. "\n"} end
    local set = cookie.set("user", signer:sign("user", fields.name, 3600))
    return {status = 303, headers = {location = "/me", ["set-cookie"] = set}}
end)
routes:get("/me", function(request)
    local name = signer:check("user", cookie.of(request).user)
    return name and "you are " .. name .. "\n" or {status = 403, body = "who are you?\n"}
end)
routes:get("/*rest", static.files(folder))

local listener = assert(net.listen("127.0.0.1", 0))
mare.go(http.serve, listener, routes:handler())

local base = "http://127.0.0.1:" .. select(2, listener:address())

local function ask(path, options)
    options = options or {}
    options.url = base .. path
    local status, text = http.get(options)
    print(options.method or "GET", path, status, text:match "[^\n]*")
end

ask "/tides/brest"
ask "/tides/lima"
ask("/tides/brest", {method = "DELETE"})
local status, _, headers = http.get {url = base .. "/login", body = form.encode {name = "Ada L."},
    headers = {["content-type"] = "application/x-www-form-urlencoded"}}
local set = headers["set-cookie"][1]
print(status, headers.location, set:match "HttpOnly.*")
ask("/me", {headers = {cookie = set:match "^[^;]*"}})
ask("/me", {headers = {cookie = "user=Ada.."}})
local _, page, about = http.get {url = base .. "/", headers = {["accept-encoding"] = "gzip"}}
print(about["content-type"], about["content-encoding"], #page < 200)
listener:close()
file.remove(folder, {tree = true})
