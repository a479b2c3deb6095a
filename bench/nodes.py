# SPDX-License-Identifier: MIT
"""The rows of nodes: two or three programs over loopback, beside the same in C, Java and Erlang."""
import socket


def port_mapper():
    """The environment of Erlang's programs that have a port mapper of their own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {"ERL_EPMD_PORT": str(port), "ERL_EPMD_ADDRESS": "127.0.0.1"}


def erlang(tools, scale):
    return tools.erlang("nodes", max(1000, int(10000 * scale)), cores=None, env=port_mapper())


def ahead_of(*names):
    """Whether our median is below that of each of these figures: (column, name)."""
    def check(row, samples):
        ours = sorted(figures["us"] for figures in samples["ours"])
        middle = ours[len(ours) // 2]
        for column, name in names:
            theirs = sorted(figures[name] for figures in samples[column])
            if middle >= theirs[len(theirs) // 2]:
                return False
        return True
    return check


def ours(kind, calls):
    return lambda t, s: t.mare("nodes.lua", kind, max(100, int(calls * s)))


def gets(kind):
    """Calls of get: as many as the source's, also in a quick run, for they take some 30 ms."""
    return lambda t, s: t.mare("nodes.lua", kind, 1000)


def hub(tools, scale):
    """A node that light ones are connected with, all of them in a program of their own."""
    lights = tools.build / "bench" / "floor_peers"
    return tools.mare("hub.lua", lights, 5000, max(4, 20 * scale))


def pair(row_class, key, kind, title, must, aim):
    """A mechanism in calls, against calls without it in the same repetition."""
    return row_class(
        f"node{kind}", title, "µs",
        {"plain": ours("call", 20000), "ours": ours(kind, 20000)},
        dict.fromkeys(("plain", "ours"), key("us")), must=must, aim=aim, against="plain")


def rows(row_class, key, note):
    def mechanism(*arguments):
        return pair(row_class, key, *arguments)
    return [
        row_class(
            "nodecall", "call and reply between nodes", "µs",
            {"floor": lambda t, s: t.floor("tcp", "call", max(1000, int(50000 * s))),
             "java": lambda t, s: t.java("Nodes", max(1000, int(20000 * s))),
             "erlang": erlang,
             "ours": ours("call", 20000)},
            {"floor": key("us"), "java": key("us"), "erlang": key("call_us"), "ours": key("us")},
            must=1.5, aim=1.2, against="floor",
            also=("< Java RMI, erpc", ("java", "erlang"),
                  ahead_of(("java", "us"), ("erlang", "call_us"))),
            notes=[note("erlang", "message_us", "Erlang, bare messages to and fro: {:.1f} µs")]),
        mechanism("tls", "the same over TLS", 1.3, None),
        row_class(
            "nodepipelined", "pipelined calls between nodes", "µs",
            {"erlang": erlang,
             "messages": ours("messages", 200000), "ours": ours("pipelined", 50000)},
            {"erlang": key("pipelined_us"), "messages": key("us"), "ours": key("us")},
            must=1, aim=0.5, against="erlang",
            notes=["Erlang's are messages, ours calls; our messages are in a column of their own"]),
        row_class(
            "nodebig", "1 MiB messages between nodes", "/s",
            {"floor": lambda t, s: t.floor("tcp", "big", max(100, int(3000 * s))),
             "ours": ours("big", 1500)},
            dict.fromkeys(("floor", "ours"), key("per_second")),
            must=0.5, aim=0.8, against="floor", more_is_better=True),
        row_class(
            "nodepeers", "5,000 peers held, with heartbeats", "",
            {"floor": lambda t, s: t.floor("peers", "hold", 5000, max(4, 20 * s)),
             "ours": hub},
            dict.fromkeys(("floor", "ours"), key("held")),
            must=1, against="floor", more_is_better=True, repetitions=3,
            notes=[note("floor", "kib", "floor, links in C alone: {:.0f} KiB a peer"),
                   note("floor", "cpu", "floor: {:.0f} % of a core"),
                   note("ours", "kib", "ours: {:.0f} KiB a peer"),
                   note("ours", "cpu", "ours: {:.0f} % of a core"),
                   note("ours", "up_s", "ours: all connected after {:.1f} s"),
                   note("ours", "lost", "ours: {:.0f} times one was lost, and came again")]),
        mechanism("monitor", "call under a monitor", 1.10, 1.05),
        mechanism("queue", "call through the queue", 1.05, 1.02),
        mechanism("constraint", "call with a local constraint", 1.06, 1.03),
        mechanism("remote", "call with a remote constraint", 2.2, 2.0),
        row_class(
            "nodeparallel", "get beside set, in parallel", "µs",
            {"alone": gets("get"), "ours": gets("parallel")},
            dict.fromkeys(("alone", "ours"), key("us")), must=1.1, against="alone",
            notes=[note("ours", "set_us", "set, of which the rule takes 1,000 µs: {:,.0f} µs")]),
        row_class(
            "nodebusy", "get beside set, rules that say yes", "µs",
            {"alone": gets("get"), "apart": gets("apart"), "ours": gets("busy")},
            dict.fromkeys(("alone", "apart", "ours"), key("us")), must=1.1, against="alone",
            notes=["apart: the same sets, of a program that the server knows nothing of",
                   note("apart", "set_us", "set, apart: {:.1f} µs"),
                   note("ours", "set_us", "set, ours: {:.1f} µs")]),
        row_class(
            "nodeserial", "get beside set, one at a time", "µs",
            {"parallel": gets("parallel"), "ours": gets("serial")},
            dict.fromkeys(("parallel", "ours"), key("us")), must=1.1, aim=1.24,
            against="parallel", more_is_better=True,
            notes=[note("ours", "set_us", "set, of which the rule takes 1,000 µs, and which each "
                        "get waits for: {:,.0f} µs")]),
    ]
