# SPDX-License-Identifier: MIT
"""The guide to nodes, docs/guide/nodes.md, followed to the letter by two people on two machines:
commands are typed and files are copied as it says, the cable is unplugged, and what is seen is what
it shows. On the same network there is also somebody without the key."""
import os
import pathlib
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402
from machines import Machines, private_network  # noqa: E402

MARE = pathlib.Path(sys.argv.pop()).resolve()
PAGE = (servers.ROOT / 'docs/guide/nodes.md').read_text(encoding='utf-8')
SECONDS = 10 * servers.SLOW  # within which one is told of a cable that was unplugged
REASON = private_network(MARE)

# What somebody without the key tries.
STRANGER = '''
local mare, node = require "mare", require "mare.node"
print(node.start(load(arg[1])()))
print(node.connect("10.77.0.2:7000", 20))
print(mare.find("tides@ebb", 20))
print(mare.spawn({node = "ebb"}, {source = "print 'a stranger'"}))
'''


def section(title):
    return re.search(rf'^## {title}\n(.*?)(?=^## |\Z)', PAGE, re.M | re.S)[1]


def blocks(text, kind):
    return [block for name, block in re.findall(r'^```(.*?)\n(.*?)^```$', text, re.M | re.S)
            if name == kind]


def commands(title):
    """The commands of a section: (words, on which machine or None)."""
    found = []
    for line in ''.join(blocks(section(title), 'sh')).splitlines():
        line = line.replace('ebb.example.org', '10.77.0.2')
        line = line.replace('flow.example.org', '10.77.0.1')
        place = re.search(r'# on (\w+)$', line)
        found.append((shlex.split(line, comments=True), place and place[1]))
    return found


class Screen:
    """A program on a terminal of its own, and the lines that it has shown there."""

    def __init__(self, words, folder, silence):
        ours, theirs = pty.openpty()
        self.lines, self.ended, self.news = [], False, threading.Condition()
        slow = {'MARE_NODE_SILENCE': str(silence * servers.SLOW)}
        self.process = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
            env={**os.environ, **slow, 'PATH': f'{MARE.parent}:{os.environ["PATH"]}'})
        os.close(theirs)
        self.reader = threading.Thread(target=self.read, args=(ours,), daemon=True)
        self.reader.start()

    def read(self, terminal):
        text = b''
        while True:
            try:
                more = os.read(terminal, 4096)
            except OSError:  # nobody has the other end any more
                more = b''
            text += more
            *lines, text = text.split(b'\n')
            with self.news:
                self.lines += [line.decode().rstrip('\r') for line in lines]
                self.ended = not more
                self.news.notify_all()
            if not more:
                os.close(terminal)
                return

    def wait_for(self, what):
        """A line with this in it."""
        with self.news:
            self.news.wait_for(lambda: self.ended or self.with_(what), servers.PATIENCE)
            assert self.with_(what), f'no line {what!r}: {self.lines}'
            return self.with_(what)[0]

    def with_(self, what):
        return [line for line in self.lines if what in line]

    def wait(self):
        code = self.process.wait(servers.PATIENCE)
        self.reader.join(servers.PATIENCE)
        return code

    def close(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(servers.PATIENCE)


@unittest.skipIf(REASON, REASON)
class TwoMachines(Machines, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.lay()
        self.silence = 3  # seconds, as it is by default; the tests of some builds are slower
        self.folders = {}
        for name in 'ebb', 'flow':
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            self.folders[name] = pathlib.Path(folder.name)
        for text in blocks(section('Send'), 'lua fragment'):
            name = re.match(r'-- ((\w+)\.lua)\n', text)
            (self.folders[name[2]] / name[1]).write_text(text)
        self.shown = blocks(section('Send'), '')[0].splitlines()

    def start(self, words, place):
        screen = Screen([*(self.inside if place == 'ebb' else []), *words], self.folders[place],
                        self.silence)
        self.addCleanup(screen.close)
        return screen

    def do(self, words, place):
        done = self.start(words, place)
        self.assertEqual(done.wait(), 0, done.lines)

    def give(self, source, target):
        shutil.copy2(self.folders['ebb'] / source, self.folders['flow'] / target)  # as scp -p

    def meet(self, ebb_words, flow_words):
        """Both start; flow sends; the cable is unplugged, and flow is told."""
        ebb = self.start(ebb_words, 'ebb')
        ebb.wait_for('ebb is ready')
        flow = self.start(flow_words, 'flow')
        flow.wait_for(self.shown[1])
        begin = time.monotonic()
        self.unplug()
        flow.wait_for('nonode')
        self.assertLess(time.monotonic() - begin, SECONDS)
        self.assertEqual([line for line in flow.lines if not line.startswith('mare node: ')],
                         self.shown)
        self.assertEqual(flow.wait(), 0)
        self.plug()
        again = self.start(flow_words, 'flow')
        self.assertEqual(again.wait_for(self.shown[0]), self.shown[0])
        return ebb, again

    def refuse(self, ebb, options, reason):
        """A stranger gets nowhere with these options: its own node says why, or ebb refuses."""
        before = len(ebb.with_('refused 10.77.0.1'))
        stranger = self.start([MARE, '-e', STRANGER, options], 'flow')
        self.assertEqual(stranger.wait(), 0)
        self.assertEqual([line.startswith('nil\t') for line in stranger.lines[1:]], [True] * 3)
        self.assertIn(reason, stranger.lines[1])
        if not reason:
            with ebb.news:
                ebb.news.wait_for(lambda: len(ebb.with_('refused 10.77.0.1')) > before,
                                  servers.PATIENCE)
            self.assertGreater(len(ebb.with_('refused 10.77.0.1')), before)
        self.assertEqual(ebb.with_('a stranger'), [])

    def test_one_exchange_of_a_key_and_three_commands(self):
        (make, _), (listen, first), (join, second) = commands('Two machines')
        self.assertEqual((first, second), ('ebb', 'flow'))
        self.do(make, 'ebb')
        self.give('keys/tide.psk', 'tide.psk')
        ebb, flow = self.meet(listen, join)
        self.do([MARE, 'keys', 'secret', 'other'], 'flow')
        for options, reason in (('return {name = "surf"}', 'neither keys nor a secret'),
                                ('return {name = "surf", insecure = true}', ''),
                                ('return {name = "surf", secret = "keys/other.psk"}', '')):
            self.refuse(ebb, options, reason)
        self.assertIsNone(ebb.process.poll())
        self.assertIsNone(flow.process.poll())

    def test_a_certificate_for_each_node(self):
        self.silence = 1
        listed = commands('A certificate for each node')
        for words, place in listed[:3]:
            self.assertIsNone(place)
            self.do(words, 'ebb')
        (self.folders['flow'] / 'keys').mkdir(mode=0o700)
        for name in 'flow.pem', 'flow.key', 'trusted.pem':
            self.give(f'keys/{name}', f'keys/{name}')
        ebb, flow = self.meet(listed[3][0], listed[4][0])
        self.refuse(ebb, 'return {name = "surf", insecure = true}', '')
        self.assertIsNone(flow.process.poll())


tap.main(__name__)
