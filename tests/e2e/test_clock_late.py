# SPDX-License-Identifier: MIT
"""`mare clock` and `mare place` when they are late: stopped while a packet arrives, or asleep with
the whole machine.

The kernel notes when a packet came, so that it does not matter how late the program looks. What a
test asserts holds however slow the machine is: without the kernel's stamps each would be wrong by
the whole time for which the program was stopped. Nobody can suspend a machine for a test; nap.c
makes a program see the clocks of one that was.
"""
import json
import os
import pathlib
import queue
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
from clocks import (  # noqa: E402
    BRIEFLY, EPOCH, MARE, PATIENCE, Case, Served, free_port, reply, stamped_socket)

STOPPED = 0.5  # seconds


def stop(process):
    """Returns when it no longer runs, not only when it was told."""
    process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + PATIENCE
    while True:
        status = pathlib.Path(f'/proc/{process.pid}/stat').read_text(encoding='utf-8')
        if status.rpartition(')')[2].split()[0] == 'T':
            return
        assert time.monotonic() < deadline, status
        time.sleep(0.001)  # nothing tells us


def sleep_stopped(process):
    """Lets it lie for a while; returns for how long it certainly did, in nanoseconds."""
    begin = time.monotonic_ns()
    time.sleep(STOPPED)
    slept = time.monotonic_ns() - begin
    process.send_signal(signal.SIGCONT)
    return slept


def lines_of(process):
    """A queue of the lines that it prints."""
    lines = queue.Queue()
    threading.Thread(target=lambda: [lines.put(line) for line in process.stdout],
                     daemon=True).start()
    return lines


class Group:
    """A group of receivers, and the packets of reference broadcasts to it."""

    def __init__(self, case):
        self.to = (f'239.255.75.{1 + os.getpid() % 250}', free_port())
        self.name, self.number = '%s:%d' % self.to, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
                               socket.inet_aton('127.0.0.1'))
        case.addCleanup(self.socket.close)

    def send(self, kind, who=0, when_ns=0):
        self.socket.sendto(struct.pack('>5sBHQQQq8s', b'MRBS\1', kind, 0, 1, self.number, who,
                                       when_ns, f'r{who}'.encode()), self.to)

    def broadcast(self):
        self.number += 1
        self.send(1)

    def report(self, who, when_ns):
        self.send(2, who, when_ns)


class Late(Case):
    def setUp(self):
        super().setUp()
        self.socket = stamped_socket()
        self.socket.settimeout(PATIENCE)
        self.addCleanup(self.socket.close)
        self.name = '%s:%d' % self.socket.getsockname()

    def mare(self, *args, env=None):
        process = subprocess.Popen([MARE, *args], text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=env)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def ask(self, port, word, wait=True):
        """A question of ours; an answer has its stratum in the second byte."""
        self.socket.sendto(b'\x23' + bytes(39) + word.encode().ljust(8), ('127.0.0.1', int(port)))
        return self.socket.recv(512) if wait else None

    def hearing(self, group, count, **options):
        process = self.mare('clock', 'hear', group, '--json', '--count', str(count), **options)
        self.assertEqual(json.loads(process.stdout.readline()), {'hearing': group})
        return process


class Ended(Late):
    def test_signals_end_a_beacon_in_good_order(self):
        group = Group(self)
        hears = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(hears.close)
        hears.settimeout(PATIENCE)
        hears.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the beacon hears itself
        hears.bind(group.to)
        hears.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                         socket.inet_aton(group.to[0]) + socket.inet_aton('127.0.0.1'))
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
            beacon = self.mare('clock', 'beacon', group.name, '--interval', '3600')
            self.assertEqual(hears.recv(512)[:5], b'MRBS\1')
            beacon.send_signal(number)
            self.assertEqual(beacon.wait(PATIENCE), 0)


