#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what was decided against beside what is built: docs/decisions/012.

    python3 bench/variants.py [--reps N] [--seconds N] [--only echo] [--build-only]

A variant is a patch in bench/variants. The tree is copied into bench/out/variants, patched and
built there, so that the program itself has no second mechanism. The rows are those of events.py,
each column in turn, repetition after repetition. A server is on one core, with the load on the
last ("one core"), or wherever the system puts its threads ("all cores").
"""
import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import events
import harness

PATCH = harness.BENCH / "variants" / "io-thread.patch"
PLACE = harness.OUT / "variants" / "io-thread"


def apply_patch(place, *options):
    """Patches the tree at the place; the text of what went wrong, or None."""
    with PATCH.open("rb") as text:
        done = subprocess.run(["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", *options],
                              stdin=text, cwd=place, capture_output=True, check=False)
    return None if done.returncode == 0 else (done.stdout + done.stderr).decode()


def not_copied(folder, names):
    """What was built, and the copies themselves."""
    if Path(folder) == harness.ROOT:
        return [name for name in names if name.startswith((".", "build"))]
    return {"out", "__pycache__"} & set(names)


def run_here(place, *command):
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise harness.Failed(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def build_both():
    """The tree as it is, and its patched copy. What has not changed is not built again."""
    run_here(harness.ROOT, "tools/build.sh", "build")
    shutil.copytree(harness.ROOT, PLACE, ignore=not_copied, dirs_exist_ok=True)
    wrong = apply_patch(PLACE)
    if wrong:
        raise harness.Failed(f"{PATCH.name} does not apply:\n{wrong}")
    if not (PLACE / "build" / "build.ninja").exists():
        run_here(PLACE, "meson", "setup", "build")
    run_here(PLACE, "ninja", "-C", "build", "--quiet", "mare")
    return PLACE / "build" / "mare"


# ---- Columns ------------------------------------------------------------------------------------

def load_echo(tools, port, seconds):
    command = [tools.build / "bench/floor_echo_load", port, 50, 64, seconds]
    return harness.run(events.pinned(os.cpu_count() - 1, command))


def load_http(_tools, port, seconds):
    return events.wrk(port, seconds, os.cpu_count() - 1)


def server(load, program, script, core, workers=1):
    """A column: the script on the program, under the load."""
    def measure(tools, seconds):
        command = [str(program), str(harness.BENCH / script), str(workers)]
        with events.serving(command, core=core) as (port, _):
            return load(tools, port, seconds)
    return measure


def server_floor(tools):
    def measure(_tools, seconds):
        with events.serving([tools.build / "bench/floor_echo"]) as (port, _):
            return load_echo(tools, port, seconds)
    return measure


def placed(load, script, loops, thread):
    return {"a loop a worker, one core": server(load, loops, script, 0),
            "one I/O thread, one core": server(load, thread, script, 0),
            "a loop a worker, all cores": server(load, loops, script, None),
            "one I/O thread, all cores": server(load, thread, script, None)}


def rows(tools, thread):
    """Name, title and columns of each row; the first column is the floor."""
    loops = tools.mare_path
    echo_floor = {"the same server in C on libuv": server_floor(tools)}
    http_floor = {"nginx, one worker": lambda t, seconds: events.nginx(t, seconds / 4)}
    two = {"a loop a worker, all cores": server(load_http, loops, "http.lua", None, 2),
           "one I/O thread, all cores": server(load_http, thread, "http.lua", None, 2)}
    return [("echo", "TCP echo, 64 bytes, 50 connections, one worker",
             echo_floor | placed(load_echo, "echo.lua", loops, thread)),
            ("http", "HTTP hello, 50 kept, one worker",
             http_floor | placed(load_http, "http.lua", loops, thread)),
            ("httptwo", "HTTP hello, 50 kept, two workers", http_floor | two)]


# ---- The table ----------------------------------------------------------------------------------

def measure_row(columns, tools, repetitions, seconds, say):
    """{column: [thousands a second, …]}; an empty list for what is not installed."""
    samples = {name: [] for name in columns}
    for repetition in range(repetitions):
        for name, column in columns.items():
            say(f"{name}, {repetition + 1} of {repetitions}")
            try:
                samples[name].append(column(tools, seconds)["per_second"] / 1000)
            except harness.Absent:
                pass
    return samples


def print_row(title, samples):
    floor = next(iter(samples.values()))
    print(f"\n{title}\n{'':<32}{'median k/s':>12}{'least–greatest':>18}{'of the floor':>14}")
    for name, values in samples.items():
        if not values:
            print(f"{name:<32}{'absent':>12}")
            continue
        found = harness.summary(values)
        part = (f"{harness.summary([v / f for v, f in zip(values, floor)])['median']:.2f} ×"
                if floor else "")
        spread = f"{found['min']:.1f}–{found['max']:.1f}"
        print(f"{name:<32}{found['median']:>12.1f}{spread:>18}{part:>14}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reps", type=int, default=3, metavar="N", help="repetitions (3)")
    parser.add_argument("--seconds", type=int, default=2, metavar="N", help="of each load (2)")
    parser.add_argument("--only", action="append", metavar="ROW", help="echo, http or httptwo")
    parser.add_argument("--build-only", action="store_true", help="build both, and stop")
    return parser.parse_args()


def main():
    wanted = options()
    progress = harness.Progress()
    tools = harness.Tools(harness.ROOT / "build", harness.ROOT / "build" / "mare")
    progress.say("building both")
    try:
        thread = build_both()
        if wanted.build_only:
            return 0
        for name, title, columns in rows(tools, thread):
            if not wanted.only or name in wanted.only:
                samples = measure_row(columns, tools, wanted.reps, wanted.seconds, progress.say)
                progress.clear()
                print_row(title, samples)
    except harness.Failed as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
