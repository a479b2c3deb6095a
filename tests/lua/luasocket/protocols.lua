-- SPDX-License-Identifier: MIT
-- Debian's modules over LuaSocket: http, smtp, ftp, url, ltn12, mime. Its arguments are the ports
-- of servers.py: http, smtp, ftp.
local say = dofile((arg[0]:gsub("[^/]*$", "say.lua")))
local http, smtp, ftp = require "socket.http", require "socket.smtp", require "socket.ftp"
local url, headers, ltn12 = require "socket.url", require "socket.headers", require "ltn12"
local mime, socket = require "mime", require "socket"
local values, try = say.values, say.try
local web = "http://127.0.0.1:" .. arg[1]

-- http
local function fetch(label, ...)
    local body, status, head, line = http.request(...)
    values(label, body, status, type(head) == "table" and head["content-length"], line)
end
fetch("get", web .. "/hello")
fetch("nothing there", web .. "/nothing")
fetch("redirected", web .. "/redirect")
fetch("not redirected", {url = web .. "/redirect", redirect = false})
fetch("head", {url = web .. "/hello", method = "HEAD"})
fetch("post", web .. "/echo", "a=1&b=2")
fetch("refused", "http://127.0.0.1:1/")
fetch("nobody", "http://name..invalid/")
fetch("not allowed", web .. "/private")
fetch("allowed", "http://ana:secret@127.0.0.1:" .. arg[1] .. "/private")
values("big", #http.request(web .. "/big"))
values("chunks", #http.request(web .. "/chunks"))
values("agent", (http.request(web .. "/agent")))
local parts = {}
values("into a sink", (http.request {url = web .. "/hello", sink = (ltn12.sink.table(parts))}))
values("it has", table.concat(parts))
parts = {}
values("from a source", (http.request {url = web .. "/put", method = "PUT",
    headers = {["content-length"] = "10", ["content-type"] = "text/plain"},
    source = ltn12.source.string "ten bytes!", sink = (ltn12.sink.table(parts))}))
values("it had", table.concat(parts))
parts = {}
values("in chunks", (http.request {url = web .. "/put", method = "POST",
    source = ltn12.source.string(("part "):rep(1000)), sink = (ltn12.sink.table(parts))}))
values("it had", #table.concat(parts))
local created = 0
http.request {url = web .. "/hello", create = function()
    created = created + 1
    return socket.tcp()
end}
values("its own socket", created)
http.TIMEOUT = 0.05
values("too late", http.request(web .. "/meet?count=1000&name=late"))
http.TIMEOUT = 60

-- smtp
local function mail(to, body)
    return smtp.send {from = "<ana@example.org>", rcpt = to, server = "127.0.0.1", port = arg[2],
        source = smtp.message {
            headers = {subject = "tides", to = "bob", date = "Thu, 01 Jan 1970 00:00:00 +0000",
                from = "ana"},
            body = body}}
end
local before = #http.request(web .. "/mails")
values("sent", mail("<bob@example.org>", "high at noon\r\n.\r\n..low at six\r\n"))
values("to two", mail({"<bob@example.org>", "<eve@example.org>"}, "hi"))
values("to nobody", mail("<nobody@example.org>", "hi"))
local multipart = {preamble = "two parts", {body = "plain text"},
    {headers = {["content-type"] = "application/octet-stream",
        ["content-transfer-encoding"] = "BASE64"},
        body = ltn12.source.chain(ltn12.source.string(("\0\1\2"):rep(50)),
            ltn12.filter.chain(mime.encode "base64", mime.wrap()))}}
values("with parts", mail("<bob@example.org>", multipart))
local mails = http.request(web .. "/mails"):sub(before + 1)
mails = mails:gsub("boundary=%b\"\"", "boundary"):gsub("\r\n%-%-%S+", "\r\n--")
local came = {} -- in the order of the alphabet, for that of the fields is any
for line in mails:gmatch "[^\r\n]+" do came[#came + 1] = line end
table.sort(came)
values("what came", came)

-- ftp
local at = "127.0.0.1:" .. arg[3]
values("a file", ftp.get("ftp://" .. at .. "/hello.txt"))
values("a big one", #ftp.get("ftp://" .. at .. "/big.bin;type=i"))
values("no such", ftp.get("ftp://" .. at .. "/none"))
values("not in", ftp.get("ftp://ana:wrong@" .. at .. "/hello.txt"))
values("put", ftp.put("ftp://" .. at .. "/new.txt;type=i", "new content"))
values("got back", ftp.get("ftp://" .. at .. "/new.txt"))
parts = {}
values("a list", ftp.get {host = "127.0.0.1", port = arg[3], command = "nlst", path = "/",
    user = "ana", password = "x", sink = (ltn12.sink.table(parts))})
values("it is", table.concat(parts))
values("refused", ftp.get "ftp://127.0.0.1:1/x")

-- url, headers
values("parsed", url.parse "http://ana:pw@host:80/a/b;p?q=1#f")
values("absolute", url.absolute("http://host/a/b/c", "../d?x"))
values("escaped", url.escape "a b&c/ü", url.unescape "a%20b%26")
values("built", url.build {scheme = "http", host = "h", path = "/p", query = "q"})
values("canonic", headers.canonic["content-type"], headers.canonic["x-unknown"])

-- ltn12, mime
parts = {}
local source = ltn12.source.chain(ltn12.source.string(("Aé=\r\n"):rep(40)),
    ltn12.filter.chain(mime.encode "quoted-printable", mime.wrap "quoted-printable"))
values("pumped", ltn12.pump.all(source, (ltn12.sink.table(parts))))
values("printable", table.concat(parts))
values("base64", mime.b64 "\0\255 any bytes", mime.unb64 "AP8gYW55IGJ5dGVz")
values("ends of lines", mime.eol(0, "a\nb\r\nc"))
values("dots", mime.dot(2, ".a\r\n.b"))
values("normalized", ltn12.filter.chain(mime.normalize(), mime.stuff()) "\n.x\n")
try("no such encoding", function() mime.encode "none" end)
values("cat", ltn12.source.cat(ltn12.source.string "a", ltn12.source.string "b")())
