# SPDX-License-Identifier: MIT
"""libmare-coord as its user meets it: installed, found by pkg-config, compiled against and run.

    test_install.py BUILD

Installs the build into a temporary folder. The programs are those of docs/reference/coord.md (a
```c block with a main function, followed by a ```text block of what it prints) and
examples/replicated_bank.c; the flags are strict, for a header must be fit for any.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2] / 'tools'))
import tap       # noqa: E402
import run_docs  # noqa: E402

BUILD = sys.argv.pop()
STRICT = ['-Wall', '-Wextra', '-Wpedantic', '-Werror', '-O1']
CPLUSPLUS = '''
#include <mare/coord.h>
int main()
{
    mare_coord_setup setup;
    mare_coord_setup_init(&setup, mare_coord_find("ring"), 3);
    return mare_coord_size(&setup) > 0 && setup.algorithm == &mare_coord_ring ? 0 : 1;
}
'''


def documented():
    """(source, output) of the whole programs in C on the page."""
    page = run_docs.blocks((tap.ROOT / 'docs/reference/coord.md').read_text(encoding='utf-8'))
    for at, (_, info, source, _) in enumerate(page):
        if info == 'c' and 'int main(' in source:
            following = page[at + 1] if at + 1 < len(page) else ('', '', '', '')
            yield source, following[2] if following[1] == 'text' else None


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp())
        subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir',
                        str(cls.root)], check=True, stdout=subprocess.DEVNULL, timeout=120)
        cls.description = next(cls.root.glob('**/mare-coord.pc'))
        cls.libraries = next(cls.root.glob('**/libmare-coord.so')).parent

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root)

    def flags(self, what):
        env = {**os.environ, 'PKG_CONFIG_LIBDIR': str(self.description.parent),
               'PKG_CONFIG_SYSROOT_DIR': str(self.root)}
        done = subprocess.run(['pkg-config', what, 'mare-coord'], env=env, text=True,
                              stdout=subprocess.PIPE, check=True, timeout=60)
        return done.stdout.split()

    def make(self, source, compiler=('cc', '-std=c11'), suffix='.c', static=False):
        """Compiles a program outside the source tree; with the archive if it is to be static."""
        text, program = self.root / f'program{suffix}', self.root / 'program'
        text.write_text(source, encoding='utf-8')
        libs = [('-l:libmare-coord.a' if static and flag == '-lmare-coord' else flag)
                for flag in self.flags('--libs')]
        done = subprocess.run([*compiler, *STRICT, *self.flags('--cflags'), str(text),
                               '-o', str(program), *libs], cwd=self.root, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout)
        return program

    def run_it(self, program, shared=True):
        env = {'LD_LIBRARY_PATH': str(self.libraries)} if shared else {}
        done = subprocess.run([program], env=env, text=True, stdout=subprocess.PIPE, check=False,
                              timeout=60)
        self.assertEqual(done.returncode, 0)
        return done.stdout

    def test_the_programs_of_the_reference(self):
        found = list(documented())
        self.assertGreater(len(found), 0)
        for source, output in found:
            self.assertIsNotNone(output, 'a ```text block with its output must follow')
            self.assertEqual(self.run_it(self.make(source)).strip(), output.strip())

    def test_one_algorithm_alone(self):
        for source, output in documented():
            program = self.make(source, static=True)
            self.assertEqual(self.run_it(program, shared=False).strip(), output.strip())
            symbols = subprocess.run(['nm', program], text=True, stdout=subprocess.PIPE, check=True,
                                     timeout=60).stdout
            used = set(re.findall(r'&(mare_coord_\w+), ', source))
            linked = {name for name in re.findall(r' [RrDd] (mare_coord_\w+)', symbols)}
            self.assertEqual(linked, used)

    def test_the_example(self):
        example = tap.ROOT / 'examples/replicated_bank.c'
        program = self.make(example.read_text(encoding='utf-8'))
        self.assertEqual(self.run_it(program),
                         example.with_suffix('.out').read_text(encoding='utf-8'))

    @unittest.skipUnless(shutil.which('c++'), 'no C++ compiler')
    def test_from_cplusplus(self):
        self.run_it(self.make(CPLUSPLUS, ('c++', '-std=c++17'), '.cpp'))

    def test_only_what_is_public_is_exported(self):
        library = self.libraries / 'libmare-coord.so'
        symbols = subprocess.run(['nm', '-D', '--defined-only', library], text=True,
                                 stdout=subprocess.PIPE, check=True, timeout=60).stdout
        names = {line.split()[-1] for line in symbols.splitlines()}
        headers = ''.join(path.read_text(encoding='utf-8')
                          for path in self.root.glob('**/include/mare/coord*.h'))
        self.assertGreater(len(names), 20)
        self.assertEqual({name for name in names if not re.search(rf'\b{name}\b', headers)}, set())


tap.main(__name__)
