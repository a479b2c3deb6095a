# SPDX-License-Identifier: MIT
"""What `make install` leaves, as its user meets it: used from outside the source tree.

    test_install.py BUILD

Installs the build into a temporary folder, and takes everything from there.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import tap

BUILD = sys.argv.pop()
PROGRAM = '''
local mare, luaproc = require "mare", require "luaproc"
local net, scheduler = require "mare.net", require "mare.scheduler"
print(type(net.listen), type(scheduler), type(luaproc.newproc))
print(mare.spawn(function(n) return 2 * n, type(require("mare.http").serve) end, 21):join())
'''
PRINTS = 'function\ttable\tfunction\ntrue\t42\tfunction\n'


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp())
        subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir',
                        str(cls.root)], check=True, stdout=subprocess.DEVNULL, timeout=120)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root)

    def one(self, pattern):
        found = list(self.root.glob(f'**/{pattern}'))
        self.assertEqual(len(found), 1, pattern)
        return found[0]

    def run_it(self, command, **env):
        plain = {name: value for name, value in os.environ.items()
                 if not name.startswith(('LUA_', 'LD_'))}
        done = subprocess.run([str(word) for word in command], env={**plain, **env}, text=True,
                              cwd=self.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def paths(self):
        """Where stock Lua finds what was installed, and nothing else."""
        modules, library = self.one('mare/scheduler.lua').parents[1], self.one('mare.so').parent
        return {'LUA_PATH': f'{modules}/?.lua', 'LUA_CPATH': f'{library}/?.so'}

    def test_stock_lua_with_the_module(self):
        self.assertEqual(self.run_it(['lua5.4', '-e', PROGRAM], **self.paths()), PRINTS)

    def test_the_interpreter(self):
        self.assertEqual(self.run_it([self.one('bin/mare'), '-e', PROGRAM], **self.paths()), PRINTS)

    def test_a_program_in_c(self):
        example, program = tap.ROOT / 'examples/embed.c', self.root / 'embed'
        prefix = self.one('bin/mare').parents[1]
        flags = self.run_it(['pkg-config', f'--define-variable=prefix={prefix}', '--cflags',
                             '--libs', 'mare'],
                            PKG_CONFIG_PATH=str(self.one('mare.pc').parent)).split()
        self.run_it(['cc', '-std=c11', '-Wall', '-Werror', example, '-o', program, *flags])
        self.assertEqual(self.run_it([program]),
                         example.with_suffix('.out').read_text(encoding='utf-8'))

    def test_headers_compile_alone(self):
        mare_h = self.one('include/mare.h')
        for header in [mare_h, *mare_h.parent.glob('mare/*.h')]:
            with self.subTest(header=header.name):
                self.run_it(['cc', '-std=c11', '-Wall', '-Wextra', '-Werror', '-fsyntax-only',
                             f'-I{mare_h.parent}', '-include', header, '-x', 'c', '/dev/null'])

    def test_the_manual_page(self):
        page = self.one('man1/mare.1').read_text(encoding='utf-8')
        self.assertIn('.TH MARE 1', page)
        for word in ('script.lua', 'mare help', '--trace'):
            self.assertIn(word, page.replace('\\-', '-').replace('\\fR', ''))


tap.main(__name__)
