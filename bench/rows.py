# SPDX-License-Identifier: MIT
"""The rows of the table: what each one runs in each column, and what it must reach.

A row's columns are functions of (tools, scale) that return figures; `pick` takes the row's figure
from them. Its score is a list with one value a repetition: ours divided by the floor (or by a
peer) of the same repetition, or ours alone. The median of the score is held against `must`, `aim`.
"""
import subprocess
import time
from dataclasses import dataclass, field
from typing import Callable, Optional

import clock
import etcd
import events
import fair
import groups
import harness
import nodes
import place
import web


@dataclass
class Row:
    name: str
    title: str
    unit: str
    columns: dict
    pick: dict
    must: Optional[float]           # None: there is only a second condition.
    aim: Optional[float] = None
    against: Optional[str] = None   # The column that ours is divided by; None: ours alone.
    more_is_better: bool = False
    score_unit: str = "×"
    repetitions: Optional[int] = None   # At most so many, for the rows that take long.
    score: Optional[Callable] = None    # Replaces the quotient, for the rows that are none.
    also: Optional[tuple] = None        # A second condition: (text, columns it needs, function).
    # Why this machine cannot tell, if it cannot: text, or a function of the samples.
    unjudged: Optional[object] = None
    notes: list = field(default_factory=list)   # Text, or functions of the samples that make it.

    def scores(self, samples):
        """One value a repetition, from {column: [figures, …]}."""
        if self.score:
            return self.score(samples)
        ours = [self.pick["ours"](figures) for figures in samples["ours"]]
        if self.against is None:
            return ours
        base = [self.pick[self.against](figures) for figures in samples[self.against]]
        return [a / b for a, b in zip(ours, base)]

    def reaches(self, value, limit):
        return value >= limit if self.more_is_better else value <= limit

    def limit_text(self, limit):
        sign = "≥" if self.more_is_better else "≤"
        return f"{sign} {limit:g} {self.score_unit}"


def count(n, scale):
    return max(1, int(n * scale))


def key(name, factor=1.0):
    return lambda figures: figures[name] * factor


def median_of(samples, column, name, factor=1.0):
    values = [figures[name] for figures in samples.get(column, []) if name in figures]
    return harness.summary(values)["median"] * factor if values else None


def note(column, name, text, factor=1.0):
    """A line below the table, from a figure that is not the row's own."""
    def make(samples):
        value = median_of(samples, column, name, factor)
        return None if value is None else text.format(value)
    return make


def asked_ratio(samples):
    """The stricter reading: our resident bytes against those that a bare state asks malloc for."""
    ours, floor = median_of(samples, "ours", "bytes"), median_of(samples, "floor", "asked_bytes")
    if not ours or not floor:
        return None
    return f"against the {floor:,.0f} bytes that a bare state asks for: {ours / floor:.2f} ×"


KERNELS = ("calls", "tables", "strings")


def each_kernel(program, place):
    """A fresh interpreter for each, so that none inherits the heap of the one before."""
    def run(tools, scale):
        scale = max(scale, 0.5)     # Two per cent of anything shorter is noise.
        figures = {}
        for name in KERNELS:
            figures.update(program(tools)("preemption.lua", place, scale, name))
        return figures
    return run


def kernel_cost(samples, name):
    """Per cent that a kernel takes longer; of each side the least disturbed run."""
    def best(column):
        return min(figures[f"{name}_ms"] for figures in samples[column])
    return (best("ours") / best("floor") - 1) * 100


def preemption_cost(samples):
    return [max(kernel_cost(samples, name) for name in KERNELS)]


def preemption_note(samples):
    if not samples.get("ours") or not samples.get("floor"):
        return None
    costs = (f"{name} {kernel_cost(samples, name):+.1f} %" for name in KERNELS)
    return "each kernel, best of all repetitions: " + ", ".join(costs)


def kernel_sum(figures):
    return sum(figures[f"{name}_ms"] for name in KERNELS)


def two_interpreters(tools, scale):
    """What the machine itself gives: two stock interpreters, one after the other and at once."""
    turns = 5
    scale = max(scale, 0.5)  # a turn must be long against the start of a thread or a program
    tools.lua("preemption.lua", "stock", 0.01)
    command = ["lua5.4", str(harness.BENCH / "preemption.lua"), "stock", str(2 * scale / turns),
               "calls"]

    def start():
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def in_turn():
        start().wait()
        start().wait()

    def at_once():
        for child in [start(), start()]:
            child.wait()

    def least(action, before):
        begin = time.monotonic()
        action()
        return min(before, time.monotonic() - begin)
    one = two = float("inf")
    for _ in range(turns):
        one, two = least(in_turn, one), least(at_once, two)
    return {"one_ms": one * 1e3, "two_ms": two * 1e3, "speedup": one / two}


