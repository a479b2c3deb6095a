# SPDX-License-Identifier: MIT
"""Draws charts as self-contained SVG: logarithmic axes, grid, labels, for light and dark pages.

A chart is a row of panels; a panel has two axes and some lines. Nothing here measures: see
scaling.py, which calls draw().
"""
import math
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

PANEL_WIDTH, PANEL_HEIGHT = 400, 250
LEFT, RIGHT, TOP, BOTTOM = 70, 26, 92, 62

STYLE = """
  text { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #57606a; }
  .page { fill: #ffffff; }
  .frame { fill: none; stroke: #d0d7de; }
  .grid { stroke: #d8dee4; stroke-width: 1; }
  .fine { stroke: #eff2f5; stroke-width: 1; }
  .title { font-size: 17px; font-weight: 600; fill: #1f2328; }
  .panel { font-size: 13px; font-weight: 600; fill: #1f2328; }
  .axis, .tick, .key, .foot { font-size: 11.5px; }
  .foot { font-size: 10.5px; }
  .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
  .dashed { stroke-dasharray: 5 5; stroke-width: 1.8; }
  .s0 { stroke: #0969da; } .d0 { fill: #0969da; }
  .s1 { stroke: #bc4c00; } .d1 { fill: #bc4c00; }
  .s2 { stroke: #6e7781; } .d2 { fill: #6e7781; }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1; }
    .page { fill: #0d1117; }
    .frame { stroke: #3d444d; }
    .grid { stroke: #2a313c; }
    .fine { stroke: #191f27; }
    .title, .panel { fill: #f0f6fc; }
    .s0 { stroke: #58a6ff; } .d0 { fill: #58a6ff; }
    .s1 { stroke: #f0883e; } .d1 { fill: #f0883e; }
    .s2 { stroke: #8b949e; } .d2 { fill: #8b949e; }
  }
"""


@dataclass
class Line:
    label: str
    points: list            # (x, y) pairs
    colour: int = 0         # 0 and 1 are loud, 2 is for what ours is compared with
    dashed: bool = False
    joined: bool = True     # Otherwise there are only its points.


@dataclass
class Axis:
    label: str
    log: bool = True
    unit: object = str      # Makes the text of a tick from its value.
    low: float = None       # The axis reaches at least from low to high.
    high: float = None
    base: int = 10
    whole: bool = False     # Ticks at whole numbers only.


@dataclass
class Panel:
    title: str
    x: Axis
    y: Axis
    lines: list = field(default_factory=list)


