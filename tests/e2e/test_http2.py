# SPDX-License-Identifier: MIT
"""HTTP/2 against other people's: curl, nghttp, h2load and Node ask our server; nginx and Node
answer our client."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
BIG = os.urandom(1 << 20) * 4

CERTIFICATE = '''
local file, certificate, key = require "mare.file", require "mare.tls".selfsigned {"localhost",
    "127.0.0.1"}
assert(file.write(arg[1] .. "/certificate.pem", certificate))
assert(file.write(arg[1] .. "/key.pem", key))
'''

SERVER = '''
local mare, net, http, tls = require "mare", require "mare.net", require "mare.http",
    require "mare.tls"
local folder = arg[1]
local listener = assert(tls.listen("127.0.0.1", 0, {certificate = folder .. "/certificate.pem",
    key = folder .. "/key.pem"}))
local clear = assert(net.listen("127.0.0.1", 0))
local function handler(request)
    local path = request.path
    if path == "/echo" then return {body = function() return request:read() end} end
    if path == "/big" then return ("0123456789abcdef"):rep(1 << 18) end
    if path == "/file" then return {file = folder .. "/certificate.pem"} end
    if path == "/wait" then
        local begun = false
        return {finally = function() print "gone" end, body = function()
            if begun then mare.channel():receive() end
            begun = true
            return "x"
        end}
    end
    return ("%s %s %s\\n"):format(request.method, path, request.http2 and 2 or 1)
end
local options = {limits = {body = 1 << 30}, http2 = "clear"}
print(select(2, clear:address()) .. " " .. select(2, listener:address()))
mare.go(http.serve, clear, handler, options)
http.serve(listener, handler, options)
'''

NODE_CLIENT = '''
const http2 = require('http2'), fs = require('fs');
const [port, folder] = process.argv.slice(1);
const session = http2.connect('https://localhost:' + port,
    {ca: fs.readFileSync(folder + '/certificate.pem')});
session.on('error', error => { console.log(error.message); process.exit(1); });
function ask(path, body, method) {
    return new Promise((resolve, reject) => {
        const stream = session.request({':path': path,
            ':method': method || (body ? 'POST' : 'GET')});
        let status, parts = [];
        stream.on('response', headers => status = headers[':status']);
        stream.on('data', part => parts.push(part));
        stream.on('error', reject);
        stream.on('end', () => resolve([status, Buffer.concat(parts)]));
        stream.end(body);
    });
}
(async () => {
    const answers = await Promise.all([...Array(80).keys()].map(i => ask('/' + i)));
    console.log(answers.every(([s, b], i) => s == 200 && b == `GET /${i} 2\\n`));
    const body = Buffer.alloc(3000000, 'abc');
    const [status, echo] = await ask('/echo', body);
    console.log(status, body.equals(echo));
    console.log((await ask('/', null, 'HEAD'))[1].length);
    const stream = session.request({':path': '/wait'});
    stream.on('error', () => {});
    stream.on('data', () => stream.close(http2.constants.NGHTTP2_CANCEL));
    stream.on('close', async () => {
        console.log((await ask('/after'))[1].toString().trim());
        session.close();
    });
})();
'''

NODE_SERVER = '''
const http2 = require('http2'), fs = require('fs');
const folder = process.argv[1];
const server = http2.createSecureServer({key: fs.readFileSync(folder + '/key.pem'),
    cert: fs.readFileSync(folder + '/certificate.pem')});
let sessions = 0;
server.on('session', () => sessions++);
server.on('stream', (stream, headers) => {
    const path = headers[':path'];
    stream.on('error', () => {});
    if (path == '/hints') {
        stream.additionalHeaders({':status': 103, link: '</a>'});
        stream.respond({':status': 200}, {waitForTrailers: true});
        stream.on('wantTrailers', () => stream.sendTrailers({'x-after': '1'}));
        stream.end('hinted');
    } else if (path == '/cut') {
        stream.respond({':status': 200});
        stream.write('half', () => stream.destroy(new Error('cut')));
    } else if (path == '/echo') {
        stream.respond({':status': 200});
        stream.pipe(stream);
    } else if (path == '/goodbye') {
        stream.respond({':status': 200});
        stream.end('goodbye');
        stream.session.close();
    } else if (path == '/refuse') {
        stream.close(http2.constants.NGHTTP2_REFUSED_STREAM);
    } else {
        stream.respond({':status': 200, 'set-cookie': ['a=1', 'b=2']});
        stream.end(headers['x-a'] + ' ' + sessions);
    }
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
'''

CLIENT = '''
local mare, http = require "mare", require "mare.http"
local base, folder = arg[1], arg[2]
local client = http.client {tls = {authorities = folder .. "/certificate.pem"},
    limits = {body = 1 << 30}}
local function show(what, ...)
    what = type(what) == "table" and what or {url = what}
    what.url = base .. what.url
    local response, _, code, got = client:request(what)
    if not response then return print(nil, code, got) end
    local text, _, wrong = response:text()
    print(response.status, response.http2, text and (#text < 100 and text or #text) or wrong)
    return response
end
print "0"
'''

WITH_NGINX = CLIENT + '''
show "/page.html"
show {url = "/page.html", method = "HEAD"}
show "/missing"
show "/big.bin"
local n = 0
show {url = "/put/it", method = "PUT", body = function()
    n = n + 1
    return n <= 64 and ("x"):rep(65536) or nil
end, length = 64 * 65536}
show "/put/it"
local routines, good = {}, 0
for i = 1, 60 do routines[i] = mare.go(client.get, client, base .. "/page.html") end
for i = 1, 60 do
    local _, status = routines[i]:join()
    if status == 200 then good = good + 1 end
end
print(good)
'''

WITH_NODE = CLIENT + '''
local response = show {url = "/", headers = {["X-A"] = "b"}}
print(table.concat(response.headers["set-cookie"], " "))
show "/hints"
show "/cut"
local sent = 0
show {url = "/echo", method = "POST", body = function()
    sent = sent + 1
    return sent <= 40 and ("y"):rep(50000) or nil
end}
show {url = "/refuse", method = "POST", body = "x"}
show {url = "/", headers = {["x-a"] = "same"}}
show "/goodbye"
show {url = "/", headers = {["x-a"] = "new"}}
'''


class Http2(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = cls.scratch.name
        script = pathlib.Path(cls.folder) / 'certificate.lua'
        script.write_text(CERTIFICATE)
        subprocess.run([MARE, str(script), cls.folder], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def server(self):
        program = servers.lua(self, MARE, SERVER, self.folder)
        clear, secure = program.line(0).split()
        return program, f'http://127.0.0.1:{clear}', f'https://127.0.0.1:{secure}'

    def run_program(self, command):
        done = subprocess.run([str(word) for word in command], capture_output=True,
                              stdin=subprocess.DEVNULL, check=False, timeout=servers.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @unittest.skipUnless(shutil.which('curl'), 'curl is not installed')
    def test_curl_asks(self):
        _, clear, secure = self.server()
        body = pathlib.Path(self.folder) / 'body'
        body.write_bytes(BIG)

        def curl(*words):
            return self.run_program(['curl', '-sS', '--max-time', servers.PATIENCE, '--cacert',
                                     self.folder + '/certificate.pem', *words])
        version = ['-w', '%{http_version} %{http_code}']
        self.assertEqual(curl('--http2', *version, secure + '/a'), b'GET /a 2\n2 200')
        self.assertEqual(curl('--http2-prior-knowledge', *version, clear + '/a'),
                         b'GET /a 2\n2 200')
        self.assertEqual(curl(*version, clear + '/a'), b'GET /a 1\n1.1 200')
        self.assertEqual(curl('--http1.1', *version, secure + '/a'), b'GET /a 1\n1.1 200')
        for base in (clear, secure):
            echo = curl('--http2-prior-knowledge' if base == clear else '--http2', '--data-binary',
                        '@' + str(body), base + '/echo')
            self.assertEqual(hashlib.sha256(echo).digest(), hashlib.sha256(BIG).digest())
        self.assertEqual(len(curl('--http2', secure + '/big')), 4 << 20)
        self.assertEqual(curl('--http2', secure + '/file'),
                         pathlib.Path(self.folder, 'certificate.pem').read_bytes())
        many = curl('--http2', '--parallel', '-w', '%{num_connects}\n',
                    *[f'{secure}/many' for _ in range(20)]).decode().splitlines()
        self.assertEqual(many.count('GET /many 2'), 20)

    @unittest.skipUnless(shutil.which('nghttp'), 'nghttp2-client is not installed')
    def test_nghttp_and_h2load_ask(self):
        _, clear, secure = self.server()
        told = self.run_program(['nghttp', '-v', '-n', secure + '/a', secure + '/b'])
        self.assertEqual(told.count(b':status: 200'), 2, told)
        for base in (clear, secure):
            told = self.run_program(['h2load', '-n', 2000, '-c', 2, '-m', 50, base + '/a'])
            self.assertIn(b'2000 succeeded, 0 failed, 0 errored', told)

    @unittest.skipUnless(servers.NODE, 'Node is not installed')
    def test_node_asks(self):
        program, _, secure = self.server()
        said = self.run_program([servers.NODE, '-e', NODE_CLIENT, secure.split(':')[-1],
                                 self.folder])
        self.assertEqual(said.decode().splitlines(), ['true', '200 true', '0', 'GET /after 2'])
        self.assertEqual(program.line(1), 'gone')

    def lines(self, text, base):
        program = servers.lua(self, MARE, text, base, self.folder)
        self.assertEqual(program.wait(), 0)
        return [line.split('\t') for line in program.lines[1:]]

    def test_nginx_answers(self):
        own = f'ssl_certificate {self.folder}/certificate.pem; ' \
              f'ssl_certificate_key {self.folder}/key.pem;'
        files = {'page.html': b'<h1>page</h1>', 'big.bin': BIG}
        port, folder = servers.nginx(self, files, own + '''
            location /put/ { dav_methods PUT; create_full_put_path on; client_max_body_size 100m; }
            } server { listen 127.0.0.1:{port} ssl http2; server_name other; ''' + own)
        lines = self.lines(WITH_NGINX, f'https://127.0.0.1:{port}')
        self.assertEqual(lines[:2], [['200', 'true', '<h1>page</h1>'], ['200', 'true', '']])
        self.assertEqual(lines[2][0], '404')
        self.assertEqual(lines[3:], [['200', 'true', str(len(BIG))], ['201', 'true', ''],
                                     ['200', 'true', str(64 * 65536)], ['60']])
        log = (folder / 'access.log').read_text()
        self.assertEqual(len(re.findall(r'HTTP/2\.0', log)), 66, log)

    @unittest.skipUnless(servers.NODE, 'Node is not installed')
    def test_node_answers(self):
        program = servers.node(self, NODE_SERVER, self.folder)
        lines = self.lines(WITH_NODE, f'https://127.0.0.1:{program.port}')
        self.assertEqual(lines, [
            ['200', 'true', 'b 1'], ['a=1 b=2'], ['200', 'true', 'hinted'],
            ['200', 'true', 'badmsg'], ['200', 'true', '2000000'], ['nil', 'closed', 'false'],
            ['200', 'true', 'same 1'], ['200', 'true', 'goodbye'], ['200', 'true', 'new 2']])


tap.main(__name__)
