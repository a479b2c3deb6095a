# SPDX-License-Identifier: MIT
"""`mare top` as a person uses it: the table on a pseudo-terminal, its keys, another size of the
window, its ends. The terminal is afterwards as it was."""
import fcntl
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
from terminal import COLUMNS, Terminal  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())

# One that waits for a channel with a name, more than a screen holds that sleep, and one that ends
# when its input does.
PROGRAM = '''
    local mare, terminal = require "mare", require "mare.terminal"
    local jobs = mare.channel(0, "jobs")
    mare.spawn({name = "clerk"}, function() jobs:receive() end)
    for i = 1, 40 do mare.spawn({name = "sleeper" .. i}, function() mare.sleep(1e6) end) end
    print "ready"
    io.flush()
    terminal.input():read "l"
    mare.exit()
'''
ENTER, LEAVE = b'\x1b[?1049h', b'\x1b[?1049l'
HIDE, SHOW = b'\x1b[?25l', b'\x1b[?25h'


class Watched(Terminal):
    """Remembers every byte, and knows of the one escape that `top` uses besides."""

    def __init__(self, *args):
        self.bytes = b''
        super().__init__(MARE, 'top', *args)
        feed, escape = self.screen.feed, self.screen.escape

        def remember(data):
            self.bytes += data
            feed(re.sub(rb'\x1b\[\?\d+[hl]', b'', data))

        def home(command, count, given):
            if command == 'H':
                self.screen.row = self.screen.column = 0
            else:
                escape(command, count, given)
        self.screen.feed, self.screen.escape = remember, home

    def resize(self, rows, columns):
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack('4H', rows, columns, 0, 0))

    def pictures(self):
        return self.bytes.count(b'\x1b[H')


class Top(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, 'look')
        program = pathlib.Path(cls.folder.name) / 'program.lua'
        program.write_text(PROGRAM, encoding='utf-8')
        cls.program = subprocess.Popen([MARE, '--inspect', cls.path, str(program)],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert cls.program.stdout.readline() == 'ready\n'

    @classmethod
    def tearDownClass(cls):
        cls.program.kill()
        cls.program.communicate()
        cls.folder.cleanup()

    def open(self, interval='1e6'):
        """Refreshed by keys alone, unless told otherwise."""
        top = self.enterContext(Watched(self.path, '--interval', interval))
        top.until(lambda: top.bytes.endswith(b'\x1b[J'))
        return top

    def ends_well(self, top, code=0):
        self.assertEqual(top.end(), code)
        for begin, end in ((ENTER, LEAVE), (HIDE, SHOW)):
            self.assertEqual((top.bytes.count(begin), top.bytes.count(end)), (1, 1))
            self.assertGreater(top.bytes.rindex(end), top.bytes.rindex(b'\x1b[J'))

    def test_a_table_that_fits_the_window(self):
        top = self.open()
        rows = top.screen.rows
        self.assertRegex(rows[0], r'^42 processes, \d+ workers?, \d+ channels?; a second: ')
        self.assertRegex(rows[1], r'^ PROCESS NAME +STATUS +CPU % +CPU s +MEMORY  WHERE, AND WHAT ')
        self.assertEqual(len(rows), 24)
        self.assertLess(max(map(len, rows)), COLUMNS)
        for row in rows[2:]:
            self.assertRegex(row, r'^ +\d+ (clerk|sleeper\d+)? +(blocked|running|ready) ')
        top.resize(60, 1000)
        top.until_text('(jobs)')
        clerk = next(row for row in top.screen.rows if 'clerk' in row)
        self.assertRegex(clerk, r'blocked +[\d.]+ +[\d.]+ +\d+K?  .*:4 to receive from channel \d+ '
                                r'\(jobs\) *$')
        top.type('q')
        self.ends_well(top)

    def test_another_size_brings_another_picture(self):
        top = self.open()
        before = top.pictures()
        top.resize(10, 60)
        top.until(lambda: top.pictures() > before and top.bytes.endswith(b'\x1b[J'))
        self.assertEqual(len(top.screen.rows), 10)
        self.assertLess(max(map(len, top.screen.rows)), 60)
        top.type('q')
        self.ends_well(top)

    def test_it_refreshes_by_itself_and_at_a_key(self):
        top = self.open('0.01')
        top.until(lambda: top.pictures() >= 4)
        top.type('Q')
        self.ends_well(top)
        top = self.open()
        self.assertEqual(top.pictures(), 1)
        for key in (' ', '\x1b[A'):  # an arrow begins as Escape does, and is not Escape
            before = top.pictures()
            top.type(key)
            top.until(lambda: top.pictures() > before)
        top.type('q')
        self.ends_well(top)

    def test_keys_and_signals_that_end_it(self):
        for key in ('q', 'Q', '\x03', '\x1b'):
            top = self.open()
            self.assertFalse(top.is_cooked())
            top.type(key)
            self.ends_well(top)
        for number in (signal.SIGINT, signal.SIGTERM):
            top = self.open()
            top.signal(number)
            self.ends_well(top)

    def test_the_terminal_is_as_it_was(self):
        """Seen by a shell that goes on after it."""
        command = f'{MARE} top {self.path} --interval 1e6; stty -a; echo over; read line'
        with Terminal('/bin/sh', '-c', command) as shell:
            shell.screen.escape = lambda *_: None
            shell.screen.feed = lambda data, feed=shell.screen.feed: feed(
                re.sub(rb'\x1b\[[?\d]*[A-Za-z]', b'', data))
            shell.until_text('sleeper')
            shell.type('q')
            shell.until_text('over')
            self.assertTrue(shell.is_cooked())

    def test_the_program_ends_while_it_is_looked_at(self):
        path = os.path.join(self.folder.name, 'other')
        program = pathlib.Path(self.folder.name) / 'program.lua'
        other = subprocess.Popen([MARE, '--inspect', path, str(program)], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        self.addCleanup(other.communicate)
        self.addCleanup(other.kill)
        self.assertEqual(other.stdout.readline(), 'ready\n')
        top = self.enterContext(Watched(path, '--interval', '0.01'))
        top.until(lambda: top.pictures() >= 2)
        other.communicate('\n')
        self.assertEqual(top.end(), 1)
        self.assertEqual(top.bytes.count(LEAVE), 1)
        self.assertIn(f'mare top: {path}: ', top.bytes.split(LEAVE)[1].decode())


tap.main(__name__)
