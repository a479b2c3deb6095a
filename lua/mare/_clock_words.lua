-- SPDX-License-Identifier: MIT
-- How `mare clock` writes spans, references and a chart of offsets.
local words = {}

local UNITS = {{9, "s"}, {6, "ms"}, {3, "us"}, {0, "ns"}} -- powers of ten of a nanosecond

-- The power of ten of the first digit of a span; 0 for less than a nanosecond.
local function power_of(ns)
    local power = 0
    while ns >= 10 do ns, power = ns / 10, power + 1 end
    return power
end

--- Writes a span with three digits: "12.3 us". An offset gets as many more digits as its bound
--- needs: "-3.00012 s" if the bound is "1.04 ms".
function words.span(ns, sign, bound)
    local size = math.abs(ns)
    local power, unit = power_of(size), nil
    for _, one in ipairs(UNITS) do
        unit = unit or power >= one[1] and one
    end
    local last = power - 2 -- the power of ten of the last digit
    if bound then last = math.min(last, power_of(bound) - 2) end
    local decimals = math.min(math.max(unit[1] - last, 0), unit[1])
    local text = ((sign and "%+." or "%.") .. decimals .. "f"):format(ns / 10.0 ^ unit[1])
    if not bound and decimals > 0 then text = text:gsub("%.?0+$", "") end
    return text .. " " .. unit[2]
end

--- Writes a reference identifier; what it means depends on the stratum: "PPS", "192.0.2.1".
function words.reference(id, stratum)
    local bytes = string.pack(">I4", id)
    if stratum > 1 then return ("%d.%d.%d.%d"):format(bytes:byte(1, 4)) end
    return bytes:match '^[^%c%s"\\\128-\255]*'
end

-- ---- A chart, drawn over the one before it ------------------------------------------------------
--
--     +40 us ┤      ╷
--            ┤  ╷   │ ╷          a dot is an offset, the line through it its error bound
--       0 ns ┼──●─●─●─●──
--            ┤  ╵ ╵ ╵ ╵

local LABEL, LINES_MOST, LINES_LEAST, BELOW, COLUMNS = 12, 20, 5, 2, 200

local Chart = {}
Chart.__index = Chart

function words.chart() return setmetatable({drawn = 0}, Chart) end

--- Adds a column; without an offset nothing was known.
function Chart:add(offset, bound)
    self[#self + 1] = {offset = offset, bound = bound}
    if #self > COLUMNS then table.remove(self, 1) end
end

-- The largest distance from zero that has to be shown, from column `first` on.
function Chart:reach(first)
    local reach = 1
    for i = first, #self do
        local one = self[i]
        if one.offset then reach = math.max(reach, math.abs(one.offset) + one.bound) end
    end
    return reach
end

local function cell(one, low, high)
    if not one.offset then return nil end
    if one.offset >= low and one.offset < high then return "●" end
    return one.offset - one.bound < high and one.offset + one.bound >= low and "│" or nil
end

function Chart:line(first, columns, line, lines, reach)
    local step, zero = 2 * reach / (lines - 1), line == lines // 2
    local middle = zero and 0 or reach - step * line
    local named = zero or line == 0 or line + 1 == lines
    local row = {("\27[K%12s %s"):format(named and words.span(middle, not zero) or "",
        zero and "┼" or "┤")}
    for k = 0, columns - 1 do
        local one = self[first + k]
        row[#row + 1] = one and cell(one, middle - step / 2, middle + step / 2)
            or zero and "─" or " "
    end
    return table.concat(row)
end

--- The bytes that draw it on a terminal of that size and leave the cursor on the line below.
function Chart:draw(width, height)
    local columns = math.min(width > LABEL + 4 and width - LABEL - 4 or 1, COLUMNS)
    local lines = math.min(math.max(height - BELOW - 1, LINES_LEAST), LINES_MOST) | 1
    local first = math.max(#self - columns + 1, 1)
    local reach = self:reach(first)
    local rows = {self.drawn > 0 and ("\27[%dA"):format(self.drawn + 1) or ""} -- and the line below
    for line = 0, lines - 1 do
        rows[#rows + 1] = self:line(first, columns, line, lines, reach) .. "\n"
    end
    self.drawn = lines
    return table.concat(rows) .. "\27[K"
end

--- Cuts a line to a width: a line that wraps would spoil the chart.
function words.cut(line, columns)
    local after = utf8.offset(line, columns)
    return after and line:sub(1, after - 1) or line
end

return words
