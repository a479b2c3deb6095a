# SPDX-License-Identifier: MIT
"""The HTTP client against nginx, and the server against clients that mean it no good."""
import os
import pathlib
import resource
import socket
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())

# In the log, what tells connections apart.
NGINX = '''
keepalive_requests 4;
location = /chunked.html { sub_filter_once on; sub_filter one two; }
location = /error { return 503 "busy"; }
location = /nothing { return 204; }
location = /old { client_max_body_size 1k; return 301 /new; }
location /put/ { dav_methods PUT DELETE; create_full_put_path on; client_max_body_size 100m; }
location = /small { client_max_body_size 1k; proxy_pass http://127.0.0.1:1; }
location = /gone { return 444; }
'''

CLIENT = '''
local mare, http = require "mare", require "mare.http"
local base = arg[1]
print(0)
local client = http.client {limits = {body = 1 << 30}}
local function show(what)
    local response, message, code = client:request(what)
    if not response then return print(nil, code) end
    print(response.status, #assert(response:text()), response.headers["content-length"])
    return response
end
local first = show {url = base .. "/page.html"}
show {url = base .. "/page.html", headers = {["if-none-match"] = first.headers.etag}}
show {url = base .. "/page.html", method = "HEAD"}
show {url = base .. "/page.html", headers = {range = "bytes=1-3"}}
show {url = base .. "/chunked.html"}
print((select(2, client:get(base .. "/chunked.html"))))
show {url = base .. "/missing"}
show {url = base .. "/error"}
show {url = base .. "/nothing"}
show {url = base .. "/old"}
show {url = base .. "/big.bin"}
local body = ("0123456789abcdef"):rep(1 << 16)
show {url = base .. "/put/one", method = "PUT", body = body}
local parts = 16
show {url = base .. "/put/two", method = "PUT", body = function()
    parts = parts - 1
    return parts >= 0 and body:sub(1, 65536) or nil
end}
print(client:get(base .. "/put/one") == 200, (select(2, client:get(base .. "/put/one"))) == body)
print(#(select(2, client:get(base .. "/put/two"))))
show {url = base .. "/put/one", method = "DELETE"}
show {url = base .. "/small", body = body}
show {url = base .. "/gone"}
'''

# Answers in ways that tell what was asked; heads must be there soon.
SERVER = '''
local mare, net, http = require "mare", require "mare.net", require "mare.http"
local listener = assert(net.listen("127.0.0.1", 0))
print((select(2, listener:address())))
io.stdout:flush()
http.serve(listener, function(request)
    local text = request:text()
    return text and ("%s %d"):format(request.path, #text)
end, {message_time = tonumber(arg[1]), idle_time = 30, limits = {body = 1000}})
'''


def connect(port):
    stream = socket.create_connection(('127.0.0.1', port), servers.PATIENCE)
    return stream


def read_all(stream):
    """What comes until the other side closes, or resets."""
    text = b''
    try:
        while piece := stream.recv(65536):
            text += piece
    except ConnectionResetError:
        pass
    return text


class Client(unittest.TestCase):
    def test_nginx_answers(self):
        big = os.urandom(1 << 20) * 5
        port, _ = servers.nginx(self, {'page.html': b'<p>hello', 'chunked.html': b'one fish',
                                            'big.bin': big}, NGINX)
        ours = servers.lua(self, MARE, CLIENT, f'http://127.0.0.1:{port}')
        self.assertEqual(ours.wait(), 0)
        lines = [line.split('\t') for line in ours.lines[1:]]
        self.assertEqual(lines[:6], [['200', '8', '8'], ['304', '0', 'nil'], ['200', '0', '8'],
                                     ['206', '3', '3'], ['200', '8', 'nil'], ['two fish']])
        self.assertEqual(lines[6][0], '404')
        self.assertEqual(lines[7], ['503', '4', '4'])
        self.assertEqual(lines[8], ['204', '0', 'nil'])
        self.assertEqual(lines[9][0], '301')
        self.assertEqual(lines[10], ['200', str(len(big)), str(len(big))])
        self.assertEqual([line[0] for line in lines[11:13]], ['201', '201'])
        self.assertEqual(lines[13:15], [['true', 'true'], [str(16 * 65536)]])
        self.assertEqual(lines[15], ['204', '0', 'nil'])
        self.assertEqual(lines[16][0], '413')
        self.assertEqual(lines[17], ['nil', 'closed'])


