#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws docs/img/messages.svg: messages as simulated (dots) on the formulas of the sources (lines).

usage: tools/plot_formulas.py [--check] [MARE]

Fails when a measurement differs from its formula; with --check also when the committed drawing is
not what would be drawn now. MARE is build/mare unless given. The simulator is deterministic: the
same file comes out on every machine.
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'bench'))
import plot  # noqa: E402

IMAGE = ROOT / 'docs/img/messages.svg'
LARGEST = 200
STYLE = """
  .s3 { stroke: #1a7f37; } .d3 { fill: #1a7f37; }
  .s4 { stroke: #8250df; } .d4 { fill: #8250df; }
  .thin { fill: none; stroke-width: 1.4; }
  @media (prefers-color-scheme: dark) {
    .s3 { stroke: #3fb950; } .d3 { fill: #3fb950; }
    .s4 { stroke: #a371f7; } .d4 { fill: #a371f7; }
  }
"""


def votes(n):
    """m of the voting algorithm: three quarters of the replicas, and more than half."""
    return max(3 * n // 4, n // 2 + 1)


# By panel: algorithm, which end of the measured range, the formula in words and as a function.
PANELS = (
    ('Mutual exclusion, an entry and exit', (
        ('majority', 'most', '3(n−1)', lambda n: 3 * (n - 1)),
        ('voting', 'most', '3m, m = ¾n', lambda n: 3 * votes(n)),
        ('ricart', 'most', '2(n−1)', lambda n: 2 * (n - 1)),
        ('central', 'most', '3', lambda n: 3),
        ('token', 'least', '1, when all want in', lambda n: 1))),
    ('Elections', (
        ('wireless', 'most', '3(n−1)², all neighbours', lambda n: 3 * (n - 1) ** 2),
        ('bully', 'most', '(n−1)(n+1), lowest calls', lambda n: n * n - 1),
        ('ring', 'most', '2n', lambda n: 2 * n),
        ('bully', 'least', 'n−1, highest calls', lambda n: n - 1))),
    ('Ordered multicast, one message', (
        ('total', 'most', 'n(n−1)', lambda n: n * (n - 1)),
        ('views', 'most', '2(n−1)', lambda n: 2 * (n - 1)),
        ('causal', 'most', 'n−1, and so fifo', lambda n: n - 1))),
)


def measure(mare):
    done = subprocess.run([mare, 'sim', '--table', '--json'], capture_output=True, text=True,
                          timeout=300, check=False)
    return {table['algorithm']: table['rows'] for table in json.loads(done.stdout)}


def differences(tables):
    """What the simulator itself calls different, and what differs from the formulas here."""
    for name, rows in tables.items():
        for row in rows:
            if not row['agrees']:
                yield f'{name}, n = {row["n"]}: the simulator measures another cost than it says'
    for _, lines in PANELS:
        for name, end, words, formula in lines:
            for row in tables[name]:
                measured = row[f'messages_{end}']
                if measured != formula(row['n']):
                    yield f'{name}, n = {row["n"]}: {measured} messages, {words} is ' \
                          f'{formula(row["n"])}'


def draw_panel(title, lines, tables, left):
    top, height = plot.TOP, plot.PANEL_HEIGHT
    values = [formula(n) for *_, formula in lines for n in (2, LARGEST)]
    x_axis = plot.Axis('n, members of the group', unit=plot.short)
    panel = plot.Panel(title, x_axis, plot.Axis('messages', unit=plot.short))
    x = plot.Scale(x_axis, [2, LARGEST], left, left + plot.PANEL_WIDTH)
    y = plot.Scale(panel.y, values, top + height, top)
    out = [plot.tag('text', title, class_='panel', x=left, y=top - 14)]
    out += plot.draw_grid(panel, x, y, left, top)
    for colour, (name, end, words, formula) in enumerate(lines):
        points = ' '.join(f'{plot.px(x.place(n))},{plot.px(y.place(formula(n)))}'
                          for n in range(2, LARGEST + 1))
        out.append(plot.tag('polyline', class_=f'thin s{colour}', points=points))
        out += [plot.tag('circle', class_=f'd{colour}', cx=plot.px(x.place(row['n'])),
                         cy=plot.px(y.place(row[f'messages_{end}'])), r=2.8)
                for row in tables[name]]
        key = top + 16 + 15 * colour
        out.append(plot.tag('circle', class_=f'd{colour}', cx=left + 12, cy=key - 4, r=3.2))
        out.append(plot.tag('text', f'{name}: {words}', class_='key', x=left + 20, y=key))
    return out


def draw(tables):
    step = plot.LEFT + plot.PANEL_WIDTH + plot.RIGHT
    width, height = step * len(PANELS), plot.TOP + plot.PANEL_HEIGHT + plot.BOTTOM
    title = 'Messages as simulated (dots) on the formulas of the sources (lines)'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           f'width="{width}" height="{height}" role="img">',
           plot.tag('title', title), f'<style>{plot.STYLE}{STYLE}</style>',
           plot.tag('rect', class_='page', width=width, height=height, rx=8),
           plot.tag('text', title, class_='title', x=plot.LEFT, y=32)]
    for i, (name, lines) in enumerate(PANELS):
        out += draw_panel(name, lines, tables, i * step + plot.LEFT)
    out.append(plot.tag('text', 'Without faults or rivals. tools/plot_formulas.py draws this from '
                        '"mare sim --table --json".', class_='foot', x=plot.LEFT, y=height - 9))
    out.append('</svg>')
    return '\n'.join(out) + '\n'


def main():
    words = [word for word in sys.argv[1:] if word != '--check']
    tables = measure(words[0] if words else str(ROOT / 'build/mare'))
    wrong = list(differences(tables))
    for difference in wrong:
        print(difference)
    if wrong:
        return 1
    drawing = draw(tables)
    if '--check' not in sys.argv:
        IMAGE.write_text(drawing, encoding='utf-8')
    elif not IMAGE.exists() or IMAGE.read_text(encoding='utf-8') != drawing:
        print(f'{IMAGE.relative_to(ROOT)} is not what is drawn now: run tools/plot_formulas.py')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
