-- SPDX-License-Identifier: MIT
-- Chooses the handler of a request by its method and path, and wraps handlers.
--
-- Routes are kept as a tree, with one level for each segment of the path. At each level a literal
-- segment is tried first, then a named one (`:id`), then the rest (`*rest`), in whatever order they
-- were added.
local checks, unescape = require "mare._check", require "mare.http._text".unescape

local route = {}

local Routes = {}
Routes.__index = Routes

--- An empty set of routes. Use it as a handler: `http.serve(listener, routes:handler())`.
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

-- The place of a path in the tree, made if it is not there; and the names on the way.
local function place_of(tree, path, name, level)
    local at, names = tree, {}
    local pieces = split(path)
    for i, piece in ipairs(pieces) do
        local kind, called = piece:match "^([:*])(.*)$"
        if kind then
            if not called:find "^[%a_][%w_]*$" then
                refuse(name, 2, ("'%s' is not a name for a parameter"):format(piece), level + 1)
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

--- Adds a handler for requests with that method and path: `routes:add("GET", "/users/:id",
--- handler)`. A segment `:name` stands for any segment that is not empty; `*name`, at the end, for
--- all that follows. The handler gets the request and a table of their values, decoded. The method
--- "*" stands for any.
function Routes:add(method, path, handler)
    checks.argument("add", method, 1, "string")
    return add(self, method, path, handler, "add", 2)
end

for _, method in ipairs {"get", "post", "put", "patch", "delete"} do
    Routes[method] = function(self, path, handler)
        return add(self, method:upper(), path, handler, method, 2)
    end
end

--- Wraps the handlers of all routes, also of those added later, and the answer when there is no
--- route. `around` takes a handler and returns one. The first wrapper is the outermost.
function Routes:use(around)
    checks.argument("use", around, 1, "function")
    table.insert(self.around, around)
    return self
end

-- The place in the tree that the pieces from the i-th on lead to, if it has methods. Puts the
-- values of named segments into `found`.
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

-- The deepest path allowed: at each level three ways may have to be tried.
local deep_most = 64

-- The handler of a request, and its parameters; or an answer that says why there is none.
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
    for i, name in ipairs(chosen.names) do parameters[name] = unescape(found[i]) end
    return nil, chosen, parameters
end

--- The routes as a handler, for `http.serve` and for a route of others (`routes:add("*", …)`). If
--- the path has no such method, the answer is 405 and lists the methods that it has. OPTIONS gets
--- the same list, with 204.
function Routes:handler()
    local handler = function(request)
        local answer, chosen, parameters = find(self, request)
        if answer then return answer end
        request.route, request.handler = chosen.path, chosen.handler
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

--- Makes routes from a message: processes can send each other routes.
function route.arrive(routes) return setmetatable(routes, Routes) end

return route
