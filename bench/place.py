#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Network coordinates on measured round trips: the rows of the table, and the plot of the errors.

    place.py [PATH]        draws docs/img/place-errors.svg, the published figures beside ours

PATH is the matrix of round trips, by default ../shared/data/planetlab/rtt_ms_490_slice1.tsv beside
the checkout, or what MARE_PLACE_DATA names. It is not part of the project: without it the rows are
not judged. The published figures are those of its README.
"""
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import harness
from plot import Axis, Line, Panel, draw, short

SEEDS = 5
DEFAULT = harness.ROOT.parent / "shared" / "data" / "planetlab" / "rtt_ms_490_slice1.tsv"
# Median and 90th percentile: the coordinate package of hashicorp/serf, an optimiser that sees every
# pair at once, and a plain GNP with 20 landmarks.
SERF = {2: (0.112, 0.543), 8: (0.079, 0.370)}
OFFLINE = {2: (0.088, 0.388), 8: (0.064, 0.200)}
GNP, GNP_WITHIN_2 = (0.075, 0.234), 0.98


def data_path():
    path = Path(os.environ.get("MARE_PLACE_DATA") or DEFAULT)
    if not path.exists():
        raise harness.Absent(f"no matrix at {path}; MARE_PLACE_DATA names another")
    return path


@functools.lru_cache(maxsize=None)
def evaluate(mare, *arguments):
    """What `mare place evaluate` says of the matrix; each question is asked once."""
    if not Path(mare).exists():
        raise harness.NotBuilt("not built: make")
    command = [str(mare), "place", "evaluate", str(data_path()), "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise harness.Failed(done.stderr.strip() or f"exit {done.returncode}")
    return json.loads(done.stdout)


def ours(*arguments):
    return lambda tools, scale: evaluate(tools.mare_path, *arguments)


def published(**figures):
    def column(_tools, _scale):
        data_path()     # a figure on data that is not there says nothing
        return figures
    return column


def spread(name, factor=1.0):
    def note(samples):
        if not samples.get("ours"):
            return None
        found = samples["ours"][0]
        return (f"over {found['runs']} seeds {found[name + '_least'] * factor:.4g} to "
                f"{found[name + '_most'] * factor:.4g}; matrix {data_path()}")
    return note


def error_row(make, key, name, title, figure, given, limits, *arguments):
    return make(name, title, "", {"floor": published(**{figure: given}),
                                  "ours": ours("--seeds", SEEDS, *arguments)},
                {"floor": key(figure), "ours": key(figure)}, must=limits[0], aim=limits[1],
                score_unit="", repetitions=1, notes=[spread(figure)])


def rows(make, key):
    """The rows; `make` is the class of a row, `key` picks a figure."""
    made = []
    for dimensions, median, p90 in ((8, (0.079, 0.068), (0.370, 0.26)),
                                    (2, (0.112, 0.098), (0.543, 0.43))):
        for figure, given, limits in (("median", SERF[dimensions][0], median),
                                      ("p90", SERF[dimensions][1], p90)):
            made.append(error_row(make, key, f"place{dimensions}{figure}",
                                  f"Vivaldi {dimensions}+h, {figure} error", figure, given, limits,
                                  "--dimensions", dimensions))
    made.append(make("placejoin", "probes until a newcomer is there", "",
                     {"ours": ours("--seeds", 3, "--joining", 98)}, {"ours": key("probes")},
                     must=20, aim=10, score_unit="", repetitions=1,
                     notes=[lambda samples: "nine tenths of them: {:.0f}".format(
                         samples["ours"][0]["probes_p90"]) if samples.get("ours") else None]))
    # What the specification says must do little harm, held against the same limits: one liar that
    # always says the same and seems nearest to all, and a third gone at half time. That triangles
    # are broken in the data, on which all rows are judged, is a row of its own.
    made.append(error_row(make, key, "placeliar", "Vivaldi 8+h, one steady liar, p90", "p90",
                          SERF[8][1], (0.370, 0.26), "--liars", 1, "--steady"))
    made.append(error_row(make, key, "placeleave", "Vivaldi 8+h, a third leaves, p90", "p90",
                          SERF[8][1], (0.370, 0.26), "--leaving", 163))
    made.append(make("placebroken", "triangles broken in the matrix", "%",
                     {"ours": ours("--seeds", SEEDS, "--dimensions", 8)},
                     {"ours": key("broken", 100)}, must=10, score_unit="%", more_is_better=True,
                     repetitions=1, notes=[spread("median")]))
    gnp = ("--algorithm", "gnp")
    made.append(error_row(make, key, "gnpmedian", "GNP 20 landmarks, median error", "median",
                          GNP[0], (0.085, 0.075), *gnp))
    made.append(make("gnpwithin", "GNP, pairs within a factor of 2", "%",
                     {"floor": published(within_2=GNP_WITHIN_2),
                      "ours": ours("--seeds", SEEDS, *gnp)},
                     {"floor": key("within_2", 100), "ours": key("within_2", 100)},
                     must=95, aim=98, score_unit="%", more_is_better=True, repetitions=1,
                     notes=[spread("within_2", 100)]))
    made.append(make("vivaldi", "1,000,000 Vivaldi updates", "s",
                     {"ours": lambda tools, scale: tools.floor("vivaldi")},
                     {"ours": key("seconds")}, must=1, score_unit="s", repetitions=3))
    return made


def curve(found, label, colour=0):
    points = [(error, part) for part, error in enumerate(found["distribution"])
              if part % 4 == 2 and error <= 0.6]
    return Line(label, points, colour)


def marks(label, figures, colour):
    return Line(label, [(figures[0], 50), (figures[1], 90)], colour, joined=False)


def panel(title, found, others):
    lines = [curve(found, "ours")] + [marks(label, figures, colour)
                                      for label, figures, colour in others]
    return Panel(title, Axis("relative error at most", log=False, low=0, high=0.6, unit=short),
                 Axis("", log=False, low=0, high=100, unit=lambda value: f"{value:g} %"), lines)


def main(path=None):
    if path:
        os.environ["MARE_PLACE_DATA"] = path
    tools = harness.Tools(harness.ROOT / "build")
    try:
        def ask(*arguments):
            return evaluate(tools.mare_path, "--distribution", *arguments)
        panels = [panel(f"Vivaldi, {n} dimensions + height", ask("--dimensions", n),
                        [("serf", SERF[n], 1), ("offline optimum", OFFLINE[n], 2)])
                  for n in (8, 2)]
        panels.append(panel("GNP, 20 landmarks, 7 dimensions", ask("--algorithm", "gnp"),
                            [("a plain GNP", GNP, 2)]))
    except (harness.Absent, harness.Failed) as reason:
        print(reason, file=sys.stderr)
        return 1
    out = harness.ROOT / "docs" / "img" / "place-errors.svg"
    draw(out, "Part of the pairs of 490 PlanetLab hosts predicted within an error", panels,
         "Published figures: median and 90th percentile, from the README of the data. Seed 1.")
    print(f"{out}, from {data_path()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
