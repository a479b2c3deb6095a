# SPDX-License-Identifier: MIT
"""`mare place` as people and programs meet it: help, exit codes, tables, JSON, the map; and agents
that probe each other over the loopback interface, some of them dying or lying."""
import json
import math
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
SLOW = float(os.environ.get('MARE_TEST_SLOW', '1'))
SQUARE = '0 30 42.426 30\n30 0 30 42.426\n42.426 30 0 30\n30 42.426 30 0\n'


def place(*args, text=None):
    return subprocess.run([MARE, 'place', *map(str, args)], capture_output=True, text=True,
                          timeout=120 * SLOW, input=text, check=False)


def figures(*args, text=None):
    done = place(*args, '--json', text=text)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Matrix(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def test_help_names_every_option(self):
        text = subprocess.run([MARE, 'help', 'place'], capture_output=True, text=True, timeout=60,
                              check=False).stdout
        page = (tap.ROOT / 'docs/reference/place.md').read_text(encoding='utf-8')
        options = set(re.findall(r'--[a-z]+', text))
        self.assertIn('--dimensions', options)
        for option in options:
            self.assertIn(option, page)

    def test_wrong_usage_is_2_and_says_why(self):
        for args, word in (((), 'mare place'), (('fly',), 'fly'), (('evaluate',), 'evaluate'),
                           (('evaluate', 'made:9', '--what'), '--what'),
                           (('evaluate', 'made:9', '--dimensions', '9'), '--dimensions'),
                           (('evaluate', 'made:9', '--cycles', 'x'), '--cycles'),
                           (('evaluate', 'made:9', '--algorithm', 'gps'), '--algorithm'),
                           (('evaluate', 'made:2'), 'made:2'), (('evaluate', 'made:x'), 'made:x'),
                           (('evaluate', 'made:9', 'more'), 'evaluate'),
                           (('replicas', 'made:9', '10'), 'K'), (('replicas', 'made:9', 'x'), 'K'),
                           (('distance', 'made:9', '0', '9'), 'A and B'),
                           (('distance', 'made:9', '', ''), 'A and B'),
                           (('distance', 'made:9', '0', '-1'), '-1'),
                           (('distance', 'made:9', '0', '1x'), 'A and B'),
                           (('distance', 'made:9', '0'), 'distance'),
                           (('distance', 'made:9', '0', '1', '2', '3'), "'3'"),
                           (('replicas', 'made:9', '0'), 'K'), (('replicas', 'made:9', ''), 'K'),
                           (('map', 'made:9'), 'map'),
                           (('map', 'made:9', '/dev/null', '--replicas', '10'), '--replicas'),
                           (('evaluate', 'made:9', '--seed'), '--seed'),
                           (('evaluate', 'made:9', '--seed', '1.5'), '--seed'),
                           (('evaluate', 'made:9', '--seeds', '0'), '--seeds'),
                           (('evaluate', 'made:9', '--spikes', 'nan'), '--spikes'),
                           (('evaluate', 'made:9', '--spikes', '101'), '--spikes'),
                           (('evaluate', 'made:9', '--landmarks', '1', '--algorithm', 'gnp'),
                            '--landmarks'),
                           (('evaluate', 'made:9', '--what', '1'), '--what'),
                           (('evaluate', 'made:9:'), 'made:9:'),
                           (('evaluate', 'made:9:x'), 'made:9:x'),
                           (('evaluate', 'made:9:-1'), 'made:9:-1'),
                           (('evaluate', 'made:'), 'made:'),
                           (('evaluate', 'made:99999999999999999999'), 'made:9'),
                           (('evaluate', 'made:5001'), 'made:5001'),
                           (('evaluate', 'made:9', '--steady'), '--liars'),
                           (('agent',), 'agent'), (('ask',), 'ask'),
                           (('ask', '127.0.0.1:1', '127.0.0.1:2', '127.0.0.1:3'), 'ask'),
                           (('agent', '127.0.0.1:0', '--for', '0'), '--for'),
                           (('agent', '127.0.0.1:0', '--for', '-1'), '--for'),
                           (('agent', '127.0.0.1:0', '--hold', '1001'), '--hold'),
                           (('agent', '127.0.0.1:0', '--interval', '0'), '--interval'),
                           (('agent', '127.0.0.1:0', '--interval', '-1'), '--interval')):
            self.refuses(args, word)

    def refuses(self, args, word):
        done = place(*args)
        self.assertEqual(done.returncode, 2, args)
        self.assertIn(word, done.stderr, args)
        self.assertEqual(done.stdout, '', args)

    def test_what_is_no_address_is_wrong_usage(self):
        # A port that does not fit must not become another one: 65536 is 0, 72537 is 7001.
        for address in ('127.0.0.1', '127.0.0.1:', ':7001', '127.0.0.1:65536', '127.0.0.1:72537',
                        '127.0.0.1:4294974297', '127.0.0.1:-1', '127.0.0.1:7001x',
                        '127.0.0.1: 7001', '127.0.0.1:0x1', 'x' * 300 + ':1', ''):
            self.refuses(('agent', address, '--for', '0.1'), '')
            self.refuses(('agent', '127.0.0.1:0', '--for', '0.1', '--peer', address), '--peer')
            self.refuses(('ask', address), '')
            self.refuses(('ask', '127.0.0.1:0', address), '')
        self.refuses(('agent', '127.0.0.1:0', '--for', '0.1', '--peer', '127.0.0.1:0'), '--peer')
        self.refuses(('ask', '127.0.0.1:0'), 'port 0')
        crowd = [word for i in range(65) for word in ('--peer', f'127.0.0.1:{i + 1}')]
        self.refuses(('agent', '127.0.0.1:0', '--for', '0.1', *crowd), ':65')

    def test_options_of_others_are_refused(self):
        words = {'evaluate': ('made:9',), 'replicas': ('made:9', '2'),
                 'distance': ('made:9', '0', '1'), 'map': ('made:9', '/dev/null'),
                 'agent': ('127.0.0.1:0',), 'ask': ('127.0.0.1:1',)}
        matrix = {'evaluate', 'replicas', 'distance', 'map'}
        users = {('--algorithm', 'gnp'): matrix, ('--dimensions', '2'): matrix | {'agent'},
                 ('--cycles', '9'): matrix, ('--seed', '2'): matrix, ('--seeds', '2'): {'evaluate'},
                 ('--joining', '2'): {'evaluate'}, ('--leaving', '2'): {'evaluate'},
                 ('--liars', '1'): matrix, ('--spikes', '1'): matrix,
                 ('--peer', '127.0.0.1:1'): {'agent'}, ('--interval', '9'): {'agent'},
                 ('--for', '0.1'): {'agent'}, ('--hold', '1'): {'agent'},
                 ('--distribution',): {'evaluate'}, ('--replicas', '2'): {'map'},
                 ('--json',): set(words) - {'map'}, ('--landmarks', '5'): matrix}
        for option, takers in users.items():
            for command, rest in words.items():
                if command not in takers:
                    self.refuses((command, *rest, *option), f'{option[0]} is not for {command}')
        for option in ('--cycles', '9'), ('--joining', '2'), ('--leaving', '2'), ('--liars', '1'), \
                ('--spikes', '1'), ('--steady',):
            self.refuses(('evaluate', 'made:9', '--algorithm', 'gnp', *option),
                         f'{option[0]} is not for gnp')
        for algorithm in 'vivaldi', 'springs':
            self.refuses(('evaluate', 'made:9', '--algorithm', algorithm, '--landmarks', '5'),
                         f'--landmarks is not for {algorithm}')
        for command in 'replicas', 'distance', 'map':
            self.refuses((command, *words[command], '--algorithm', 'springs'), 'only evaluate')
        gnp = ('--algorithm', 'gnp', '--landmarks', '5', '--dimensions', '2')
        for command in matrix:  # and those who may have them do
            vivaldi = ('--cycles', '9', '--seed', '2', '--liars', '1', '--spikes', '1')
            for option in (vivaldi, gnp):
                done = place(command, *words[command], *option)
                self.assertEqual((done.returncode, done.stderr), (0, ''), (command, option))

    def test_help_is_given_wherever_it_is_asked_for(self):
        for args in (('--help',), ('evaluate', '--help'), ('agent', '127.0.0.1:0', '--help')):
            done = place(*args)
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            self.assertIn('mare place evaluate', done.stdout)

    def test_files_that_cannot_be_read(self):
        bad = self.path / 'bad.tsv'
        for text, word in (('0 1\n1\n', 'row 2'), ('', 'empty'), ('0 1\n1 x\n', 'no number'),
                           ('0 -\nnan 0\n', 'no pair'),
                           ('0 1\n', 'only 1 rows'), ('0 1\n1 0 1\n', 'longer'),
                           ('0\n', '2 to 20,000'), ('0 1\n1 0\n0 1\n', 'more rows')):
            bad.write_text(text)
            done = place('evaluate', bad)
            self.assertEqual(done.returncode, 1)
            self.assertIn(word, done.stderr)
            self.assertIn('bad.tsv', done.stderr)
        for args, word in ((('evaluate', self.path / 'none'), 'none: No such file'),
                           (('map', 'made:9', '/nowhere/map.svg'), 'map.svg: No such file'),
                           (('map', 'made:9', '/dev/full'), '/dev/full: No space')):
            done = place(*args)
            self.assertEqual(done.returncode, 1, args)
            self.assertIn(word, done.stderr)

    def test_a_square_is_found(self):
        """Four nodes on a square: a plane holds them, and so both ways must."""
        for more in ((), ('--algorithm', 'gnp', '--landmarks', '4', '--dimensions', '2')):
            found = figures('evaluate', '-', *more, text=SQUARE)
            self.assertEqual((found['nodes'], found['pairs'], found['broken']), (4, 12, 0))
            self.assertLess(found['median'], 0.02)
            self.assertEqual(found['within_2'], 1)
        across = figures('distance', '-', '0', '2', text=SQUARE)
        self.assertEqual(across['measured_ms'], 42.426)
        self.assertAlmostEqual(across['estimated_ms'], 42.426, delta=2)

    def test_networks_of_all_kinds(self):
        for network, broken in (('made', 0.1), ('noisy', 0.5), ('centre', 0.01), ('sites', 0.3)):
            if SLOW > 1 and network != 'noisy':  # the figures are the same in every build
                continue
            found = {name: figures('evaluate', f'{network}:80:2', '--algorithm', name)
                     for name in ('vivaldi', 'springs', 'gnp')}
            for name, one in found.items():
                self.assertEqual((one['nodes'], one['algorithm']), (80, name))
                self.assertGreater(one['broken'], broken)
            self.assertLess(found['vivaldi']['p90'], found['springs']['p90'])
            self.assertIn('springs, 8 dimensions', place('evaluate', f'{network}:9', '--algorithm',
                                                         'springs', '--cycles', '9').stdout)
        for name in 'noisy:x', 'sites:2', 'centre:9:', 'noisy:':
            self.refuses(('evaluate', name), name)
        self.assertIn('No such file', place('evaluate', 'nosy:9').stderr)

    def test_what_was_not_measured_is_null(self):
        hole = SQUARE.replace('42.426 30\n', '- 30\n', 1)
        found = figures('distance', '-', '0', '2', text=hole)
        self.assertIsNone(found['measured_ms'])
        self.assertGreater(found['estimated_ms'], 0)

    def test_dimensions_are_those_that_were_used(self):
        few = ('evaluate', 'made:30', '--algorithm', 'gnp', '--landmarks', '5')
        self.assertEqual(figures(*few)['dimensions'], 4)   # fewer than landmarks
        self.assertIn('gnp, 4 dimensions, 5 landmarks', place(*few).stdout)
        self.assertEqual(figures('evaluate', 'made:30', '--algorithm', 'gnp')['dimensions'], 7)
        self.assertEqual(figures('evaluate', 'made:30', '--cycles', '9')['dimensions'], 8)

    def test_table_and_json_agree(self):
        text = place('evaluate', 'made:40', '--seeds', '2', '--distribution').stdout
        found = figures('evaluate', 'made:40', '--seeds', '2', '--distribution')
        row = re.search(r'mean +([\d.]+) +([\d.]+)', text)
        self.assertAlmostEqual(float(row[1]), found['median'], places=4)
        self.assertAlmostEqual(float(row[2]), found['p90'], places=4)
        self.assertEqual(len(found['distribution']), 101)
        self.assertEqual(found['distribution'], sorted(found['distribution']))
        self.assertLessEqual(found['median_least'], found['median_most'])
        self.assertIn('of the pairs', text)

    def test_same_seed_same_text(self):
        once = place('evaluate', 'made:40', '--seed', '5').stdout
        self.assertEqual(once, place('evaluate', 'made:40', '--seed', '5').stdout)
        self.assertNotEqual(once, place('evaluate', 'made:40', '--seed', '6').stdout)

    def test_what_can_go_wrong_in_a_network(self):
        calm = figures('evaluate', 'made:90')
        for more in (('--liars', '1'), ('--leaving', '30'), ('--spikes', '10')):
            self.assertLess(figures('evaluate', 'made:90', *more)['median'],
                            1.3 * calm['median'] + 0.01, more)
        joining = figures('evaluate', 'made:90', '--joining', '20')
        self.assertLessEqual(joining['probes'], 20)
        self.assertEqual(joining['pairs'], 70 * 69)
        for args, word in ((('--joining', '8'), 'too few nodes are there'),
                           (('--leaving', '8'), 'too few nodes are there'),
                           (('--liars', '10'), 'nobody is left to judge'),
                           (('--liars', '8'), 'nobody is left to judge'),
                           (('--algorithm', 'gnp'), 'gnp needs more landmarks')):
            for command in ('evaluate', 'made:9'), ('evaluate', 'made:9', '--seeds', '2'):
                done = place(*command, *args)
                self.assertEqual((done.returncode, done.stdout), (1, ''), args)
                self.assertIn(word, done.stderr)
        for command in ('replicas', 'made:9', '2'), ('distance', 'made:9', '0', '1'), \
                ('map', 'made:9', '/dev/null'):
            self.assertEqual(place(*command, '--algorithm', 'gnp').returncode, 1)

    def test_replicas(self):
        found = figures('replicas', 'made:80', '4')
        self.assertEqual(len(set(found['replicas'])), 4)
        # Placed by coordinates alone, nearly as good as placed by all the measurements (which is
        # not the best either: no search here is exhaustive).
        self.assertLess(found['measured_ms'], 1.1 * found['by_measurement_ms'])
        self.assertGreater(found['right'], 0.8)
        self.assertIn('replicas at nodes', place('replicas', 'made:80', '4').stdout)

    def test_the_map(self):
        path = self.path / 'map.svg'
        self.assertEqual(place('map', 'made:50', path, '--replicas', '3').returncode, 0)
        root = xml.etree.ElementTree.parse(path).getroot()
        kinds = [node.get('class') for node in root.iter() if node.tag.endswith('circle')]
        self.assertEqual(kinds.count('node'), 50)
        self.assertEqual(kinds.count('replica'), 3)
        for node in root.iter():
            if node.tag.endswith('circle'):
                self.assertTrue(0 <= float(node.get('cx')) <= 900)
                self.assertTrue(0 <= float(node.get('cy')) <= 640)
        self.assertNotRegex(path.read_text(), r'href|@import|url\(|nan|inf')


class Agent:
    """A running agent. `hold` makes its line so slow; a round trip is the sum of both holds."""

    def __init__(self, hold, *options):
        command = [MARE, 'place', 'agent', '127.0.0.1:0', '--hold', str(hold), '--interval', '20',
                   '--json', *options]
        self.hold = hold
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        self.address = re.search(r'listening at (\S+)', self.process.stderr.readline())[1]

    def end(self, how=signal.SIGINT):
        self.process.send_signal(how)
        out, self.errors = self.process.communicate(timeout=30 * SLOW)
        return json.loads(out) if out else None


class Liar(threading.Thread):
    """Answers every probe at once, from a random place, very sure of itself; and sends garbage."""

    def __init__(self, *victims):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(('127.0.0.1', 0))
        self.socket.settimeout(0.05)
        self.address = '127.0.0.1:%d' % self.socket.getsockname()[1]
        self.victims = [('127.0.0.1', int(victim.split(':')[1])) for victim in victims]
        self.random = random.Random(1)
        self.answered = 0
        self.stopped = threading.Event()

    def packet(self, kind, nonce):
        numbers = [self.random.uniform(-1000, 1000) for _ in range(3)] + [0.0, 0.001]
        return b'MPLC\x01' + bytes([kind, 3, 0]) + nonce + struct.pack('<5d', *numbers) + bytes(18)

    def run(self):
        for victim in self.victims:
            self.socket.sendto(self.packet(1, bytes(8)), victim)
        while not self.stopped.is_set():
            try:
                data, sender = self.socket.recvfrom(2048)
            except socket.timeout:
                continue
            if len(data) > 16 and data[5] == 1:
                self.socket.sendto(self.packet(2, data[8:16]), sender)
                self.answered += 1
            for garbage in (b'', b'MPLC', data[:30], data + b'x', self.random.randbytes(74),
                            self.packet(2, bytes(8))):
                self.socket.sendto(garbage, sender)
        self.socket.close()


def reaches(condition, seconds):
    """Asks again and again, for what takes as long as it takes."""
    end = time.monotonic() + seconds * SLOW
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.2)
    return False


