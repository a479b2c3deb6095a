# SPDX-License-Identifier: MIT
"""The module mare.terminal, on a pseudo-terminal."""
import fcntl
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
from terminal import Terminal  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
CTRL_C, CTRL_D, UP = '\x03', '\x04', '\x1b[A'
HEAD = 'local mare, terminal = require "mare", require "mare.terminal"\n'


class Programs(unittest.TestCase):
    def file(self, text):
        file = tempfile.NamedTemporaryFile('w', suffix='.lua')
        self.addCleanup(file.close)
        file.write(HEAD + text)
        file.flush()
        return file.name

    def open(self, text):
        return self.enterContext(Terminal(MARE, self.file(text)))

    def shell(self, commands, text):
        """The same, with a shell around that runs $MARE."""
        env = {'MARE': f'{MARE} {self.file(text)}'}
        return self.enterContext(Terminal('/bin/sh', '-c', commands, env=env))


class Input(Programs):
    def test_lines_are_read_while_others_go_on(self):
        terminal = self.open('''
            mare.workers(1)
            local ticks = 0
            mare.go(function() while true do mare.sleep(0.001) ticks = ticks + 1 end end)
            local input = terminal.input()
            print "ready"
            for line in function() return input:read "l" end do
                local before = ticks
                mare.sleep(0.01)
                print("got " .. line, ticks > before)
            end
            print("the end", terminal.is_tty(), terminal.is_tty(io.stdout))
            os.exit(0)
        ''')
        terminal.until_text('ready')
        terminal.type('one\r')
        terminal.until_text('got one true')
        terminal.type('two\r')
        terminal.until_text('got two true')
        terminal.type(CTRL_D)
        terminal.until_text('the end true    true')
        self.assertEqual(terminal.end(), 0)

    def test_a_worker_is_free_while_nothing_is_typed(self):
        terminal = self.open('''
            mare.workers(1)
            mare.go(function() for i = 1, 50 do mare.sleep(0.001) end print "ticked" end)
            print(terminal.input():read("l", 60))
        ''')
        terminal.until_text('ticked')
        terminal.type('now\r')
        terminal.until_text('now\nnow')
        self.assertEqual(terminal.end(), 0)

    def test_a_process_that_is_killed_while_it_reads_leaves_nothing(self):
        terminal = self.open('''
            mare.workers(1)
            local begun = mare.channel()
            local function kill_one()
                local process = mare.spawn(function()
                    begun:send(true)
                    require "mare.terminal".input():read "l"
                end)
                begun:receive()
                while process:status() ~= "blocked" do mare.sleep(0.001) end
                process:kill()
                return select(3, process:join(60))
            end
            local function descriptors()
                local pipe <close> = assert(io.popen "ls /proc/$PPID/fd | wc -l")
                return pipe:read "n"
            end
            print("first " .. kill_one())
            local before = descriptors()
            for i = 1, 5 do print("then " .. kill_one()) end
            while descriptors() > before do mare.sleep(0.01) end -- the last may be closing yet
            print "as before"
            print("got " .. terminal.input():read("l", 60))
        ''')
        terminal.until_text('first killed')
        terminal.until_text('then killed\n' * 5 + 'as before')
        terminal.type('mine\r')  # and they take nothing of what comes later
        terminal.until_text('got mine')
        self.assertEqual(terminal.end(), 0)

    def test_standard_input_is_left_as_it_is(self):
        looks = ("import fcntl, os; print('waits' if not fcntl.fcntl(0, fcntl.F_GETFL) "
                 "& os.O_NONBLOCK else 'does not wait')")
        terminal = self.shell(f'$MARE & wait $!; $MARE; {sys.executable} -c "{looks}"; read line; '
                              'echo "shell got $line"',
                              'print(terminal.input():read("l", 0.05)) print "over"')
        terminal.until(lambda: terminal.text().count('over') == 2)
        terminal.until_text('waits')
        self.assertNotIn('does not', terminal.text())
        terminal.type('this\r')
        terminal.until_text('shell got this')
        self.assertEqual(terminal.end(), 0)

    def test_why_there_is_no_input(self):
        file = self.file("""
            local net, open = require "mare.net", {}
            for i = 1, 99 do open[i] = net.udp() end
            print(terminal.input())""")
        got = subprocess.run(['/bin/sh', '-c', 'ulimit -n 50; exec "$@"', 'sh', MARE, file],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(got.stdout, 'nil\tToo many open files\tio\n')

    def test_what_else_can_be_standard_input(self):
        text = 'for line in function() return terminal.input():read "l" end do print(line) end'
        file = self.file(text)
        lines = HEAD.splitlines()[0]
        with open(file, encoding='utf-8') as source:
            got = subprocess.run([MARE, file], stdin=source, capture_output=True, text=True,
                                 check=False)
        self.assertEqual((got.stdout, got.stderr), (HEAD + text + '\n', ''))
        got = subprocess.run([MARE, file], input=lines * 10000, capture_output=True, text=True,
                             check=False)
        self.assertEqual((got.stdout, got.returncode), ('', 0))  # a line that is too long
        got = subprocess.run([MARE, file], input='one\ntwo', capture_output=True, text=True,
                             check=False)
        self.assertEqual((got.stdout, got.stderr, got.returncode), ('one\ntwo\n', '', 0))
        got = subprocess.run([MARE, file], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             check=False)
        self.assertEqual((got.stdout, got.stderr, got.returncode), ('', '', 0))


class Modes(Programs):
    RAW = 'terminal.raw(true) print "ready"\n'

    def ends_cooked(self, text, code, number=None):
        terminal = self.open(text)
        terminal.until_text('ready')
        self.assertFalse(terminal.is_cooked())
        if number:
            terminal.signal(number)
        else:
            terminal.type('x')
        self.assertEqual(terminal.end(), code, terminal.text())
        self.assertTrue(terminal.is_cooked())

    def test_keys_come_one_by_one_and_unseen(self):
        terminal = self.open('''
            local _ <close> = terminal.raw(true)
            print "ready"
            repeat
                local key = terminal.input():read()
                print((key:gsub("%c", function(c) return "<" .. c:byte() .. ">" end)))
            until key == "q"
        ''')
        terminal.until_text('ready')
        for key, name in (('a', 'a'), (CTRL_C, '<3>'), (CTRL_D, '<4>'), ('\r', '<13>'),
                          (UP, '<27>[A'), ('é', 'é'), ('q', 'q')):
            row = len(terminal.screen.rows)
            terminal.type(key)
            terminal.until(lambda row=row: len(terminal.screen.rows) > row)
            self.assertEqual(terminal.screen.rows[-2], name)  # and no echo
        self.assertEqual(terminal.end(), 0)
        self.assertTrue(terminal.is_cooked())

    def test_the_mode_is_put_back_at_the_end(self):
        wait = self.RAW + 'terminal.input():read()\n'
        self.ends_cooked(wait, 0)
        self.ends_cooked(wait + 'error "x"', 1)
        self.ends_cooked(wait + 'os.exit(5)', 5)
        self.ends_cooked(wait + 'mare.spawn(function() os.exit(6) end) mare.sleep(60)', 6)

    def test_the_mode_is_put_back_by_signals(self):
        wait = self.RAW + 'mare.sleep(60)'
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.ends_cooked(wait, 128 + number, number)
        for number in (signal.SIGUSR1, signal.SIGQUIT, signal.SIGALRM, signal.SIGABRT):
            self.ends_cooked(wait, -number, number)

    def test_the_mode_is_put_back_by_signals_that_nobody_watches_any_more(self):
        watch = 'local w = require "mare.signal".watch "SIGUSR1"\n'
        end = 'w:close() print "ready" mare.sleep(60)'
        for text in (watch + 'terminal.raw(true)\n' + end, 'terminal.raw(true)\n' + watch + end,
                     'terminal.raw(true)\n' + watch + 'terminal.raw(false) terminal.raw(true)\n'
                     + end):
            self.ends_cooked(text, -signal.SIGUSR1, signal.SIGUSR1)

    def test_the_mode_is_put_back_where_a_process_cannot_be_ended(self):
        # It hangs in a C function, so the program ends without it: after a second, or the second
        # signal.
        text = self.RAW + 'io.popen("exec sleep 1000"):read "a"' # which goes with the terminal
        self.ends_cooked(text, 128 + signal.SIGTERM, signal.SIGTERM)

    def test_a_process_that_is_killed_puts_it_back(self):
        terminal = self.open('''
            local ready = mare.channel()
            local owner = mare.spawn(function()
                local _ <close> = require "mare.terminal".raw(true)
                ready:send(true)
                require "mare".sleep(60)
            end)
            ready:receive()
            print "ready"
            terminal.input():read()
            owner:kill()
            owner:join()
            print "killed"
            terminal.input():read "l"
        ''')
        terminal.until_text('ready')
        self.assertFalse(terminal.is_cooked())
        terminal.type('x')
        terminal.until_text('killed')
        self.assertTrue(terminal.is_cooked())
        terminal.type('\r')
        self.assertEqual(terminal.end(), 0)

    def test_raw_can_be_left_and_entered(self):
        terminal = self.open('''
            for i = 1, 3 do
                terminal.raw(true)
                print("raw " .. i)
                terminal.input():read()
                terminal.raw(false)
                print("cooked " .. i)
                terminal.input():read "l"
            end
        ''')
        for i in range(1, 4):
            terminal.until_text(f'raw {i}')
            self.assertFalse(terminal.is_cooked())
            terminal.type('x')
            terminal.until_text(f'cooked {i}')
            self.assertTrue(terminal.is_cooked())
            terminal.type('\r')
        self.assertEqual(terminal.end(), 0)

    def test_a_password_is_not_shown(self):
        terminal = self.open('''
            local word = terminal.password("Secret: ", 60)
            print("it has " .. #word .. " letters")
            print(terminal.password("Again: ", 0.01))
            print(terminal.input():read "l")
        ''')
        terminal.until_line('Secret: ')
        self.assertFalse(terminal.is_cooked())
        terminal.type('sesame\r')
        terminal.until_text('it has 6 letters')
        terminal.until_text('timeout')
        self.assertTrue(terminal.is_cooked())
        terminal.type('shown\r')
        self.assertEqual(terminal.end(), 0)
        self.assertNotIn('sesame', terminal.text())
        self.assertEqual(terminal.text().count('shown'), 2)

    def test_without_a_terminal_there_is_no_mode(self):
        file = self.file('''
            print(select(3, terminal.raw(true)), terminal.raw(false) ~= nil)
            print(terminal.password "Word: ")
            print(terminal.password "Word: ")
        ''')
        got = subprocess.run([MARE, file], input='open\nclosed\n', capture_output=True, text=True,
                             check=False)
        self.assertEqual((got.stdout, got.stderr), ('io\ttrue\nopen\nclosed\n', 'Word: Word: '))


class Size(Programs):
    def test_changes_are_told(self):
        terminal = self.open('''
            local resizes = terminal.resizes()
            print(terminal.size())
            resizes:next()
            print(terminal.size(0))
        ''')
        terminal.until_text('100     24')
        fcntl.ioctl(terminal.file, termios.TIOCSWINSZ, struct.pack('4H', 50, 132, 0, 0))
        terminal.until_text('132     50')
        self.assertEqual(terminal.end(), 0)


tap.main(__name__)