class Server(unittest.TestCase):
    def serve(self, seconds, **options):
        return servers.lua(self, MARE, SERVER, str(seconds), **options).port

    def answers(self, port, stream=None):
        """That others are served."""
        with stream or connect(port) as stream:
            stream.sendall(b'GET /fine HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
            text = read_all(stream)
            self.assertTrue(text.endswith(b'\r\n\r\n/fine 0'), text)

    def test_slow_lorises(self):
        port = self.serve(1)
        slow = [connect(port) for _ in range(50)]
        for stream in slow:
            self.addCleanup(stream.close)
            stream.sendall(b'GET / HTTP/1.1\r\nHost: a\r\n')
        deadline = time.monotonic() + servers.PATIENCE
        answers = dict.fromkeys(slow, b'')
        open_ones = set(slow)
        while open_ones and time.monotonic() < deadline:
            self.answers(port)
            for stream in list(open_ones):
                stream.settimeout(0.001)
                try:
                    stream.sendall(b'X-a: b\r\n')  # a line now and then, and never the last
                    piece = stream.recv(65536)
                    answers[stream] += piece
                except TimeoutError:
                    continue
                except OSError:
                    piece = b''
                if not piece:
                    open_ones.discard(stream)
        self.assertEqual(len(open_ones), 0, 'some are served for ever')
        told = [text for text in answers.values() if text]
        self.assertGreater(len(told), 0)
        for text in told:
            self.assertRegex(text, b'^HTTP/1.1 (408|431) ')

    def test_header_bombs(self):
        port = self.serve(30)
        for line, status in ((b'X-a: ' + b'b' * 1000 + b'\r\n', b'431'), (b'a: b\r\n', b'431'),
                             (b'c' * 1000, b'431')):
            with connect(port) as stream:
                stream.sendall(b'GET / HTTP/1.1\r\nHost: a\r\n')
                sent, text = 0, b''
                try:
                    while sent < 1 << 24:  # more than any server should listen to
                        stream.sendall(line)
                        sent += len(line)
                except OSError:
                    pass
                self.assertLess(sent, 1 << 24)
                try:
                    text = read_all(stream)
                except OSError:
                    pass
                # The answer may be lost to the reset; the connection is gone in any case.
                self.assertTrue(not text or text.startswith(b'HTTP/1.1 ' + status), text)
            self.answers(port)
        with connect(port) as stream:  # one that listens is told
            stream.sendall(b'GET / HTTP/1.1\r\nHost: a\r\n' + b'a: b\r\n' * 101 + b'\r\n')
            self.assertTrue(read_all(stream).startswith(b'HTTP/1.1 431 '))

    def test_bodies_beyond_the_limit(self):
        port = self.serve(30)
        for head, body, status in (
                (b'Content-Length: 1000', b'x' * 1000, 200),
                (b'Content-Length: 1001', b'x' * 1001, 413),
                (b'Content-Length: 99999999999999999999', b'', 400),
                (b'Transfer-Encoding: chunked', b'3e8\r\n' + b'x' * 1000 + b'\r\n0\r\n\r\n', 200),
                (b'Transfer-Encoding: chunked', b'3e9\r\n' + b'x' * 1001 + b'\r\n0\r\n\r\n', 413),
                (b'Content-Length: 100000000', b'x' * 500000, 413)):
            with connect(port) as stream:
                stream.sendall(b'POST /body HTTP/1.1\r\nHost: a\r\nConnection: close\r\n' + head +
                               b'\r\n\r\n')
                try:
                    stream.sendall(body)
                except OSError:
                    pass
                text = read_all(stream)
                self.assertEqual(text.split()[1:2], [b'%d' % status], head)
            self.answers(port)

    def test_without_descriptors_those_who_are_there_are_served(self):
        most = 40
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        port = self.serve(30, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                                    (most, hard)))
        first = connect(port)
        first.sendall(b'GET /one HTTP/1.1\r\nHost: a\r\n\r\n')
        self.assertIn(b'/one 0', first.recv(65536))
        crowd = [connect(port) for _ in range(most + 20)]  # the system's line takes the rest
        for stream in crowd:
            stream.sendall(b'GET /crowd HTTP/1.1\r\nHost: a\r\n\r\n')
        self.assertIn(b'/crowd 0', crowd[0].recv(65536))
        first.sendall(b'GET /two HTTP/1.1\r\nHost: a\r\n\r\n')
        self.assertIn(b'/two 0', first.recv(65536))
        crowd[-1].settimeout(0.3)
        with self.assertRaises(TimeoutError):  # nobody can accept it
            crowd[-1].recv(65536)
        for stream in crowd[:-5]:
            stream.close()
        crowd[-1].settimeout(servers.PATIENCE)
        self.assertIn(b'/crowd 0', crowd[-1].recv(65536))
        self.answers(port, first)
        for stream in crowd:
            stream.close()


tap.main(__name__)
