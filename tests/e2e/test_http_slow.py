# SPDX-License-Identifier: MIT
"""Slow clients of each kind, a thousand and more at once: others are served meanwhile, each costs
little of the server's memory, and what it costs is there again for the next thousand.
MARE_SLOW_CLIENTS says how many of each kind."""
import contextlib
import os
import pathlib
import resource
import socket
import struct
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())

# Nobody is given up for being slow; what the system keeps for each is little.
SERVER = '''
local net, http, mare = require "mare.net", require "mare.http", require "mare"
mare.workers(1)
local listener = assert(net.listen("127.0.0.1", 0, {backlog = 1024}))
listener:option("send_buffer", 16384)
print((select(2, listener:address())))
io.stdout:flush()
local large = ("x"):rep(1 << 20)
local long = 600
http.serve(listener, function(request)
    if request.path == "/large" then return large end
    return request:text()
end, {idle_time = long, message_time = long, write_time = long})
'''

# What each kind says, and says again and again.
KINDS = {
    'says nothing': (b'', b''),
    'has a long head': (b'GET / HTTP/1.1\r\nHost: a\r\n', b'X: y\r\n'),
    'has a head without an end of line': (b'GET / HTTP/1.1\r\nHost: a\r\nX: ', b'y'),
    'has a body that does not come':
        (b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n', b'x'),
    'has chunks of a byte': (b'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n',
                             b'1\r\nx\r\n'),
    'reads nothing': (b'GET /large HTTP/1.1\r\nHost: a\r\n\r\n', b''),
}
TIMES = 3  # how often they say that
COUNT = len(KINDS) * int(os.environ.get('MARE_SLOW_CLIENTS', 200 if servers.SLOW == 1 else 20))
EACH = 32 << 10  # bytes of memory that a slow one may cost, without what the system keeps
ROOM = 8 << 20  # that a server may need anyhow


class Slow(unittest.TestCase):
    def setUp(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < COUNT + 100:
            self.skipTest(f'needs {COUNT + 100} open files')
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        self.program = servers.lua(self, MARE, SERVER)
        self.port = self.program.port
        self.proc = pathlib.Path('/proc') / str(self.program.process.pid)

    def resident(self):
        for line in (self.proc / 'status').read_text().splitlines():
            if line.startswith('VmRSS:'):
                return int(line.split()[1]) << 10
        raise AssertionError('no VmRSS')

    def connections(self):
        count = 0
        for one in (self.proc / 'fd').iterdir():
            with contextlib.suppress(OSError):
                count += str(one.readlink()).startswith('socket:')
        return count

    def reach(self, count):
        """Waits until the server has so many sockets."""
        end = time.monotonic() + servers.PATIENCE
        while self.connections() != count:
            self.assertLess(time.monotonic(), end, f'{self.connections()} sockets, not {count}')
            time.sleep(0.01)

    def ask(self):
        """What one gets who is not slow."""
        with socket.create_connection(('127.0.0.1', self.port), servers.PATIENCE) as stream:
            stream.sendall(b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n'
                           b'Connection: close\r\n\r\nhi')
            text = b''
            while piece := stream.recv(65536):
                text += piece
        self.assertTrue(text.startswith(b'HTTP/1.1 200 ') and text.endswith(b'\r\n\r\nhi'), text)

    def visit(self):
        """Some of each kind come, are slow, and go: the server's memory while they are there."""
        before = self.connections()
        streams = []
        try:
            for number in range(COUNT):
                first, more = list(KINDS.values())[number % len(KINDS)]
                stream = socket.socket()
                streams.append((stream, more))
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                # So that no port is kept when it goes.
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
                stream.settimeout(servers.PATIENCE)
                stream.connect(('127.0.0.1', self.port))
                stream.sendall(first)
            for _ in range(TIMES):
                for stream, more in streams:
                    stream.sendall(more)
            self.reach(before + COUNT)
            self.ask()
            return self.resident()
        finally:
            for stream, _ in streams:
                stream.close()
            self.reach(before)

    def test_memory_is_flat(self):
        self.ask()
        before = self.resident()
        once = self.visit()
        again = max(self.visit() for _ in range(2))
        print(f'# {COUNT} slow ones: {(once - before) / COUNT / 1024:.1f} KiB each, then '
              f'{(again - before) / COUNT / 1024:.1f}')
        if servers.SLOW == 1:  # what sanitizers keep back cannot be judged
            self.assertLess(once - before, COUNT * EACH + ROOM)
            self.assertLess(again - before, (once - before) * 1.5 + ROOM)
        self.ask()


tap.main(__name__)
