# SPDX-License-Identifier: MIT
"""The rows of groups: three programs on loopback, each with a folder of its own on this disk."""


def ours(kind, number):
    return lambda t, s: t.mare("groups.lua", kind, max(1000, int(number * s)))


def rows(row_class, key, _note):
    return [
        row_class(
            "grouplock", "a lock of a group, taken and given back", "µs",
            {"plain": ours("call", 10000), "ours": ours("lock", 1000)},
            dict.fromkeys(("plain", "ours"), key("us")), must=3, aim=2, against="plain",
            notes=["a vote is on the disk before it is given: the row says what the disk costs"]),
        row_class(
            "groupcast", "multicast of 64 bytes, delivered at every member", "/s",
            {"ours": ours("multicast", 200000)}, {"ours": key("per_second")},
            must=50000, aim=200000, more_is_better=True, score_unit="/s"),
        row_class(
            "groupreplica", "operations of a replica, pipelined", "/s",
            {"ours": ours("replica", 50000)}, {"ours": key("per_second")},
            must=30000, aim=150000, more_is_better=True, score_unit="/s"),
    ]
