#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Breaks rules of the core and of coordination, one at a time, and looks whether the tests find it.

    tools/mutants.py            all of tests/core_mutants.txt and tests/coordination_mutants.txt
    tools/mutants.py WORD...    those whose rule has one of the words

A mutant is the rule that it breaks, in the words of a comment of its file; the file; lines that are
replaced (-) by others (+), which stand in it once; and the tests that are to find it. The first of
them that fails, or does not end, has found it. It is made in build-mutants, in a copy of the files
that git knows, with AddressSanitizer; "plainly" means without, for what shows only where memory is
soon used again. Nothing else is touched. The mutant of no rule comes first: with it the tests pass.
It takes some minutes, and is part of no other target.
"""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
COPY = ROOT / 'build-mutants'
SECONDS = 240


def plain(text):
    """Comments without their slashes and dashes, with one blank between words."""
    return ' '.join(text.replace('//', ' ').replace('--', ' ').split())


def read(path):
    """The mutants of a file."""
    mutants = []
    for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
        word, _, rest = line.partition(' ')
        if word == 'rule':
            mutants.append({'rule': rest, 'old': [], 'new': []})
        elif word == 'file':
            mutants[-1]['file'] = rest
        elif word in '-+' and word:
            mutants[-1]['old' if word == '-' else 'new'].append(rest)
        elif word == 'found':
            how, _, names = rest.partition('by ')
            mutants[-1]['build'] = 'build' if how.strip() == 'plainly' else 'build-asan'
            mutants[-1]['tests'] = names.split()
        elif line and word != '#':
            sys.exit(f'{path.name}:{number}: {line}')
    return mutants


def run(*command, seconds=SECONDS):
    """Whether a command, in the copy, did well; and what it said."""
    try:
        done = subprocess.run(command, cwd=COPY, timeout=seconds, capture_output=True, text=True,
                              check=False)
    except subprocess.TimeoutExpired:
        return False, 'it did not end'
    return done.returncode == 0, done.stdout + done.stderr


def targets(tests):
    """What ninja is to build for them: the program, and the unit tests."""
    units = [t.removeprefix('unit-').replace('-', '_') for t in tests if t.startswith('unit-')]
    return ['mare'] + ['tests/test_' + unit for unit in units]


def finder(folder, tests):
    """The first test that fails there, or None."""
    for test in tests:
        if not run('meson', 'test', '-C', folder, '--no-rebuild', test)[0]:
            return test
    return None


def build(folder, tests):
    """Builds for them there, or ends."""
    done, said = run('ninja', '-C', folder, '--quiet', *targets(tests),
                     'tests/lua/libslow_names.so', 'tests/lua/libslow_files.so',
                     'tests/lua/libearlier.so', 'tests/lua/source_module.so', seconds=3600)
    if not done:
        sys.exit(said[-3000:])


def prepare(folders):
    """Makes the copy, or brings it up to date, and builds what the tests of each folder need."""
    names = subprocess.run(['git', 'ls-files'], cwd=ROOT, capture_output=True, text=True,
                           check=True).stdout.split()
    for name in names:
        to = COPY / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists() or to.read_bytes() != (ROOT / name).read_bytes():
            shutil.copy(ROOT / name, to)
    for folder, tests in folders.items():
        if not (COPY / folder / 'build.ninja').exists():
            done, said = run('sh', '-c', "sed -i 's/^ninja /: ninja /' tools/build.sh && "
                             f'tools/build.sh {folder} && '
                             f'meson configure {folder} -Dwerror=false')
            if not done:
                sys.exit(said)
        build(folder, tests)


def broken(mutant):
    """The text of the file with the rule broken."""
    text = (ROOT / mutant['file']).read_text(encoding='utf-8')
    old, new = '\n'.join(mutant['old']), '\n'.join(mutant['new'])
    if text.count(old) != 1:
        sys.exit(f'{mutant["file"]} has {text.count(old)} times: {old}')
    if plain(mutant['rule']) not in plain(text):
        sys.exit(f'{mutant["file"]} does not say: {mutant["rule"]}')
    return text.replace(old, new)


def main(words):
    """Tries them all, or those with a word."""
    # As tools/suite.sh.
    os.environ.update(MARE_SEED='1', ASAN_OPTIONS='allocator_may_return_null=1',
                      LSAN_OPTIONS=f'suppressions={ROOT}/tests/support/lsan.supp')
    mutants = [m for name in ('core', 'coordination')
               for m in read(ROOT / f'tests/{name}_mutants.txt')
               if not words or any(word in m['rule'] for word in words)]
    texts = [broken(m) for m in mutants]
    folders = {}
    for m in mutants:
        folders.setdefault(m['build'], set()).update(m['tests'])
    prepare(folders)
    for folder, tests in folders.items():
        failed = finder(folder, sorted(tests))
        if failed:
            sys.exit(f'{failed} fails without a mutant')
    missed = 0
    for mutant, text in zip(mutants, texts):
        path = COPY / mutant['file']
        path.write_text(text, encoding='utf-8')
        build(mutant['build'], mutant['tests'])
        by = finder(mutant['build'], mutant['tests'])
        missed += by is None
        print(f'{by or "NOBODY":18} {mutant["rule"]}', flush=True)
        shutil.copy(ROOT / mutant['file'], path)
    print(f'{len(mutants) - missed} of {len(mutants)} found')
    return missed > 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
