# SPDX-License-Identifier: MIT
"""WebSockets against Node's `ws`, as client and as server."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
HAS_WS = servers.NODE and (servers.NODE_MODULES / 'ws').exists()

HEAD = '''
local mare, net, http = require "mare", require "mare.net", require "mare.http"
local websocket = require "mare.websocket"
local listener = assert(net.listen("127.0.0.1", 0))
io.stdout:setvbuf "line"
print((select(2, listener:address())))
'''

# Echoes, and prints how each conversation ended.
OUR_SERVER = HEAD + '''
http.serve(listener, function(request)
    local w <close> = websocket.accept(request, {protocols = {"v2", "v1"},
        compress = request.path == "/squeezed",
        ping_time = request.path == "/ping" and 0.2 or nil})
    if not w then return end
    if request.path == "/bye" then
        w:send "one"
        return w:close(4002, "I go first")
    elseif request.path == "/parts" then
        local parts = {"in ", "three ", "parts"}
        w:send(function() return table.remove(parts, 1) end)
    end
    local data, kind, code, number, reason
    repeat
        data, kind, code, number, reason = w:receive()
        if data then (kind == "text" and w.send or w.sendbinary)(w, data) end
    until not data
    print(request.path, code, number, reason)
end)
'''

# Prints what it finds, as JSON. Events are kept from the beginning, so that none is missed.
NODE_CLIENT = '''
const WebSocket = require('ws'), base = 'ws://127.0.0.1:' + process.argv[1];
const say = (...all) => console.log(JSON.stringify(all));
const connect = (path, protocols, options) => {
    const ws = new WebSocket(base + path, protocols, options), seen = {}, asked = {};
    for (const event of ['open', 'message', 'ping', 'pong', 'close', 'unexpected-response']) {
        seen[event] = []; asked[event] = [];
        ws.on(event, (...all) => (asked[event].shift() ?? (one => seen[event].push(one)))(all));
    }
    ws.on('error', () => {});
    ws.next = event => seen[event].length ? seen[event].shift()
        : new Promise(done => asked[event].push(done));
    return ws;
};
const open = async (...all) => {
    const ws = connect(...all);
    await ws.next('open');
    return ws;
};
(async () => {
    let ws = await open('/echo');
    for (const text of ['', 'x', 'h\\u00e9llo \\u{1f30a}', 'y'.repeat(126), 'z'.repeat(1000000)]) {
        ws.send(text);
        const [data, binary] = await ws.next('message');
        say('text', text.length, data.toString() === text, binary);
    }
    const bytes = Buffer.from(Array.from({length: 70000}, (_, i) => i % 256));
    ws.send(bytes);
    const [data, binary] = await ws.next('message');
    say('binary', bytes.equals(data), binary);
    ws.send('one ', {fin: false}); ws.ping('between'); ws.send('two', {fin: true});
    const [pong] = await ws.next('pong'), [whole] = await ws.next('message');
    say('fragments', pong.toString(), whole.toString());
    say('extensions', ws.extensions, ws.protocol);
    ws.close(4001, 'enough');
    say('close', (await ws.next('close'))[0]);

    ws = await open('/bye');
    const [first] = await ws.next('message'), [code, why] = await ws.next('close');
    say('bye', first.toString(), code, why.toString());

    ws = await open('/parts');
    say('parts', (await ws.next('message'))[0].toString());
    ws.terminate();

    ws = await open('/ping');
    await ws.next('ping');
    say('ping');
    ws.close();
    await ws.next('close');

    ws = await open('/big');
    ws.send('x'.repeat(3000000));
    say('big', (await ws.next('close'))[0]);
    ws = await open('/utf8');
    ws.send(Buffer.from([0x61, 0xff]), {binary: false});
    say('utf8', (await ws.next('close'))[0]);

    ws = await open('/squeezed', [], {perMessageDeflate: {threshold: 0}});
    ws.send('tide '.repeat(20000));
    say('squeezed', ws.extensions, (await ws.next('message'))[0].length);
    ws.terminate();
    ws = await open('/protocol', ['v1', 'v3']);
    say('protocol', ws.protocol);
    ws.terminate();
    ws = connect('/', [], {origin: 'http://evil.example'});
    say('origin', (await ws.next('unexpected-response'))[1].statusCode);
    process.exit(0);
})();
'''

# Ends when it is told to, and its conversations with it.
OUR_ENDING_SERVER = HEAD + '''
http.serve(listener, function(request)
    local w <close> = websocket.accept(request, {close_time = 60})
    local data, _, code, number
    repeat
        data, _, code, number = w:receive()
        if data == "end" then listener:close() end
    until not data
    print(request.path, code, number)
end, {end_time = 60})
'''

NODE_WITNESS = '''
const WebSocket = require('ws'), base = 'ws://127.0.0.1:' + process.argv[1];
const one = new WebSocket(base + '/one'), two = new WebSocket(base + '/two');
const opened = ws => new Promise(done => ws.on('open', done));
const closed = ws => new Promise(done =>
    ws.on('close', (code, why) => done([code, why.toString()])));
(async () => {
    const ends = [closed(one), closed(two)];
    await Promise.all([opened(one), opened(two)]);
    one.send('end');
    console.log(JSON.stringify(await Promise.all(ends)));
})();
'''

NODE_SERVER = '''
const {WebSocketServer} = require('ws');
const server = new WebSocketServer({port: 0, host: '127.0.0.1', perMessageDeflate: true,
    handleProtocols: offered => offered.has('v2') && 'v2',
    verifyClient: (info, done) => done(info.req.url !== '/secret', 401)});
server.on('listening', () => console.log(server.address().port));
server.on('connection', (ws, request) => {
    const say = (...all) => console.log(JSON.stringify([request.url, ...all]));
    ws.on('error', () => {});
    ws.on('close', (code, reason) => say('close', code, reason.toString()));
    ws.on('pong', data => say('pong', data.toString()));
    if (request.url === '/parts') {
        ws.send('a', {fin: false}); ws.ping('are you there'); ws.send('b', {fin: true});
    }
    if (request.url === '/big') ws.send('x'.repeat(2000000));
    if (request.url === '/utf8') ws.send(Buffer.from([0xc3, 0x28]), {binary: false});
    if (request.url === '/bye') { ws.send('one'); ws.close(4003, 'I go'); }
    if (request.url === '/gone') ws.terminate();
    ws.on('message', (data, binary) => ws.send(data, {binary}));
});
'''

OUR_CLIENT = '''
local mare, websocket = require "mare", require "mare.websocket"
local base = "ws://127.0.0.1:" .. arg[1]
print(arg[1]) -- as those that serve do
local function open(path, options) return assert(websocket.connect(base .. path, options)) end
local w = open("/echo", {protocols = {"v1", "v2"}})
print("protocol", w.protocol)
for _, text in ipairs {"", "x", "h\\u{e9}llo \\u{1f30a}", ("z"):rep(1000000)} do
    w:send(text)
    local data, kind = w:receive(20)
    print("text", #text, data == text, kind)
end
local bytes = ("\\0\\1\\254\\255"):rep(20000)
w:sendbinary(bytes)
local data, kind = w:receive(20)
print("binary", data == bytes, kind)
local parts = {"in ", "parts"}
w:send(function() return table.remove(parts, 1) end)
print("parts", w:receive(20))
w:ping "hello"
print("close", w:close(4001, "enough"))
w = open("/squeezed", {compress = true})
w:send(("tide "):rep(20000))
print("squeezed", w.compressed, #w:receive(20))
w:close()
for _, path in ipairs {"/parts", "/bye", "/gone", "/big", "/utf8"} do
    w = open(path)
    local data, kind, code, number, reason = w:receive(20)
    while data do
        print(path, data)
        if path == "/parts" then w:close() end
        data, kind, code, number, reason = w:receive(20)
    end
    print(path, code, number)
end
print("secret", select(3, websocket.connect(base .. "/secret")))
'''


@unittest.skipUnless(HAS_WS, "Node's ws is not installed")
class WebSocket(unittest.TestCase):
    def test_node_is_content_with_our_server(self):
        ours = servers.lua(self, MARE, OUR_SERVER)
        theirs = servers.node(self, NODE_CLIENT, str(ours.port))
        self.assertEqual(theirs.wait(), 0)
        texts = [['text', length, True, False] for length in (0, 1, 8, 126, 1000000)]
        self.assertEqual([json.loads(line) for line in theirs.lines], texts + [
            ['binary', True, True],
            ['fragments', 'between', 'one two'],
            ['extensions', '', ''],
            ['close', 4001],
            ['bye', 'one', 4002, 'I go first'],
            ['parts', 'in three parts'],
            ['ping'],
            ['big', 1009],
            ['utf8', 1007],
            ['squeezed', 'permessage-deflate', 100000],
            ['protocol', 'v1'],
            ['origin', 403]])
        # What our side has seen of it, in an order of its own. Of a peer that is gone the reason is
        # the system's; and one that was slow to answer the ping may have been given up.
        ends = dict(ours.line(number).split('\t', 1) for number in range(1, 8))
        self.assertIn(ends.pop('/ping').split('\t')[1], ('1005', '1006'))
        for path in ('/parts', '/protocol', '/squeezed'):
            self.assertEqual(ends.pop(path).split('\t')[:2], ['closed', '1006'])
        self.assertEqual(ends, {'/echo': 'closed\t4001\tenough', '/big': 'toobig\t1009\tnil',
                                '/utf8': 'badmsg\t1007\tnil'})

    def test_node_hears_that_our_server_ends(self):
        ours = servers.lua(self, MARE, OUR_ENDING_SERVER)
        theirs = servers.node(self, NODE_WITNESS, str(ours.port))
        self.assertEqual(theirs.wait(), 0)
        self.assertEqual(json.loads(theirs.lines[0]), [[1001, 'the server ends']] * 2)
        self.assertEqual(ours.wait(), 0)
        self.assertEqual(sorted(ours.lines[1:]), ['/one\tclosed\t1001', '/two\tclosed\t1001'])

    def test_our_client_is_content_with_node(self):
        theirs = servers.node(self, NODE_SERVER)
        ours = servers.lua(self, MARE, OUR_CLIENT, str(theirs.port))
        self.assertEqual(ours.wait(), 0)
        self.assertEqual(ours.lines[1:], [
            'protocol\tv2',
            'text\t0\ttrue\ttext', 'text\t1\ttrue\ttext', 'text\t11\ttrue\ttext',
            'text\t1000000\ttrue\ttext',
            'binary\ttrue\tbinary',
            'parts\tin parts\ttext',
            'close\ttrue',
            'squeezed\ttrue\t100000',
            '/parts\tab', '/parts\tclosed\t1000',
            '/bye\tone', '/bye\tclosed\t4003',
            '/gone\tclosed\t1006',
            '/big\ttoobig\t1009',
            '/utf8\tbadmsg\t1007',
            'secret\tdenied\t401'])
        told = sorted(json.loads(theirs.line(number)) for number in range(1, 9))
        self.assertEqual(told, [
            ['/big', 'close', 1009, 'the frame is too large'],
            ['/bye', 'close', 4003, ''],
            ['/echo', 'close', 4001, 'enough'],
            ['/gone', 'close', 1006, ''],
            ['/parts', 'close', 1000, ''],
            ['/parts', 'pong', 'are you there'],
            ['/squeezed', 'close', 1000, ''],
            ['/utf8', 'close', 1007, 'a text that is not UTF-8']])


tap.main(__name__)