def million(tools, scale):
    processes = count(1000000, scale)
    if harness.available_bytes() < 9 * 2**30 * scale:
        raise harness.Absent(f"needs {9 * scale:g} GiB of free memory")
    figures = tools.mare("million.lua", processes, 1000, timeout=1800)
    if figures["answered"] != 1000:
        raise harness.Failed(f"only {figures['answered']:.0f} of 1,000 answered")
    figures["gib"] = figures["bytes"] / 2**30 * (1000000 / processes)
    return figures


def ahead_of_go(row, samples):
    ours = median_of(samples, "ours", "ns")
    return ours < median_of(samples, "go", "ns")


def simulated(*arguments):
    """The simulator's row, absent while the algorithm is."""
    def program(tools, _scale):
        figures = tools.mare("sim.lua", *arguments)
        if "absent" in figures:
            raise harness.Absent(f"there is no algorithm {arguments[1]}")
        return figures
    return program


def fewer_than_two_cores(samples):
    """Two interpreters that share nothing gain less than the row asks for."""
    given = median_of(samples, "floor", "speedup")
    return f"the machine itself gives {given:.2f}" if given is not None and given < 1.9 else None


def rows():
    return [
        Row("pingpong", "ping-pong of one integer", "ns",
            {"floor": lambda t, s: t.floor("pingpong", count(4000000, s)),
             "erlang": lambda t, s: t.erlang("pingpong", count(2000000, s)),
             "go": lambda t, s: t.go("pingpong", count(4000000, s)),
             "ours": lambda t, s: t.mare("pingpong.lua", count(4000000, s))},
            dict.fromkeys(("floor", "erlang", "go", "ours"), key("ns")),
            must=2.0, aim=1.5, against="floor", also=("< Go", ("go",), ahead_of_go)),
        Row("ring", "ring of 503, one hop", "ns",
            {"floor": lambda t, s: {"ring_ns": t.floor("pingpong", count(4000000, s), 503)["ns"],
                                    **t.floor("pingpong", count(4000000, s))},
             "erlang": lambda t, s: t.erlang("ring", count(2000000, s), 503),
             "go": lambda t, s: t.go("ring", count(4000000, s), 503),
             "ours": lambda t, s: t.mare("ring.lua", count(4000000, s), 503)},
            dict.fromkeys(("floor", "erlang", "go", "ours"), key("ns")),
            must=2.5, aim=1.8, against="floor", also=("≤ Go", ("go",), ahead_of_go),
            notes=[note("floor", "ring_ns", "the floor with 503 states: {:.0f} ns")]),
        Row("ringall", "the same, all cores", "ns",
            {"erlang": lambda t, s: t.erlang("ring", count(2000000, s), 503, cores=None),
             "go": lambda t, s: t.go("ring", count(4000000, s), 503, cores=None),
             "ours": lambda t, s: t.mare("ring.lua", count(4000000, s), 503, "all")},
            dict.fromkeys(("erlang", "go", "ours"), key("ns")),
            must=1.0, against="go"),
        Row("fresh", "spawn + finish, fresh state", "µs",
            {"floor": lambda t, s: t.floor("spawn", count(10000, s)),
             "erlang": lambda t, s: t.erlang("spawn", count(200000, s)),
             "go": lambda t, s: t.go("spawn", count(400000, s)),
             "ours": lambda t, s: t.mare("spawn.lua", "fresh", count(100000, s))},
            {"floor": key("libraries_ns", 1e-3), "erlang": key("ns", 1e-3),
             "go": key("ns", 1e-3), "ours": key("ns", 1e-3)},
            must=0.25, aim=0.12, against="floor",
            notes=[note("floor", "bare_ns", "lua_newstate + lua_close: {:.2f} µs", 1e-3),
                   note("floor", "bare_run_ns", "the same, a function loaded and run: {:.2f} µs",
                        1e-3),
                   note("ours", "batch_ns", "64 at a time and mare.wait: {:.2f} µs", 1e-3)]),
        Row("recycled", "the same, recycled", "µs",
            {"erlang": lambda t, s: t.erlang("spawn", count(200000, s)),
             "go": lambda t, s: t.go("spawn", count(400000, s)),
             "ours": lambda t, s: t.mare("spawn.lua", "recycled", count(400000, s))},
            dict.fromkeys(("erlang", "go", "ours"), key("ns", 1e-3)),
            must=0.8, aim=0.4, against="erlang",
            notes=[note("ours", "recycled", "ran in a used state: {:.0f} %", 100),
                   note("erlang", "monitor_ns", "Erlang with spawn_monitor: {:.2f} µs", 1e-3),
                   note("ours", "batch_ns", "64 at a time: {:.2f} µs", 1e-3),
                   note("erlang", "batch_ns", "Erlang 64 at a time: {:.2f} µs", 1e-3),
                   note("go", "batch_ns", "Go 64 at a time: {:.2f} µs", 1e-3)]),
        Row("parked", "parked process, memory", "B",
            {"floor": lambda t, s: t.floor("parked", count(200000, s)),
             "erlang": lambda t, s: t.erlang("parked", count(100000, s)),
             "go": lambda t, s: t.go("parked", count(100000, s)),
             "ours": lambda t, s: {**t.mare("parked.lua", "shared", count(100000, s)),
                                   "own_bytes": t.mare("parked.lua", "own",
                                                       count(100000, s))["bytes"]}},
            dict.fromkeys(("floor", "erlang", "go", "ours"), key("bytes")),
            must=1.5, aim=1.25, against="floor", repetitions=3,
            notes=[asked_ratio,
                   note("ours", "own_bytes", "each on a channel of its own: {:,.0f} B")]),
        Row("million", "1,000,000 parked, memory", "GiB",
            {"ours": million}, {"ours": key("gib")},
            must=8, aim=6.5, score_unit="GiB", repetitions=1,
            notes=[note("ours", "answered", "of 1,000 chosen at random, answered: {:.0f}"),
                   note("ours", "trip_us", "question and answer: {:.2f} µs"),
                   note("ours", "spawn_us", "spawn and park: {:.2f} µs")]),
        Row("preemption", "cost of preemption", "ms",
            {"floor": each_kernel(lambda t: t.lua, "stock"),
             "ours": each_kernel(lambda t: t.mare, "process")},
            {"floor": kernel_sum, "ours": kernel_sum},
            must=2, aim=0, score_unit="%", score=preemption_cost, notes=[preemption_note]),
        Row("timer", "10 ms timer, p99 late", "ms",
            {"ours": lambda t, s: t.mare("timer.lua", count(500, s))}, {"ours": key("p99_ms")},
            must=20, aim=10, score_unit="ms", repetitions=3,
            notes=[note("ours", "p50_ms", "p50 {:.2f} ms"),
                   note("ours", "max_ms", "max {:.2f} ms")]),
        Row("cores", "two workers against one", "×",
            {"floor": two_interpreters,
             "ours": lambda t, s: t.mare("cores.lua", count(120, max(s, 0.5)))},
            {"floor": key("speedup"), "ours": key("speedup")},
            must=1.9, more_is_better=True, unjudged=fewer_than_two_cores,
            notes=["the floor is two stock interpreters at once: what the machine gives"]),
        Row("records", "1,000 records by channel", "µs",
            {"floor": lambda t, s: t.lua("records.lua", "stock", count(1000, s)),
             "ours": lambda t, s: t.mare("records.lua", "process", count(1000, s))},
            {"floor": key("twice_us"), "ours": key("channel_us")},
            must=2, aim=1, against="floor",
            notes=[note("ours", "twice_us", "built twice in a process: {:.0f} µs")]),
        *(Row(f"json{what}", f"JSON of 1 MB, {what}", "ms",
              {"cjson": lambda t, s: t.mare("json.lua", "cjson", count(100, s)),
               "ours": lambda t, s: t.mare("json.lua", "ours", count(100, s))},
              dict.fromkeys(("cjson", "ours"), key(f"{what}_ms")),
              must=1, aim=0.67, against="cjson")
          for what in ("read", "written")),
        Row("sim", "simulated messages, n = 16", "M/s",
            {"ours": simulated("messages", "ricart", 16)}, {"ours": key("per_second", 1e-6)},
            must=1, score_unit="M/s", more_is_better=True, repetitions=3),
        Row("simricart", "one round of ricart, 1,000 enter", "s",
            {"ours": simulated("round", "ricart", 1000)}, {"ours": key("seconds")},
            must=10, score_unit="s", repetitions=3,
            notes=[note("ours", "messages", "messages of it: {:,.0f}")]),
        Row("simring", "one election by ring, n = 10,000", "s",
            {"ours": simulated("round", "ring", 10000)}, {"ours": key("seconds")},
            must=10, score_unit="s", repetitions=3,
            notes=[note("ours", "messages", "messages of it: {:,.0f}")]),
    ] + (fair.rows(Row, key, note) + events.rows(Row, key, note) + etcd.rows(Row, key, note) +
         groups.rows(Row, key, note) + nodes.rows(Row, key, note) + clock.rows(Row, key, note) +
         web.rows(Row, key, note) +
         place.rows(Row, key))
