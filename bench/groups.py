# SPDX-License-Identifier: MIT
"""The rows of groups: three programs on loopback, each with a folder of its own on this disk."""
import corosync
import locks

LEASE = 0.2  # seconds, the shortest


def ours(kind, number, *what):
    return lambda t, s: t.mare("groups.lua", kind, max(1000, int(number * s)), *what)


def a_few(kind, number, *what):
    """For those of which a few are many."""
    return lambda t, _: t.mare("groups.lua", kind, number, *what)


def one_way_times(samples):
    """Ours in halves of a plain call."""
    return [2 * figures["us"] / plain["us"]
            for figures, plain in zip(samples["ours"], samples["plain"])]


def beyond_the_lease(samples):
    """In milliseconds, when two round trips were taken off as well."""
    return [figures["ms"] - LEASE * 1000 - 2 * plain["us"] / 1000
            for figures, plain in zip(samples["ours"], samples["plain"])]


def lock_rows(row_class, key, note):
    plain = ours("call", 10000)
    us = key("us")

    def other_lock(name, title, kind, algorithm, must):
        return row_class(
            name, title, "µs", {"plain": plain, "ours": ours(kind, 5000, algorithm)},
            {"plain": us, "ours": us}, must=must, aim=2, against="plain")
    return [
        row_class(
            "grouplock", "a lock of a group, taken and given back", "µs",
            {"erlang": locks.erlang, "etcd": locks.etcd_service, "redis": locks.redis,
             "plain": plain, "ours": ours("lock", 5000)},
            dict.fromkeys(("erlang", "etcd", "redis", "plain", "ours"), us), must=3, aim=2,
            against="plain",
            notes=["Erlang: global, three nodes; etcd: its lock service, three members; Redis: "
                   "SET NX PX and a script, one server"]),
        other_lock("groupcentral", "the same by `central`, from another member", "lock", "central",
                   2.5),
        other_lock("groupricart", "the same by `ricart`", "lock", "ricart", 3),
        row_class(
            "groupown", "the same by `central`, the coordinator's own", "µs",
            {"ours": ours("own", 10000, "central")}, {"ours": us}, must=20, aim=5,
            score_unit="µs"),
        row_class(
            "grouptoken", "the same by `token`, its holder's own", "µs",
            {"ours": ours("own", 10000, "token")}, {"ours": us}, must=20, aim=5,
            score_unit="µs"),
        row_class(
            "groupalone", "the same, nobody to be asked", "µs", {"ours": ours("alone", 10000)},
            {"ours": us}, must=20, aim=5, score_unit="µs"),
        row_class(
            "grouphandover", "hand-over of a lock that two want", "µs",
            {"plain": plain, "ours": ours("handover", 5000)},
            dict.fromkeys(("plain", "ours"), us), must=3, aim=2, score=one_way_times,
            score_unit="one-way times"),
        row_class(
            "groupkill", "holder killed: the next one is inside, beyond its lease", "ms",
            {"plain": plain, "ours": a_few("kill", 5, LEASE)},
            {"plain": key("us", 1e-3), "ours": key("ms")}, must=0, score=beyond_the_lease,
            score_unit="ms", repetitions=3,
            notes=["with the shortest lease, 200 ms; less two round trips",
                   note("ours", "worst_ms", "the slowest of five: {:.0f} ms")]),
        row_class(
            "groupmany", "100,000 locks used once: memory that stays, each", "B",
            {"ours": ours("many", 100000)}, {"ours": key("bytes")}, must=100, aim=0,
            score_unit="B", repetitions=1),
    ]


def rows(row_class, key, note):
    def cast(name, order, must, aim, **beside):
        every = {**beside, "ours": ours("multicast", 200000, order)}
        return row_class(
            name, f"multicast of 64 bytes, {order}, delivered at every member", "/s",
            every, dict.fromkeys(every, key("per_second")),
            must=must, aim=aim, more_is_better=True, score_unit="/s")
    return lock_rows(row_class, key, note) + [
        cast("groupfifo", "fifo", 200000, 500000),
        cast("groupcausal", "causal", 200000, 500000),
        cast("groupcast", "total", 50000, 200000, corosync=corosync.multicast),
        row_class(
            "groupreplica", "operations of a replica, pipelined", "/s",
            {"ours": ours("replica", 50000)}, {"ours": key("per_second")},
            must=30000, aim=150000, more_is_better=True, score_unit="/s"),
        row_class(
            "groupidle", "100 members that do nothing: messages to each", "/s",
            {"ours": a_few("idle", 100)}, {"ours": key("messages")}, must=20, score_unit="/s",
            repetitions=1,
            also=("all up, ≤ 0.5 % of a core each", ("ours",),
                  lambda _, samples: all(f["up"] == 100 and f["processor"] <= 0.5
                                         for f in samples["ours"])),
            notes=[note("ours", "processor", "processor of each: {:.2f} % of a core"),
                   note("ours", "up", "members that were up after a minute: {:.0f}")]),
    ]
