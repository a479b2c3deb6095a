# SPDX-License-Identifier: MIT
"""One seed, one trace, whoever compiled it: the algorithms and the simulator are built with gcc and
with clang, optimised and not, and the traces of every algorithm must be the same bytes."""
import concurrent.futures
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402

BUILT = str(pathlib.Path(sys.argv[1]).resolve())  # with gcc, optimised, as all else
SOURCES = [str(pathlib.Path(path).resolve()) for path in sys.argv[2:]]
del sys.argv[1:]

WAYS = (('clang', '-O2'), ('clang', '-O0', '-funsigned-char'))
COMMON = ('-std=gnu11', '-D_GNU_SOURCE', '-w', '-Iinclude', '-Isrc', '-I.')


def build(folder, way):
    program = str(folder / '-'.join(way).replace('-', '_'))
    subprocess.run([*way, *COMMON, *SOURCES, '-lm', '-o', program], check=True, cwd=tap.ROOT,
                   timeout=300)
    return program


def traces(program):
    return subprocess.run([program], check=True, capture_output=True, text=True,
                          timeout=300).stdout


class Compilers(unittest.TestCase):
    def test_the_traces_are_the_same(self):
        for way in WAYS:
            if not shutil.which(way[0]):
                self.skipTest(f'{way[0]} is not installed')
        with tempfile.TemporaryDirectory() as name:
            with concurrent.futures.ThreadPoolExecutor(2) as both:
                outputs = dict(zip(WAYS, both.map(
                    lambda way: traces(build(pathlib.Path(name), way)), WAYS)))
        first = traces(BUILT)
        self.assertEqual(traces(BUILT), first, 'a second time')
        table = (tap.ROOT / 'src/coord/table.c').read_text(encoding='utf-8')
        self.assertEqual(first.count('\n'), table.count('\n    &mare_'))
        for line in first.splitlines():
            self.assertGreater(int(line.split()[-2]), 10000, line)
        for way, output in outputs.items():
            self.assertEqual(output, first, ' '.join(way))


tap.main(__name__)
