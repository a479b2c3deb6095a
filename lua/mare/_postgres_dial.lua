-- SPDX-License-Identifier: MIT
-- Connects to PostgreSQL: translates the options for libpq, looks up the hosts, and asks libpq step
-- by step what to wait for.
local raw, net = require "mare._postgres", require "mare.net"
local check, socket = require "mare._check", require "mare._socket"

-- Looks up the names of hosts, because libpq would block the worker. A name with several addresses
-- becomes several hosts.
local function resolve(parameters, deadline)
    local host = parameters.host or os.getenv "PGHOST"
    if parameters.hostaddr or not host then return true end
    local hosts, addresses, ports, at = {}, {}, {}, 0
    local port = parameters.port or os.getenv "PGPORT" or "5432"
    local given = {}
    for one in (port .. ","):gmatch "([^,]*)," do given[#given + 1] = one end
    for one in (host .. ","):gmatch "([^,]*)," do
        at = at + 1
        local found, why, code = {""}, nil, nil
        if one ~= "" and not one:find "^[/@]" then found, why, code = net.resolve(one, deadline) end
        if not found then return nil, why, code end
        for _, address in ipairs(found) do
            hosts[#hosts + 1], addresses[#addresses + 1] = one, address
            ports[#ports + 1] = given[at] or given[1]
        end
    end
    parameters.host, parameters.hostaddr = table.concat(hosts, ","), table.concat(addresses, ",")
    parameters.port = table.concat(ports, ",")
    return true
end

-- Translates our options for libpq. They override the URI.
local function parameters_of(options)
    local parameters, why, code = {}, nil, nil
    if options.uri then parameters, why, code = raw.parse(options.uri) end
    if not parameters then return nil, why, code end
    parameters.host = options.path or options.host or parameters.host
    if options.path or options.host then parameters.hostaddr = nil end
    parameters.port = options.port and tostring(options.port) or parameters.port
    parameters.user = options.username or parameters.user
    parameters.password = options.password or parameters.password
    parameters.dbname = options.database or parameters.dbname
    parameters.application_name = options.name or parameters.application_name or "mare"
    parameters.client_encoding = parameters.client_encoding or "UTF8"
    if options.tls ~= nil then
        parameters.sslmode = options.tls == true and "verify-full" or options.tls or "disable"
    end
    parameters.sslrootcert = options.authorities or parameters.sslrootcert
    return parameters
end

-- The code for a failure to connect. libpq gives only a text.
local function reason_of(why)
    if why:find "root certificate" then return "io" end -- this side lacks that file
    if why:find "refused" or why:find "No such file" then return "refused" end
    if why:find "authentication failed" or why:find "no password supplied"
        or why:find "pg_hba.conf" or why:find "does not exist" then
        return "denied"
    end
    return "io"
end

--- Waits until the socket can be read from or, if `writes`, written to.
local function wait(stream, writes, deadline)
    if deadline and deadline:left() == 0 then -- there may always be something to read
        return nil, "the deadline passed", "timeout"
    end
    local streams, ways = {stream}, {writes == "only"}
    if writes == true then streams, ways = {stream, stream}, {false, true} end
    local ok, code = socket.waitany(streams, ways, deadline)
    if ok then return true end
    return nil, code == "timeout" and "the deadline passed" or "the wait was ended: " .. code, code
end

--- Connects: libpq's handle and a stream over its socket; or nil, message, code.
local function dial(options, deadline)
    local ok, why, code = raw.load(deadline)
    if not ok then return nil, why, code end
    local parameters
    parameters, why, code = parameters_of(options)
    if not parameters then return nil, why, code end
    ok, why, code = resolve(parameters, deadline)
    if not ok then return nil, why, code end
    local handle
    handle, why = raw.start(parameters)
    if not handle then return nil, why, reason_of(why) end
    local whole = false
    local _ <close> = setmetatable({}, {__close = function()
        if not whole then raw.finish(handle) end
    end})
    local want = "write"
    while want ~= true do -- the socket may be another one after each step
        local stream <close> = assert(socket.borrow(raw.descriptor(handle)))
        ok, why, code = wait(stream, want == "write" and "only", deadline)
        if not ok then return nil, why, code end
        want, why = raw.poll(handle)
        if not want then return nil, why, reason_of(why) end
    end
    local stream
    stream, why, code = socket.borrow(raw.descriptor(handle))
    if not stream then return nil, why, code end
    whole = true
    return handle, stream
end

--- Raises an error at the caller's caller unless the options can be those of a connection.
local function check_options(name, options, allowed)
    check.options(name, options, 1, allowed, 4)
    check.option(name, options, 1, "timeout", check.span, "a number of seconds above 0", 4)
    check.option(name, options, 1, "limit", check.size, "a whole number of bytes above 0", 4)
    check.option(name, options, 1, "tls", function(tls)
        return type(tls) == "boolean" or type(tls) == "string"
    end, "a boolean, or a word of libpq's sslmode", 4)
    for _, key in ipairs {"uri", "host", "path", "username", "password", "database", "name",
        "authorities"} do
        check.option(name, options, 1, key, "string", "a string", 4)
    end
end

return {dial = dial, wait = wait, check_options = check_options}