def short(value):
    """1000000 as 1 M, 0.002 as 0.002."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def nanoseconds(value):
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g} ns"


def binary_bytes(value):
    for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g} B"


def megabytes_per_second(value):
    for size, unit in ((1e6, "TB/s"), (1e3, "GB/s")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g} MB/s"


class Scale:
    """Maps the values of an axis to a stretch of pixels, and knows where its ticks are."""

    def __init__(self, axis, values, start, end):
        values = list(values) + [v for v in (axis.low, axis.high) if v is not None]
        self.axis, self.start, self.end = axis, start, end
        self.fine = []
        if axis.log:
            self.log_range(min(values), max(values))
        else:
            self.linear_range(min(values), max(values))

    def log_range(self, low, high):
        base = self.axis.base
        first = math.floor(math.log(low, base) + 1e-9)
        last = math.ceil(math.log(high, base) - 1e-9)
        last = max(last, first + 1)
        self.low, self.high = base ** first, base ** last
        step = max(1, math.ceil((last - first) / 8))
        self.ticks = [base ** e for e in range(first, last + 1, step)]
        if base == 10 and step == 1:
            self.fine = [m * 10 ** e for e in range(first, last) for m in range(2, 10)]

    def linear_range(self, low, high):
        if low == high:
            high = low + 1
        rough = (high - low) / 6
        power = 10 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
        step = max(1, round(step)) if self.axis.whole else step
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        self.low, self.high = first * step, last * step
        self.ticks = [i * step for i in range(first, last + 1)]

    def place(self, value):
        if self.axis.log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def tag(name, text=None, **attributes):
    words = "".join(f' {k.rstrip("_").replace("_", "-")}="{escape(str(v), {chr(34): "&quot;"})}"'
                    for k, v in attributes.items())
    return f"<{name}{words}/>" if text is None else f"<{name}{words}>{escape(text)}</{name}>"


def px(value):
    return f"{value:.1f}"


def draw_grid(panel, x, y, left, top):
    out = []
    bottom, right = top + PANEL_HEIGHT, left + PANEL_WIDTH
    for values, kind in ((x.fine, "fine"), (x.ticks, "grid")):
        for value in values:
            at = px(x.place(value))
            out.append(tag("line", class_=kind, x1=at, x2=at, y1=top, y2=bottom))
    for values, kind in ((y.fine, "fine"), (y.ticks, "grid")):
        for value in values:
            at = px(y.place(value))
            out.append(tag("line", class_=kind, x1=left, x2=right, y1=at, y2=at))
    out.append(tag("rect", class_="frame", x=left, y=top, width=PANEL_WIDTH, height=PANEL_HEIGHT))
    for value in x.ticks:
        out.append(tag("text", panel.x.unit(value), class_="tick", x=px(x.place(value)),
                       y=bottom + 17, text_anchor="middle"))
    for value in y.ticks:
        out.append(tag("text", panel.y.unit(value), class_="tick", x=left - 8,
                       y=px(y.place(value) + 4), text_anchor="end"))
    out.append(tag("text", panel.x.label, class_="axis", x=left + PANEL_WIDTH / 2, y=bottom + 37,
                   text_anchor="middle"))
    return out


def draw_panel(panel, left):
    lines = [Line(l.label, [(a, b) for a, b in l.points
                            if (a > 0 or not panel.x.log) and (b > 0 or not panel.y.log)],
                  l.colour, l.dashed, l.joined) for l in panel.lines]
    lines = [line for line in lines if line.points]
    top = TOP
    xs = [a for line in lines for a, _ in line.points] or [1]
    ys = [b for line in lines for _, b in line.points] or [1]
    x = Scale(panel.x, xs, left, left + PANEL_WIDTH)
    y = Scale(panel.y, ys, top + PANEL_HEIGHT, top)
    out = [tag("text", panel.title, class_="panel", x=left, y=top - 30)]
    out += draw_grid(panel, x, y, left, top)
    at = left
    for line in lines:
        dash = " dashed" if line.dashed else ""
        where = [(x.place(a), y.place(b)) for a, b in line.points]
        if line.joined:
            out.append(tag("polyline", class_=f"line s{line.colour}{dash}",
                           points=" ".join(f"{px(a)},{px(b)}" for a, b in where)))
        if not line.dashed:
            out += [tag("circle", class_=f"d{line.colour}", cx=px(a), cy=px(b), r=3.2)
                    for a, b in where]
        out.append(tag("line", class_=f"line s{line.colour}{dash}", x1=at, x2=at + 20,
                       y1=top - 14, y2=top - 14))
        out.append(tag("text", line.label, class_="key", x=at + 26, y=top - 10))
        at += 26 + 6.4 * len(line.label) + 22
    return out


def draw(path, title, panels, foot=""):
    """Writes the chart to a file."""
    step = LEFT + PANEL_WIDTH + RIGHT
    width, height = step * len(panels), TOP + PANEL_HEIGHT + BOTTOM
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           f'width="{width}" height="{height}" role="img">',
           tag("title", title), f"<style>{STYLE}</style>",
           tag("rect", class_="page", width=width, height=height, rx=8),
           tag("text", title, class_="title", x=LEFT, y=32)]
    for i, panel in enumerate(panels):
        out += draw_panel(panel, i * step + LEFT)
    if foot:
        out.append(tag("text", foot, class_="foot", x=LEFT, y=height - 9))
    out.append("</svg>")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(out) + "\n")
