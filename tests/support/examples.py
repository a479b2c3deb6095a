#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every example and checks that it ends well; reports in TAP.

    examples.py MARE FOLDER [PROGRAM...]

Each FOLDER/*.lua is run by the MARE binary, from the folder above, with nothing on its standard
input; then each compiled example program. An example passes when its exit code is 0 and, where
FOLDER/NAME.out exists, its standard output is exactly that. Where it differs from run to run there
is a FOLDER/NAME.like instead: regular expressions, one a line, of which each must match after what
the one before has matched.
"""
import os
import pathlib
import re
import subprocess
import sys

TIMEOUT = 180 * float(os.environ.get('MARE_TEST_SLOW', '1'))


def unlike(text, path):
    """What is missing in a text that is to be like the lines of a file, or None."""
    at = 0
    for line in path.read_text(encoding='utf-8').splitlines():
        found = re.compile(line, re.MULTILINE).search(text, at)
        if not found:
            return f'nothing like this line of {path.name}: {line}\n{text}'
        at = found.end()
    return None


def complaint(command, expected, root):
    """What is wrong with the run of one example, or None."""
    try:
        done = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return f'still running after {TIMEOUT:g} seconds'
    errors = done.stderr.decode(errors='replace')
    if done.returncode != 0:
        return f'exit code {done.returncode}\n{errors}'
    if expected.exists() and done.stdout != expected.read_bytes():
        got = done.stdout.decode(errors='replace')
        return f'the output is not that of {expected.name}:\n{got}{errors}'
    like = expected.with_suffix('.like')
    return unlike(done.stdout.decode(errors='replace'), like) if like.exists() else None


def main(mare, folder, *programs):
    folder, mare = pathlib.Path(folder).resolve(), os.path.abspath(mare)
    runs = [(path.name, [mare, f'{folder.name}/{path.name}'], path.with_suffix('.out'))
            for path in sorted(folder.glob('*.lua'))]
    for program in programs:
        name = pathlib.Path(program).name.removeprefix('example_')
        runs.append((f'{name}.c', [os.path.abspath(program)], folder / f'{name}.out'))
    print(f'1..{len(runs)}' if runs else '1..0 # SKIP no examples yet')
    bad = 0
    for number, (name, command, expected) in enumerate(runs, 1):
        wrong = complaint(command, expected, folder.parent)
        bad += wrong is not None
        print(f'{"not ok" if wrong else "ok"} {number} - {name}')
        for line in (wrong or '').splitlines():
            print(f'#   {line}')
        sys.stdout.flush()
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