class Stopped(Late):
    def test_a_client_that_is_stopped_while_the_answer_comes(self):
        process = self.mare('clock', 'query', self.name, '--json', '--samples', '1', '--timeout',
                            str(PATIENCE))
        question, who = self.socket.recvfrom(512)
        stop(process)
        self.socket.sendto(reply(question, time.time()), who)
        slept = sleep_stopped(process)
        said = json.loads(process.communicate(timeout=PATIENCE)[0])
        # Looking at its clock when it woke, it would have counted the sleep as part of the way.
        self.assertLess(said['servers'][0]['round_trip_ns'], slept)
        self.assertLessEqual(abs(said['offset_ns']), said['error_ns'])

    def test_a_server_that_is_stopped_while_a_question_comes(self):
        # The second asks the first once: an answer that it has not read when it is stopped would
        # set its clock when it goes on, and a clock says nothing of the time before it was set.
        with Served('--error', '1') as first, \
                Served('--follow', first.name, '--interval', '3600') as second:
            for served in first, second:
                stratum, deadline = 16, time.monotonic() + PATIENCE
                while stratum in (0, 16):  # one that follows may have no time yet
                    self.assertLess(time.monotonic(), deadline)
                    stratum = self.ask(served.port, 'now')[1]
                stop(served.process)
                asked = time.time_ns()
                self.ask(served.port, 'before', wait=False)
                self.ask(served.port, 'second', wait=False)  # that waits behind the other
                sent = time.time_ns()
                slept = sleep_stopped(served.process)
                for word in b'before', b'second':
                    answer = self.socket.recv(512)
                    self.assertEqual(answer[24:30], word)
                    came, left = (self.instant(answer[at:at + 8]) for at in (32, 40))
                    self.assertLess(came - sent, slept)
                    self.assertGreater(came - asked, -100_000_000)
                    self.assertGreaterEqual(left - asked, slept - 100_000_000)

    def last(self, packet):
        """The last of those that have come, after this one."""
        while select.select([self.socket], [], [], 0)[0]:
            packet = self.socket.recv(512)
        return packet

    @staticmethod
    def instant(data):
        """In nanoseconds since 1970."""
        return (int.from_bytes(data, 'big') * 10 ** 9 >> 32) - EPOCH * 10 ** 9

    def test_a_receiver_that_is_stopped_while_a_broadcast_comes(self):
        group = f'239.255.76.{1 + os.getpid() % 250}:{free_port()}'
        one, two = self.hearing(group, 2), self.hearing(group, 2)
        stop(two)
        self.mare('clock', 'beacon', group, '--count', '2', '--interval', '0.01').wait(PATIENCE)
        slept = sleep_stopped(two)
        for process in one, two:
            for line in process.communicate(timeout=PATIENCE)[0].splitlines():
                self.assertLess(abs(json.loads(line)['mean_ns']), slept)

    def test_new_receivers_are_heard_however_many_there_were(self):
        # One that was suspended, or started again, is a new one to the others.
        group = Group(self)
        process = self.hearing(group.name, 43)
        group.broadcast()
        for who in range(1, 41):
            group.report(who, who)
        group.broadcast()
        for who in 40, 41, 1:
            group.report(who, who)
        rows = [json.loads(line) for line in process.communicate(timeout=PATIENCE)[0].splitlines()]
        self.assertEqual([row['pairs'] for row in rows], [1] * 40 + [2, 1, 1])

    def test_an_agent_that_is_stopped_while_the_answer_comes(self):
        agent = self.mare('place', 'agent', '127.0.0.1:0', '--peer', self.name, '--interval',
                          '50', '--json')
        probe, who = self.socket.recvfrom(512)
        stop(agent)
        probe = self.last(probe)
        # A reply is the probe with another kind; its place and its nonce are as good as any.
        self.socket.sendto(probe[:5] + b'\x02' + probe[6:], who)
        slept = sleep_stopped(agent)
        deadline = time.monotonic() + PATIENCE
        while probe[8:16] == self.socket.recvfrom(512)[0][8:16]:
            self.assertLess(time.monotonic(), deadline)
        agent.terminate()  # it has gone on
        peers = json.loads(agent.communicate(timeout=PATIENCE)[0])['peers']
        self.assertEqual(peers[0]['answers'], 1)
        self.assertLess(peers[0]['measured_ms'] * 1e6, slept)


