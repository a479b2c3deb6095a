#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that what people can use is documented.

    check_docs.py [ROOT [MARE]]

- Every public function and type in include/**/*.h has a comment right above it.
- Every function that src/lua/*.c registers, `{"name", function}` in a luaL_Reg table, is in
  docs/reference.
  A name that starts with an underscore is a metamethod or private; so is all of a table whose own
  name starts with `private`, for our Lua modules alone.
- Every command that `MARE help` lists is in docs/reference/cli.md. A command is a line of two
  spaces, the name, two or more spaces and a description.
- Every line of the tables in docs/guide/security.md names a test that is there: lua-NAME `case`.

Prints `file:line: what is missing; where to write it` for each gap, and fails if there is any.
"""
import pathlib
import re
import subprocess
import sys

# A declaration begins in the first column; these are the ones with a public name in them.
FUNCTION = re.compile(r'^(?!typedef|#|\s|extern "C")[A-Za-z_][\w\s*]*?\b(mare_[a-z0-9]\w*)\s*\(')
TYPE = re.compile(r'^(?:typedef\b.*|(?:struct|union|enum)\s+)\b(mare_[a-z0-9]\w*)\b')
COMMENT_END = re.compile(r'\*/\s*$')
REGISTERED = re.compile(r'\{\s*"([A-Za-z]\w*)"\s*,\s*&?(?!luaopen_)([a-z]\w*)\s*[,}]')
COMMAND = re.compile(r'^  ([a-z][a-z-]*)(?:  +\S| *$)')


def commented(lines, index):
    """Whether a comment, or a declaration of the same commented group, stands right above."""
    above = lines[index - 1].strip() if index > 0 else ''
    return above.startswith('//') or bool(COMMENT_END.search(above))


def continues_group(lines, index):
    """A declaration directly below another one, with no blank line between, shares its comment."""
    while index > 0 and lines[index - 1].strip():
        index -= 1
        if commented(lines, index) and not lines[index].strip().startswith(('//', '/*', '*')):
            return True
    return False


def check_headers(root):
    for path in sorted((root / 'include').glob('**/*.h')):
        lines = path.read_text(encoding='utf-8').splitlines()
        for index, line in enumerate(lines):
            match = FUNCTION.match(line) or TYPE.match(line)
            # A forward declaration or a use (`struct mare_x;`) of a type documented elsewhere.
            if not match or re.match(r'^struct\s+\w+\s*;', line):
                continue
            if not commented(lines, index) and not continues_group(lines, index):
                yield (f'{path.relative_to(root)}:{index + 1}: {match[1]} has no comment; say '
                       'above it what it is for, who owns what, which thread may call it, whether '
                       'it can block, its errors')


def check_lua(root):
    text = '\n'.join(path.read_text(encoding='utf-8')
                     for path in sorted((root / 'docs/reference').glob('*.md')))
    for path in sorted((root / 'src/lua').glob('*.c')):
        inside = False  # a table of functions
        for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
            inside = inside or re.search(r'\bluaL_Reg (?!private).*=', line) is not None
            for match in REGISTERED.finditer(line) if inside else ():
                name = match[1]
                # Written as a call on something: mare.spawn(, p:join(, luaproc.send( ...
                if not re.search(rf'[.:]{name}\b', text):
                    yield (f'{path.relative_to(root)}:{number}: the Lua function {name} is not in '
                           'docs/reference; describe it there, as `module.name(...)` or '
                           '`object:name(...)`')
            inside = inside and '};' not in line


def check_commands(root, mare):
    done = subprocess.run([mare, 'help'], capture_output=True, text=True, timeout=60, check=False)
    commands = [match[1] for match in map(COMMAND.match, done.stdout.splitlines()) if match]
    if done.returncode != 0 or not commands:
        yield f'mare help: lists no command (exit code {done.returncode}); it must'
        return
    page = root / 'docs/reference/cli.md'
    text = page.read_text(encoding='utf-8') if page.exists() else ''
    for command in commands:
        if not re.search(rf'`(?:mare )?{command}\b', text):
            yield f'docs/reference/cli.md:1: the command {command} is missing; describe it there'


def check_tests(root):
    page = root / 'docs/guide/security.md'
    if not page.exists():
        return
    default, place = None, page.relative_to(root)
    for number, line in enumerate(page.read_text(encoding='utf-8').splitlines(), 1):
        default = next(iter(re.findall(r'^All in lua-(\w+):', line)), None if line.startswith('#')
                       else default)
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if not line.startswith('|') or cells[-1] in ('shown by', '---'):
            continue
        suite, named = default, 0
        for other, case in re.findall(r'lua-(\w+)|`(\w+)`', cells[-1]):
            suite, named = other or suite, named + bool(case)
            path = root / f'tests/lua/test_{suite}.lua'
            text = path.read_text(encoding='utf-8') if path.exists() else ''
            if case and not re.search(rf'\b{case}\s*[=(]', text):
                yield f'{place}:{number}: there is no case {case} in lua-{suite}'
        if not named:
            yield f'{place}:{number}: no test shows that; name one: lua-NAME `case`'


def main(root='.', mare=None):
    root = pathlib.Path(root)
    gaps = list(check_headers(root)) + list(check_lua(root)) + list(check_tests(root))
    if mare:
        gaps += check_commands(root, mare)
    for gap in gaps:
        print(gap)
    return 1 if gaps else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
