-- SPDX-License-Identifier: MIT
-- A crawler that looks for dead links: `mare examples/17_crawler.lua http://127.0.0.1:8000/ 16`
-- follows the links of a site, sixteen at a time, and ends with 1 if any leads nowhere. On a
-- terminal it shows how far it is, elsewhere a line for each page.
local mare, net, http = require "mare", require "mare.net", require "mare.http"

local PAGES, SECONDS = 1000, 10 -- at the most; for each part of a page

-- ---- Links --------------------------------------------------------------------------------------

-- Where a link on a page leads, as a whole URL without a fragment; nil if it is not for HTTP.
local function resolve(link, page)
    link = link:gsub("&amp;", "&"):gsub("#.*$", ""):match "^%s*(.-)%s*$"
    local scheme, host, path = page:match "^(%w+:)//([^/]+)([^?]*)"
    if link:find "^%a[%w+.-]*:" then return http.locate(link) and link or nil end
    if link:find "^//" then return scheme .. link end
    if link == "" then return page end
    if link:find "^?" then return scheme .. "//" .. host .. path .. link end
    if not link:find "^/" then link = path:match "^(.*/)" .. link end
    local query, steps = link:match "%?.*$" or "", {}
    for step in link:gsub("%?.*$", ""):gmatch "/([^/]*)" do
        if step == ".." then
            table.remove(steps)
        elseif step ~= "." then
            steps[#steps + 1] = step
        end
    end
    return scheme .. "//" .. host .. "/" .. table.concat(steps, "/") .. query
end

-- The status of a page, or nil and why there is none, and the links on it.
local function fetch(client, url)
    local links = {}
    local response, message = client:request {url = url, timeout = SECONDS}
    if not response then return {url = url, wrong = message, links = links} end
    local text
    text, message = response:text()
    local moved = response.status // 100 == 3 and response.headers.location
    if moved then links[1] = resolve(moved, url) end
    if text and (response.headers["content-type"] or ""):find "html" then
        for name, _, link in text:gmatch "(%a+)%s*=%s*([\"'])(.-)%2" do
            if name == "href" or name == "src" then links[#links + 1] = resolve(link, url) end
        end
    end
    local wrong = not text and message or response.status >= 400 and tostring(response.status)
    return {url = url, status = response.status, size = #(text or ""), wrong = wrong, links = links}
end

-- ---- Crawling -----------------------------------------------------------------------------------

-- Fetches pages with so many routines. They take turns, so what they share needs no lock.
local function fetch_all(client, urls, routines, told)
    local pages, taken, running = {}, 0, {}
    for i = 1, math.min(routines, #urls) do
        running[i] = mare.go(function()
            while taken < #urls do
                taken = taken + 1
                local mine = taken
                pages[mine] = fetch(client, urls[mine])
                told(pages[mine])
            end
        end)
    end
    for _, routine in ipairs(running) do assert(routine:join()) end
    return pages
end

-- Level by level from the first page. Returns the pages, and the dead links with where they are.
local function crawl(first, routines, told)
    local client <close> = http.client {most = routines}
    local site = first:match "^%w+://[^/]+/"
    local level, found, pages, dead = {first}, {[first] = "the command line"}, {}, {}
    while #level > 0 do
        local next_level = {}
        for _, page in ipairs(fetch_all(client, level, routines, told)) do
            pages[#pages + 1] = page
            if page.wrong then dead[#dead + 1] = {page = page, on = found[page.url]} end
            for _, link in ipairs(page.links) do
                local new = not found[link] and link:sub(1, #site) == site
                if new and #pages + #next_level < PAGES then
                    found[link] = page.url
                    next_level[#next_level + 1] = link
                end
            end
        end
        told(nil, #next_level)
        level = next_level
    end
    return pages, dead
end

-- ---- Telling ------------------------------------------------------------------------------------

-- A bar that is drawn again and again, or nothing.
local function bar()
    local done, known = 0, 1
    return function(page, more)
        done, known = done + (page and 1 or 0), known + (more or 0)
        local full = 30 * done // known
        io.write("\r[", ("#"):rep(full), ("."):rep(30 - full), "] ", done, " of ", known)
        io.flush()
    end
end

-- A URL without the site that all have in common.
local function path_of(url) return (url:gsub("^%w+://[^/]+", "")) end

local function report(first, routines)
    local terminal = require "mare.terminal".is_tty(io.stdout)
    local pages, dead = crawl(first, routines, terminal and bar() or function() end)
    io.write(terminal and "\r\27[K" or "")
    local bytes = 0
    for _, page in ipairs(pages) do
        bytes = bytes + (page.size or 0)
        if not terminal then print(page.status or "---", path_of(page.url)) end
    end
    print(("%d pages, %d bytes, %d dead links"):format(#pages, bytes, #dead))
    for _, each in ipairs(dead) do
        print(("dead: %s (%s), on %s"):format(path_of(each.page.url), each.page.wrong,
            path_of(each.on)))
    end
    return #dead == 0
end

if arg[1] then
    local first = arg[1]:find "^%w+://[^/]+/" and arg[1] or arg[1] .. "/"
    os.exit(report(first, tonumber(arg[2]) or 8))
end

-- Without arguments: a small site of our own.
local site = {
    ["/"] = [[<a href="about.html">about</a> <a href='/list/?page=1'>list</a> <img src="sea.svg">]],
    ["/about.html"] = [[<a href="./#top">home</a> <a href="team/">team</a> <a href="lost.html">]],
    ["/team/"] = [[<a href="../about.html">up</a> <a href="mailto:sea@example.com">write</a>]],
    ["/list/?page=1"] = [[<a href="?page=2">next</a>]],
    ["/list/?page=2"] = [[<a href="?page=1">back</a> <a href="/old">old</a> <a href="/bad">]],
}
local other = {
    ["/sea.svg"] = {headers = {["content-type"] = "image/svg+xml"}},
    ["/old"] = {status = 301, headers = {location = "/about.html"}},
    ["/bad"] = {status = 500, body = "out of order"},
}
local listener = assert(net.listen("127.0.0.1", 0))
mare.go(http.serve, listener, function(request)
    local page = site[request.target]
    mare.sleep(0.005) -- the way there and back
    return other[request.target] or {status = page and 200 or 404, body = page or "not here",
        headers = {["content-type"] = "text/html"}}
end)
report("http://127.0.0.1:" .. select(2, listener:address()) .. "/", 4)
listener:close()
