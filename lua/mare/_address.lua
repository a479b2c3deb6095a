-- SPDX-License-Identifier: MIT
-- Splits an address into host and port: "host:port" or "[host]:port". If the caller has a default
-- port, "host" alone will do, also an IPv6 address.

local HOST_MOST = 253 -- letters of a name

--- Returns the host and the port; or nil and why not. Without `port` the text must have one. A
--- listener may have port 0, which means any.
return function(text, port, listens)
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
    if not number then return nil, ("'%s' is not HOST:PORT"):format(text) end
    if number > 65535 then return nil, "a port is a number up to 65535" end
    if number == 0 and not listens then return nil, "nobody is at port 0" end
    if #host > HOST_MOST then return nil, "a host's name has at most 253 letters" end
    return host, number
end
