# SPDX-License-Identifier: MIT
"""The reverse proxy of the examples, between curl and nginx, and between a WebSocket client and
server of Node's."""
import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
BIG = os.urandom(1 << 20) * 16  # larger than any buffer on the way
SERVER = '''
location /put/ { dav_methods PUT; create_full_put_path on; client_max_body_size 100m; }
set $seen "$http_x_forwarded_for|$http_x_forwarded_host|$http_x_kept";
location /seen { return 200 "$seen|$http_te|$http_x_named|$http_connection"; }
location /cookies { add_header Set-Cookie "a=1; expires=Mon, 01 Jan 2035 00:00:00 GMT";
                    add_header Set-Cookie "b=2"; return 200 "x"; }
location /gone { return 444; }
location /teapot { return 418 "tea"; }
'''

WS_ECHO = '''
const {WebSocketServer} = require('ws');
const server = new WebSocketServer({port: 0, host: '127.0.0.1',
    handleProtocols: offered => [...offered].pop()});
server.on('listening', () => console.log(server.address().port));
server.on('connection', (ws, request) => {
    ws.send(request.headers['x-forwarded-for'] + ' ' + request.url);
    ws.on('message', (data, binary) => data.toString() === 'end' ? ws.close(4007, 'as you like')
                                                                 : ws.send(data, {binary}));
});
'''

WS_CLIENT = '''
const ws = new (require('ws'))('ws://127.0.0.1:' + process.argv[1] + '/talk?x', ['one', 'two']);
const big = 'x'.repeat(300000);
let count = 0;
ws.on('error', error => { console.log(error.message); process.exit(1); });
ws.on('message', data => {
    if (++count == 1) { console.log(ws.protocol, data.toString()); ws.send(big); }
    else { console.log(data.toString() === big); ws.send('end'); }
});
ws.on('close', (code, reason) => console.log(code, reason.toString()));
'''


