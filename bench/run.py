#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures every row of the table "speed and size": floor, peers and ours in the same run.

Prints a table, writes bench/out/bench.json, and ends with 0 if every "must" is met and 1 if not.
bench/README.md has the method.
"""
import argparse
import json
import os
import signal
import sys

import harness
from rows import rows

HEADINGS = {"floor": "floor", "erlang": "Erlang", "go": "Go", "nginx": "nginx", "node": "Node",
            "cjson": "lua-cjson", "java": "Java", "etcd": "etcd", "redis": "Redis",
            "corosync": "Corosync", "plain": "plain call",
            "messages": "messages", "alone": "alone", "apart": "apart", "parallel": "parallel",
            "one": "one worker", "ours": "ours"}


def measure(row, tools, repetitions, scale, say):
    """Runs the row's columns in turn, repetition after repetition."""
    samples = {column: [] for column in row.columns}
    missing, failed, not_built = {}, {}, False
    if row.repetitions:
        repetitions = min(repetitions, row.repetitions)
    # Ours last, and next to it what it is compared with: a machine that slows down for a second
    # then slows both.
    order = sorted(row.columns, key=lambda column: (column == "ours") * 2 + (column == row.against))
    for repetition in range(repetitions):
        for column in order:
            program = row.columns[column]
            if column in missing or column in failed:
                continue
            say(f"{row.name}: {HEADINGS[column]}, {repetition + 1} of {repetitions}")
            try:
                figures = program(tools, scale)
                row.pick[column](figures)
                samples[column].append(figures)
            except harness.Absent as reason:
                missing[column] = str(reason)
                not_built = not_built or isinstance(reason, harness.NotBuilt)
            except harness.Failed as reason:
                failed[column] = str(reason)
            except KeyError as reason:
                failed[column] = f"did not print {reason.args[0]}"
    return judge(row, samples, missing, failed, not_built)


def judge(row, samples, missing, failed, not_built):
    """The row's result, as it goes into the JSON file."""
    result = {"name": row.name, "title": row.title, "unit": row.unit, "columns": {},
              "missing": missing, "failed": failed, "score": None, "score_unit": row.score_unit,
              "must": must_text(row), "aim": row.limit_text(row.aim) if row.aim is not None else "",
              "met": None, "aim_met": None, "notes": [], "figures": samples}
    for column, figures in samples.items():
        if figures and column not in failed:
            result["columns"][column] = harness.summary([row.pick[column](f) for f in figures])
    needed = {"ours"} | ({row.against} if row.against else set())
    if row.score:
        needed |= {"floor"} & set(row.columns)
    if needed <= set(result["columns"]):
        score = harness.summary(row.scores(samples))
        result["score"] = score
        result["met"] = row.must is None or row.reaches(score["median"], row.must)
        if row.aim is not None:
            result["aim_met"] = row.reaches(score["median"], row.aim)
        if row.also and set(row.also[1]) <= set(result["columns"]):
            result["met"] = result["met"] and row.also[2](row, samples)
            result["aim_met"] = result["aim_met"] and result["met"]
        elif row.must is None:
            result["met"] = None
    why = row.unjudged(samples) if callable(row.unjudged) else row.unjudged
    if why and not result["met"]:
        result["met"] = result["aim_met"] = None
        result["notes"].append(f"not judged: {why}")
    if failed or not_built:
        result["met"] = False   # What is only absent, such as a peer, leaves the row unjudged.
    for remark in row.notes:
        text = remark(samples) if callable(remark) else remark
        if text:
            result["notes"].append(text)
    return result


def must_text(row):
    texts = [] if row.must is None else [row.limit_text(row.must)]
    return ", ".join(texts + ([row.also[0]] if row.also else []))


