-- SPDX-License-Identifier: MIT
-- What people write for a host and a port, taken apart: "host:port", "[host]:port" or, with a port
-- of its own, "host" alone, which may be an IPv6 address.

--- The host and the port; or nil and why not. Without `port` one must be written.
return function(text, port)
    if type(text) ~= "string" then
        return nil, "an address is a string, not a " .. type(text)
    end
    local host, number = text:match "^%[([^%]]+)%]:(%d+)$"
    if not host then host, number = text:match "^([^:]+):(%d+)$" end
    if not host then
        host, number = text:match "^%[([^%]]+)%]$" or text, port
        if host == "" or host:find "[%[%]]" then number = nil end
    end
    number = math.tointeger(tonumber(number))
    if not number then return nil, ("'%s' is no HOST:PORT"):format(text) end
    if number < 1 or number > 65535 then return nil, "a port is between 1 and 65535" end
    return host, number
end
