# SPDX-License-Identifier: MIT
"""What tests of `mare clock` share: the program, servers that are not what they seem, packets, and
a real chronyd."""
import getpass
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import ports

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
SLOW = int(os.environ.get('MARE_TEST_SLOW', '1'))
SECRET = '00112233445566778899aabbccddeeff'
EPOCH = 2208988800  # 1970 in seconds since 1900
SO_TIMESTAMPNS = 35
PATIENCE = 20 * SLOW
BRIEFLY = 0.3 * SLOW  # for an answer that will not come, or that is asked for again

# Where tools/setup.sh unpacks what it does not install, then where it may be installed.
UNPACKED = pathlib.Path(__file__).resolve().parents[2] / 'build-unpacked/chrony/usr'
PATH = os.pathsep.join([f'{UNPACKED}/sbin', f'{UNPACKED}/bin', os.environ.get('PATH', ''),
                        '/usr/sbin', '/sbin'])


def find(program):
    return shutil.which(program, path=PATH)


CHRONYD = find('chronyd')
CHRONYC = find('chronyc')


def clock(*args):
    return subprocess.run([MARE, 'clock', *args], capture_output=True, text=True,
                          timeout=60 * SLOW, check=False)


def query(*servers, options=(), timeout=PATIENCE):
    """What the servers said. Without an answer each question takes the timeout."""
    done = clock('query', *servers, '--json', '--timeout', str(timeout), *options)
    return done.returncode, json.loads(done.stdout)


def query_at_length(*servers, options=(), enough):
    """The same, asked for longer each time until `enough` likes it: where one who is silent is
    waited for to the end, others may need more than a moment to be heard."""
    timeout = 0.3
    while True:
        code, said = query(*servers, options=options, timeout=timeout)
        timeout *= 4
        if enough(code, said) or timeout > PATIENCE:
            return code, said


def free_port():
    return ports.free_port(socket.SOCK_DGRAM)


def stamped_socket():
    """One that shows when datagrams came, once the kernel has begun to note it: that is a moment
    after the first socket asked for it."""
    keeper = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    keeper.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    keeper.bind(('127.0.0.1', 0))
    deadline = time.monotonic() + PATIENCE
    while True:
        keeper.sendto(b'x', keeper.getsockname())
        time.sleep(0.01)
        looked = time.time_ns()
        control = keeper.recvmsg(1, 64)[1]
        seconds, rest = struct.unpack('qq', control[0][2])
        if looked - (seconds * 10 ** 9 + rest) > 5_000_000:
            return keeper
        assert time.monotonic() < deadline, 'the kernel does not note when packets come'


def stamp(seconds):
    return int((seconds + EPOCH) * 2 ** 32) % 2 ** 64


class Fake(threading.Thread):
    """A server that answers as `answer(question, now)` says: None, bytes, or a list of them."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.answer = answer
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(('127.0.0.1', 0))
        self.name = f'127.0.0.1:{self.socket.getsockname()[1]}'
        self.asked = 0
        self.start()

    def run(self):
        while True:
            question, who = self.socket.recvfrom(512)
            if question == b'end':
                return
            self.asked += 1
            answers = self.answer(question, time.time())
            for data in answers if isinstance(answers, list) else [answers]:
                if data:
                    self.socket.sendto(data, who)

    def end(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.sendto(b'end', self.socket.getsockname())
        self.join()
        self.socket.close()


def reply(question, now, **changes):
    """A good answer to a question, with changes."""
    fields = {'leap': 0, 'version': 4, 'mode': 4, 'stratum': 2, 'poll': 0, 'precision': -20,
              'delay': 0, 'dispersion': 66, 'reference': b'\x7f\0\0\1', 'set': stamp(now - 10),
              'origin': question[40:48], 'receive': stamp(now), 'transmit': stamp(now), **changes}
    first = fields['leap'] << 6 | fields['version'] << 3 | fields['mode']
    return (struct.pack('>BBbbII4sQ', first, fields['stratum'], fields['poll'],
                        fields['precision'], fields['delay'], fields['dispersion'],
                        fields['reference'], fields['set'])
            + fields['origin'] + struct.pack('>QQ', fields['receive'], fields['transmit']))


class Served:
    """`mare clock serve`, for as long as the with block lasts."""

    def __init__(self, *args, at='127.0.0.1:0'):
        self.process = subprocess.Popen([MARE, 'clock', 'serve', at, *args], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        line = self.process.stdout.readline()
        if 'serving on ' not in line:
            self.process.wait()
            raise AssertionError(line)
        self.name = line.split()[-1]
        self.port = self.name.split(':')[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.keys = self.path / 'keys'
        self.keys.write_text(f'# keys\n3 SHA1 HEX:00\n7 AES128 HEX:{SECRET}\n'
                             '9 AES128 ASCII:sixteen-letters!\n')
        self.fakes = []

    def tearDown(self):
        for one in self.fakes:
            one.end()
        self.folder.cleanup()

    def fake(self, **changes):
        return self.fake_by(lambda question, now: reply(question, now, **changes))

    def fake_by(self, answer):
        self.fakes.append(Fake(answer))
        return self.fakes[-1]


class ChronyCase(Case):
    """With the real thing."""

    def setUp(self):
        if not CHRONYD:
            self.skipTest('chronyd is missing: tools/setup.sh test')
        super().setUp()

    def common(self):
        return ['cmdport 0', f'bindcmdaddress {self.path}/chronyd.sock',
                f'pidfile {self.path}/pid', f'keyfile {self.keys}']

    def command(self, *args):
        return [CHRONYD, '-x', '-U', '-u', getpass.getuser(), *args]

    def start(self, *lines):
        """A chronyd of our own; returns its process."""
        config = self.path / 'chrony.conf'
        config.write_text('\n'.join([*self.common(), *lines]) + '\n')
        process = subprocess.Popen(self.command('-n', '-f', str(config)), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(self.stop, process)
        return process

    @staticmethod
    def stop(process):
        process.terminate()
        process.communicate(timeout=PATIENCE)

    def serving(self):
        """A chronyd that serves this machine's clock at stratum 1; returns its name."""
        port = free_port()
        self.start(f'port {port}', 'bindaddress 127.0.0.1', 'allow 127.0.0.1', 'local stratum 1')
        name, deadline = f'127.0.0.1:{port}', time.monotonic() + PATIENCE
        while query(name, options=('--samples', '1'), timeout=BRIEFLY)[0] != 0:
            self.assertLess(time.monotonic(), deadline, 'chronyd does not answer')
        return name

    def once(self, *lines, seconds=2 * PATIENCE):
        """chronyd asks once, gives up after so long, and says what it thinks."""
        return subprocess.run(self.command('-Q', '-t', str(seconds), *self.common(), *lines),
                              capture_output=True, text=True, timeout=60 * SLOW, check=False)
