# SPDX-License-Identifier: MIT
"""Slow clients of each kind, a thousand at once: others are served meanwhile, each costs little of
the server's memory, and what it costs is there again for the next thousand, of the same kind or
another. MARE_SLOW_CLIENTS says how many of each kind."""
import contextlib
import os
import pathlib
import resource
import socket
import ssl
import struct
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())

# Nobody is given up for being slow; what the system keeps for each is little.
SERVER = '''
local net, http, mare = require "mare.net", require "mare.http", require "mare"
local websocket, tls = require "mare.websocket", require "mare.tls"
mare.workers(1)
local certificate, key = tls.selfsigned "localhost"
local plain = assert(net.listen("127.0.0.1", 0, {backlog = 1024}))
local secure = assert(tls.listen("127.0.0.1", 0, {backlog = 1024, certificate = certificate,
    key = key, handshake_time = 600}))
local large = ("x"):rep(1 << 20)
local long = 600
local function handler(request)
    if request.path == "/large" then return large end
    if request.path == "/file" then return {file = arg[1]} end
    if request.upgrade then
        local w <close> = websocket.accept(request, {ping_time = long})
        for message in w:messages() do w:send(message) end
        return
    end
    return request:text()
end
local options = {idle_time = long, message_time = long, write_time = long, http2 = "clear"}
for _, listener in ipairs {plain, secure} do
    listener:option("send_buffer", 16384)
    mare.go(http.serve, listener, handler, options)
    print((select(2, listener:address())))
end
io.stdout:flush()
mare.channel():receive()
'''

WEBSOCKET = (b'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
             b'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n')
MASK = b'\0\0\0\0'


def frame(kind, flags, stream, payload=b''):
    """One of HTTP/2 (RFC 9113 section 4.1)."""
    return struct.pack('>I', len(payload))[1:] + struct.pack('>BBI', kind, flags, stream) + payload


def head(path, flags, method=b'\x82'):
    """A request (GET, http, this path, the host "a") by RFC 7541, on stream 1."""
    text = method + b'\x86\x04' + bytes([len(path)]) + path + b'\x41\x01a'
    return frame(1, flags, 1, text)


HTTP2 = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0)
NO_WINDOW = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, struct.pack('>HI', 4, 0))

HELLO = b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'  # how a client of TLS begins
LARGE = b'GET /large HTTP/1.1\r\nHost: a\r\n\r\n'

# What each kind says, and says again and again. Those of the last two are over TLS.
KINDS = {
    'says nothing': (b'', b''),
    'has a long head': (b'GET / HTTP/1.1\r\nHost: a\r\n', b'X: y\r\n'),
    'has a head without an end of line': (b'GET / HTTP/1.1\r\nHost: a\r\nX: ', b'y'),
    'has a body that does not come':
        (b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n', b'x'),
    'has chunks of a byte': (b'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n',
                             b'1\r\nx\r\n'),
    'reads nothing': (LARGE, b''),
    'reads nothing of a file': (LARGE.replace(b'large', b'file'), b''),
    'is a WebSocket that says nothing': (WEBSOCKET, b''),
    'has a frame that does not come': (WEBSOCKET + b'\x82\xfe\x10\x00' + MASK, b'x'),
    'has a message of many frames': (WEBSOCKET + b'\x02\x81' + MASK + b'x',
                                     b'\x00\x81' + MASK + b'x'),
    'speaks HTTP/2 and asks for nothing': (HTTP2, frame(6, 0, 0, b'12345678')),
    'has a head of HTTP/2 that does not come': (HTTP2 + frame(1, 0, 1, b'\x82'), b''),
    'has a body of HTTP/2 that does not come': (HTTP2 + head(b'/', 4, b'\x83'),
                                                frame(0, 0, 1, b'x')),
    'lets nothing of HTTP/2 come': (NO_WINDOW + head(b'/large', 5),
                                    frame(8, 0, 1, struct.pack('>I', 1))),
    'reads nothing of HTTP/2': (HTTP2 + head(b'/large', 5), b''),
    'has a handshake that does not come': (HELLO, b'\0'),
    'says nothing over TLS': (b'', b''),
    'reads nothing over TLS': (LARGE, b''),
}
OVER_TLS = {'has a handshake that does not come': False}  # and whether the handshake is made
OVER_TLS.update((kind, True) for kind in KINDS if kind.endswith('over TLS'))
TIMES = 3  # how often they say that
COUNT = int(os.environ.get('MARE_SLOW_CLIENTS', 1000 if servers.SLOW == 1 else 30))
EACH = 32 << 10  # bytes of memory that a slow one may cost, without what the system keeps
MORE = {  # that some may cost
    'reads nothing of HTTP/2': 64 << 10,  # frames are made ahead, up to so many bytes
    **dict.fromkeys(OVER_TLS, 32 << 10),  # OpenSSL's records and keys
}
ROOM = 8 << 20  # that a server may need anyhow


class Slow(unittest.TestCase):
    def setUp(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < COUNT + 100:
            self.skipTest(f'needs {COUNT + 100} open files')
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        file = tempfile.NamedTemporaryFile()
        self.addCleanup(file.close)
        file.write(b'x' * (1 << 20))
        file.flush()
        self.program = servers.lua(self, MARE, SERVER, file.name)
        self.port, self.secure_port = self.program.port, int(self.program.line(1))
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
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

    def come(self, kind):
        first, _ = KINDS[kind]
        stream = socket.socket()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # So that no port is kept when it goes.
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        stream.settimeout(servers.PATIENCE)
        stream.connect(('127.0.0.1', self.secure_port if kind in OVER_TLS else self.port))
        if OVER_TLS.get(kind):
            stream = self.context.wrap_socket(stream)
        stream.sendall(first)
        return stream

    def visit(self, kinds, count):
        """So many come, of each kind by turns, are slow, and go: the server's memory while they
        are there."""
        before = self.connections()
        streams = []
        try:
            for number in range(count):
                kind = kinds[number % len(kinds)]
                streams.append((self.come(kind), KINDS[kind][1]))
            for _ in range(TIMES):
                for stream, more in streams:
                    if more:
                        stream.sendall(more)
            self.reach(before + count)
            self.ask()
            return self.resident()
        finally:
            for stream, _ in streams:
                stream.close()
            self.reach(before)

    def test_memory_is_flat(self):
        self.ask()
        start, kinds = self.resident(), list(KINDS)
        for kind in kinds:
            before = self.resident()
            grown = self.visit([kind], COUNT) - before
            print(f'# {COUNT} of whom each {kind}: {grown / COUNT / 1024:.1f} KiB each')
            if servers.SLOW == 1:  # what sanitizers keep back cannot be judged
                self.assertLess(grown, COUNT * (EACH + MORE.get(kind, 0)) + ROOM, kind)
        once = self.visit(kinds, COUNT) - start
        again = self.visit(kinds, COUNT) - start
        print(f'# {COUNT} of all kinds: {once / COUNT / 1024:.1f} KiB each, then '
              f'{again / COUNT / 1024:.1f}')
        if servers.SLOW == 1:
            self.assertLess(again, once + ROOM)
        self.ask()


tap.main(__name__)
