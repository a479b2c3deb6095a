# SPDX-License-Identifier: MIT
"""The service of the examples, ended by SIGTERM while clients that never pause are asking."""
import pathlib
import signal
import socket
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
CLIENTS = 10


class Client(threading.Thread):
    """Asks on one connection until it is told that this was the last answer. `begun` is set when
    it has had some; `wrong` is what it got instead of an answer."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.stream = socket.create_connection(('127.0.0.1', port), servers.PATIENCE)
        self.begun = threading.Event()
        self.wrong = None

    def run(self):
        with self.stream, self.stream.makefile('rb') as answers:
            count = 0
            while self.wrong is None and self.ask(answers):
                count += 1
                if count == 20:
                    self.begun.set()
        self.begun.set()

    def ask(self, answers):
        try:
            self.stream.sendall(b'GET /notes/1 HTTP/1.1\r\nHost: a\r\n\r\n')
            head = b''
            while (line := answers.readline()) not in (b'\r\n', b''):
                head += line.lower()
            body = answers.read(len(b'bread'))
        except OSError as error:
            self.wrong = repr(error)
            return False
        if not head.startswith(b'http/1.1 200 ') or body != b'bread':
            self.wrong = (head, body)
        return b'\r\nconnection: close\r\n' not in head


class Service(unittest.TestCase):
    def start(self, seconds):
        """The service, whose steps may take so many seconds, with a note that a client wrote who
        is still there: both."""
        port = servers.free_port()
        service = servers.Program([MARE, 'examples/24_service.lua', port, seconds])
        self.addCleanup(service.close)
        service.line(0)
        writer = socket.create_connection(('127.0.0.1', port), servers.PATIENCE)
        self.addCleanup(writer.close)
        writer.sendall(b'POST /notes HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nbread')
        self.assertTrue(writer.recv(65536).startswith(b'HTTP/1.1 201 '))
        return service, writer

    def ends(self, service):
        self.assertEqual(service.wait(), 0)
        self.assertEqual(service.lines[1:], ['stopping:\tSIGTERM', 'stopped'])

    def test_it_ends_in_order_under_load(self):
        # Nobody is silent, and so nobody is waited for so long; but nobody is cut off who was held
        # up between two requests, be it by the machine.
        service, writer = self.start(servers.PATIENCE)
        clients = [Client(writer.getpeername()[1]) for _ in range(CLIENTS)]
        writer.close()
        for client in clients:
            client.start()
        for client in clients:
            self.assertTrue(client.begun.wait(servers.PATIENCE))
        service.process.send_signal(signal.SIGTERM)
        for client in clients:
            client.join(servers.PATIENCE)
            self.assertFalse(client.is_alive())
            self.assertIsNone(client.wrong)
        self.ends(service)

    def test_one_who_stays_silent_does_not_keep_it(self):
        service, writer = self.start(5)
        service.process.send_signal(signal.SIGTERM)
        self.assertEqual(writer.recv(65536), b'')
        self.ends(service)


tap.main(__name__)