@unittest.skipUnless(shutil.which('curl'), 'curl is not installed')
class Proxy(unittest.TestCase):
    def proxy(self, behind, seconds=30):
        program = servers.Program([MARE, 'examples/16_reverse_proxy.lua', 0,
                                   f'http://127.0.0.1:{behind}', seconds])
        self.addCleanup(program.close)
        self.base = program.line(0)
        return program

    def curl(self, path, *options):
        """The body, and the status and head."""
        with tempfile.NamedTemporaryFile() as head:
            done = subprocess.run(['curl', '-sS', '--max-time', str(servers.PATIENCE), '-D',
                                   head.name, *options, self.base + path], capture_output=True,
                                  stdin=subprocess.DEVNULL, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = pathlib.Path(head.name).read_bytes().decode('latin-1').lower()
            return done.stdout, int(text.split('\r\n\r\n')[-2].split()[1]), text

    def test_nginx_behind_and_curl_before(self):
        port, folder = servers.nginx(self, {'page.html': b'<h1>page</h1>', 'big': BIG}, SERVER)
        ours = self.proxy(port)
        body, status, head = self.curl('/page.html')
        self.assertEqual((body, status), (b'<h1>page</h1>', 200))
        self.assertIn('\r\ncontent-type: text/html\r\n', head)
        self.assertIn('\r\ncontent-length: 13\r\n', head)
        self.assertEqual(len(re.findall('\r\ndate: ', head)), 1)

        tag = re.search('\r\netag: (.*?)\r\n', head)[1]
        self.assertEqual(self.curl('/page.html', '-H', f'If-None-Match: {tag}')[:2], (b'', 304))
        body, status, head = self.curl('/page.html', '-I')
        self.assertEqual(status, 200)
        self.assertIn('\r\ncontent-length: 13\r\n', head)
        self.assertEqual(self.curl('/page.html', '-r', '1-2')[:2], (b'h1', 206))
        self.assertEqual(self.curl('/missing')[1], 404)
        self.assertEqual(self.curl('/teapot')[:2], (b'tea', 418))
        cookies = re.findall('(?m)^set-cookie: (.*?)\r$', self.curl('/cookies')[2])
        self.assertEqual(cookies, ['a=1; expires=mon, 01 jan 2035 00:00:00 gmt', 'b=2'])

        # What is for one connection is not passed on; what is for the server is.
        body, _, _ = self.curl('/seen', '-H', 'X-Forwarded-For: 10.1.2.3', '-H', 'X-Kept: kept',
                               '-H', 'TE: trailers', '-H', 'Connection: X-Named, TE', '-H',
                               'X-Named: for you only')
        host = self.base.removeprefix('http://')
        self.assertEqual(body.decode(), f'10.1.2.3, 127.0.0.1|{host}|kept|||')

        # Large ones, both ways, do not stay in memory.
        self.assertEqual(self.curl('/big')[0], BIG)
        source = folder / 'source'
        source.write_bytes(BIG)
        for name, encoding in {'length': '', 'chunked': 'chunked'}.items():
            options = ['-H', f'Transfer-Encoding: {encoding}'] if encoding else []
            _, status, _ = self.curl(f'/put/{name}', '-T', str(source), *options)
            self.assertEqual(status, 201)
            stored = hashlib.sha256((folder / 'www/put' / name).read_bytes()).hexdigest()
            self.assertEqual(stored, hashlib.sha256(BIG).hexdigest())
        if not os.environ.get('ASAN_OPTIONS'):  # which keeps what was freed
            peak = re.search(r'VmHWM:\s+(\d+) kB',
                             pathlib.Path(f'/proc/{ours.process.pid}/status').read_text())
            self.assertLess(int(peak[1]), 15 * 1024)

        self.assertEqual(self.curl('/gone')[1], 502)
        self.assertEqual(self.curl('/page.html')[1], 200)

    def test_a_server_that_is_not_there(self):
        self.proxy(1)
        self.assertEqual(self.curl('/')[1], 502)

    def test_a_server_that_does_not_answer(self):
        with socket.create_server(('127.0.0.1', 0)) as silent:
            self.proxy(silent.getsockname()[1], 0.2)
            self.assertEqual(self.curl('/')[1], 504)
            self.assertEqual(self.curl('/', '-d', 'a body')[1], 504)

    def test_a_server_that_stops_in_the_middle(self):
        with socket.create_server(('127.0.0.1', 0)) as server:
            self.proxy(server.getsockname()[1])
            client = subprocess.Popen(['curl', '-sS', self.base], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE)
            behind, _ = server.accept()
            with behind:
                behind.recv(65536)
                behind.sendall(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n')
            out, err = client.communicate(timeout=servers.PATIENCE)
            self.assertEqual(out, b'abc')
            self.assertNotEqual(client.returncode, 0, err)  # it was not told that this is all

    def test_a_target_leads_to_no_other_server(self):
        with socket.create_server(('127.0.0.1', 0)) as elsewhere:
            elsewhere.settimeout(0.2)
            port = elsewhere.getsockname()[1]
            # Put together with such a target, the name of the server behind would be another's.
            program = servers.Program([MARE, 'examples/16_reverse_proxy.lua', 0,
                                       'http://127.0.0'])
            self.addCleanup(program.close)
            address = program.line(0).removeprefix('http://').split(':')
            for line, status in ((f'CONNECT .1:{port}', b'501'), (f'GET http://127.0.0.1:{port}/',
                                                                  b'421'), ('OPTIONS *', b'501')):
                with socket.create_connection(address, servers.PATIENCE) as stream:
                    stream.sendall(f'{line} HTTP/1.1\r\nHost: a\r\n\r\n'.encode())
                    self.assertEqual(stream.recv(65536).split()[1:2], [status], line)
            with self.assertRaises(TimeoutError):
                elsewhere.accept()

    def test_one_users_answer_is_not_anothers(self):
        """The server behind sends a body where there can be none, and one answer too many. What it
        sends so is for nobody; in particular not for who asks next."""
        secret = b'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret'
        first = {'-I': b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(secret),
                 '-XDELETE': b'HTTP/1.1 204 No Content\r\n\r\n',
                 '-XGET': b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'}
        with socket.create_server(('127.0.0.1', 0)) as server:

            def serve(stream):
                with stream, contextlib.suppress(ConnectionResetError):
                    while head := stream.recv(65536):
                        method = head.split()[0]
                        if head.split()[1] == b'/mine':
                            stream.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine')
                        else:
                            answer = first['-I' if method == b'HEAD' else '-X' + method.decode()]
                            stream.sendall(answer + secret)

            def accept():
                while True:
                    try:
                        stream, _ = server.accept()
                    except OSError:
                        return
                    threading.Thread(target=serve, args=(stream,), daemon=True).start()
            threading.Thread(target=accept, daemon=True).start()
            self.proxy(server.getsockname()[1])
            for option in first:
                self.assertIn(self.curl('/first', option)[1], (200, 204))
                self.assertEqual(self.curl('/mine')[:2], (b'mine', 200), option)
            server.shutdown(socket.SHUT_RDWR)

    @unittest.skipUnless(servers.NODE and (servers.NODE_MODULES / 'ws').exists(),
                         "Node's ws is not installed")
    def test_websockets_pass(self):
        behind = servers.node(self, WS_ECHO)
        self.proxy(behind.port)
        before = servers.node(self, WS_CLIENT, self.base.rsplit(':', 1)[1])
        self.assertEqual(before.wait(), 0)
        self.assertEqual(before.lines, ['two 127.0.0.1 /talk?x', 'true', '4007 as you like'])


tap.main(__name__)
