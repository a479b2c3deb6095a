-- SPDX-License-Identifier: MIT
-- Draws a network from above: what `mare sim FIGURE --map FILE.svg` writes. A map is a list of
-- panels, three in a row, which show the same places at several times:
--
--     {title =, nodes = {{x =, y =, name =, note =, mark =}, …}, lines = {{from =, to =, kind =,
--      text =}, …}}
--
-- Places are numbers of any size: all panels get the same scale. `mark` is "token" or "leader".
-- A line is between two nodes, by their numbers in the list; its kind is "link", "tree" (an arrow
-- along it), "way" (an arrow beside it, in another colour) or "weak" (dotted).
local WIDTH, HEIGHT, EDGE, TOP, RADIUS = 460, 420, 50, 60, 17

local STYLE = [[
text{font:15px sans-serif;fill:#222}
.title{font-weight:bold}
.name{text-anchor:middle;font-weight:bold}
.note{font-size:13px;fill:#555}
.said{font-size:13px;fill:#a33;text-anchor:middle}
circle{fill:#fff;stroke:#444;stroke-width:1.5}
.token{fill:#f6d860}
.leader{fill:#9fd49f;stroke-width:3}
.link{stroke:#999;stroke-width:1.5}
.weak{stroke:#999;stroke-width:1.2;stroke-dasharray:3 4}
.tree{stroke:#245fa8;stroke-width:3.5;marker-end:url(#tree)}
.way{stroke:#a33;stroke-width:2;marker-end:url(#way)}]]

local ARROW = [[<marker id="%s" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="%d" ]]
    .. [[markerHeight="%d" orient="auto" markerUnits="userSpaceOnUse">]]
    .. [[<path d="M0 0L10 5L0 10z" fill="%s"/></marker>]]

local function safe(text)
    return (tostring(text):gsub("[&<>\"]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;",
        ['"'] = "&quot;"}))
end

-- A function from places to the points of a panel.
local function scale_of(panels)
    local least, most = {x = math.huge, y = math.huge}, {x = -math.huge, y = -math.huge}
    for _, panel in ipairs(panels) do
        for _, node in ipairs(panel.nodes) do
            for _, axis in ipairs {"x", "y"} do
                least[axis] = math.min(least[axis], node[axis])
                most[axis] = math.max(most[axis], node[axis])
            end
        end
    end
    local function along(value, axis, room)
        local span = most[axis] - least[axis]
        return span > 0 and (value - least[axis]) / span * room or room / 2
    end
    return function(node)
        return EDGE + along(node.x, "x", WIDTH - 2 * EDGE),
            TOP + along(node.y, "y", HEIGHT - TOP - EDGE)
    end
end

local function draw_line(add, line, x1, y1, x2, y2)
    local dx, dy = x2 - x1, y2 - y1
    local length = math.max(1, math.sqrt(dx * dx + dy * dy))
    dx, dy = dx / length, dy / length
    local aside = line.kind == "way" and 7 or 0 -- so that what goes along a line is beside it
    x1, y1 = x1 + dx * RADIUS - dy * aside, y1 + dy * RADIUS + dx * aside
    x2, y2 = x2 - dx * (RADIUS + 2) - dy * aside, y2 - dy * (RADIUS + 2) + dx * aside
    add('<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>', line.kind, x1, y1, x2, y2)
    if line.text then
        add('<text class="said" x="%.1f" y="%.1f">%s</text>', (x1 + x2) / 2 - dy * 20,
            (y1 + y2) / 2 + dx * 14 + 4, safe(line.text))
    end
end

local function draw_panel(add, panel, place)
    add('<text class="title" x="%d" y="24">%s</text>', EDGE - RADIUS, safe(panel.title))
    for _, line in ipairs(panel.lines or {}) do
        local x1, y1 = place(panel.nodes[line.from])
        draw_line(add, line, x1, y1, place(panel.nodes[line.to]))
    end
    for _, node in ipairs(panel.nodes) do
        local x, y = place(node)
        add('<circle%s cx="%.1f" cy="%.1f" r="%d"/>',
            node.mark and (' class="%s"'):format(node.mark) or "", x, y, RADIUS)
        add('<text class="name" x="%.1f" y="%.1f">%s</text>', x, y + 5, safe(node.name))
        if node.note then
            add('<text class="note" x="%.1f" y="%.1f">%s</text>', x + RADIUS - 2, y - RADIUS + 3,
                safe(node.note))
        end
    end
end

--- The map as the text of an SVG file.
return function(panels)
    local parts, place = {}, scale_of(panels)
    local function add(form, ...) parts[#parts + 1] = form:format(...) end
    local columns = math.min(3, #panels)
    add('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d">', columns * WIDTH,
        (#panels + columns - 1) // columns * HEIGHT)
    add("<style>%s</style><defs>%s%s</defs>", STYLE, ARROW:format("tree", 13, 13, "#245fa8"),
        ARROW:format("way", 9, 9, "#a33"))
    add '<rect width="100%%" height="100%%" fill="#fff"/>'
    for i, panel in ipairs(panels) do
        add('<g transform="translate(%d %d)">', (i - 1) % columns * WIDTH,
            (i - 1) // columns * HEIGHT)
        draw_panel(add, panel, place)
        add "</g>"
    end
    add "</svg>\n"
    return table.concat(parts, "\n")
end
