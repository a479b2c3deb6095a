#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns the Lua modules under lua/ into a C file, so that the binary carries its own library.

    embed.py OUTPUT FOLDER [FILE...]

FOLDER is lua/; FOLDER/mare/foo.lua becomes the module "mare.foo", FOLDER/mare/init.lua "mare". The
table is sorted by name in byte order, to be searched by halves; src/lua/embedded.h declares it.
"""
import pathlib
import sys

HEAD = '''/* SPDX-License-Identifier: MIT */
/* Made by tools/embed.py from the files under lua/. Do not edit. */
#include "lua/embedded.h"

#pragma GCC diagnostic ignored "-Woverlength-strings"
'''


def module_name(folder, path):
    parts = list(path.resolve().relative_to(folder.resolve()).with_suffix('').parts)
    if parts[-1] == 'init' and len(parts) > 1:
        parts.pop()
    return '.'.join(parts)


def literal(data):
    """C string literals with exactly these bytes, one a line of the source."""
    escapes = {ord('\n'): '\\n', ord('"'): '\\"', ord('\\'): '\\\\', ord('\t'): '\\t'}

    def one(line):
        return ''.join(escapes.get(byte) or (chr(byte) if 32 <= byte < 127 and byte != ord('?')
                                             else f'\\{byte:03o}') for byte in line)
    lines = data.splitlines(keepends=True) or [b'']
    return '\n'.join(f'    "{one(line)}"' for line in lines)


def generate(folder, files):
    modules = sorted((module_name(folder, path).encode(), path.read_bytes()) for path in files)
    names = [name for name, _ in modules]
    twice = {name.decode() for name in names if names.count(name) > 1}
    if twice:
        raise SystemExit(f'embed.py: two files make the module {", ".join(sorted(twice))}')
    out = [HEAD]
    for index, (_, data) in enumerate(modules):
        out.append(f'static const char module_{index}[] =\n{literal(data)};\n')
    out.append('const struct mare__embedded mare__embedded[] = {')
    for index, (name, data) in enumerate(modules):
        out.append(f'    {{"{name.decode()}", module_{index}, {len(data)}}},')
    out.append('    {0, 0, 0}, /* not counted: C has no empty arrays */')
    out.append('};')
    out.append(f'const size_t mare__embedded_count = {len(modules)};\n')
    return '\n'.join(out)


def main(output, folder, *files):
    text = generate(pathlib.Path(folder), [pathlib.Path(file) for file in files])
    pathlib.Path(output).write_text(text, encoding='ascii')


if __name__ == '__main__':
    main(*sys.argv[1:])
