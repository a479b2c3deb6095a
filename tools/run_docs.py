#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the programs in the documentation and checks that they print what it says.

    run_docs.py MARE [FILE.md...]        without files: README.md and docs/**/*.md

A block of Lua is a whole program, and the block after it is what it prints:

    ```lua                  app.lua, run in an empty folder with nothing on its standard input
    print(1 + 1)
    ```
    ```text                 standard output and standard error, exactly; a line `...` stands for any
    2                       lines, `...` in a line for any text. `text exit 3` wants that exit code.
    ```

or it is marked as a piece of one, ```lua fragment, and is left alone. Prints `file:line: what is
wrong` for each block that fails, and fails if any does.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TIMEOUT = 30 * float(os.environ.get('MARE_TEST_SLOW', '1'))
FENCE = re.compile(r'^```\s*(.*?)\s*$')


def blocks(text):
    """The fenced blocks of a page: (line number, info string, contents, what separates it)."""
    found, opened, between = [], None, ''
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None:
            if fence:
                opened = (number, fence[1], [], between.strip())
            between += line + '\n'
        elif fence and not fence[1]:
            found.append((opened[0], opened[1], '\n'.join(opened[2]), opened[3]))
            opened, between = None, ''
        else:
            opened[2].append(line)
    return found


def programs(text):
    """(line, source, expected output or None, exit code) of each Lua block that is no fragment."""
    page = blocks(text)
    for at, (line, info, source, _) in enumerate(page):
        if info != 'lua':
            continue
        following = page[at + 1] if at + 1 < len(page) else None
        wanted = following and re.fullmatch(r'text(?: exit (\d+))?', following[1])
        # A few words may stand between the two ("prints"), but not a paragraph.
        if wanted and len(following[3].splitlines()) <= 1:
            yield line, source, following[2], int(wanted[1] or 0)
        else:
            yield line, source, None, 0


def matches(expected, got):
    pattern = ''.join('(?:.*\n)*' if line == '...' else
                      '.*'.join(map(re.escape, line.split('...'))) + '\n'
                      for line in expected.splitlines())
    return re.fullmatch(pattern, got if got.endswith('\n') or not got else got + '\n') is not None


def complaint(mare, source, expected, code):
    """What is wrong with one program, or None."""
    if expected is None:
        return 'no ```text block with its output follows; write one, or mark it ```lua fragment'
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / 'app.lua').write_text(source + '\n', encoding='utf-8')
        try:
            done = subprocess.run([os.path.abspath(mare), 'app.lua'], cwd=folder, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            return f'still running after {TIMEOUT:g} seconds'
    if done.returncode != code:
        return f'exit code {done.returncode} instead of {code}; it printed:\n{done.stdout}'
    if not matches(expected, done.stdout):
        return f'it printed:\n{done.stdout}'
    return None


def pages(root):
    return [path for path in [root / 'README.md', *sorted((root / 'docs').glob('**/*.md'))]
            if path.exists()]


def check(mare, files):
    """(file, line, complaint or None) of each program in these pages."""
    for path in files:
        for line, *program in programs(pathlib.Path(path).read_text(encoding='utf-8')):
            yield path, line, complaint(mare, *program)


def main(mare, *files):
    bad = 0
    for path, line, wrong in check(mare, files or pages(pathlib.Path('.'))):
        if wrong:
            bad += 1
            print(f'{path}:{line}: {wrong}')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
