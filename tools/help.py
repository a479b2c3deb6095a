#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns the functions and modules described in docs/reference into a C file, for `mare help NAME`.

    help.py OUTPUT FILE...

A function is a heading that is a signature, as ### `mare.spawn(body, ...)`, whose text goes to the
next heading; or the first cell of a row of a table. A module is a heading that names one, as
# The `mare.http` module. src/cli/help.h declares the table.
"""
import pathlib
import re
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from embed import literal  # noqa: E402

HEAD = '''/* SPDX-License-Identifier: MIT */
/* Made by tools/help.py from docs/reference. Do not edit. */
#include "cli/help.h"

#pragma GCC diagnostic ignored "-Woverlength-strings"
'''
SIGNATURE = re.compile(r'`((?:\w+[.:])*)(\w+)')
WIDTH = 92  # as the help of the commands
LINK = re.compile(r'\[([^\]]+)\]\([^)]*\)')


def sections(text):
    """The level, the heading and the text of everything that has a heading."""
    level, title, body, code = 0, None, [], False
    for line in text.splitlines() + ['# ']:
        code ^= line.startswith('```')
        heading = not code and re.match(r'(#{1,4}) (.*)', line)
        if not heading:
            body.append(line)
            continue
        if title:
            yield level, title, '\n'.join(body).strip()
        level, title, body = len(heading[1]), heading[2], []


def entries(text):
    """The heading and the text of every function of a page."""
    for level, title, body in sections(text):
        if level > 1 and re.match(r'`[^`]*[(`]', title) and (level == 3 or '(' in title):
            yield title, body
        for line in body.splitlines():
            row = re.match(r'\| (`\w+[.:]\w[^|]*[({][^|]*?) \|(.*)\|$', line)
            if row:
                yield row[1], row[2].strip().replace(' | ', ': ')


def modules(text):
    """The names, the heading and the text of every module of a page, with what is in it."""
    functions = []
    for title, _ in entries(text):
        functions += [before + name for before, name in SIGNATURE.findall(title) if before]
    for level, title, body in sections(text):
        found = re.findall(r'`((?:mare\.)?[a-z0-9.]+)`', title) if level < 3 else []
        if found:
            what = ', '.join(dict.fromkeys(functions))
            yield found, title, body + (f'\n\nFunctions: {what}.' if functions else '')


def names_of(title):
    """`p:alive()`, `p:id()` can be asked for as p:alive, alive, p:id and id."""
    found = []
    for before, name in SIGNATURE.findall(title):
        found += [before + name, name]
    return sorted(set(found))


def plain(text):
    """The text for a terminal: without marks, paragraphs filled to WIDTH, code indented."""
    out, code, filling = [], False, []
    for line in text.splitlines() + ['']:
        fence = line.startswith('```')
        if not code:
            line = LINK.sub(r'\1', line).replace('**', '')
        if line and not (code or fence or re.match(r'[|#]|- |\d+\. | ', line)):
            filling.append(line)
            continue
        out += textwrap.wrap(' '.join(filling), WIDTH, break_on_hyphens=False)
        filling = []
        if fence:
            code = not code
            out.append('')
        elif not re.match(r'[|-]+$', line):
            out.append(f'    {line}' if code and line else line)
    return re.sub(r'\n{3,}', '\n\n', '\n'.join(out)).strip()


def generate(pages):
    out, count = [HEAD, 'const struct mare__help mare__help[] = {'], 0
    for path in sorted(pages, key=lambda path: (path.name != 'lua.md', path)):  # mare.* first
        text = path.read_text(encoding='utf-8')
        found = [(names_of(title), title, body) for title, body in entries(text)]
        for names, title, body in modules(text):
            found.append((names + [name.removeprefix('mare.') for name in names], title, body))
        for names, title, body in found:
            heading = title.replace('`', '')
            text = f'{heading}\n\n{plain(body)}\n\n(docs/reference/{path.name})\n'
            names = ' ' + ' '.join(dict.fromkeys(names)) + ' '
            out.append(f'    {{"{names}",\n{literal(text.encode())}}},')
            count += 1
    out += ['    {0, 0},', '};', f'const size_t mare__help_count = {count};', '']
    return '\n'.join(out)


def main(output, *files):
    pathlib.Path(output).write_text(generate([pathlib.Path(file) for file in files]),
                                    encoding='ascii')


if __name__ == '__main__':
    main(*sys.argv[1:])
