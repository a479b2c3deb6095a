# SPDX-License-Identifier: MIT
"""`mare clock` against a real chronyd in both directions, and against servers that lie or forge.

Every server is on the loopback interface with files of its own; chronyd runs with -x and never
touches the system's clock. So the truth is known: both ends read the same clock, and an offset is
all error.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import plot_clocks  # noqa: E402
from clocks import (  # noqa: E402
    BRIEFLY, CHRONYC, EPOCH, MARE, PATIENCE, SECRET, SLOW, Case, ChronyCase, Served, clock, find,
    free_port, query, query_at_length, reply, stamp, stamped_socket)

NTPDIG = find('ntpdig')


class Chrony(ChronyCase):
    """The real thing."""

    def test_our_client_asks_chronyd(self):
        name = self.serving()
        code, said = query(name)
        self.assertEqual(code, 0)
        self.assertEqual(said['stratum'], 1)
        # The same clock at both ends: the offset is all error, and within the bound; and that is
        # the way the packets took, and a little.
        self.assertLessEqual(abs(said['offset_ns']), said['error_ns'])
        server = said['servers'][0]
        self.assertLess(server['error_ns'], server['round_trip_ns'] + 50_000_000)
        self.assertEqual(server['packets'], {'taken': 8})
        self.assertEqual(server['round_trip_ns'], 2 * server['delay_ns'])
        self.assertEqual(said['tai_ns'] - said['utc_ns'], 37_000_000_000)

    def test_our_client_asks_chronyd_with_a_key(self):
        name = self.serving()
        for key in '7', '9':
            code, said = query(name, options=('--keys', str(self.keys), '--key', key))
            self.assertEqual(code, 0)
            self.assertLessEqual(abs(said['offset_ns']), said['error_ns'])
        other = self.path / 'other'
        other.write_text(f'7 AES128 HEX:{SECRET[::-1]}\n')
        code, said = query(name, options=('--keys', str(other), '--key', '7', '--samples', '2'),
                           timeout=BRIEFLY)
        self.assertEqual(code, 1)
        self.assertNotIn('taken', said['servers'][0]['packets'])

    def test_chronyd_asks_our_server(self):
        with Served('--stratum', '5', '--error', '1') as served:
            done = self.once(f'server 127.0.0.1 port {served.port} iburst')
        self.assertEqual(done.returncode, 0, done.stderr)
        wrong = float(re.search(r'wrong by (-?[\d.]+) seconds', done.stderr)[1])
        self.assertLess(abs(wrong), 0.5 * SLOW)  # far more than a packet waits for a processor

    def test_chronyd_asks_our_server_with_a_key(self):
        with Served('--keys', str(self.keys), '--authenticated') as served:
            good = self.once(f'server 127.0.0.1 port {served.port} iburst key 7')
            none = self.once(f'server 127.0.0.1 port {served.port} iburst', seconds=10 * SLOW)
        self.assertEqual(good.returncode, 0, good.stderr)
        self.assertEqual(none.returncode, 1, none.stderr)

    def test_chronyd_stays_content_with_our_server(self):
        if not CHRONYC:
            self.skipTest('chronyc is missing')
        with Served('--stratum', '3', '--error', '1') as served:
            self.start('port 0', f'server 127.0.0.1 port {served.port} iburst minpoll 0 maxpoll 0')
            deadline = time.monotonic() + PATIENCE
            row = []
            while row[1:2] != ['*'] or int(row[5], 8) < 0o17:
                self.assertLess(time.monotonic(), deadline, row)
                time.sleep(0.2)  # nothing tells us when chronyd changes its mind
                done = subprocess.run([CHRONYC, '-h', f'{self.path}/chronyd.sock', '-c', 'sources'],
                                      capture_output=True, text=True, timeout=60, check=False)
                row = done.stdout.strip().split(',') if done.returncode == 0 else []
            self.assertEqual(row[3], '3')  # our stratum
            done = subprocess.run([CHRONYC, '-h', f'{self.path}/chronyd.sock', '-c', 'tracking'],
                                  capture_output=True, text=True, timeout=60, check=True)
            self.assertEqual(done.stdout.split(',')[2], '4')  # and it is one above

    def test_a_chain_of_strata(self):
        name = self.serving()
        with Served('--follow', name, '--interval', '0.1') as second, \
                Served('--follow', second.name, '--interval', '0.1') as third:
            deadline = time.monotonic() + PATIENCE
            code, said = 1, {}
            while code:
                self.assertLess(time.monotonic(), deadline, said)
                code, said = query(third.name, options=('--samples', '2'), timeout=BRIEFLY)
            self.assertEqual(said['stratum'], 3)
            self.assertLessEqual(abs(said['offset_ns']), said['error_ns'])
            self.assertEqual(said['servers'][0]['reference'], '127.0.0.1')

    def test_a_liar_is_outvoted(self):
        liar = self.fake_by(lambda question, now: reply(question, now + 10))
        with Served('--error', '1') as served:
            names = [self.serving(), liar.name, served.name]
            code, said = query(*names)
        self.assertEqual(code, 0)
        self.assertLessEqual(abs(said['offset_ns']), said['error_ns'])
        self.assertEqual([one['outlier'] for one in said['servers']], [False, True, False])
        self.assertGreater(said['servers'][1]['offset_ns'], 9_000_000_000)


class Following(Case):
    def test_a_lost_server_makes_room_for_a_worse_one(self):
        good, worse = self.fake(stratum=1, reference=b'GPS\0'), self.fake(stratum=4)
        silent = threading.Event()
        answer = good.answer
        good.answer = lambda question, now: None if silent.is_set() else answer(question, now)
        with Served('--follow', good.name, '--follow', worse.name, '--interval', '0.05') as served:
            for wanted in 2, 5:
                deadline, stratum = time.monotonic() + PATIENCE, None
                while stratum != wanted:
                    self.assertLess(time.monotonic(), deadline, stratum)
                    stratum = query(served.name, options=('--samples', '1'),
                                    timeout=BRIEFLY)[1].get('stratum')
                silent.set()

    def wait_for_stratum(self, name, wanted):
        deadline, stratum = time.monotonic() + PATIENCE, None
        while stratum != wanted:
            self.assertLess(time.monotonic(), deadline, stratum)
            stratum = query(name, options=('--samples', '1'), timeout=BRIEFLY)[1].get('stratum')

    def test_a_server_whose_stratum_rises_is_still_followed(self):
        stratum = [1]
        upstream = self.fake_by(lambda question, now: reply(question, now, stratum=stratum[0]))
        with Served('--follow', upstream.name, '--interval', '0.05') as served:
            for stratum[0] in 1, 4, 2, 14:
                self.wait_for_stratum(served.name, stratum[0] + 1)

    def test_one_that_begins_to_lie_makes_room_for_worse_ones(self):
        lie = [0]
        liar = self.fake_by(lambda question, now: reply(question, now + lie[0], stratum=1))
        names = [liar.name, self.fake(stratum=5).name, self.fake(stratum=5).name]
        follow = [word for name in names for word in ('--follow', name)]
        with Served(*follow, '--interval', '0.05') as served:
            self.wait_for_stratum(served.name, 2)
            lie[0] = 1000
            self.wait_for_stratum(served.name, 6)

    def leap_night(self, served, midnight):
        """Asks until midnight has passed; yields when it left, its bound and what it announces."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.settimeout(PATIENCE)
            left = 0
            while left < midnight + 0.1:
                asker.sendto(b'\x23' + bytes(39) + b'question', ('127.0.0.1', int(served.port)))
                data = asker.recv(512)
                first, stratum, delay, dispersion = struct.unpack('>BB2xII', data[:12])
                left = int.from_bytes(data[40:48], 'big') / 2 ** 32 - EPOCH
                if stratum:
                    yield left, (delay / 2 + dispersion) / 2 ** 16, first >> 6
                time.sleep(0.02)

    def test_a_clock_that_is_followed_knows_of_leap_seconds(self):
        # A server that is asked once, and does not say that a second will be inserted: one that
        # the table knows, in 2016, and one that nobody knows of, after the table has expired; and
        # one that says so on any day.
        nights = ((1483228800, 0), (1835481600, 0), (1784160000, 1))
        with concurrent.futures.ThreadPoolExecutor(len(nights)) as at_once:
            for done in [at_once.submit(self.pass_midnight, *night) for night in nights]:
                done.result()

    def pass_midnight(self, midnight, leap):
        begin = time.time()
        upstream = self.fake_by(lambda question, now: reply(
            question, now + midnight - 4 - begin, leap=leap))
        seen = set()
        with Served('--follow', upstream.name, '--interval', '3600') as served:
            for left, bound, announced in self.leap_night(served, midnight):
                if left + bound + 1 < midnight:
                    self.assertLess(bound, 0.5 * SLOW)
                    self.assertEqual(announced, 0 if midnight == 1835481600 else 1)
                    seen.add('before')
                elif left > midnight - 1:
                    self.assertGreaterEqual(bound, 1)
                if left > midnight:
                    self.assertEqual(announced, 0)
                    seen.add('after')
        self.assertIn('after', seen)

    def test_who_asks_for_patience_gets_it(self):
        times = []  # of the questions; the last of them was answered after two seconds

        def until_heeded(question, now):
            times.append(time.monotonic())
            heeded = len(times) > 1 and times[-1] - times[-2] >= 2
            kiss = {} if heeded else {'stratum': 0, 'leap': 3, 'reference': b'RATE'}
            return reply(question, now, **kiss)  # which may come too late on a loaded machine
        impatient, other = self.fake_by(until_heeded), self.fake()
        start = time.monotonic()
        with Served('--follow', impatient.name, '--follow', other.name, '--interval', '0.02'):
            while other.asked < 20 or len(times) < 2 or times[-1] - times[-2] < 2:
                self.assertLess(time.monotonic(), start + PATIENCE)
                time.sleep(0.01)  # nothing tells us of the questions
            asked = len(times)
            time.sleep(0.2)  # room for more questions at the old pace
            # It wants two seconds, also once it answers; a loaded machine may have let some pass.
            now = time.monotonic()
            self.assertLessEqual(len(times), asked + (now - times[asked - 1]) / 2)


