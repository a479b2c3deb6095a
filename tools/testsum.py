#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adds up test runs: prints what failed and why, then one line, `N passed, N failed[, N skipped]`.

    testsum.py [--save FILE] --run NAME CODE LOG ...

CODE is what `meson test` returned, or `build` when there was nothing to test because the build
failed. LOG is Meson's testlog.json, one object a line. Meson counts programs; this counts what they
report, the `ok` and `not ok` lines of their TAP output, and a program without TAP output as one. A
program that fails without saying `not ok` counts as a failure of its own, so a crash cannot hide
behind the cases that passed before it.
"""
import argparse
import json
import re
import sys

TAP_LINE = re.compile(r'^(not )?ok\b(?:\s+\d+)?\s*(?:-\s*)?(.*)$')
DIRECTIVE = re.compile(r'#\s*(skip|todo)\b', re.IGNORECASE)
PLAN = re.compile(r'^1\.\.(\d+)')
TAIL_LINES = 60


class Sum:
    """Counts of one or more runs, and the failures with what they printed."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []

    def fail(self, name, output=''):
        self.failed += 1
        self.failures.append((name, output))

    def line(self):
        text = f'{self.passed} passed, {self.failed} failed'
        return text + (f', {self.skipped} skipped' if self.skipped else '')


def comments_after(lines, index):
    """What a TAP program says about a failure: the lines up to the next verdict."""
    text = []
    for line in lines[index + 1:]:
        if TAP_LINE.match(line) or PLAN.match(line):
            break
        text.append(line + '\n')
    return ''.join(text)


def add_program(total, run, test):
    """One test program as Meson logged it."""
    name = f'{run}: {test["name"]}'
    stdout, stderr = test.get('stdout') or '', test.get('stderr') or ''
    lines = stdout.splitlines()
    reported = bad = planned = 0
    for index, line in enumerate(lines):
        plan = PLAN.match(line)
        planned += int(plan[1]) if plan else 0
        match = TAP_LINE.match(line)
        if not match:
            continue
        reported += 1
        # cmocka writes a skip as `not ok ... # SKIP`: the directive decides before the verdict.
        if DIRECTIVE.search(match[2]):
            total.skipped += 1
        elif match[1]:
            bad += 1
            total.fail(f'{name}: {match[2]}', comments_after(lines, index) + stderr)
            stderr = ''  # once for all the failures of a program
        else:
            total.passed += 1
    result, output = test['result'], stdout + stderr
    if result in ('SKIP', 'EXPECTEDFAIL'):
        total.skipped += 0 if reported else 1
    elif result == 'OK':
        if reported < planned:
            total.fail(f'{name}: planned {planned} cases and reported {reported}', output)
        elif not reported:
            total.passed += 1
    elif not bad:
        total.fail(f'{name}: {result.lower()}, exit code {test.get("returncode")}', output)


def add_run(total, run, code, log):
    """One call of `meson test`."""
    if code == 'build':
        total.fail(f'{run}: does not build')
        return
    failed_before = total.failed
    try:
        with open(log, encoding='utf-8') as lines:
            tests = [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        total.fail(f'{run}: no readable log: {error}')
        return
    for test in tests:
        add_program(total, run, test)
    if code != '0' and total.failed == failed_before:
        total.fail(f'{run}: meson test ended with code {code}')


def report(total, out):
    for name, output in total.failures:
        lines = output.rstrip().splitlines()
        out.write(f'FAILED {name}\n')
        if len(lines) > TAIL_LINES:
            out.write(f'    ... {len(lines) - TAIL_LINES} lines before\n')
        for line in lines[-TAIL_LINES:]:
            out.write(f'    {line}\n')
    if total.passed + total.failed == 0:
        out.write('No test ran.\n')
    out.write(total.line() + '\n')


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('--save', metavar='FILE', help='also write the line of counts there')
    parser.add_argument('--run', nargs=3, action='append', default=[],
                        metavar=('NAME', 'CODE', 'LOG'))
    options = parser.parse_args(argv)
    total = Sum()
    for run, code, log in options.run:
        add_run(total, run, code, log)
    if options.save:
        with open(options.save, 'w', encoding='utf-8') as save:
            save.write(total.line() + '\n')
    sys.stdout.flush()
    report(total, sys.stdout)
    return 0 if total.failed == 0 and total.passed > 0 else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
