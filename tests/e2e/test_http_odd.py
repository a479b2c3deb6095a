# SPDX-License-Identifier: MIT
"""Odd requests to our server and odd answers to our client, from odd_requests.txt and
odd_answers.txt: what they do is what these files say. Where nginx and Node are installed they are
asked the same, and where they do otherwise that is told, with the RFC's word; they do not fail the
test."""
import concurrent.futures
import contextlib
import pathlib
import re
import socket
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
MARE = str(pathlib.Path(sys.argv.pop()).resolve())
NEXT = b'GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
PEER_PATIENCE = 2 * servers.SLOW  # what has not answered by then does not
ESCAPES = {'r': b'\r', 'n': b'\n', 't': b'\t', '0': b'\0'}


# ---- Cases --------------------------------------------------------------------------------------

def plain(text):
    def byte(match):
        word = match[1].decode()
        return bytes([int(word[1:], 16)]) if word[0] == 'x' else ESCAPES[word]
    return re.sub(rb'\\(x[0-9a-f]{2}|[rnt0])', byte, text)


def unescape(text):
    def repeat(match):
        return plain(match[1]) * int(match[2])
    parts = re.split(rb'(\{[^{}]*\*\d+\})', text.encode())
    return b''.join(re.sub(rb'\{([^{}]*)\*(\d+)\}', repeat, part) if part[:1] == b'{'
                    else plain(part) for part in parts)


class Case:
    def __init__(self, name):
        self.name = name
        self.bytes, self.ask, self.end = b'', 'GET', ''
        self.rfc = self.word = self.want = self.ours = self.why = ''

    def add(self, key, value):
        if key == 'send':
            self.bytes += unescape(value)
        else:
            assert hasattr(self, key) and (key == 'ask' or not getattr(self, key)), (self.name, key)
            setattr(self, key, value)

    @property
    def expected(self):
        """Of ours."""
        return self.ours or self.want.split(' | ')[0]

    def allows(self, outcome, shorten=lambda text: text):
        """Whether the RFC does; `shorten` leaves out what cannot be known of everybody."""
        for one in self.want.split(' | '):
            pattern = re.escape(shorten(one)).replace(r'\?', r'\d')
            if re.fullmatch(pattern, outcome):
                return True
        return False


def read_cases(name):
    cases = []
    for line in (HERE / name).read_text().splitlines():
        if line.startswith('['):
            cases.append(Case(line[1:-1]))
        elif line and not line.startswith('#'):
            key, value = line.split(maxsplit=1)
            cases[-1].add(key, value)
    for case in cases:
        assert case.rfc and case.word and case.want, case.name
        # What is not as the RFC wants it has a reason.
        assert case.allows(case.expected) or case.why, case.name
    assert len({case.name for case in cases}) == len(cases)
    return cases


def tell(who, cases, outcomes, shorten=lambda text: text):
    """Where another does otherwise than ours."""
    against = []
    for case, outcome in zip(cases, outcomes):
        if outcome == shorten(case.expected):
            continue
        if case.allows(outcome, shorten):
            how = 'is free to differ' if case.allows(case.expected) else 'does what ours does not'
            print(f'# {who} {how}: {case.name}: {outcome}, ours {case.expected} '
                  f'(RFC {case.rfc}: {case.word})')
        else:
            against.append(f'# {who} differs from the RFC: {case.name}: {outcome}, wanted '
                           f'{case.want} (RFC {case.rfc}: {case.word})')
    print('\n'.join(against + [f'# {who}: {len(cases)} cases, {len(against)} not as the RFC '
                               'wants it']))


# ---- Messages -----------------------------------------------------------------------------------

def take_chunks(text):
    """The body, and what is behind it; None: it is cut short."""
    body = b''
    while True:
        line, found, text = text.partition(b'\r\n')
        if not found:
            return None, b''
        size = int(line.split(b';')[0], 16)
        if size == 0:
            return body, text.partition(b'\r\n')[2]
        body, text = body + text[:size], text[size + 2:]