class Ntpdig(Case):
    def test_ntpdig_asks_our_server(self):
        if not NTPDIG:
            self.skipTest('ntpdig is missing: tools/setup.sh test')
        try:  # it knows no other port
            served = Served('--stratum', '4', '--error', '1', at='127.0.0.77:123')
        except AssertionError as why:
            self.skipTest(str(why))
        with served:
            done = subprocess.run([NTPDIG, '-j', '127.0.0.77'], capture_output=True, text=True,
                                  timeout=60, check=False)
        said = json.loads(done.stdout)
        self.assertEqual(said['stratum'], 4)
        self.assertLess(abs(said['offset']), 0.5 * SLOW)


class Strangers(Case):
    """Answers that must not be believed."""

    def verdicts(self, fake, *options, samples=3, timeout=PATIENCE):
        code, said = query(fake.name, options=('--samples', str(samples), *options),
                           timeout=timeout)
        return code, said['servers'][0]

    def test_a_good_one_is_believed(self):
        fake = self.fake()
        code, server = self.verdicts(fake)
        self.assertEqual((code, server['packets']), (0, {'taken': 3}))
        self.assertEqual(server['stratum'], 2)

    def test_one_that_lies_alone_is_believed(self):
        # Nobody can tell; that is what several servers are for.
        fake = self.fake_by(lambda question, now: reply(question, now - 3600))
        code, said = query(fake.name, options=('--samples', '2'))
        self.assertEqual(code, 0)
        self.assertLess(said['offset_ns'], -3599_000_000_000)

    def test_of_three_one_may_be_silent(self):
        silent = self.fake_by(lambda question, now: None).name
        nobody = f'127.0.0.1:{free_port()}'  # as silent, but at once
        good = [self.fake().name for _ in range(4)]
        one = ('--samples', '1')
        for names in ([good[0], silent, good[1]], [*good, nobody], [nobody, good[0], good[1]]):
            code, said = query_at_length(*names, options=one, enough=lambda code, _: code == 0)
            self.assertEqual((code, said['agreed']), (0, True), said)
            self.assertLessEqual(abs(said['offset_ns']), said['error_ns'])
        names = [good[0], nobody, nobody]
        self.assertEqual(query(*names, options=one)[0], 1)
        # A single one is enough for who trusts it; two are not for who trusts nobody.
        code, said = query(*names, options=(*one, '--liars', '0'))
        self.assertEqual((code, said['server']), (0, good[0]))
        self.assertEqual(query(*good[:2], options=(*one, '--liars', '2'))[0], 1)
        done = clock('watch', good[0], good[1], nobody, '--count', '1', '--timeout', str(PATIENCE))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_two_that_disagree_give_no_time(self):
        liar = self.fake_by(lambda question, now: reply(question, now + 10))
        code, said = query(liar.name, self.fake().name, options=('--samples', '2'))
        self.assertEqual(code, 1)
        self.assertNotIn('offset_ns', said)

    def test_a_wrong_origin_is_dropped(self):
        fake = self.fake(origin=b'\1\2\3\4\5\6\7\1')
        code, said = query_at_length(fake.name, options=('--samples', '2'), enough=lambda _, said: (
            fake.asked > 1 and said['servers'][0]['packets']))  # as if it had not come
        server = said['servers'][0]
        bogus = server['packets'].get('bogus')
        self.assertEqual((code, server), (1, {
            'server': fake.name, 'why': 'bogus', 'packets': {'bogus': bogus}}))
        self.assertGreater(fake.asked, 1)
        self.assertLessEqual(bogus, fake.asked)  # less if the last came too late

    def test_forgeries_before_the_answer_do_no_harm(self):
        fake = self.fake_by(lambda question, now: [
            reply(question, now + 99, origin=bytes(8)), b'', b'short', question,
            reply(question, now + 99, version=7), reply(question, now),
            reply(question, now + 99)])
        code, said = query(fake.name, options=('--samples', '3'))
        self.assertEqual(code, 0)
        self.assertLess(abs(said['offset_ns']), 1_000_000_000)
        self.assertEqual(said['servers'][0]['packets']['taken'], 3)

    def test_servers_without_time(self):
        for changes in ({'stratum': 16}, {'leap': 3}, {'stratum': 0, 'reference': bytes(4)},
                        {'dispersion': 17 << 16}, {'transmit': 0}):
            fake = self.fake(**changes)
            code, server = self.verdicts(fake)
            self.assertEqual((code, list(server['packets'])), (1, ['unfit']), changes)

    def test_stamps_that_contradict_each_other(self):
        fake = self.fake_by(lambda question, now: reply(question, now, transmit=stamp(now + 5)))
        self.assertEqual(list(self.verdicts(fake)[1]['packets']), ['absurd'])
        fake = self.fake_by(lambda question, now: reply(question, now, transmit=stamp(now - 5)))
        self.assertEqual(list(self.verdicts(fake)[1]['packets']), ['absurd'])

    def test_a_kiss_of_death_ends_the_questions(self):
        fake = self.fake(stratum=0, leap=3, reference=b'DENY')
        code, server = self.verdicts(fake)
        self.assertEqual((code, server['kiss'], server['packets']), (1, 'DENY', {'kiss': 1}))
        self.assertEqual(fake.asked, 1)

    def test_a_server_that_asks_for_patience_is_left_alone(self):
        fake, start = self.fake(stratum=0, leap=3, reference=b'RATE'), time.monotonic()
        code, server = self.verdicts(fake)  # three samples, 50 ms apart; it wants two seconds
        self.assertEqual((code, server['kiss']), (1, 'RATE'))
        self.assertLessEqual(fake.asked, 1 + (time.monotonic() - start) // 2)

    def test_a_leap_second_is_announced(self):
        code, server = self.verdicts(self.fake(leap=1))
        self.assertEqual((code, server['leap']), (0, 'insert'))

    def test_a_mac_is_demanded(self):
        fake = self.fake()
        # One question: the answer to an earlier one, come late, would be something else.
        code, said = query_at_length(
            fake.name, options=('--samples', '1', '--keys', str(self.keys), '--key', '7'),
            enough=lambda _, said: said['servers'][0]['packets'])
        self.assertEqual((code, said['servers'][0]['packets']), (1, {'forged': 1}))

    def test_the_other_era(self):
        # 2036 and after: the stamps begin again at 0. The client's own clock tells the era.
        fake = self.fake_by(lambda question, now: reply(
            question, now + (2 ** 32 - EPOCH - now) + 5))
        code, said = query(fake.name, options=('--samples', '1'))
        self.assertEqual(code, 0)
        self.assertLess(abs(said['utc_ns'] / 1e9 - (2 ** 32 - EPOCH + 5)), 5)


class Broadcasts(Case):
    """Reference broadcasts by multicast on the loopback interface."""

    def setUp(self):
        super().setUp()
        self.addCleanup(stamped_socket().close)

    def start(self, *args):
        process = subprocess.Popen([MARE, 'clock', *args], text=True, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def hear(self, group, name, *options):
        process = self.start('hear', group, '--name', name, '--json', *options)
        self.assertEqual(json.loads(process.stdout.readline()), {'hearing': group})
        return process

    def rows(self, receiver, pairs):
        """What it says, until it has told of that many pairs."""
        rows = []
        watchdog = threading.Timer(PATIENCE, receiver.kill)
        watchdog.start()
        while not rows or rows[-1]['pairs'] < pairs:
            line = receiver.stdout.readline()
            self.assertTrue(line, f'it ended, or waited in vain, after {rows[-3:]}')
            rows.append(json.loads(line))
        watchdog.cancel()
        return rows

    def test_receivers_find_each_other(self):
        group = f'239.255.77.{1 + os.getpid() % 250}:{free_port()}'
        jitter = ('--jitter', str(100_000 * SLOW))
        # The first does not leave by itself: the second may not have heard enough of it by then.
        one = self.hear(group, 'one', *jitter)
        two = self.hear(group, 'two', '--ahead', '-2.5', '--count', '8', *jitter)
        self.start('beacon', group, '--interval', '0.02')
        first, second = self.rows(one, 8), self.rows(two, 8)
        self.assertEqual((two.wait(PATIENCE), two.stdout.read()), (0, ''))
        # The oscillator is the same, so the truth is what was pretended.
        for rows, peer, truth in ((first, 'two', 2.5e9), (second, 'one', -2.5e9)):
            self.assertEqual([row['pairs'] for row in rows], list(range(1, 9)))
            for row in rows:
                self.assertEqual(row['peer'], peer)
                self.assertLessEqual(abs(row['mean_ns'] - truth), row['mean_error_ns'])
                if 'line_ns' in row:
                    self.assertLessEqual(abs(row['line_ns'] - truth), row['line_error_ns'])
            self.assertTrue(any('line_ns' in row for row in rows))
            # The kernel notes when a packet came: the two differ by far less than they might.
            self.assertLess(abs(rows[-1]['mean_ns'] - truth), 20_000_000 * SLOW)

    def test_two_beacons_on_one_group(self):
        group = f'239.255.79.{1 + os.getpid() % 250}:{free_port()}'
        receivers = [self.hear(group, name) for name in ('one', 'two')]
        for _ in range(2):
            self.start('beacon', group, '--interval', '0.02')
        for one in receivers:
            # One of the two is enough: pairs are not forgotten whenever the other speaks.
            self.rows(one, 8)


class Words(Case):
    def test_watch_writes_a_line_a_round(self):
        with Served() as served:
            done = clock('watch', served.name, '--count', '3', '--interval', '0.01')
            self.assertEqual(done.returncode, 0)
            self.assertEqual(len(done.stdout.splitlines()), 3)
            self.assertRegex(done.stdout, r'± .* delay .* stratum 10')
            done = clock('watch', served.name, '--count', '2', '--interval', '0', '--json')
            self.assertEqual(len([json.loads(line) for line in done.stdout.splitlines()]), 2)

    def test_watch_draws_a_chart_in_a_terminal(self):
        script = shutil.which('script')
        if not script:
            self.skipTest('script is missing')
        with Served() as served:
            done = subprocess.run(
                [script, '-qec', f'{MARE} clock watch {served.name} --count 3 --interval 0.01',
                 '/dev/null'], capture_output=True, text=True, timeout=60 * SLOW, check=False,
                stdin=subprocess.DEVNULL, env={**os.environ, 'TERM': 'xterm'})
        self.assertIn('●', done.stdout)
        self.assertIn('┼', done.stdout)
        self.assertIn('│', done.stdout)

    def test_serve_says_whom_it_answered(self):
        process = subprocess.Popen([MARE, 'clock', 'serve', '127.0.0.1:0', '--count', '2',
                                    '--json'], text=True, stdout=subprocess.PIPE)
        name = json.loads(process.stdout.readline())['serving']
        query(name, options=('--samples', '2'))
        lines = process.communicate(timeout=PATIENCE)[0].splitlines()
        self.assertEqual(len(lines), 2)
        self.assertEqual(json.loads(lines[0])['stratum'], 10)
        self.assertGreaterEqual(json.loads(lines[0])['error_ns'], 100_000_000)
        self.assertEqual(process.returncode, 0)

    def test_serve_goes_on_when_nobody_reads_what_it_says(self):
        process = subprocess.Popen([MARE, 'clock', 'serve', '127.0.0.1:0', '--json'], text=True,
                                   stdout=subprocess.PIPE)
        port = int(json.loads(process.stdout.readline())['serving'].split(':')[1])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.settimeout(PATIENCE)
            for i in range(3000):  # a pipe holds about 1,000 lines
                asker.sendto(b'\x23' + bytes(39) + struct.pack('>Q', i + 1), ('127.0.0.1', port))
                self.assertEqual(asker.recv(512)[24:32], struct.pack('>Q', i + 1))
            process.terminate()
            lines = [json.loads(line) for line in process.stdout]
            self.assertEqual(process.wait(PATIENCE), 0)
            process.stdout.close()
        self.assertLess(len(lines), 3000)

    def test_signals_end_everything_in_good_order(self):
        group = f'239.255.78.{1 + os.getpid() % 250}:{free_port()}'
        with Served() as served:
            for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
                for args in (('serve', '127.0.0.1:0'), ('hear', group),
                             ('watch', served.name, '--interval', '3600')):
                    process = subprocess.Popen([MARE, 'clock', *args], text=True,
                                               stdout=subprocess.PIPE)
                    process.stdout.readline()  # from the first word on
                    process.send_signal(number)
                    self.assertEqual(process.wait(PATIENCE), 0, (args, number))
                    process.stdout.close()

    def test_the_simulation(self):
        done = clock('simulate', '--seeds', '5', '--json')
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([row['method'] for row in rows], ['ntp', 'rbs-mean', 'rbs-line'])
        for row in rows:
            self.assertGreater(row['bound_ns'], row['error_ns'])

    def test_a_simulation_that_is_violated(self):
        # Somebody needs so much of his bound; with a per cent less of it the checker speaks.
        first = json.loads(clock('simulate', '--seeds', '5', '--json').stdout.splitlines()[0])
        needed = int(first['closest_percent'])
        self.assertEqual(clock('simulate', '--seeds', '5', '--bound', str(needed + 1)).returncode,
                         0)
        less = ('simulate', '--seeds', '5', '--bound', str(needed - 1))
        done = clock(*less, '--json')
        self.assertEqual(done.returncode, 1)
        said = json.loads(done.stdout)
        self.assertEqual(sorted(said), ['detail', 'seed', 'violation'])
        self.assertEqual(said['violation'], 'BOUND')
        self.assertIn(said['seed'], range(1, 6))
        done = clock(*less)
        self.assertEqual((done.returncode, done.stdout),
                         (1, f'seed {said["seed"]}: BOUND is violated: {said["detail"]}\n'))

    def test_every_reading_of_a_simulation(self):
        rows = [json.loads(line) for line in clock(
            'simulate', '--seeds', '3', '--json', '--readings').stdout.splitlines()]
        sums, rows = rows[-3:], rows[:-3]
        for one in sums:
            ours = [row for row in rows if row['reading'] == one['method']]
            self.assertEqual(len(ours), one['readings'])
            for name in 'error_ns', 'bound_ns':
                mean = sum(row[name] for row in ours) / len(ours)
                self.assertAlmostEqual(mean, one[name], delta=1)
            worst = max(row['error_ns'] / row['bound_ns'] for row in ours)
            self.assertAlmostEqual(100 * worst, one['closest_percent'], delta=0.06)

    def test_the_plot_is_what_is_drawn_now(self):
        if SLOW > 1:
            self.skipTest('the same in every build')
        done = subprocess.run([sys.executable, str(tap.ROOT / 'tools/plot_clocks.py'), '--check',
                               MARE], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, '', ''))
        self.assertEqual(plot_clocks.outside([(5, 5), (5, 6), (0, 0), (7, 8)]), 2)
        # Of 100 to 158 ns, the reading that needs most of its bound, and the one in the middle.
        largest, middle = plot_clocks.curves([(101, 50), (150, 60), (120, 10), (2000, 1)])
        self.assertEqual(largest, [(101, 50), (2000, 1)])
        self.assertEqual([error for _, error in middle], [50, 1])

    def test_wrong_usage_is_2_and_says_why(self):
        bad = self.path / 'bad'
        bad.write_text('7 AES128 HEX:1234\n')
        for args, word in (((), 'usage'), (('nothing',), 'nothing'), (('query',), 'server'),
                           (('query', 'x', '--samples', '0'), '--samples'),
                           (('query', 'x', '--what'), '--what'),
                           (('query', 'x', '--what', '1'), '--what'),
                           (('query', '127.0.0.1', '--key', '7'), '--key'),
                           (('query', '127.0.0.1', '--keys', str(bad)), 'bad:1'),
                           (('query', '127.0.0.1', '--keys', '/nowhere'), '/nowhere'),
                           (('serve', '127.0.0.1:0', '--follow', '127.0.0.1', '--interval', '0'),
                            '--interval'),
                           (('beacon', '239.1.2.3:1', '--interval', '0'), '--interval'),
                           (('query', 'x', '--samples', '2.5'), '--samples'),
                           (('query', 'x', '--stratum', '3'), '--stratum is not for query'),
                           (('serve', 'x', '--samples', '3'), '--samples is not for serve'),
                           (('query', 'x', '--liars', '-1'), '--liars'),
                           (('query', 'x', '--liars', '1.5'), '--liars'),
                           (('hear', '239.1.2.3:1', '--liars', '1'), '--liars is not for hear'),
                           (('simulate', '5'), '5'),
                           (('simulate', '--readings'), '--readings'),
                           (('simulate', '--bound', '0'), '--bound'),
                           (('simulate', '--bound', '101'), '--bound'),
                           (('query', 'x', '--bound', '50'), '--bound is not for query'),
                           (('query', 'x', '--readings'), '--readings is not for query'),
                           (('serve', '127.0.0.1:65536'), '65535'),
                           (('hear', '239.1.2.3:1', '--name', 'ninechars'), 'ninechars'),
                           (('hear', '239.1.2.3:1', '--name', 'a"b'), 'a"b'),
                           (('serve',), 'address'), (('serve', 'x'), 'x'), (('hear',), 'address'),
                           (('hear', '127.0.0.1:1'), 'a group is'),
                           (('hear', '[ff02::1]:5000'), 'a group is an IPv4'),
                           (('beacon', '240.0.0.1:5000'), 'a group is'),
                           (('beacon', '239.1.2.3:1', '--interface', 'x.invalid'), 'x.invalid'),
                           (('serve', '127.0.0.1:1', '127.0.0.1:2'), '127.0.0.1:2')):
            done = clock(*args)
            self.assertEqual(done.returncode, 2, args)
            if word != 'usage':
                self.assertIn(word, done.stderr)

    def test_help_is_given_wherever_it_is_asked_for(self):
        for args in (('--help',), ('query', '--help'), ('serve', 'x', '--help')):
            done = clock(*args)
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            self.assertIn('mare clock query', done.stdout)

    def test_a_name_that_does_not_resolve_is_said_and_left_out(self):
        nobody = 'no.such.host."invalid"'
        done = clock('query', nobody)
        self.assertEqual(done.returncode, 1)
        self.assertIn(nobody, done.stdout)
        self.assertIn('no time', done.stdout)
        with Served() as served:
            code, said = query(served.name, '127.0.0.1:0', '127.0.0.1:65536',
                               options=('--samples', '2'))
            self.assertEqual((code, said['agreed']), (1, False))  # one of three: it might lie
            self.assertEqual([one.get('why') for one in said['servers']],
                             [None, 'nobody is at port 0', 'a port is a number up to 65535'])
            code, said = query(served.name, nobody, options=('--samples', '2'), timeout=SLOW)
        self.assertEqual((code, said['agreed'], said['server']), (0, True, served.name))
        self.assertEqual(said['servers'][1]['server'], nobody)
        self.assertNotIn('why', said['servers'][0])
        self.assertTrue(said['servers'][1]['why'])

    def test_nobody_answers(self):
        name = f'127.0.0.1:{free_port()}'
        code, said = query(name, options=('--samples', '1'), timeout=BRIEFLY)
        self.assertEqual((code, said), (1, {'agreed': False, 'servers': [
            {'server': name, 'why': 'no answer', 'packets': {}}]}))
        done = clock('watch', name, '--count', '1', '--timeout', '0.05')
        self.assertEqual((done.returncode, done.stdout), (1, f'no time: {name}: no answer\n'))

    def test_ahead_or_behind(self):
        for offset, word in ((+100, 'behind'), (-100, 'ahead')):
            fake = self.fake_by(lambda question, now, by=offset: reply(question, now + by))
            # The offset is as fine as its bound, or nobody could tell what that is good for.
            said = re.search(rf'This clock is (\d+)\.(\d+) s {word}, give or take ([\d.]+) (\w+);',
                             clock('query', fake.name).stdout)
            self.assertIn(said[1], ('99', '100'))
            last = {'s': 0, 'ms': 3, 'us': 6, 'ns': 9}[said[4]]  # decimals, in seconds
            self.assertGreaterEqual(len(said[2]), last + len(said[3].partition('.')[2]))

    def test_tai_is_uncertain_when_the_table_has_expired(self):
        for year, certain in ((2020, True), (2040, False)):
            then = (year - 1970) * 365.25 * 86400
            fake = self.fake_by(lambda question, _, then=then: reply(question, then))
            _, said = query(fake.name, options=('--samples', '1'))
            self.assertEqual(said['tai_certain'], certain, year)
            self.assertEqual(said['tai_ns'] - said['utc_ns'], 37_000_000_000)

    def test_serving_where_somebody_serves_already(self):
        with Served() as served:
            done = clock('serve', served.name)
        self.assertEqual(done.returncode, 1)
        self.assertIn(served.name, done.stderr)

    def test_following_somebody_who_does_not_exist(self):
        done = clock('serve', '127.0.0.1:0', '--follow', 'no.such.host.invalid')
        self.assertEqual(done.returncode, 1)
        self.assertIn('no.such.host.invalid', done.stderr)
        with Served() as first:
            process = subprocess.Popen(
                [MARE, 'clock', 'serve', '127.0.0.1:0', '--follow', 'no.such.host.invalid',
                 '--follow', first.name], text=True, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE)
            self.assertIn('serving on ', process.stdout.readline())
            process.terminate()
            self.assertIn('no.such.host.invalid', process.communicate(timeout=PATIENCE)[1])

    def test_ctrl_c_ends_watch_at_once(self):
        with Served() as served:
            process = subprocess.Popen([MARE, 'clock', 'watch', served.name, '--interval', '3600'],
                                       text=True, stdout=subprocess.PIPE)
            self.assertIn('stratum 10', process.stdout.readline())
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.communicate(timeout=PATIENCE), ('', None))
        self.assertEqual(process.returncode, 0)

    def test_a_terminal_that_cannot_draw_gets_lines(self):
        script = shutil.which('script')
        if not script:
            self.skipTest('script is missing')
        with Served() as served:
            done = subprocess.run(
                [script, '-qec', f'{MARE} clock watch {served.name} --count 2 --interval 0.01',
                 '/dev/null'], capture_output=True, text=True, timeout=60 * SLOW, check=False,
                stdin=subprocess.DEVNULL, env={**os.environ, 'TERM': 'dumb'})
        self.assertNotIn('\033', done.stdout)
        self.assertEqual(len(done.stdout.splitlines()), 2, done.stdout)

    def test_a_key_of_the_wrong_kind_is_called_that(self):
        for command in (('query', '127.0.0.1'), ('serve', '127.0.0.1:0', '--follow', '127.0.0.1')):
            done = clock(*command, '--keys', str(self.keys), '--key', '3')
            self.assertEqual(done.returncode, 2)
            self.assertIn('--key 3: key 3 in', done.stderr)
            self.assertIn('is of the kind SHA1; only AES128 can be used', done.stderr)
            done = clock(*command, '--keys', str(self.keys), '--key', '4')
            self.assertEqual(done.returncode, 2)
            self.assertIn('there is no key 4', done.stderr)

    def test_both_families_are_served(self):
        try:
            served = Served(at='[::]:0')
        except AssertionError as why:
            self.skipTest(str(why))
        with served:
            for host in '127.0.0.1', '[::1]':
                self.assertEqual(query(f'{host}:{served.port}', options=('--samples', '1'))[0], 0)

    def test_the_reference_names_every_option(self):
        text = subprocess.run([MARE, 'help', 'clock'], capture_output=True, text=True, timeout=60,
                              check=False).stdout
        page = (tap.ROOT / 'docs/reference/time.md').read_text(encoding='utf-8')
        for option in re.findall(r'--[a-z]+', text):
            self.assertIn(option, page)


tap.main(__name__)
