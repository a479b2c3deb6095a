#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the rules of the tree that a compiler does not: who may include whom, and the like.

    check_layout.py [ROOT]

Prints one line for each breach, `file:line: what is wrong; what to do`, and fails if there is any.
The table of layers is read from docs/architecture.md, so that the drawing and the rule are one.
"""
import pathlib
import re
import sys

LINE_WIDTH = 100

# What talks to the operating system: src/platform is the only folder that may include these. For
# the pure folders they are forbidden however indirectly they come.
SYSTEM_HEADERS = re.compile(
    r'^(pthread|threads|sched|semaphore|time|signal|ucontext|poll|netdb|uv|ifaddrs)\.h$'
    r'|^(sys/(time|timerfd|socket|select|epoll|eventfd|signalfd|random|un|resource)|net/.*'
    r'|netinet/.*|arpa/.*|linux/.*|openssl/.*)\.h$')
LUA_HEADERS = re.compile(r'^(lua|lauxlib|lualib|luaconf)\.h$')
PURE_FOLDERS = ('coord', 'wire')
IMPURE_CALLS = re.compile(
    r'(?<![\w.>])(rand|srand|rand_r|random|srandom|drand48|lrand48|arc4random|getrandom|time|clock'
    r'|clock_gettime|gettimeofday|sleep|usleep|nanosleep)\s*\(')

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CONDITIONAL = re.compile(r'^\s*#\s*(if|ifdef|ifndef|elif)\b\s*(.*)')
TABLE_ROW = re.compile(r'^\|\s*([a-z]+)\s*\|([a-z\s]*)\|\s*$')
SOURCE = {'.c', '.h', '.lua', '.py', '.sh'}
SPDX_ALSO = {'Makefile', 'meson.build', 'meson_options.txt', '.clang-format', '.clang-tidy',
             '.luacheckrc', 'run', 'packages.txt'}
SKIP = re.compile(r'^(build.*|\.git|\.cache|__pycache__|out|golden|corpus)$')


def layers(root):
    """The table of docs/architecture.md: folder -> set of folders it may include."""
    table = {}
    for line in (root / 'docs/architecture.md').read_text(encoding='utf-8').splitlines():
        row = TABLE_ROW.match(line)
        if row and row[1] != 'folder':
            table[row[1]] = set(row[2].split())
    return table


def tree(root):
    """Every file that is not generated, relative to the root."""
    todo = [root]
    while todo:
        for path in sorted(todo.pop().iterdir()):
            if SKIP.match(path.name):
                continue
            if path.is_dir():
                todo.append(path)
            else:
                yield path.relative_to(root)


def without_comments(text):
    """The text of a C file with comments and strings blanked, line for line."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda match: re.sub(r'[^\n]', ' ', match[0]), text)


