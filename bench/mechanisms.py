#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws what the coordination mechanisms cost, ours and the source's, from the last `make bench`.

Each is a ratio to a plain call of the same run. Java RMI stands beside them.
"""
import json
import os
import sys

import harness
from plot import Axis, Line, Panel, draw

IMAGE = harness.ROOT / "docs" / "img" / "mechanisms.svg"
DATA = harness.OUT / "bench.json"

# Name, row of ours, the source's milliseconds. Its plain call took 0.863.
SOURCE_CALL = 0.863
FIRST = (("Java RMI", "nodecall", 0.612), ("monitor", "nodemonitor", 0.987),
         ("queue", "nodequeue", 0.972), ("local rule", "nodeconstraint", 0.974),
         ("remote rule", "noderemote", 2.125))
SECOND = (("in parallel", "nodeparallel", 0.979), ("one at a time", "nodeserial", 1.217))


def ratio(row, name):
    """Ours of a row, or None if it was not measured."""
    if row not in ROWS or ROWS[row]["score"] is None:
        return None
    score, columns = ROWS[row]["score"]["median"], ROWS[row]["columns"]
    if name == "Java RMI":
        return columns["java"]["median"] / columns["ours"]["median"] if "java" in columns else None
    if row == "nodeserial": # measured against the row before
        return score * ratio("nodeparallel", name) if ratio("nodeparallel", name) else None
    return score


def panel(title, table, log=False):
    names = [name for name, _, _ in table]
    ours = [(i, ratio(row, name)) for i, (name, row, _) in enumerate(table, 1)]
    axis = Axis("", log=False, whole=True, low=0, high=len(table) + 1,
                unit=lambda i: names[int(i) - 1] if 0 < i <= len(names) else "")
    source = [(i, ms / SOURCE_CALL) for i, (_, _, ms) in enumerate(table, 1)]
    return Panel(title, axis, Axis("time", log=log, low=0.5 if log else 0,
                                   unit=lambda v: f"{v:g} ×"),
                 [Line("Maré", [(i, v) for i, v in ours if v is not None], joined=False),
                  Line("the source", source, 2, joined=False)])


def main():
    if not any(ratio(row, name) for name, row, _ in FIRST):
        print("mechanisms: not measured yet: make bench", file=sys.stderr)
        return 0
    machine = DATA_OF["machine"]
    draw(IMAGE, "What coordination costs over a plain call", [
        panel("A call, in plain calls", FIRST),
        panel("A call of get beside calls of set, in calls of get alone", SECOND, log=True),
    ], f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB")
    print(os.path.relpath(IMAGE, harness.ROOT))
    return 0


DATA_OF = json.loads(DATA.read_text()) if DATA.exists() else {"rows": []}
ROWS = {row["name"]: row for row in DATA_OF["rows"]}

if __name__ == "__main__":
    sys.exit(main())