class Suspended(Late):
    """What an oscillator counted that has stood still since is worth nothing."""

    def setUp(self):
        super().setUp()
        nap = os.environ.get('MARE_NAP')
        if not nap:
            self.skipTest('nap.so is missing: run by meson')
        self.nap = self.path / 'nap'
        self.env = {**os.environ, 'LD_PRELOAD': nap, 'MARE_NAP_FILE': str(self.nap)}

    def answer(self, asleep=False):
        """Answers one question of a client, which may have slept in between."""
        question, who = self.socket.recvfrom(512)
        if asleep:
            self.nap.touch()
        self.socket.sendto(reply(question, time.time()), who)

    def test_query_begins_again(self):
        process = self.mare('clock', 'query', self.name, '--json', '--samples', '5', '--timeout',
                            str(PATIENCE), env=self.env)
        for i in range(5):
            self.answer(asleep=i == 2)
        said = json.loads(process.communicate(timeout=PATIENCE)[0])
        # What came in the round in which it slept counts no more either.
        self.assertEqual(said['servers'][0]['packets'], {'taken': 5})
        self.assertEqual(said['servers'][0]['samples'], 2)

    def test_watch_begins_again(self):
        process = self.mare('clock', 'watch', self.name, '--json', '--interval', '0.01',
                            '--timeout', str(PATIENCE), env=self.env)
        found = []
        for i in range(8):
            self.answer(asleep=i == 4)
            found.append(json.loads(process.stdout.readline())['servers'][0].get('samples', 0))
        self.assertEqual(found, [1, 2, 3, 4, 0, 1, 2, 3])

    def serving(self):
        """One that asks us once and then not for an hour; returns its port."""
        process = self.mare('clock', 'serve', '127.0.0.1:0', '--follow', self.name, '--interval',
                            '3600', env=self.env)
        return process.stdout.readline().split(':')[-1]

    def test_serve_has_no_time_until_somebody_tells_it(self):
        port, deadline = self.serving(), time.monotonic() + PATIENCE
        self.answer()
        while self.ask(port, 'before')[1] != 3:  # who follows and who serves take turns
            self.assertLess(time.monotonic(), deadline)
        self.nap.touch()
        self.assertEqual(self.ask(port, 'after')[1], 0)  # which says 16 in a packet

    def test_serve_does_not_take_an_answer_to_what_it_asked_before(self):
        port = self.serving()
        question, who = self.socket.recvfrom(512)
        self.nap.touch()
        self.socket.sendto(reply(question, time.time()), who)
        self.assertEqual(self.ask(port, 'after')[1], 0)

    def test_hear_is_a_new_receiver(self):
        group = Group(self)
        receivers = self.hearing(group.name, 999, env=self.env), self.hearing(group.name, 999)
        lines = [lines_of(process) for process in receivers]
        self.compare(group, lines, lambda pairs: pairs >= 3)
        self.nap.touch()
        before = group.number
        for pairs in self.compare(group, lines, lambda pairs: pairs < 3):
            self.assertLessEqual(pairs, group.number - before)
        self.compare(group, lines, lambda pairs: pairs >= 4)

    def compare(self, group, lines, enough):
        """Broadcasts until each has compared clocks as often as is wanted: a packet may be lost."""
        deadline, found = time.monotonic() + PATIENCE, []
        for each in lines:
            pairs = None
            while pairs is None or not enough(pairs):
                self.assertLess(time.monotonic(), deadline)
                group.broadcast()
                try:
                    pairs = json.loads(each.get(timeout=BRIEFLY))['pairs']
                except queue.Empty:
                    pass
            found.append(pairs)
        return found

    def test_an_agent_does_not_take_an_answer_to_an_old_probe(self):
        agent = self.mare('place', 'agent', '127.0.0.1:0', '--peer', self.name, '--interval',
                          '20', '--json', env=self.env)
        probe, who = self.socket.recvfrom(512)
        self.nap.touch()
        self.socket.sendto(probe[:5] + b'\x02' + probe[6:], who)
        deadline = time.monotonic() + PATIENCE
        while probe[8:16] == self.socket.recvfrom(512)[0][8:16]:
            self.assertLess(time.monotonic(), deadline)
        agent.terminate()
        said = json.loads(agent.communicate(timeout=PATIENCE)[0])
        self.assertEqual((said['answers'], said['ignored']), (0, 1))


class SuspendedLua(Suspended):
    """The same in Lua: mare.ntp, mare.rbs and mare.agent."""

    def lua(self, text, *args, env=None):
        path = self.path / f'{len(list(self.path.iterdir()))}.lua'
        path.write_text(text)
        return self.mare(str(path), *args, env=env)

    def test_query_begins_again(self):
        process = self.lua('''
            local said = assert(require "mare.ntp".query(arg[1], {samples = 5, wait = %d}))
            print(said.servers[1].packets.taken, said.servers[1].samples)''' % PATIENCE,
                           self.name, env=self.env)
        for i in range(5):
            self.answer(asleep=i == 2)
        self.assertEqual(process.communicate(timeout=PATIENCE)[0].split(), ['5', '2'])

    test_watch_begins_again = None  # the command is in Lua itself

    def serving(self):
        process = self.lua('''
            local mare, ntp = require "mare", require "mare.ntp"
            local follower = ntp.follower(arg[1], {interval = 3600, wait = %d})
            local server = assert(ntp.server {host = "127.0.0.1", port = 0, follow = follower})
            mare.go(follower.run, follower)
            print(("%%s:%%d"):format(server:address()))
            io.stdout:flush()
            server:run()''' % PATIENCE, self.name, env=self.env)
        return process.stdout.readline().split(':')[-1]

    def hearing(self, group, _, env=None):
        process = self.lua('''
            local one = assert(require "mare.rbs".receiver(arg[1], tonumber(arg[2])))
            print "hearing"
            io.stdout:flush()
            while true do
                print(('{"pairs":%d}'):format(one:next().mean.pairs))
                io.stdout:flush()
            end''', *group.split(':'), env=env)
        process.stdout.readline()
        return process

    def test_an_agent_does_not_take_an_answer_to_an_old_probe(self):
        agent = self.lua('''
            local mare = require "mare"
            local one = assert(require "mare.agent".open("127.0.0.1", 0,
                {peers = {arg[1]}, interval = 0.02}))
            mare.go(one.run, one)
            repeat mare.sleep(0.01) until select(3, one:counts()) > 0
            print(select(2, one:counts()))
            one:close()''', self.name, env=self.env)
        probe, who = self.socket.recvfrom(512)
        self.nap.touch()
        self.socket.sendto(probe[:5] + b'\x02' + probe[6:], who)
        self.assertEqual(agent.communicate(timeout=PATIENCE)[0].split(), ['0', '1'])


tap.main(__name__)
