# SPDX-License-Identifier: MIT
"""A program on a pseudo-terminal, and what a person would see of it."""
import contextlib
import ctypes
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import termios
import time

SLOW = float(os.environ.get('MARE_TEST_SLOW', '1'))
PATIENCE = 20 * SLOW  # a deadline for what must happen: only a failing test waits that long
COLUMNS = 100

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WAIT_ALL = 17, 0x4206, 0x4207, 0x40000000
ESCAPE = re.compile(rb'\x1b\[([0-9;?]*)([A-Za-z@])')


def ptrace(request, thread):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long,) * 4
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, thread, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Screen:
    """Rows of text without end, drawn as a VT100 does: as much of it as line editing needs."""

    def __init__(self):
        self.rows = ['']
        self.row = self.column = 0
        self.rest = b''

    def feed(self, data):
        data = self.rest + data
        self.rest = b''
        at = 0
        while at < len(data):
            byte = data[at:at + 1]
            if byte == b'\x1b':
                escape = ESCAPE.match(data, at)
                if not escape:  # the rest of it is on its way
                    assert len(data) - at < 16, data[at:at + 16]
                    break
                self.escape(escape[2].decode(), int(escape[1] or b'1'), escape[1] != b'')
                at = escape.end()
                continue
            length = 1 if byte < b'\x80' else 2 if byte < b'\xe0' else 3 if byte < b'\xf0' else 4
            if len(data) < at + length:
                break
            self.put(data[at:at + length].decode('utf-8', 'replace'))
            at += length
        self.rest = data[at:]

    def put(self, char):
        if char == '\r':
            self.column = 0
        elif char == '\n':
            self.row += 1
            if self.row == len(self.rows):
                self.rows.append('')
        elif char == '\b':
            self.column = max(self.column - 1, 0)
        elif char == '\t':
            self.column = (self.column // 8 + 1) * 8
        elif char >= ' ':
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[:self.column] + char + row[self.column + 1:]
            self.column += 1
        else:
            assert char in '\a\0', f'what does {char!r} do?'

    def escape(self, command, count, given):
        row = self.rows[self.row]
        if command == 'C':
            self.column += count
        elif command == 'D':
            self.column = max(self.column - count, 0)
        elif command == 'A':
            self.row = max(self.row - count, 0)
        elif command in 'KJ' and not given:
            self.rows[self.row] = row[:self.column]
            if command == 'J':
                del self.rows[self.row + 1:]
        elif command == 'P':
            self.rows[self.row] = row[:self.column] + row[self.column + count:]
        elif command == '@':
            self.rows[self.row] = row[:self.column] + ' ' * count + row[self.column:]
        else:
            assert command in 'mhl', f'what does ESC [ {command} do?'

    def line(self):
        """What stands to the left of the cursor, in its row."""
        return self.rows[self.row].ljust(self.column)[:self.column]


class Terminal:
    def __init__(self, program, *args, env=None, stdout=None):
        self.screen = Screen()
        self.code = None
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            for number in (signal.SIGINT, signal.SIGQUIT):  # ignored, if we are in the background
                signal.signal(number, signal.SIG_DFL)
            # Here, for the program asks for it as soon as it has begun.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('4H', 24, COLUMNS, 0, 0))
            if stdout:
                os.dup2(os.open(stdout, os.O_WRONLY | os.O_CREAT, 0o600), 1)
            os.execve(program, [program, *args], {**os.environ, 'TERM': 'vt100', **(env or {})})

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.file is not None:
            os.close(self.file)

    def text(self):
        return '\n'.join(self.screen.rows)

    def read(self, deadline):
        """Some output onto the screen, if it comes soon. False when there will be no more."""
        assert time.monotonic() < deadline, 'waited in vain; on the screen:\n' + self.text()
        if not select.select([self.file], [], [], 0.02)[0]:
            return True
        try:
            data = os.read(self.file, 65536)
        except OSError:  # how the end of a terminal is told
            return False
        self.screen.feed(data)
        return data != b''

    def until(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.read(deadline), 'it has ended; on the screen:\n' + self.text()

    def until_line(self, line):
        """Until the cursor stands behind this text, alone in its row."""
        self.until(lambda: self.screen.line() == line)

    def until_text(self, text):
        self.until(lambda: text in self.text())

    def type(self, text):
        os.write(self.file, text.encode())

    def enter(self, line, prompt='> '):
        """Types a line; returns what was printed until the next prompt, as a list of rows."""
        begin = self.screen.row
        self.type(line + '\r')
        self.until(lambda: self.screen.row > begin and self.screen.line() == prompt)
        return self.screen.rows[begin + 1:self.screen.row]

    def signal(self, number):
        os.kill(self.pid, number)

    def has_taken(self, number):
        """Whether a signal that was sent has come to its handler."""
        status = pathlib.Path(f'/proc/{self.pid}/status').read_text(encoding='utf-8')
        pending = int(re.search(r'^ShdPnd:\s*(\w+)', status, re.M)[1], 16)
        return not pending & 1 << (number - 1)

    @contextlib.contextmanager
    def held(self, name):
        """Keeps the thread of this name from running, and no other; as a debugger does."""
        folder = pathlib.Path(f'/proc/{self.pid}/task')
        thread = next(int(task.name) for task in folder.iterdir()
                      if (task / 'comm').read_text(encoding='utf-8') == name + '\n')
        ptrace(PTRACE_SEIZE, thread)
        ptrace(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, WAIT_ALL)
        yield
        ptrace(PTRACE_DETACH, thread)

    def is_cooked(self):
        """Whether the terminal is as a shell wants it: lines, echoed, and Ctrl-C is a signal."""
        modes = termios.tcgetattr(self.file)
        wanted = termios.ICANON | termios.ECHO | termios.ISIG
        return modes[3] & wanted == wanted and modes[6][termios.VINTR] == b'\x03'

    def hang_up(self):
        os.close(self.file)
        self.file = None

    def end(self):
        """Its exit code, when it has ended by itself; −n when signal n ended it."""
        deadline = time.monotonic() + PATIENCE
        while self.file is not None and self.read(deadline):
            pass
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code
