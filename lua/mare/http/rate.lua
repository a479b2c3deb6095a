-- SPDX-License-Identifier: MIT
-- Limits how often a client may ask: each has a bucket of tokens, which fills again at a rate.
--
-- Buckets are kept in two tables, a young and an old one. A bucket that is used moves to the young
-- table. When that is full, the old table is dropped, and the young one becomes the old one. So
-- memory has a limit, however many clients ask. A forgotten client begins again with a full bucket.
local mare, checks = require "mare", require "mare._check"
local read_address = require "mare.http._address"

local rate = {}

local known = checks.set("burst", "key", "most", "now")

local function is_count(value) return math.type(value) == "integer" and value >= 1 end

-- A host with an IPv6 address has a network of at least 2^64 addresses, and may ask from each: all
-- of them count as one client.
local function network_of(address)
    local bytes = address and address:find(":", 1, true) and read_address(address)
    return bytes and #bytes == 16 and bytes:sub(1, 8) or address
end

--- A wrapper for handlers. It lets each client ask `per_second` times a second, and `burst` times
--- at once (as often as in a second, and at least once); other requests get a 429 with Retry-After.
--- Options: `key`, a function of the request that returns the client's name; nil: the request is
--- not counted (usually `request.client` if `proxied.trust` has set it, else `request.peer`; for
--- IPv6 the /64). `most`, how many clients are remembered (100,000). `now`, the clock.
function rate.limit(per_second, options)
    options = options or {}
    checks.argument("limit", per_second, 1, "number")
    checks.argument("limit", options, 2, "table")
    checks.options("limit", options, 2, known)
    if per_second ~= per_second or per_second <= 0 then
        error("bad argument #1 to 'limit' (it must be above 0)", 2)
    end
    checks.option("limit", options, 2, "burst", is_count, "a positive integer")
    checks.option("limit", options, 2, "most", is_count, "a positive integer")
    checks.option("limit", options, 2, "key", "function", "a function")
    checks.option("limit", options, 2, "now", "function", "a function")
    local burst = options.burst or math.max(1, math.ceil(per_second))
    local now, half = options.now or mare.now, math.max(1, (options.most or 100000) // 2)
    local key = options.key or function(request)
        return network_of(request.client or request.peer)
    end
    local young, old, count = {}, {}, 0

    -- Takes a token. Returns nothing, or the seconds until there is one.
    local function take(who)
        local time, bucket = now(), young[who]
        if not bucket then
            if count >= half then young, old, count = {}, young, 0 end
            bucket = old[who] or {left = burst, at = time}
            old[who], young[who], count = nil, bucket, count + 1
        end
        bucket.left = math.min(burst, bucket.left + (time - bucket.at) * per_second)
        bucket.at = time
        if bucket.left < 1 then return (1 - bucket.left) / per_second end
        bucket.left = bucket.left - 1
    end

    return function(handler)
        return function(request, ...)
            request.handler = handler
            local who = key(request)
            local wait = who ~= nil and take(who)
            if not wait then return handler(request, ...) end
            return {status = 429, headers = {["retry-after"] = math.max(1, math.ceil(wait))},
                body = "429 Too Many Requests\n"}
        end
    end
end

return rate
