# SPDX-License-Identifier: MIT
"""HTTP and WebSocket against other people's: h11 and wsproto, which do no I/O either.

What they write we read, what we write they read, and when both take something that may be
malformed, they take it for the same. Randomised; a failure prints the line that replays it.
"""
import os
import pathlib
import random
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))
import tap  # noqa: E402

try:
    import h11
    from wsproto import frame_protocol as ws
except ImportError:
    h11 = ws = None

ORACLE = sys.argv.pop()
SEED = int(os.environ.get('MARE_SEED') or str(random.SystemRandom().getrandbits(32)), 0)
ROUNDS = 200


class Program:
    """tests/unit/wire/oracle.c, which answers jobs."""

    def __init__(self):
        self.process = subprocess.Popen([ORACLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, letter, data):
        self.process.stdin.write(letter.encode() + struct.pack('>I', len(data)) + data)
        self.process.stdin.flush()
        size, = struct.unpack('>I', self.process.stdout.read(4))
        return [line.split(' ') for line in self.process.stdout.read(size).decode().splitlines()]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def plain(digits):
    return bytes.fromhex(digits)


def our_messages(lines):
    """[(what, fields, body, written)] of the messages that ended."""
    done, what, fields, body = [], None, [], b''
    for line in lines:
        if line[0] == 'HEAD':
            what, fields, body = tuple(line[1:]), [], b''
            if len(what) == 2:
                what = plain(what[0]), plain(what[1])
            else:
                what = int(what[0]),
        elif line[0] == 'FIELD':
            name, value = plain(line[1]).lower(), plain(line[2])
            # h11 writes this one value in lower case.
            fields.append((name, value.lower() if name == b'transfer-encoding' else value))
        elif line[0] == 'BODY':
            body += plain(line[1])
        elif line[0] == 'END':
            done.append([what, fields, body, None])
        elif line[0] == 'WRITTEN':
            done[-1][3] = plain(line[1])
    return done


def their_messages(role, data):
    """The same of h11, for as long as it has no objection."""
    connection = h11.Connection(role)
    connection.receive_data(data)
    connection.receive_data(b'')
    done, message = [], None
    try:
        while True:
            if role is h11.CLIENT and connection.our_state is h11.IDLE:
                connection.send(h11.Request(method='GET', target='/', headers=[('Host', 'a')]))
                connection.send(h11.EndOfMessage())
            event = connection.next_event()
            if isinstance(event, h11.Request):
                message = [(event.method, event.target), list(event.headers), b'']
            elif isinstance(event, h11.Response):
                message = [(event.status_code,), list(event.headers), b'']
            elif isinstance(event, h11.Data):
                message[2] += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                done.append(message)
                if role is h11.SERVER:
                    connection.send(h11.Response(status_code=204, headers=[]))
                    connection.send(h11.EndOfMessage())
                connection.start_next_cycle()
            elif not isinstance(event, h11.InformationalResponse):
                return done
    except (h11.RemoteProtocolError, h11.LocalProtocolError):
        return done


def some(rng, letters, least, most):
    return ''.join(rng.choice(letters) for _ in range(rng.randint(least, most)))


def some_fields(rng):
    token, text = "abcXYZ019-_.!#$%&'*+^`|~", 'abc XYZ,;:="()<>@[]{}?/\\\t'
    return [('X-' + some(rng, token, 1, 10), some(rng, text, 0, 20).strip())
            for _ in range(rng.randint(0, 5))]


def some_body(rng):
    return rng.randbytes(rng.choice([0, 1, 2, 15, 16, 17, 300]))


def from_h11(rng, kind):
    """A message that h11 has written, and its parts."""
    body = some_body(rng)
    chunked = rng.random() < 0.5
    headers = some_fields(rng)
    headers.append(('Transfer-Encoding', 'chunked') if chunked else
                   ('Content-Length', str(len(body))))
    if kind == 'Q':
        connection = h11.Connection(h11.CLIENT)
        what = h11.Request(method=rng.choice(['GET', 'POST', 'PUT', 'DELETE']),
                           target='/' + some(rng, ['a', 'b', '%20', '%c3', '?', '=', '&', '/'], 0, 10),
                           headers=[('Host', 'example.org')] + headers)
    else:
        connection = h11.Connection(h11.SERVER)
        connection.receive_data(b'POST / HTTP/1.1\r\nHost: a\r\n\r\n')
        connection.next_event()
        what = h11.Response(status_code=rng.choice([200, 404, 500, 301]), headers=headers,
                            reason=some(rng, 'abc ', 0, 5).strip())
    data = connection.send(what)
    while body:
        cut = rng.randint(1, len(body))
        data += connection.send(h11.Data(data=body[:cut]))
        body = body[cut:]
    return data + connection.send(h11.EndOfMessage())


def malformed(rng):
    """A request that may be wrong in one of many ways."""
    def end():
        return rng.choice([b'\r\n'] * 30 + [b'\n', b'\r', b'\r\r\n'])

    fields, body = [b'Host: a'] * (rng.random() < 0.95), b''
    if rng.random() < 0.4:
        body = b'x' * rng.randint(0, 5)
        length = rng.choice([b'%d' % len(body)] * 8 + [b'+1', b'0x2', b'2,2', b'', b'003', b'-1'])
        fields.append(b'Content-Length: ' + length)
    elif rng.random() < 0.7:
        fields.append(b'Transfer-Encoding: ' + rng.choice(
            [b'chunked'] * 9 + [b'Chunked', b'chunked, chunked', b'gzip, chunked', b'identity']))
        for _ in range(rng.randint(0, 2)):
            data = b'y' * rng.randint(1, 20)
            size = rng.choice([b'%x'] * 8 + [b'%X', b'0%x', b' %x', b'%x ', b'+%x', b'0x%x',
                                             b'%x;a=b', b'%x;a\nb']) % len(data)
            body += size + end() + data + end()
        body += rng.choice([b'0'] * 5 + [b'00', b'0;x']) + end() + end()
    if rng.random() < 0.2:
        fields.append(rng.choice([
            b'Content-Length: 3', b'Transfer-Encoding: chunked', b'Host: b', b'Connection: close',
            b'X: \0', b'X: a\1', b' folded', b'X : a', b'X\x80: a', b': a', b'X', b'X: a\rb']))
    rng.shuffle(fields)
    line = rng.choice([b'GET / HTTP/1.1'] * 12 + [b'GET / HTTP/1.0', b'GET  / HTTP/1.1', b'GET /',
                                                   b'GET / HTTP/2.0', b'POST /\x80 HTTP/1.1'])
    return line + end() + b''.join(field + end() for field in fields) + end() + body


# ---- WebSocket -----------------------------------------------------------------------------------

def our_frames(lines):
    """The events, with the parts of a message put together."""
    events, message = [], b''
    for line in lines:
        if line[0] == 'DATA':
            message += plain(line[2])
            if line[-1] == 'last':
                events.append(('DATA', line[1], message))
                message = b''
        elif line[0] in ('PING', 'PONG'):
            events.append((line[0], plain(line[1])))
        elif line[0] == 'CLOSE':
            events.append(('CLOSE', int(line[1]), plain(line[2])))
            break
        elif line[0] == 'ERROR':
            events.append(('ERROR', int(line[1])))
    return events


def split(events):
    """The events before an error, and its code or None."""
    if events and events[-1][0] == 'ERROR':
        return events[:-1], events[-1][1]
    return events, None


def their_frames(client, data):
    """The same of wsproto."""
    protocol = ws.FrameProtocol(client, [])
    events, message = [], b''
    protocol.receive_bytes(data)
    try:
        for frame in protocol.received_frames():
            payload = frame.payload
            if frame.opcode is ws.Opcode.CLOSE:
                events.append(('CLOSE', int(payload[0]), (payload[1] or '').encode()))
                break
            if isinstance(payload, str):
                payload = payload.encode()
            if frame.opcode in (ws.Opcode.PING, ws.Opcode.PONG):
                events.append((frame.opcode.name, bytes(payload)))
                continue
            message += bytes(payload)
            if frame.message_finished:
                kind = 'text' if frame.opcode is ws.Opcode.TEXT else 'binary'
                events.append(('DATA', kind, message))
                message = b''
    except ws.ParseFailed as failure:
        events.append(('ERROR', int(failure.code)))
    return events


def from_wsproto(rng, client):
    """Frames that wsproto has written, in the role of the one who sends them."""
    protocol = ws.FrameProtocol(client, [])
    data = b''
    for _ in range(rng.randint(1, 6)):
        body = rng.randbytes(rng.choice([0, 1, 5, 125, 126, 127, 1000, 70000]))
        if rng.random() < 0.5:
            body = some(rng, 'abc\u00e9\u20ac\U0001f319', 0, 100)
        for _ in range(rng.choice([0, 0, 1, 2])):
            data += protocol.send_data(body[:0], fin=False) if not body else \
                protocol.send_data(body[:len(body) // 2], fin=False)
            if rng.random() < 0.5:
                data += protocol.ping(rng.randbytes(rng.randint(0, 125)))
        data += protocol.send_data(body, fin=True)
        if rng.random() < 0.3:
            data += protocol.pong(b'pong')
    if rng.random() < 0.3:
        data += protocol.close(rng.choice([None, 1000, 1001, 3000]), None)
    return data


@unittest.skipUnless(h11, 'h11 and wsproto are not installed: tools/setup.sh test')
class Oracles(unittest.TestCase):
    def setUp(self):
        self.rng = random.Random(SEED)
        self.program = Program()
        self.addCleanup(self.program.close)
        print(f'# replay with: MARE_SEED={SEED}')

    def check_http(self, kind, role):
        for _ in range(ROUNDS):
            data = b''.join(from_h11(self.rng, kind) for _ in range(self.rng.randint(1, 3)))
            ours = our_messages(self.program.ask(kind.lower(), data))
            theirs = their_messages(role, data)
            self.assertEqual([message[:3] for message in ours], theirs, data)
            self.assertGreaterEqual(len(ours), 1)
            for what, fields, body, written in ours:
                again = their_messages(role, written)
                self.assertEqual(len(again), 1, written)
                self.assertEqual(again[0][0], what, written)
                self.assertEqual(again[0][2], body, written)
                self.assertEqual([field for field in again[0][1] if field[0].startswith(b'x-')],
                                 [field for field in fields if field[0].startswith(b'x-')])

    def test_requests_both_ways(self):
        self.check_http('Q', h11.SERVER)

    def test_responses_both_ways(self):
        self.check_http('S', h11.CLIENT)

    def test_malformed_requests_are_never_taken_for_different_ones(self):
        both = 0
        for _ in range(10 * ROUNDS):
            data = b''.join(malformed(self.rng) for _ in range(self.rng.randint(1, 3)))
            ours = [message[:3] for message in our_messages(self.program.ask('Q', data))]
            theirs = their_messages(h11.SERVER, data)
            least = min(len(ours), len(theirs))
            both += least
            self.assertEqual(ours[:least], theirs[:least], data)
            # We are the stricter one: what we take, h11 takes.
            self.assertLessEqual(len(ours), len(theirs), data)
        self.assertGreater(both, ROUNDS)

    def check_frames(self, client):
        """`client`: whether the sender is one."""
        for _ in range(ROUNDS):
            data = from_wsproto(self.rng, client)
            lines = self.program.ask('v' if client else 'c', data)
            ours = our_frames(lines)
            self.assertEqual(ours, their_frames(not client, data))
            written = b''.join(plain(line[1]) for line in lines if line[0] == 'WRITTEN')
            self.assertEqual(their_frames(not client, written), ours)

    def test_frames_of_clients_both_ways(self):
        self.check_frames(True)

    def test_frames_of_servers_both_ways(self):
        self.check_frames(False)

    def test_malformed_frames_are_never_taken_for_different_ones(self):
        for _ in range(10 * ROUNDS):
            data = bytearray(from_wsproto(self.rng, False)[:200])
            data[self.rng.randrange(min(len(data), 8))] ^= 1 << self.rng.randrange(8)
            ours, error = split(our_frames(self.program.ask('C', bytes(data))))
            theirs, their_error = split(their_frames(True, bytes(data)))
            least = min(len(ours), len(theirs))
            self.assertEqual(ours[:least], theirs[:least], bytes(data))
            # wsproto has no limit (1009), and looks at a header only when all of it is there. But
            # what it refuses we refuse, for the same reason.
            if their_error and error != 1009:
                self.assertEqual((ours, error), (theirs, their_error), bytes(data))


tap.main(__name__)
