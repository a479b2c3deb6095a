-- SPDX-License-Identifier: MIT
-- Which handler a request is for, by its method and path, and what is done around handlers.
--
-- Routes are kept as a tree, a segment of the path a level: what is written there as it is comes
-- before what has a name (`:id`), and that before the rest (`*rest`), whatever their order was.
local checks = require "mare._check"

local route = {}

local Routes = {}
Routes.__index = Routes

--- Routes, none yet. They are used as a handler: `http.serve(listener, routes:handler())`.
function route.new() return setmetatable({tree = {}, around = {}}, Routes) end

-- The pieces between the slashes of a path, after the first one.
local function split(path)
    local found, from = {}, 2
    while true do
        local slash = path:find("/", from, true)
        found[#found + 1] = path:sub(from, (slash or 0) - 1)
        if not slash then return found end
        from = slash + 1
    end
end

local function refuse(name, index, why, level)
    error(("bad argument #%d to '%s' (%s)"):format(index, name, why), level + 1)
end

-- The place in the tree of a path, which is made if it is not there; and the names on the way.
local function place_of(tree, path, name, level)
    local at, names = tree, {}
    local pieces = split(path)
    for i, piece in ipairs(pieces) do
        local kind, called = piece:match "^([:*])(.*)$"
        if kind then
            if not called:find "^[%a_][%w_]*$" then
                refuse(name, 2, ("'%s' is no name of a parameter"):format(piece), level + 1)
            elseif kind == "*" and i < #pieces then
                refuse(name, 2, ("'%s' must be the last"):format(piece), level + 1)
            end
            names[#names + 1] = called
        end
        local key = kind == ":" and "any" or kind == "*" and "rest" or nil
        if key then
            at[key] = at[key] or {}
            at = at[key]
        else
            at.exact = at.exact or {}
            at.exact[piece] = at.exact[piece] or {}
            at = at.exact[piece]
        end
    end
    return at, names
end

local function add(routes, method, path, handler, name, level)
    checks.argument(name, path, 2, "string", level + 1)
    checks.argument(name, handler, 3, "function", level + 1)
    if path:sub(1, 1) ~= "/" then refuse(name, 2, "a path begins with '/'", level) end
    local place, names = place_of(routes.tree, path, name, level)
    place.methods = place.methods or {}
    if place.methods[method] then
        refuse(name, 2, ("there is a route for %s %s already"):format(method, path), level)
    end
    place.methods[method] = {handler = handler, names = names, path = path}
    return routes
end

--- Has requests with that method for that path handled: `routes:add("GET", "/users/:id", handler)`.
--- A segment `:name` is any one, not empty; `*name`, the last, is all that follows. The handler
--- gets the request and a table of what they were, decoded. The method "*" is any.
function Routes:add(method, path, handler)
    checks.argument("add", method, 1, "string")
    return add(self, method, path, handler, "add", 2)
end

for _, method in ipairs {"get", "post", "put", "patch", "delete"} do
    Routes[method] = function(self, path, handler)
        return add(self, method:upper(), path, handler, method, 2)
    end
end

--- Puts something around the handlers of all routes, those that are added later, too, and around
--- the answer that there is none: a function that takes a handler and returns one. The first is the
--- outermost.
function Routes:use(around)
    checks.argument("use", around, 1, "function")
    table.insert(self.around, around)
    return self
end

local function decode(text)
    return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- The place in the tree that pieces from the i-th on lead to and that has methods. What was met on
-- the way is put into `found`.
local function look(at, pieces, i, found)
    if i > #pieces then return at.methods and at end
    local piece, depth = pieces[i], #found
    local exact = at.exact and at.exact[piece]
    local place = exact and look(exact, pieces, i + 1, found)
    if not place and at.any and piece ~= "" then
        found[depth + 1] = piece
        place = look(at.any, pieces, i + 1, found)
        if not place then
            for k = #found, depth + 1, -1 do found[k] = nil end
        end
    end
    if not place and at.rest then
        found[depth + 1] = table.concat(pieces, "/", i)
        place = at.rest
    end
    return place
end

-- How deep a path may be: each place on the way can be tried in three ways.
local deep_most = 64

-- What answers a request, and its parameters; or an answer that says why there is none.
local function find(routes, request)
    local found, path = {}, request.path
    local pieces = path and split(path)
    local place = pieces and #pieces <= deep_most and look(routes.tree, pieces, 1, found)
    if not place then return {status = 404, body = "404 Not Found\n"} end
    local methods, method = place.methods, request.method
    local chosen = methods[method] or method == "HEAD" and methods.GET or methods["*"]
    if not chosen then
        local allowed = {}
        for name in pairs(methods) do allowed[#allowed + 1] = name end
        if methods.GET and not methods.HEAD then allowed[#allowed + 1] = "HEAD" end
        table.sort(allowed)
        local headers = {allow = table.concat(allowed, ", ")}
        if method == "OPTIONS" then return {status = 204, headers = headers} end
        return {status = 405, headers = headers, body = "405 Method Not Allowed\n"}
    end
    local parameters = {}
    for i, name in ipairs(chosen.names) do parameters[name] = decode(found[i]) end
    return nil, chosen, parameters
end

--- The routes as a handler, for `http.serve` and for a route of others (`routes:add("*", …)`). Of a
--- path that there is, but not with that method, the answer is 405 and says which there are; of
--- OPTIONS the same, as 204.
function Routes:handler()
    local handler = function(request)
        local answer, chosen, parameters = find(self, request)
        if answer then return answer end
        request.route = chosen.path
        return chosen.handler(request, parameters)
    end
    for i = #self.around, 1, -1 do
        handler = self.around[i](handler)
        checks.argument("handler", handler, i, "function")
    end
    return handler
end

Routes.__travel = function(routes)
    return "mare.http.route", {tree = routes.tree, around = routes.around}
end

--- For messages between processes.
function route.arrive(routes) return setmetatable(routes, Routes) end

return route
