#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws docs/img/clock-bounds.svg: true errors of simulated clocks against the bounds they report.

usage: tools/plot_clocks.py [--check] [MARE]

Fails when a reading is further from the truth than its bound; with --check also when the committed
drawing is not what would be drawn now. MARE is build/mare unless given. The simulator is
deterministic: the same file comes out on every machine.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'bench'))
import plot  # noqa: E402

IMAGE = ROOT / 'docs/img/clock-bounds.svg'
SEEDS = 60
BINS = 5  # for a factor of ten
METHODS = (('ntp', 'NTP, a disciplined clock over three strata'),
           ('rbs-mean', 'Reference broadcasts, the mean'),
           ('rbs-line', 'Reference broadcasts, the line'))


def measure(mare):
    """By method: pairs of bound and true error, in nanoseconds."""
    done = subprocess.run([mare, 'clock', 'simulate', '--seeds', str(SEEDS), '--json',
                           '--readings'], capture_output=True, text=True, timeout=300, check=False)
    found = {name: [] for name, _ in METHODS}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        if 'violation' in row:
            sys.exit(f'seed {row["seed"]}: {row["detail"]}')
        if 'reading' in row:
            found[row['reading']].append((row['bound_ns'], row['error_ns']))
    return found


def outside(pairs):
    return sum(error > bound for bound, error in pairs)


def curves(pairs):
    """The largest error of each bin and the one in the middle, at the bound that goes with it."""
    bins = {}
    for bound, error in pairs:
        if bound > 0:
            bins.setdefault(math.floor(BINS * math.log10(bound)), []).append((error, bound))
    largest, middle = [], []
    for at in sorted(bins):
        readings = sorted(bins[at])
        # Not the largest error: the one that comes closest to its bound, which is what counts.
        error, bound = max(readings, key=lambda reading: reading[0] / reading[1])
        largest.append((bound, error))
        middle.append((10 ** ((at + 0.5) / BINS), readings[len(readings) // 2][0]))
    return largest, middle


def panel(title, pairs):
    largest, middle = curves(pairs)
    bounds = [bound for bound, _ in pairs if bound > 0]
    ends = [(min(bounds), min(bounds)), (max(bounds), max(bounds))]
    return plot.Panel(f'{title}: {len(pairs):,} readings',
                      plot.Axis('bound that the reading reports', unit=plot.nanoseconds),
                      plot.Axis('', unit=plot.nanoseconds),
                      [plot.Line('the bound', ends, 2, dashed=True),
                       plot.Line('closest to it', largest, 1, joined=False),
                       plot.Line('half have less', middle, 0)])


def draw(path, found):
    plot.draw(path, 'True error of a reading (up) against the bound it reports (right)',
              [panel(title, found[name]) for name, title in METHODS],
              f'{SEEDS} worlds of "mare clock simulate": oscillators up to 500 ppm wrong, ways of '
              'different length there and back, jitter, losses, liars. tools/plot_clocks.py')


def main():
    words = [word for word in sys.argv[1:] if word != '--check']
    found = measure(words[0] if words else str(ROOT / 'build/mare'))
    wrong = sum(outside(pairs) for pairs in found.values())
    if wrong:
        print(f'{wrong} readings are further from the truth than their bound')
        return 1
    if '--check' not in sys.argv:
        draw(IMAGE, found)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        drawn = pathlib.Path(folder) / IMAGE.name
        draw(drawn, found)
        if not IMAGE.exists() or IMAGE.read_bytes() != drawn.read_bytes():
            print(f'{IMAGE.relative_to(ROOT)} is not what is drawn now: run tools/plot_clocks.py')
            return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