def take_answer(text, to_head=False):
    """The status, the body and what is behind it; None: it is cut short."""
    head, found, rest = text.partition(b'\r\n\r\n')
    status = re.match(rb'HTTP/1\.\d (\d\d\d)', head)
    if not found or not status:
        return None, None, b''
    status = int(status[1])
    length = re.search(rb'(?i)\r\ncontent-length: *(\d+)', head)
    if status // 100 == 1 or status in (204, 304) or to_head:
        return status, b'', rest
    if re.search(rb'(?i)\r\ntransfer-encoding: *chunked', head):
        return status, *take_chunks(rest)
    if not length:
        return status, rest, b''
    size = int(length[1])
    return status, rest[:size] if len(rest) >= size else None, rest[size:]


def read_all(stream):
    text = b''
    with contextlib.suppress(OSError):
        while piece := stream.recv(65536):
            text += piece
    return text


def exchange(port, request, patience, ends=False):
    """All that is answered to these bytes, up to the end of the connection; if this side `ends`
    then, nothing is waited for that does not come."""
    with socket.create_connection(('127.0.0.1', port), patience) as stream:
        with contextlib.suppress(OSError):
            stream.sendall(request)
            if ends:
                stream.shutdown(socket.SHUT_WR)
        return read_all(stream)


# ---- Requests -----------------------------------------------------------------------------------

SERVER = '''
local net, http = require "mare.net", require "mare.http"
local listener = assert(net.listen("127.0.0.1", 0))
print((select(2, listener:address())))
io.stdout:flush()
http.serve(listener, function(request)
    local text = request:text()
    return text and ("%s %d"):format(request.path, #text)
end)
'''

NODE_SERVER = '''
const server = require('http').createServer((request, response) => {
    let size = 0;
    request.on('data', data => size += data.length);
    request.on('end', () => response.end(
        (request.url[0] === '/' || request.url === '*' ? request.url
            : new URL(request.url).pathname) + ' ' + size));
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
'''

NGINX_SERVER = 'location / { default_type text/plain; return 200 "$uri -"; }'


def answers_to(port, case, patience):
    """What a server makes of a request, in the words of the file."""
    text = exchange(port, case.bytes + NEXT, patience, ends=True)
    words = []
    while text:
        status, body, text = take_answer(text)
        if body is None:
            words.append('cut')
        elif status == 200 and re.fullmatch(rb'/next (0|-)', body):
            words.append('next')
        elif status == 200 and re.fullmatch(rb'[/*]\S* (\d+|-)', body):
            words.append(f'200 {body.decode(errors="replace")}')
        else:
            words.append(str(status))
    return ', '.join(words) or 'closed'


def without_sizes(text):
    return re.sub(r'(200 \S+) \d+', r'\1 -', text)


class Requests(unittest.TestCase):
    cases = read_cases('odd_requests.txt')

    def outcomes(self, port, patience=PEER_PATIENCE):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda case: answers_to(port, case, patience), self.cases))

    def test_ours(self):
        port = servers.lua(self, MARE, SERVER).port
        outcomes = self.outcomes(port, servers.PATIENCE)
        wrong = [(case.name, case.expected, outcome)
                 for case, outcome in zip(self.cases, outcomes) if outcome != case.expected]
        self.assertEqual(wrong, [])

    @unittest.skipUnless(servers.NODE, 'Node is not installed')
    def test_node(self):
        tell('Node', self.cases, self.outcomes(servers.node(self, NODE_SERVER).port))

    def test_nginx(self):
        port, _ = servers.nginx(self, {}, NGINX_SERVER)
        tell('nginx', self.cases, self.outcomes(port), without_sizes)


# ---- Answers ------------------------------------------------------------------------------------

CLIENT = '''
local http = require "mare.http"
print(0)
local base, patience = arg[1], tonumber(arg[2])
for i = 3, #arg do
    local client <close> = http.client {timeout = patience}
    local response = client:request {url = ("%s/case/%d"):format(base, i - 3), method = arg[i]}
    local text = response and response:text()
    local outcome = text and ("%d %d"):format(response.status, #text) or "refused"
    local _, next_one = client:get(("%s/next/%d"):format(base, i - 3))
    print(outcome .. ", " .. (next_one == "kept" and "kept" or next_one == "new" and "new"
        or "wrong"))
end
'''

