#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures how the runtime scales and draws it: docs/img/*.svg.

Processes from 1 to 1,000,000 (memory and message time), message sizes from 1 B to 16 MiB (a copied
string and a handed-over buffer), workers from 1 to 4, nodes that learn of each other from 3 to
1,000, clients of one monitor and of one synchronizer from 1 to 64. The figures are kept in
bench/out/scaling.json; --draw draws them again without measuring.
"""
import argparse
import json
import os
import sys

import harness
from plot import Axis, Line, Panel, binary_bytes, draw, megabytes_per_second, nanoseconds, short

IMAGES = harness.ROOT / "docs" / "img"
DATA = harness.OUT / "scaling.json"


def median(program, figure, repetitions):
    return harness.summary([program()[figure] for _ in range(repetitions)])["median"]


def measure_processes(tools, quick, say):
    points = []
    floor = tools.floor("parked", 20000 if quick else 200000)["bytes"]
    counts = [1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000, 300000, 1000000]
    for n in counts:
        if quick and n > 30000:
            break
        if harness.available_bytes() < n * 9216:
            say(f"processes: {n} need more memory than is free; stopped there")
            break
        say(f"processes: {n}")
        ours = tools.mare("scaling/processes.lua", n, 20000 if quick else 300000, timeout=1800)
        points.append({"processes": n, "bytes": ours["bytes"], "trip_ns": ours["trip_ns"],
                       "floor_bytes": floor})
    return points


def measure_sizes(tools, quick, say):
    points = []
    size = 1
    while size <= 16 * 2**20:
        # As many messages as move about a gigabyte, but no fewer than 32.
        total = 2**27 if quick else 2**30
        messages = max(32, min(20000 if quick else 400000, total // size))
        point = {"bytes": size}
        for kind in ("string", "buffer"):
            say(f"sizes: {binary_bytes(size)}, {kind}")
            point[kind] = median(lambda: tools.mare("scaling/sizes.lua", kind, size,
                                                    messages if kind == "string"
                                                    else max(messages, 20000)),
                                 "ns", 1 if quick else 3)
        points.append(point)
        size *= 4
    return points


def measure_workers(tools, quick, say):
    points = []
    for n in range(1, 5):
        say(f"workers: {n}")
        runs = [tools.mare("scaling/workers.lua", n, 24 if quick else 96,
                           100000 if quick else 2000000) for _ in range(1 if quick else 3)]
        point = {"workers": n}
        for figure in ("per_s", "messages_per_s"):
            point[figure] = harness.summary([run[figure] for run in runs])["median"]
        points.append(point)
    return points


def measure_nodes(tools, quick, say):
    points = []
    for n in [3, 10, 30, 100] if quick else [3, 10, 30, 100, 300, 1000]:
        say(f"nodes: {n}")
        points.append({"nodes": n, **tools.floor("gossip", n)})
    return points


def measure_contention(tools, quick, say):
    points, calls = [], 2000 if quick else 20000
    for n in [1, 4, 16, 64] if quick else [1, 2, 4, 8, 16, 32, 64]:
        point = {"clients": n}
        for kind in ("call", "monitor", "remote"):
            say(f"contention: {n}, {kind}")
            point[kind] = median(lambda: tools.mare("nodes.lua", kind, calls, n), "per_second",
                                 1 if quick else 3)
        points.append(point)
    return points


MEASURES = {"processes": measure_processes, "sizes": measure_sizes, "workers": measure_workers,
            "nodes": measure_nodes, "contention": measure_contention}


def draw_processes(points, foot):
    def line(figure):
        return [(p["processes"], p[figure]) for p in points]
    count = Axis("live processes", unit=short)
    draw(IMAGES / "processes.svg", "From one process to a million", [
        Panel("Resident memory of one process and its channel",
              count, Axis("bytes", unit=binary_bytes, base=2, low=2048, high=32768),
              [Line("Maré", line("bytes")),
               Line("bare lua_newstate", line("floor_bytes"), 2, dashed=True)]),
        Panel("Question and answer, to a process chosen at random",
              count, Axis("time", unit=nanoseconds, low=100, high=10000),
              [Line("Maré, one worker", line("trip_ns"))]),
    ], foot)


def draw_sizes(points, foot):
    def time(kind):
        return [(p["bytes"], p[kind]) for p in points]

    def rate(kind):
        return [(p["bytes"], p["bytes"] / p[kind] * 1e3) for p in points]
    size = Axis("message size", unit=binary_bytes, base=2)
    draw(IMAGES / "sizes.svg", "From one byte to 16 MiB in a message", [
        Panel("Time of one message", size, Axis("time", unit=nanoseconds, low=100),
              [Line("string, copied", time("string")),
               Line("buffer, handed over", time("buffer"), 1)]),
        Panel("Bytes moved", size, Axis("rate", unit=megabytes_per_second, low=1),
              [Line("string, copied", rate("string")),
               Line("buffer, handed over", rate("buffer"), 1)]),
    ], foot)


def draw_nodes(points, foot):
    def line(figure, factor=1):
        return [(p["nodes"], p[figure] * factor) for p in points]
    count = Axis("nodes", unit=short)
    draw(IMAGES / "nodes.svg", "Nodes that learn of each other", [
        Panel("Until each knows all, from the first start on", count,
              Axis("time", unit=nanoseconds, low=1e7),
              [Line("all know all", line("seconds", 1e9)),
               Line("all have started", line("start_seconds", 1e9), 2, dashed=True)]),
        Panel("Messages that a node has sent", count, Axis("messages", unit=short, low=1),
              [Line("the one that all have joined", line("first_messages_out"), 1),
               Line("each of the others", line("messages_out"))]),
    ], foot)


def draw_contention(points, foot):
    def line(figure):
        return [(p["clients"], p[figure]) for p in points]
    plain = Line("plain calls", line("call"), 2, dashed=True)

    def panel(title, mechanism):
        return Panel(title, Axis("callers at the same time", unit=short, base=2),
                     Axis("calls/s", log=False, unit=short, low=0), [mechanism, plain])
    title = "Many callers of one process on another node: calls in a second"
    draw(IMAGES / "contention.svg", title, [
        panel("Under one monitor", Line("monitor", line("monitor"))),
        panel("Asking one synchronizer on a third node",
              Line("synchronizer", line("remote"), 1)),
    ], foot)


def draw_workers(points, foot, cores):
    def lines(figure):
        one = points[0][figure]
        return [Line("Maré", [(p["workers"], p[figure]) for p in points]),
                Line(f"one worker × min(workers, {cores} cores)",
                     [(p["workers"], one * min(p["workers"], cores)) for p in points],
                     2, dashed=True)]
    workers = Axis("workers", log=False, unit=short, whole=True)
    draw(IMAGES / "workers.svg", "From one worker to four", [
        Panel("CPU-bound processes finished in a second", workers,
              Axis("processes/s", log=False, unit=short, low=0), lines("per_s")),
        Panel("Messages in a second, 64 pairs playing ping-pong", workers,
              Axis("messages/s", log=False, unit=short, low=0), lines("messages_per_s")),
    ], foot)


def draw_all(data):
    machine = data["machine"]
    foot = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB"
    if data.get("processes"):
        draw_processes(data["processes"], foot)
    if data.get("sizes"):
        draw_sizes(data["sizes"], foot)
    if data.get("nodes"):
        draw_nodes(data["nodes"], foot)
    if data.get("contention"):
        draw_contention(data["contention"], foot)
    if data.get("workers"):
        draw_workers(data["workers"], foot, machine["cores"])


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=harness.ROOT / "build", help="build folder (build)")
    parser.add_argument("--mare", help="runtime to measure ($MARE, or mare in the build folder)")
    parser.add_argument("--only", action="append", choices=MEASURES, help="this plot; repeatable")
    parser.add_argument("--quick", action="store_true", help="fewer points, less exact")
    parser.add_argument("--draw", action="store_true", help="draw the last figures again")
    return parser.parse_args()


def main():
    wanted = options()
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    if not wanted.draw:
        tools = harness.Tools(wanted.build, wanted.mare)
        progress = harness.Progress()
        data["machine"] = harness.machine()
        try:
            for name in wanted.only or MEASURES:
                data[name] = MEASURES[name](tools, wanted.quick, progress.say)
        except (harness.Absent, harness.Failed) as reason:
            progress.clear()
            print(f"scaling: {reason}", file=sys.stderr)
            return 1
        progress.clear()
        harness.OUT.mkdir(exist_ok=True)
        DATA.write_text(json.dumps(data, indent=1) + "\n")
    if not data:
        print("scaling: nothing measured yet", file=sys.stderr)
        return 1
    draw_all(data)
    for name in MEASURES:
        if data.get(name):
            print(os.path.relpath(IMAGES / f"{name}.svg", harness.ROOT))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
