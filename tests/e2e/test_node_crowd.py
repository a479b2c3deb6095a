# SPDX-License-Identifier: MIT
"""A crowd of connections from one address that say nothing: others come in meanwhile."""
import json
import pathlib
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
# From a node called late, as in docs/reference/wire.md.
HELLO = (b'\0\0\0\x2a\x98\1\xa4mare\1\1\0\x95\xa4late\xa0\1\1\x90\x95'
         b'\xcd\1\0\xcd\x10\0\xce\3\x93\x87\0\xcd\1\0\xce\0\x10\0\0\xc4\0')


class Crowd(unittest.TestCase):
    def setUp(self):
        self.node = subprocess.Popen([MARE, 'node', '--name', 'ebb', '--listen', '127.0.0.1:0',
                                      '--json'], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.node.stdout.close)
        self.addCleanup(self.node.wait)
        self.addCleanup(self.node.kill)
        self.port = int(self.event('up')['address'].split(':')[1])

    def event(self, what):
        while True:
            event = json.loads(self.node.stdout.readline())
            if event['event'] == what:
                return event

    def connect(self, source):
        connection = socket.create_connection(('127.0.0.1', self.port), servers.PATIENCE,
                                              source_address=(source, 0))
        self.addCleanup(connection.close)
        return connection

    def test_one_address_keeps_out_no_other(self):
        for _ in range(200):
            self.connect('127.0.0.2')
        self.assertEqual(self.event('log')['text'],
                         'refused 127.0.0.2: too many handshakes at once')
        other = self.connect('127.0.0.1')
        other.sendall(HELLO)
        self.assertEqual(other.recv(6)[5], 2, 'WELCOME')


tap.main(__name__)