def estimate(a, b):
    done = place('ask', a.address, b.address, '--json')
    return json.loads(done.stdout)['estimated_ms'] if done.returncode == 0 else math.inf


class Live(unittest.TestCase):
    def setUp(self):
        self.agents = []

    def tearDown(self):
        for agent in self.agents:
            if agent.process.poll() is None:
                agent.process.kill()
            agent.process.wait()
            agent.process.stdout.close()
            agent.process.stderr.close()

    def start(self, hold, *peers):
        self.agents.append(Agent(hold, *(word for peer in peers for word in ('--peer', peer))))
        return self.agents[-1]

    def group(self, *holds):
        """All know the first one only."""
        first = self.start(holds[0])
        return [first] + [self.start(hold, first.address) for hold in holds[1:]]

    def settled(self, agents, within=0.25):
        """Whether every estimate between two of them is near the sum of their holds. A millisecond
        more is let through for the machine."""
        return all(abs(estimate(a, b) - (a.hold + b.hold)) < within * (a.hold + b.hold) + 1
                   for i, a in enumerate(agents) for b in agents[:i])

    def test_three_agents_converge(self):
        agents = self.group(15, 30, 60)
        self.assertTrue(reaches(lambda: self.settled(agents), 60))
        for agent in agents:
            found = agent.end()
            self.assertEqual(agent.process.returncode, 0)
            self.assertIn(len(found['peers']), (1, 2))  # the third may not have been heard of yet
            self.assertEqual(len(found['place']['x']), 3)
            self.assertGreater(found['answers'], 5)
            for peer in found['peers']:
                self.assertGreaterEqual(peer['measured_ms'], 44.9)  # no answer before its time

    def test_a_liar_moves_nobody_far(self):
        agents = self.group(15, 25, 35, 50, 60)
        liar = Liar(*(agent.address for agent in agents))
        liar.start()
        try:
            self.assertTrue(reaches(lambda: liar.answered > 20 and self.settled(agents, 0.4), 90))
        finally:
            liar.stopped.set()
            liar.join()
        for agent in agents:
            self.assertGreater(agent.end()['ignored'], 10)  # the garbage

    def test_a_third_may_leave(self):
        agents = self.group(15, 20, 30, 40, 50, 60)
        self.assertTrue(reaches(lambda: self.settled(agents, 0.35), 90))
        for agent in agents[4:]:
            agent.end(signal.SIGKILL)
        # A newcomer finds its place among the others, so they live on. That who is gone is
        # forgotten in the end is a unit test.
        rest = agents[:4] + [self.start(35, agents[1].address)]
        self.assertTrue(reaches(lambda: self.settled(rest), 90))
        for agent in rest:
            self.assertGreater(agent.end(signal.SIGTERM)['answers'], 0)
            self.assertEqual(agent.process.returncode, 0)

    def test_an_agent_alone_ends_in_time(self):
        done = place('agent', '127.0.0.1:0', '--for', '0.2')
        self.assertEqual(done.returncode, 0)
        self.assertIn('0 probes', done.stdout)
        self.assertIn('listening at 127.0.0.1:', done.stderr)

    def test_every_probe_has_a_number_of_its_own(self):
        """Nobody who has seen some can answer the next, nor one who has seen another agent's."""
        seen = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            peer.bind(('127.0.0.1', 0))
            peer.settimeout(30 * SLOW)
            for _ in range(2):
                agent = self.start(0, '127.0.0.1:%d' % peer.getsockname()[1])
                for _ in range(4):
                    probe, who = peer.recvfrom(512)
                    seen.append(int.from_bytes(probe[8:16], 'little'))
                    peer.sendto(probe[:5] + b'\x02' + probe[6:], who)  # so that it asks again
                agent.end()
        self.assertEqual(len(set(seen)), 8)
        steps = {(b - a) % 2 ** 64 for a, b in zip(seen, seen[1:])}
        self.assertEqual(len(steps), 7)  # it does not count
        self.assertGreater(max(seen), 2 ** 56)

    def test_signals_end_it_from_the_first_word_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) * 5:
            agent = self.start(0)
            self.assertEqual(agent.end(number)['answers'], 0)
            self.assertEqual(agent.process.returncode, 0)

    def test_what_cannot_be(self):
        agent = self.start(0)
        for args, word in ((('agent', agent.address), 'in use'),  # somebody is there already
                           (('agent', '192.0.2.1:7001'), 'assign'),
                           (('agent', 'no.such.host.invalid:1'), 'no.such.host.invalid'),
                           (('agent', '127.0.0.1:0', '--peer', 'no.such.host.invalid:1'),
                            'no.such.host.invalid')):
            done = place(*args, '--for', '0.1')
            self.assertEqual((done.returncode, done.stdout), (1, ''), args)
            self.assertRegex(done.stderr, f'mare place: .*{word}')
        self.assertEqual(place('ask', agent.address).returncode, 0)
        done = place('ask', agent.address, 'no.such.host.invalid:1')
        self.assertEqual(done.returncode, 1)
        self.assertIn('no.such.host.invalid', done.stderr)
        flat = Agent(0, '--dimensions', '2')
        self.agents.append(flat)
        done = place('ask', agent.address, flat.address)
        self.assertEqual(done.returncode, 1)
        self.assertIn('another number of dimensions', done.stderr)
        address = agent.address
        agent.end()
        done = place('ask', address)
        self.assertEqual(done.returncode, 1)
        self.assertIn('no answer', done.stderr)


tap.main(__name__)
