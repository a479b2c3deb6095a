# SPDX-License-Identifier: MIT
"""The rows of many processes that compute: who waits beside them, their shares, their number.

All of them run on all cores, and so do the peers.
"""
import os

import events
import harness


def seconds(scale):
    """A worst case needs time to happen."""
    return max(1.0, 10 * scale)


def crowd(loops, time_of=seconds):
    """Columns: a process that sleeps beside endless loops."""
    def go(tools, scale):
        try:  # It stops making them for as long as there are many.
            return tools.go("crowd", loops, time_of(scale), cores=None, timeout=60)
        except harness.Failed as reason:
            raise harness.Absent(str(reason)) from None
    return {"erlang": lambda t, s: t.erlang("crowd", loops, time_of(s), cores=None),
            "go": go,
            "ours": lambda t, s: t.mare("crowd.lua", loops, time_of(s))}


def share():
    return {"erlang": lambda t, s: t.erlang("share", 100, seconds(s), cores=None),
            "go": lambda t, s: t.go("share", 100, seconds(s), cores=None),
            "ours": lambda t, s: t.mare("share.lua", 100, seconds(s))}


def echo_beside(loops):
    def measured(command_of):
        def measure(tools, scale):
            load = tools.build / "bench/floor_echo_load"
            with events.serving(command_of(tools), core=None) as (port, _):
                return harness.run([load, port, 10, 64, max(1, 4 * scale)], timeout=120)
        return measure
    return {"erlang": measured(lambda t: t.erlang_command("echo", loops)),
            "go": measured(lambda t: t.go_command("echo", loops)),
            "ours": measured(lambda t: [str(t.mare_path), str(harness.BENCH / "echo.lua"), "0",
                                        str(loops)])}


def not_behind_erlang(name):
    """Ours is at most Erlang's."""
    def judge(_row, samples):
        def median(column):
            return harness.summary([figures[name] for figures in samples[column]])["median"]
        return median("ours") <= median("erlang")
    return ("≤ Erlang", ("erlang",), judge)


def busy_machine(_samples):
    """Where others take most of the time there are few slices to share, and one is much."""
    load, cores = os.getloadavg()[0], os.cpu_count()  # ours keeps all cores busy itself
    return f"the load is {load:.1f} on {cores} cores" if load > 2 * cores else None


def rows(Row, key, note):
    every = ("erlang", "go", "ours")
    worst = dict.fromkeys(every, key("worst_ms"))
    p99 = [note("ours", "p99_ms", "p99 {:.2f} ms"), note("erlang", "p99_ms", "Erlang's {:.2f} ms"),
           note("go", "p99_ms", "Go's {:.2f} ms")]
    limits = {"score_unit": "ms", "repetitions": 3}
    return [
        Row("sleep1k", "worst sleep of 1 ms, 1,000 loops", "ms", crowd(1000), worst,
            must=None, aim=20, also=not_behind_erlang("worst_ms"), notes=p99, **limits),
        Row("sleep10k", "worst sleep of 1 ms, 10,000 loops", "ms", crowd(10000), worst,
            must=None, aim=100, also=not_behind_erlang("worst_ms"), notes=p99, **limits),
        Row("spawn10k", "10,000 endless loops made", "ms", crowd(10000, lambda _scale: 0.1),
            dict.fromkeys(every, key("spawn_ms")), must=1000, score_unit="ms", repetitions=3,
            notes=["the aim is Erlang's time"]),
        Row("echoloops", "TCP echo beside 600 loops, p99", "ms", echo_beside(600),
            dict.fromkeys(every, key("p99_ms")), must=50, aim=10, score_unit="ms", repetitions=3,
            notes=[note("ours", "per_second", "{:,.0f} messages a second"),
                   note("erlang", "per_second", "Erlang {:,.0f}"),
                   note("go", "per_second", "Go {:,.0f}")]),
        Row("share", "shares of 100 loops, most to least", "%", share(),
            dict.fromkeys(every, key("apart")), must=10, aim=3, score_unit="%", repetitions=3,
            unjudged=busy_machine),
        Row("links", "100,000 linked and monitored, against none", "s",
            {"erlang": lambda t, s: t.erlang("links", int(100000 * s), cores=None),
             "ours": lambda t, s: t.mare("links.lua", int(100000 * s))},
            dict.fromkeys(("erlang", "ours"), key("tied_s")),
            must=1.5, score=lambda samples: [figures["tied_s"] / figures["plain_s"]
                                             for figures in samples["ours"]], repetitions=3,
            notes=[note("ours", "plain_s", "without: {:.2f} s"),
                   note("ours", "doubled", "twice as many take {:.2f} times as long"),
                   note("erlang", "plain_s", "Erlang without: {:.2f} s")]),
    ]
