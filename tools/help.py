#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns the functions described in docs/reference into a C file, for `mare help FUNCTION`.

    help.py OUTPUT FILE...

A function is a heading of the third level that is a signature, as ### `mare.spawn(body, ...)`; its
text goes to the next heading. src/cli/help.h declares the table.
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


def entries(text):
    """The heading and the text of every function of a page."""
    title, body = None, []
    for line in text.splitlines() + ['## ']:
        if re.match(r'#{2,4} ', line):
            if title:
                yield title, '\n'.join(body).strip()
            title, body = (line[4:], []) if line.startswith('### `') else (None, [])
        elif title:
            body.append(line)


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
        for title, body in entries(path.read_text(encoding='utf-8')):
            heading = title.replace('`', '')
            text = f'{heading}\n\n{plain(body)}\n\n(docs/reference/{path.name})\n'
            names = ' ' + ' '.join(names_of(title)) + ' '
            out.append(f'    {{"{names}",\n{literal(text.encode())}}},')
            count += 1
    out += ['    {0, 0},', '};', f'const size_t mare__help_count = {count};', '']
    return '\n'.join(out)


def main(output, *files):
    pathlib.Path(output).write_text(generate([pathlib.Path(file) for file in files]),
                                    encoding='ascii')


if __name__ == '__main__':
    main(*sys.argv[1:])