NODE_CLIENT = '''
const http = require('http');
const [base, patience, ...methods] = process.argv.slice(1);
const ask = (agent, method, path) => new Promise(done => {
    const request = http.request(base + path, {agent, method}, response => {
        const parts = [];
        response.on('data', data => parts.push(data));
        response.on('error', () => done(null));
        response.on('aborted', () => done(null));
        response.on('end', () => done([response.statusCode, Buffer.concat(parts)]));
    });
    request.on('error', () => done(null));
    request.on('upgrade', (response, socket) => {
        socket.destroy();
        done([response.statusCode, '']);
    });
    request.setTimeout(1000 * patience, () => request.destroy());
    request.end();
});
(async () => {
    console.log(0);
    for (const [i, method] of methods.entries()) {
        const agent = new http.Agent({keepAlive: true, maxSockets: 1});
        const answer = await ask(agent, method, '/case/' + i);
        await new Promise(setImmediate); // until the connection is back in its pool
        const after = await ask(agent, 'GET', '/next/' + i);
        const word = after ? after[1].toString() : '';
        console.log((answer ? answer[0] + ' ' + answer[1].length : 'refused') + ', ' +
                    (word === 'kept' || word === 'new' ? word : 'wrong'));
        agent.destroy();
    }
    process.exit(0);
})();
'''

NGINX_PROXY = '''
location / {{ proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1; proxy_read_timeout 1s; }}
'''


class Answering:
    """A server that answers what the cases say, and tells whether /next came on the connection of
    its case."""

    def __init__(self, test, cases):
        self.cases = cases
        self.socket = socket.create_server(('127.0.0.1', 0))
        self.port = self.socket.getsockname()[1]
        test.addCleanup(self.socket.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                stream, _ = self.socket.accept()
                threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def serve(self, stream):
        text, last = b'', None
        with stream, contextlib.suppress(OSError):
            while True:
                while b'\r\n\r\n' not in text:
                    piece = stream.recv(65536)
                    if not piece:
                        return
                    text += piece
                head, _, text = text.partition(b'\r\n\r\n')
                kind, number = re.match(rb'\S+ /(\w+)/(\d+) ', head).groups()
                if kind == b'case':
                    case, last = self.cases[int(number)], number
                    stream.sendall(case.bytes)
                    if case.end:
                        return
                else:
                    word = b'kept' if number == last else b'new'
                    stream.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s' %
                                   (len(word), word))


class Answers(unittest.TestCase):
    cases = read_cases('odd_answers.txt')

    def setUp(self):
        self.server = Answering(self, self.cases)
        self.base = f'http://127.0.0.1:{self.server.port}'
        self.methods = [case.ask for case in self.cases]

    def lines(self, program):
        self.assertEqual(program.wait(), 0)
        self.assertEqual(len(program.lines), len(self.cases) + 1)
        return program.lines[1:]

    def test_ours(self):
        outcomes = self.lines(servers.lua(self, MARE, CLIENT, self.base, servers.PATIENCE,
                                          *self.methods))
        wrong = [(case.name, case.expected, outcome)
                 for case, outcome in zip(self.cases, outcomes) if outcome != case.expected]
        self.assertEqual(wrong, [])

    @unittest.skipUnless(servers.NODE, 'Node is not installed')
    def test_node(self):
        tell('Node', self.cases, self.lines(servers.node(self, NODE_CLIENT, self.base,
                                                         PEER_PATIENCE, *self.methods)))

    def test_nginx(self):
        """As a proxy, of which one sees only what it passes on."""
        port, _ = servers.nginx(self, {}, NGINX_PROXY.format(port=self.server.port))
        def outcome(number):
            case = self.cases[number]
            text = exchange(port, f'{case.ask} /case/{number} HTTP/1.1\r\nHost: a\r\n'
                            'Connection: close\r\n\r\n'.encode(), PEER_PATIENCE)
            status, body = 100, None
            while status and status // 100 == 1 and text:  # interim ones are passed on, too
                status, body, text = take_answer(text, case.ask == 'HEAD')
            return 'refused' if status == 502 or body is None else f'{status} {len(body)}'
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(outcome, range(len(self.cases))))
        tell('nginx', self.cases, outcomes, lambda text: text.split(',')[0])


tap.main(__name__)
