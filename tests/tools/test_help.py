# SPDX-License-Identifier: MIT
"""`mare help` finds everything that can be used: each command, each public module, each function
that the reference describes. And what is misspelt is guessed, in every command."""
import pathlib
import re
import subprocess
import sys
import unittest

import tap

MARE = sys.argv.pop() if len(sys.argv) > 1 else None
ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = sorted((ROOT / 'docs/reference').glob('*.md'))


def run(*args):
    return subprocess.run([MARE, *args], capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL)


def described():
    """The functions in headings, and in the first cells of tables: `mare.spawn(`, `ch:send(`."""
    for path in REFERENCE:
        for line in path.read_text(encoding='utf-8').splitlines():
            if re.match(r'\| `|#{2,4} .*`', line):
                cell = line.split('|')[1] if line[0] == '|' else line
                yield from re.findall(r'`(\w+(?:[.:]\w+)+)[({]', cell)


def public_modules():
    """Those of lua/meson.build without an underscore, and those that C registers."""
    listed = (ROOT / 'lua/meson.build').read_text(encoding='utf-8')
    for path in re.findall(r"'([\w/]+)\.lua'", listed):
        if '_' not in path and 'figures' not in path and 'luasocket' not in path:
            yield path.replace('/', '.')


@unittest.skipUnless(MARE, 'there is no mare yet')
class Help(unittest.TestCase):
    def found(self, names):
        """One run for all: what is not found is named on standard error."""
        done = run('help', *names)
        missing = re.findall(r"there is no command, function or module '([^']*)'", done.stderr)
        self.assertEqual((missing, done.returncode), ([], 0))

    def test_every_function_of_the_reference(self):
        names = sorted(set(described()))
        self.assertGreater(len(names), 500)
        self.found(names)

    def test_every_module(self):
        names = sorted(public_modules())
        self.assertGreater(len(names), 40)
        self.found(names + ['luaproc', 'socket', 'mare.json', 'mare.signal', 'mare.place'])
        for name in ('mare.observer', 'observer'):  # what it is for, what it has, where to read
            done = run('help', name)
            self.assertRegex(done.stdout, r'(?s)^The mare.observer module\n.*\nFunctions: '
                                          r'observer\.new, o:register_source,.*observer\.md\)\n$')

    def test_every_command_and_its_own_help(self):
        commands = re.findall(r'^  (\S+)  +\S', run('help').stdout.split('Commands:')[1], re.M)
        self.assertGreater(len(commands), 20)
        for name in commands:
            done = run('help', name)
            self.assertEqual((done.returncode, done.stderr), (0, ''), name)
            self.assertIn(f'mare {name}', done.stdout)
        both = run('help', 'trace').stdout
        self.assertIn('mare trace draw', both)
        self.assertIn('mare --trace FILE', both)
        for option in ('profile', 'inspect', 'lenient'):
            self.assertIn(f'mare --{option}', run('help', option).stdout)

    def test_what_is_misspelt_is_guessed(self):
        """Wrong usage, one line, with the word that was meant and where there is more."""
        for typed, meant in (
                ('trce draw x', 'trace'), ('smi ricart', 'sim'), ('hlep', 'help'),
                ('--lenint x.lua', '--lenient'), ('--profil x', '--profile'),
                ('sim ricrat', 'ricart'), ('sim ricart --sed 3', '--seed'),
                ('trace draw f --form 3', '--from'), ('top x --intervall 2', '--interval'),
                ('top --onec x', '--once'), ('place evalute x', 'evaluate'),
                ('clock qurey x', 'query'), ('clock query x --tmeout 1', '--timeout'),
                ('node --nmae x', '--name'), ('serve --lisen x', '--listen'),
                ('submit --kyes x y z', '--keys'), ('jobs --sercet x', '--secret'),
                ('attach --keyz x', '--keys'), ('group x --jion y', '--join'),
                ('keys authorty x', 'authority'), ('keys issue a --dasy 3', '--days'),
                ('test --timeot 3', '--timeout')):
            done = run(*typed.split())
            self.assertEqual((done.returncode, done.stdout), (2, ''), typed)
            self.assertRegex(done.stderr, rf"^mare[^\n]*; is it '{meant}'\? 'mare [^\n]*\n$", typed)
        for typed, meant in (('selct', r'mare\.select\('), ('trce', 'mare trace'),
                             ('mare.spwan', r'mare\.spawn\('), ('htttp', 'The mare.http module')):
            done = run('help', typed)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, rf'(?m)^(mare: perhaps| +) *{meant}')

    def test_what_is_missing_is_said_as_it_is_written(self):
        for typed, wanted in (('node app.lua', '--name NAME is needed'),
                              ('serve', 'mare serve --listen HOST:PORT'),
                              ('serve --listen foo', "'foo' is not HOST:PORT"),
                              ('node --name a --listen foo', "'foo' is not HOST:PORT"),
                              ('trace draw', 'mare trace draw FILE'),
                              ('clock query', 'mare clock query 127.0.0.1:123')):
            done = run(*typed.split())
            self.assertIn(done.returncode, (1, 2))
            self.assertIn(wanted, done.stderr, typed)

    def test_what_is_like_nothing_is_only_refused(self):
        for typed in ('--nosuch', 'sim ricart --nosuch 3', 'top x --nosuch y'):
            done = run(*typed.split())
            self.assertEqual(done.returncode, 2)
            self.assertNotIn('is it', done.stderr)


tap.main(__name__)