class Checker:
    def __init__(self, root):
        self.root = root
        self.table = layers(root)
        self.breaches = []
        self.reach = {}

    def breach(self, path, line, text):
        self.breaches.append(f'{path}:{line}: {text}')

    def folder(self, path):
        """The layer that a file belongs to: src/sched/x.c -> sched, sim/x.c -> sim."""
        parts = path.parts
        if parts[0] == 'src' and len(parts) > 2:
            return parts[1]
        return parts[0] if parts[0] == 'sim' else None

    def resolve(self, path, name):
        """The project's file that an include means, or None for the system's."""
        here = pathlib.Path(*path.parts[:-1])
        for base in (here, pathlib.Path('src'), pathlib.Path('include'), pathlib.Path('.')):
            if (self.root / base / name).is_file():
                full = (self.root / base / name).resolve()
                return full.relative_to(self.root.resolve())
        return None

    def includes(self, path):
        text = (self.root / path).read_text(encoding='utf-8', errors='replace')
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                yield number, match[2]

    def forbidden_reach(self, path, visiting=()):
        """The first forbidden header that a file brings in, as a chain of names, or None."""
        if path in self.reach or path in visiting:
            return self.reach.get(path)
        chain = None
        for _, name in self.includes(path):
            target = self.resolve(path, name)
            if target:
                rest = self.forbidden_reach(target, visiting + (path,))
                chain = [str(target)] + rest if rest else None
            elif SYSTEM_HEADERS.match(name) or LUA_HEADERS.match(name):
                chain = [f'<{name}>']
            if chain:
                break
        self.reach[path] = chain
        return chain

    def check_includes(self, path, folder):
        allowed = self.table[folder] | {folder}
        for number, name in self.includes(path):
            target = self.resolve(path, name)
            if target is None:
                self.check_system_include(path, folder, number, name)
                continue
            other = self.folder(target)
            if other and other not in allowed:
                self.breach(path, number, f'{folder} may not include {other} ("{name}"); move the '
                            'code to the layer it belongs to, or pass in what is needed '
                            '(table in docs/architecture.md)')
            elif folder in PURE_FOLDERS:
                chain = self.forbidden_reach(target)
                if chain:
                    self.breach(path, number, f'{folder} is pure, but "{name}" brings in '
                                f'{" -> ".join(chain)}; include something smaller')

    def check_system_include(self, path, folder, number, name):
        if folder in PURE_FOLDERS and (SYSTEM_HEADERS.match(name) or LUA_HEADERS.match(name)):
            self.breach(path, number, f'{folder} is pure: no <{name}>; take time, randomness and '
                        'messages as arguments')
        elif folder != 'platform' and SYSTEM_HEADERS.match(name):
            self.breach(path, number, f'only src/platform includes <{name}>; use or extend '
                        'src/platform')

    def check_pure_calls(self, path, text):
        for number, line in enumerate(without_comments(text).splitlines(), 1):
            match = IMPURE_CALLS.search(line)
            if match:
                self.breach(path, number, f'{self.folder(path)} is pure: no {match[1]}(); take '
                            'time and randomness as arguments')

    def check_conditionals(self, path, lines):
        directives = [(number, match[1], match[2]) for number, line in enumerate(lines, 1)
                      for match in [CONDITIONAL.match(line)] if match]
        for number, kind, condition in directives:
            condition = condition.split('//')[0].split('/*')[0].strip()
            following = lines[number].split() if number < len(lines) else []
            guard = kind == 'ifndef' and following[:2] == ['#define', condition]
            if not guard and not (path.parts[0] == 'include' and condition == '__cplusplus'):
                self.breach(path, number, f'#{kind} belongs in src/platform only; choose at run '
                            'time, in Meson, or behind a function of src/platform')

    def check_made_cases(self, path, lines):
        """`t.in_folder` makes a case and runs nothing: as a statement it must be called."""
        for number, line in enumerate(lines, 1):
            made = re.match(r'^(\s+)(?:t\.)?in_folder\(function', line)
            if not made:
                continue
            end = next((rest for rest in lines[number:] if rest.startswith(made[1] + 'end')), '')
            if not end.strip().startswith('end)('):
                self.breach(path, number, 'in_folder only makes a function, which nobody calls '
                            'here; end it with end)()')

    def check_file(self, path):
        full = self.root / path
        source = path.suffix in SOURCE
        if not source and path.name not in SPDX_ALSO:
            return
        text = full.read_text(encoding='utf-8', errors='replace')
        lines = text.splitlines()
        if text.strip() and not any('SPDX-License-Identifier:' in line for line in lines[:4]):
            self.breach(path, 1, 'no licence; begin with SPDX-License-Identifier: MIT in a comment')
        if source:
            for number, line in enumerate(lines, 1):
                if len(line.expandtabs(8)) > LINE_WIDTH:
                    self.breach(path, number, f'{len(line)} columns; keep within {LINE_WIDTH}')
        if path.parts[:2] == ('tests', 'lua'):
            self.check_made_cases(path, lines)
        if path.suffix not in ('.c', '.h'):
            return
        folder = self.folder(path)
        if folder:
            if folder not in self.table:
                self.breach(path, 1, f'the folder {folder} is not in the table of '
                            'docs/architecture.md; add it there')
                return
            self.check_includes(path, folder)
        if folder in PURE_FOLDERS:
            self.check_pure_calls(path, text)
        if path.parts[0] == 'include' or (folder and folder != 'platform'):
            self.check_conditionals(path, lines)

    def check_listed(self, path):
        """A file that no meson.build names would never be run, embedded or installed."""
        parts = path.parts
        name = None
        if parts[:3] == ('tests', 'unit', 'coord') and path.suffix == '.c':
            # Linked without the runtime, so listed apart.
            name = path.name
            home, where = 'tests/unit/coord/meson.build', 'its lists'
        elif parts[:2] == ('tests', 'unit') and path.suffix == '.c':
            name = '/'.join(parts[2:-1] + (path.stem.removeprefix('test_'),))
            home, where = 'tests/meson.build', 'unit_tests'
        elif parts[:2] == ('tests', 'lua') and path.stem.startswith('test_'):
            name = path.stem.removeprefix('test_')
            home, where = 'tests/lua/meson.build', 'lua_tests'
        elif parts[:2] == ('tests', 'fuzz') and path.suffix == '.c':
            name, home, where = path.stem, 'tests/fuzz/meson.build', 'fuzz_targets'
        elif parts[:2] == ('tests', 'tools') and path.stem.startswith('test_'):
            name, home, where = path.stem, 'tests/tools/meson.build', 'tool_tests'
        elif parts[:2] == ('tests', 'e2e') and path.stem.startswith('test_'):
            name = path.stem.removeprefix('test_')
            home, where = 'tests/e2e/meson.build', 'e2e_tests'
        elif parts[0] == 'examples' and path.suffix == '.c':
            name, home, where = path.stem, 'examples/meson.build', 'c_examples'
        elif parts[0] == 'lua' and path.suffix == '.lua':
            name, home, where = '/'.join(parts[1:]), 'lua/meson.build', 'lua_modules'
        elif parts[0] == 'include' and path.suffix == '.h':
            name, home, where = '/'.join(parts[1:]), 'include/meson.build', 'public_headers'
        if name is None:
            return
        listed = self.root / home
        names = {f"'{name}'", f"'{path.stem.removeprefix('test_')}'"}
        text = listed.read_text(encoding='utf-8') if listed.exists() else ''
        if not any(quoted in text for quoted in names):
            self.breach(path, 1, f"not listed; add '{name}' to {where} in {home}")

    def run(self):
        if not self.table:
            self.breach('docs/architecture.md', 1, 'the table of layers is missing or unreadable')
            return
        for path in tree(self.root):
            self.check_file(path)
            self.check_listed(path)


def main(root='.'):
    checker = Checker(pathlib.Path(root))
    checker.run()
    for line in checker.breaches:
        print(line)
    return 1 if checker.breaches else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