def number(value):
    """Three digits that mean something, thousands set apart."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(summary):
    if len(summary["samples"]) < 2:
        return ""
    return f"{number(summary['min'])}–{number(summary['max'])}"


def cells(result, columns):
    """Two lines of text for a row: the medians, and below them least and greatest."""
    top, below = [result["title"]], [""]
    for column in columns:
        summary = result["columns"].get(column)
        if summary:
            top.append(f"{number(summary['median'])} {result['unit']}")
            below.append(spread(summary))
        else:
            gone = column in result["missing"] or column in result["failed"]
            top.append("absent" if gone else "")
            below.append("")
    score = result["score"]
    top.append(f"{score['median']:.2f} {result['score_unit']}" if score else "")
    below.append(f"{score['min']:.2f}–{score['max']:.2f}"
                 if score and len(score["samples"]) > 1 else "")
    mark = {True: "✓", False: "✗", None: "?"}[result["met"]]
    if result["met"] and result["aim_met"]:
        mark += " aim"
    top += [result["must"], result["aim"], mark]
    below += ["", "", ""]
    return top, below


class Paint:
    """Colour on a terminal, plain text elsewhere."""

    def __init__(self, stream):
        self.on = stream.isatty() and not os.environ.get("NO_COLOR")

    def __call__(self, text, code):
        return f"\033[{code}m{text}\033[0m" if self.on else text


def print_table(results, stream):
    paint = Paint(stream)
    columns = [c for c in HEADINGS if any(
        c in result[part] for result in results for part in ("columns", "missing", "failed"))]
    heading = ["what"] + [HEADINGS[c] for c in columns] + ["ratio", "must", "aim", "met"]
    lines = [cells(result, columns) for result in results]
    everything = [heading] + [line for pair in lines for line in pair]
    width = [max(len(line[i]) for line in everything) for i in range(len(heading))]

    def show(line):
        parts = []
        for i, text in enumerate(line):
            right = 1 <= i <= 5
            parts.append(text.rjust(width[i]) if right else text.ljust(width[i]))
        return "  ".join(parts)

    print(paint(show(heading).rstrip(), "1"), file=stream)
    print("─" * (sum(width) + 2 * len(width) - 2), file=stream)
    colour = {True: "32", False: "31", None: "33"}
    for result, (top, below) in zip(results, lines):
        text = show(top)
        mark = top[-1].ljust(width[-1])
        print((text[:-len(mark)] + paint(mark, colour[result["met"]])).rstrip(), file=stream)
        if any(below):
            print(paint(show(below).rstrip(), "2"), file=stream)
    print_remarks(results, stream, paint)


def print_remarks(results, stream, paint):
    print(file=stream)
    width = max(len(result["name"]) for result in results)
    for result in results:
        remarks = list(result["notes"])
        remarks += [f"{HEADINGS[c]}: {why}" for c, why in result["missing"].items()]
        remarks += [paint(f"{HEADINGS[c]}: {why}", "31") for c, why in result["failed"].items()]
        for i, remark in enumerate(remarks):
            print(f"{(result['name'] if i == 0 else '').ljust(width)}  {remark}", file=stream)
    print(file=stream)
    met = sum(result["met"] is True for result in results)
    unknown = sum(result["met"] is None for result in results)
    aims = sum(bool(result["met"] and result["aim_met"]) for result in results)
    text = f"{met} of {len(results)} met, {aims} at the aim"
    if unknown:
        text += f", {unknown} not judged"
    print(text, file=stream)


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=harness.ROOT / "build", help="build folder (build)")
    parser.add_argument("--mare", help="runtime to measure ($MARE, or mare in the build folder)")
    parser.add_argument("--only", action="append", metavar="ROW", help="this row; may be repeated")
    parser.add_argument("--reps", type=int, metavar="N", help="repetitions (5; quick: 2)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, less exact")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--place-data", metavar="FILE", help="round trips for the place rows")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    return parser.parse_args()


def main():
    wanted = options()
    chosen = rows()
    if wanted.place_data:
        os.environ["MARE_PLACE_DATA"] = wanted.place_data
    if wanted.list:
        for row in chosen:
            print(f"{row.name:<11} {row.title}")
        return 0
    if wanted.only:
        unknown = set(wanted.only) - {row.name for row in chosen}
        if unknown:
            print(f"no such row: {', '.join(sorted(unknown))}; --list names them", file=sys.stderr)
            return 2
        chosen = [row for row in chosen if row.name in wanted.only]
    repetitions = max(1, wanted.reps or (2 if wanted.quick else 5))
    tools = harness.Tools(wanted.build, wanted.mare)
    progress = harness.Progress()
    results, interrupted = [], False
    try:
        for i, row in enumerate(chosen):
            results.append(measure(row, tools, repetitions, 0.1 if wanted.quick else 1.0,
                                   lambda text: progress.say(f"[{i + 1}/{len(chosen)}] {text}")))
    except KeyboardInterrupt:   # A whole run takes an hour: what it has measured is not lost.
        interrupted = True
    progress.clear()

    report = {"machine": harness.machine(), "quick": wanted.quick, "repetitions": repetitions,
              "rows": results}
    harness.OUT.mkdir(exist_ok=True)
    (harness.OUT / "bench.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    if wanted.json:
        json.dump(report, sys.stdout, indent=1, ensure_ascii=False)
        print()
    else:
        print_table(results, sys.stdout)
    if interrupted:
        print(f"interrupted: {len(results)} of {len(chosen)} rows were measured", file=sys.stderr)
        return 130
    return 1 if any(result["met"] is False for result in results) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)   # `| head` is no error.
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
