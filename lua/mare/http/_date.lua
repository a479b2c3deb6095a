-- SPDX-License-Identifier: MIT
-- Dates as HTTP writes them.
local date = {}

local months = {Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9,
    Oct = 10, Nov = 11, Dec = 12}

-- The days from 1 January 1970 to a date (Howard Hinnant's way to count them).
local function days_to(year, month, day)
    if month <= 2 then year = year - 1 end
    local era, of_era = year // 400, year % 400
    local of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
end

--- The seconds since 1970 that a date means, as HTTP writes it (RFC 9110 section 5.6.7), also with
--- hyphens, as old cookies have it; nil: it is none.
function date.read(text)
    local day, month, year, h, m, s =
        text:match "^%a%a%a, (%d%d)[ -](%a%a%a)[ -](%d%d%d%d) (%d%d):(%d%d):(%d%d) GMT$"
    if not day or not months[month] then return nil end
    return days_to(tonumber(year), months[month], tonumber(day)) * 86400 + h * 3600 + m * 60 + s
end

return date
