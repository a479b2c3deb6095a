-- SPDX-License-Identifier: MIT
-- Dates as HTTP writes them.
local date = {}

local months = {Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9,
    Oct = 10, Nov = 11, Dec = 12}

-- The days from 1 January 1970 to a date (by Howard Hinnant's algorithm).
local function days_to(year, month, day)
    if month <= 2 then year = year - 1 end
    local era, of_era = year // 400, year % 400
    local of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
end

-- The year that two digits mean: not more than 50 years from now (RFC 9110 section 5.6.7).
local function year_of(digits)
    local year, now = tonumber(digits), tonumber(os.date "!%Y")
    if #digits > 2 then return year end
    year = now // 100 * 100 + year
    return year > now + 50 and year - 100 or year
end

local TIME = "(%d%d):(%d%d):(%d%d)"
local FORMS = {
    "^%a%a%a, (%d%d)[ -](%a%a%a)[ -](%d%d%d%d) " .. TIME .. " GMT$", -- old cookies have hyphens
    "^%a+day, (%d%d)%-(%a%a%a)%-(%d%d) " .. TIME .. " GMT$",
}

-- Whether there is such a day, and such a second of it; the sixtieth may be a leap second.
local function is_there(year, month, day, h, m, s)
    local next_month = month < 12 and days_to(year, month + 1, 1) or days_to(year + 1, 1, 1)
    return day >= 1 and day <= next_month - days_to(year, month, 1) and h < 24 and m < 60
        and s <= 60
end

--- The seconds since 1970 of a date, in any of the three forms of HTTP (RFC 9110 section 5.6.7);
--- nil: it is not a date.
function date.read(text)
    local day, month, year, h, m, s = text:match(FORMS[1])
    if not day then day, month, year, h, m, s = text:match(FORMS[2]) end
    if not day then
        month, day, h, m, s, year = text:match("^%a%a%a (%a%a%a) ([ %d]%d) " .. TIME
            .. " (%d%d%d%d)$")
    end
    month = months[month]
    if not day or not month then return nil end
    year, day, h, m, s = year_of(year), tonumber(day), tonumber(h), tonumber(m), tonumber(s)
    if not is_there(year, month, day, h, m, s) then return nil end
    return days_to(year, month, day) * 86400 + h * 3600 + m * 60 + s
end

return date
