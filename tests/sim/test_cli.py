# SPDX-License-Identifier: MIT
"""`mare sim` as people and programs meet it: help, exit codes, JSON, drawings, ShiViz logs."""
import collections
import functools
import json
import math
import os
import pathlib
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import plot_formulas  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
SLOW = int(os.environ.get('MARE_TEST_SLOW', '1'))

# What ShiViz offers for a start; Python wants ?P.
SHIVIZ = re.compile(r'(?P<event>.*)\n(?P<host>\S*) (?P<clock>{.*})')
FAULTY = ('ricart', '--n', '3', '--param', 'repair=0', '--faults', 'crash:1@1000+0')

# Each figure, and what it must say: from the sources, in their numbers.
FIGURES = (
    ('bank-acks', r'^messages +2 sent \(2 CAST\)', 'SF 1,111, NY 1,111: equal'),
    ('bank-total', 'SF 1,111, NY 1,111: equal', '4 sent'),
    ('bank-unordered', 'SF 1,111, NY 1,110'),
    ('broadcast-lan', r'central +3 +3 +2$', r'ricart +14 +8 +1$', r'majority +21 +9 +2$'),
    ('bully-eight', r'p4 +-> p5 .*ELECTION', r'p5 +-> p4 .*OK', r'p6 +-> p5 .*OK',
     r'p6 +elected p6', r'p0 +elected p6', r'p4 +elected p6', r'p7 +restarted[^$]*p4 +elected p7'),
    ('bully-one-way', r'p0 +elected p0 4$', r'p3 +elected p3 7$', r'p0 +elected p3 11$',
     'one leader: kept'),
    ('causal-three', r'P0 +multicast +\[idle \(1,0,0\)\]', r'P2 +<- P1 .*\[idle \(0,0,0\)\]',
     r'P2 +mark held back', r'P2 +deliver P0 1 "m"\n.*P2 +deliver P1 2 "m\*"'),
    ('central-queue', r'p1 +granted 1\n', r'p3 +mark queued', r'p3 +-> p2 .*GRANT',
     r'3\.00 messages; the formula 3'),
    ('central-takeover', r'p3 +crashed', r'p2 +mark takes over', r'p1 +granted', 'EM2.*: kept'),
    ('central-urgent', r'In the order 1, 4, 2, 3$', r'an entry +3\.00 messages'),
    ('clocks-corrected', r'm3 +60 +61$', r'm4 +69 +70$', r'P1 +timer +\[idle 76\]',
     r'P2 +timer +\[idle 85\]'),
    ('clocks-uncorrected', r'm1 +6 +16$', r'm2 +24 +40$', r'm3 +60 +56 ', r'm4 +64 +54 '),
    ('lamport-tie', r'p0 +mark defers', r'stamp=40[^$]*p0 +granted[^$]*p1 +granted'),
    ('ricart-41-and-34', r'stamp=41', r'stamp=34', r'p2 +mark defers',
     r'p2 +granted[^$]*p1 +granted'),
    ('ricart-8-and-12', r'stamp=8$', r'stamp=12$', r'p0 +mark defers',
     r'p0 +granted[^$]*p2 +granted'),
    ('ricart-crash', r'p2 +crashed', 'VIOLATED  EM2'),
    ('ricart-repaired', r'p2 +crashed', r'p0 +-> p1 .*DENY', r'p0 +granted[^$]*p1 +granted',
     'EM2.*: kept'),
    ('ring-one-round', r'17 sent \(10 ELECTION, 7 COORDINATOR\)', r'p5 +mark swallows',
     r'p2 +elected p6', r'p2 +view 14: p5 p6 p0 p1 p2 p3 p4$'),
    ('ring-two-rounds', r'28 sent \(14 ELECTION, 14 COORDINATOR\)', r'p2 +elected p6',
     r'p5 +elected p6', r'p3 +view 14: p2 p3 p4 p5 p6 p0 p1$'),
    ('superpeer-prefix', r'^01001110 +01000000 +01000000$', r'^N = 256.* 8 superpeers.* 32 nodes'),
    ('superpeer-repulsion', r'mark moves a token', r'set proportion: superpeers +8 +8$'),
    ('token-lost', r'p1 +crashed', r'p3 +mark makes a token', r'p3 +granted', 'EM1, EM2.*: kept'),
    ('token-ring', r'p0 +-> p1 .*TOKEN', r'p7 +-> p0 .*TOKEN', r'p2 +granted 1$', r'p5 +granted 2$',
     r'p2 +granted 3$'),
    ('two-inside', 'VIOLATED  EM1', 'each side counts for itself'),
    ('vectors-concurrent', r'P2 +mark receives 2 \(1,1,0\)', r'P3 +mark sends 3 \(0,0,3\)',
     r'P2 +mark sends 3 \(1,2,0\)'),
    # m, then m*, at those that lacked m; n and n* at nobody that survives.
    ('views-causal', r'p2 +mark held back', r'p4 +deliver p0 1 "m"\n.*p4 +deliver p1 2 "m\*"',
     r'delivered 14 multicasts', r'p4 +view 3: p3 p4', r'promises +FIFO, causal, atomic: kept'),
    ('views-crash', r'p2 +deliver p0 1 "m"', r'p3 +deliver p0 1 "m"', r'p3 +view 3: p2 p3'),
    ('views-total', r'p2 +deliver p0 1 "deposit"\n.*p2 +deliver p1 2 "interest"',
     r'balance +p1 1122, p2 1122', r'promises +FIFO, causal, total, atomic: kept'),
    ('voting-replicas', r'11-0 is with 4, 11-1\s+with 2, 11-2\s+with 1', r'p3 +mark backs off',
     r'18 sent'),
    ('voting-risk', 'VIOLATED  EM1', r'n = 32, m = 24.* 2\.1e-43$'),
    ('wireless-ten', r'h +-> g .*REPORT id=10 best=7 capacity=8',
     r'g +-> b .*REPORT id=10 best=7 capacity=8', r'a +elected h', r'j +elected h',
     # the tree of the figure, on the map: from g to e and on to f, from h to i
     r'a4 .* g2 [* ]+ e1 [* ]+ f4 ', r'j4 .*\(h8\) [* ]+i5 '),
)


# Messages and delay, least and most, of a group of n: as the sources give them, and for what they
# do not give as it follows from the rules. None is without end.
COSTS = {
    'central': lambda n: ([3, 3], [2, 2]),
    'voting': lambda n: ([3 * votes(n)] * 2, [2 * votes(n)] * 2),
    'ricart': lambda n: ([2 * (n - 1)] * 2, [2 * (n - 1)] * 2),
    'majority': lambda n: ([3 * (n - 1)] * 2, [n - 1 + n // 2] * 2),
    'token': lambda n: ([1, None], [0, n - 1]),
    'bully': lambda n: ([n - 1, (n - 1) * (n + 1)], [1, 2]),
    'ring': lambda n: ([2 * n] * 2, [2 * n - 1] * 2),
    'wireless': lambda n: ([3 * (n - 1) ** 2] * 2, [5 if n > 2 else 3] * 2),
    'superpeer-tokens': lambda n: ([n, n], None),
    'fifo': lambda n: ([n - 1] * 2, [1, 1]),
    'causal': lambda n: ([n - 1] * 2, [1, 1]),
    'total': lambda n: ([n * (n - 1)] * 2, [2, 2]),
    'views': lambda n: ([2 * (n - 1)] * 2, [1, 1]),
}


def votes(n):
    """m: three quarters of the replicas, and more than half."""
    return max(3 * n // 4, n // 2 + 1)


# The words of the documentation, and what `mare sim list` says for them.
FAULTS = (
    ('slowness', {'any order', 'pauses', 'drift'}),
    ('loss', {'loss', 'duplication', 'partitions'}),
    ('deaths', {'crashes', 'loss of memory', 'churn'}),
    ('crashes with memory', {'crashes'}),
    ('of all', {'a crash of all'}),
    ('wrong detectors', {'false suspicion'}),
)


def tolerated(cell, page):
    """The faults in a cell of the table in docs/reference/coord.md."""
    other = re.search(r'as `([\w-]+)`', cell)
    if other:
        line = re.search(rf'^\| `{other[1]}` \|.*', page, re.M)[0]
        return tolerated(line.split('|')[3], page)
    return set().union(*(faults for words, faults in FAULTS if words in cell))


@functools.lru_cache(maxsize=None)
def figure(name):
    """What a figure prints, and how it ends."""
    return sim(name)


def sim(*args, folder=None):
    return subprocess.run([MARE, 'sim', *args], capture_output=True, text=True, timeout=120 * SLOW,
                          cwd=folder, check=False)


def read_all(terminal):
    """What was written to a terminal that nobody has open any more: its end is an error."""
    text = b''
    try:
        while chunk := os.read(terminal, 65536):
            text += chunk
    except OSError:
        pass
    os.close(terminal)
    return text


class Sim(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def algorithms(self):
        text = sim('list').stdout.split('Figures')[0]
        return re.findall(r'^([a-z][\w-]*) ', text, re.M)

    def test_help_names_every_option(self):
        text = subprocess.run([MARE, 'help', 'sim'], capture_output=True, text=True, timeout=60,
                              check=False).stdout
        page = (tap.ROOT / 'docs/reference/sim.md').read_text(encoding='utf-8')
        for option in re.findall(r'--[a-z]+', text):
            self.assertIn(option, page)
        self.assertIn('--seeds', text)

    def test_list_tells_what_each_promises(self):
        text = sim('list').stdout
        self.assertIn('ricart', self.algorithms())
        self.assertEqual(text.count('promises:'), len(self.algorithms()))
        self.assertEqual(text.count('tolerates:'), len(self.algorithms()))

    def test_the_list_fits_in_100_columns(self):
        lines = sim('list').stdout.splitlines()
        self.assertLessEqual(max(map(len, lines)), 100)
        self.assertIn('false suspicion', ' '.join(lines))
        listed = json.loads(sim('list', '--json').stdout)
        for row in listed['algorithms'] + listed['figures']:  # nothing is lost where lines break
            self.assertIn(row['title'], ' '.join(' '.join(lines).split()))
        self.assertEqual(sim('list', '--names').stdout.split(),
                         [row['name'] for row in listed['algorithms'] + listed['figures']])

    def test_help_wherever_it_is_asked_for(self):
        text = sim('--help').stdout
        self.assertEqual(sim('-h').stdout, text)
        self.assertEqual(sim('help').stdout, text)
        self.assertEqual(sim('two-inside', '--help').stdout, text)
        for args in (('ricart', '--help'), ('ricart', '--n', '3', '-h')):
            done = sim(*args)
            self.assertEqual(done.returncode, 0)
            self.assertIn('repair=1', done.stdout)
            self.assertTrue(done.stdout.endswith(text))

    def test_what_help_says_fails_does(self):
        lines = re.findall(r'^  mare sim (.*?)(?:  .*)?$', sim('--help').stdout.split('Try')[1],
                           re.M)
        self.assertEqual(len(lines), 3)
        self.assertEqual([sim(*line.split(), folder=self.path).returncode for line in lines],
                         [0, 0, 1])

    def test_the_documentation_knows_all_that_can_be_reported(self):
        rows = (tap.ROOT / 'sim/check.c').read_text(encoding='utf-8').split('mare_sim_promises[]')
        page = (tap.ROOT / 'docs/reference/sim.md').read_text(encoding='utf-8')
        section = page.split('## What can be reported')[1].split('\n## ')[0]
        names = re.findall(r'^    "([A-Z0-9-]+)"', rows[1].split('NULL')[0], re.M)
        self.assertGreater(len(names), 15)
        self.assertEqual([name for name in names if f'`{name}`' not in section], [])

    def test_wrong_usage_is_2_and_says_why(self):
        for args, word in ((('nobody',), 'nobody'), (('ricart', '--n', '0'), '--n'),
                           (('ricart', '--n', 'x'), '--n'),
                           (('ricart', '--loss', '101%'), '--loss'),
                           (('ricart', '--param', 'x=1'), "'x'"), (('ricart', '--what'), '--what'),
                           (('ricart', '--param', 'repair=7'), 'not 7'),
                           (('ricart', '--faults', 'flood:1@2+3'), 'flood'), ((), 'usage'),
                           (('ricart', 'central'), 'central'), (('ricart', '--n'), '--n')):
            done = sim(*args)
            self.assertEqual(done.returncode, 2, args)
            if args:
                self.assertIn(word, done.stderr)
            self.assertEqual(done.stdout, '')

    def test_errors_say_what_would_be_right(self):
        for args, word in ((('rikart',), "is it 'ricart'"), (('bully-eigth',), "'bully-eight'"),
                           (('xyz',), "'mare sim list'"),
                           (('ricart', '--n', '0'), "from 1 to 65536, not '0'"),
                           (('ricart', '--loss', '200%'), 'per cent'),
                           (('ricart', '--param', 'retry=3'), 'but repair, retry_us'),
                           (('ricart', '--param', 'retry_us=0'), 'is 1 to'),
                           (('ricart', '--param', 'retry_us'), 'NAME=NUMBER'),
                           (('two-inside', '--param', 'retry_us=x'), 'NAME=NUMBER'),
                           (('ricart', '--param', 'retry_us=99999999999999999999'), 'NAME=NUMBER'),
                           (('ricart', '--faults', 'crash:1@5'), "'crash:1@5' lacks"),
                           (('ricart', '--faults', 'crash:1@5+x'), "from 'x' on; a fault is KIND"),
                           (('ricart', '--draw', 'x.png'), '.html or .svg'),
                           (('--table', '--json', '--n', '3'), "not '--n'")):
            done = sim(*args, folder=self.path)
            self.assertEqual((done.returncode, done.stdout), (2, ''), args)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stderr.count('\n'), 1)

    def test_options_that_would_do_nothing_are_refused(self):
        for args in (('--table', '--seed', '3'), ('--table', '--seeds', '3'),
                     ('--table', '--loss', '1%'), ('--table', '--draw', 'x.svg'),
                     ('--speed', '--seeds', '3'), ('--speed', '--trace'), ('--speed', '--table'),
                     ('--json', '--trace'), ('--from', '5'), ('--seed', '3', '--to', '5'),
                     ('--draw', 'x.svg', '--from', '9', '--to', '5'),
                     ('--seed', '9223372036854775807', '--seeds', '2')):
            done = sim('ricart', *args, folder=self.path)
            self.assertEqual((done.returncode, done.stdout), (2, ''), args)
        self.assertEqual(list(self.path.iterdir()), [])
        last = sim('ricart', '--seed', '9223372036854775807', '--seeds', '1', '--json')
        self.assertGreater(json.loads(last.stdout)['entries'], 0)

    def test_what_cannot_be_run_is_2_and_says_what_could(self):
        for args, word in ((('views', '--n', '5000'), 'views'),
                           (('causal', '--n', '20000'), 'causal'),
                           (('views', '--n', '5000', '--table'), 'views'),
                           (('views', '--n', '5000', '--speed'), 'views'),
                           (('views', '--n', '5000', '--seeds', '2'), 'views'),
                           (('ricart', '--n', '3', '--faults', 'crash:7@1+1'), '0 to 2'),
                           (('ricart', '--n', '3', '--faults', 'partition:0.9@1+1'), '0 to 2'),
                           (('ricart', '--n', '3', '--faults', 'burst:500@1+1'), '1 to 100'),
                           (('ricart', '--n', '3', '--faults', 'burst:0@1+1'), '1 to 100'),
                           (('ricart', '--n', '3', '--faults', 'join:1@1+1'), 'not a member'),
                           (('ricart', '--n', '3', '--faults', 'join:65536@1+1'), 'not a member'),
                           (('ricart', '--faults', 'crash:1@18446744073709551617+1'), '--faults'),
                           (('ricart', '--faults', 'crash:1@1+18446744073709551615'), '--faults')):
            done = sim(*args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stdout, '')
        path = self.path / 'mine.lua'
        path.write_text('return {algorithm = "views", n = 5000}')
        self.assertEqual(sim(str(path)).returncode, 2)

    def test_somebody_joins_a_calm_run(self):
        text = sim('ricart', '--n', '3', '--rounds', '9', '--trace', '--faults',
                   'join:4@2000+0').stdout
        self.assertRegex(text, r'p4 +joined')
        self.assertRegex(text, r'p4 +granted')

    def test_a_calm_run_of_each_keeps_its_promises(self):
        for name in self.algorithms():
            done = sim(name)
            self.assertEqual(done.returncode, 0, done.stdout[-2000:])
            self.assertIn('kept', done.stdout)

    def test_same_seed_same_text(self):
        for name in self.algorithms():
            once, twice = sim(name, '--seed', '5', '--trace'), sim(name, '--seed', '5', '--trace')
            self.assertEqual(once.stdout, twice.stdout)

    def test_json(self):
        figures = json.loads(sim('ricart', '--n', '5', '--json').stdout)
        self.assertEqual(figures['grants'], 5)
        self.assertEqual(figures['sent'], sum(figures['by_kind'].values()))
        self.assertEqual(figures['formula_messages'], 8)
        self.assertIsNone(figures['violation'])
        self.assertIsNone(json.loads(sim('ricart', '--seeds', '20', '--json').stdout)['violation'])
        self.assertEqual(json.loads(sim(*FAULTY, '--json').stdout)['violation'], 'EM2')

    def test_a_violation_is_1_and_replays(self):
        done = sim(*FAULTY, '--seeds', '5', folder=self.path)
        self.assertEqual(done.returncode, 1)
        replay = re.search(r'replay +mare sim (.*)', done.stdout)[1]
        violated = re.search(r'VIOLATED .*', done.stdout)[0]
        again = sim(*shlex.split(replay))
        self.assertEqual(again.returncode, 1)
        self.assertIn(violated, again.stdout)
        self.assertEqual(len(list(self.path.glob('mare-sim-ricart-*.html'))), 1)

    def test_what_went_wrong_once_keeps_its_promises(self):
        lines = (tap.ROOT / 'tests/sim/replays.txt').read_text(encoding='utf-8').splitlines()
        runs = [line for line in lines if line and not line.startswith('#')]
        self.assertGreater(len(runs), 3)
        for line in runs:
            run = sim(*shlex.split(line))
            self.assertEqual((run.returncode, run.stderr), (0, ''),
                             f'mare sim {line}\n{run.stdout}')

    def test_the_line_that_repeats_a_run_has_its_rounds(self):
        seeds = ('ricart', '--n', '3', '--param', 'repair=0', '--rounds', '2')
        done = sim(*seeds, '--seeds', '50', '--loss', '1%', folder=self.path)
        self.assertEqual(done.returncode, 1, done.stdout)
        replay = re.search(r'replay +mare sim (.*)', done.stdout)[1]
        self.assertIn('--rounds 2', replay)
        time, messages, *_ = re.findall(r'^(?:time|messages) .*', done.stdout, re.M)
        again = sim(*shlex.split(replay)).stdout
        self.assertIn(time, again)
        self.assertIn(messages, again)
        self.assertIn(re.search(r'VIOLATED .*', done.stdout)[0], again)

    def test_no_bar_where_there_is_no_terminal(self):
        self.assertEqual(sim('ricart', '--seeds', '50').stderr, '')

    def test_the_bar_fits_in_80_columns(self):
        mine = self.scenario('algorithm = "ricart"')
        for name in ('ricart', mine):
            ours, theirs = pty.openpty()
            subprocess.run([MARE, 'sim', name, '--seeds', '100'], stdout=subprocess.DEVNULL,
                           stderr=theirs, timeout=60, check=True)
            os.close(theirs)
            text = read_all(ours).decode()
            lines = re.split(r'[\r\n]+', text)
            self.assertGreater(len(lines), 50)
            self.assertLess(max(map(len, lines)), 80)
            self.assertIn('of 100 seeds', text)

    def test_tables_equal_the_formulas(self):
        """The tables, printed, beside the formulas of the sources as they are written here."""
        done = sim('--table')
        self.assertEqual(done.returncode, 0, done.stdout)
        print('\n'.join(f'# {line}' for line in done.stdout.splitlines()))
        self.assertNotIn('≠', done.stdout)
        tables = json.loads(sim('--table', '--json').stdout)
        self.assertEqual([table['algorithm'] for table in tables], self.algorithms())
        for table in tables:
            name = table['algorithm']
            if not table['rows']:  # an estimate, which is not compared
                self.assertNotIn(name, COSTS)
                continue
            self.assertEqual([row['n'] for row in table['rows']],
                             [*range(2, 11), *range(20, 101, 10), 150, 200])
            for row in table['rows']:
                self.check_cost(name, row)

    def check_cost(self, name, row):
        n, where = row['n'], f'{name}, n = {row["n"]}'
        self.assertTrue(row['agrees'], where)
        if name == 'superpeer-dht':
            self.assertLessEqual(row['messages_most'], 8 + 2, where)  # m = 8 bits
            return
        messages, delay = COSTS[name](n)
        self.assertEqual([row['messages_least'], row['messages_most']], messages, where)
        if delay:
            self.assertEqual([row['delay_least'], row['delay_most']], delay, where)

    def test_one_row_of_a_table(self):
        text = sim('ricart', '--table', '--n', '17').stdout
        self.assertRegex(text, r'\n   17 +32 = +32 +32 = +32\n$')
        text = sim('token', '--table', '--n', '9').stdout
        self.assertRegex(text, r'\n    9 +1 … ∞ = +1 … ∞ +0 … 8 = +0 … 8\n$')
        self.assertEqual(sim('--table', '--n', '4').returncode, 2)

    def test_a_formula_in_words_is_the_one_in_numbers(self):
        """With every setting that changes it: the text, worked out here, is the number."""
        for name, *settings in (('central',), ('ricart',), ('majority',), ('ring',), ('wireless',),
                                ('total',), ('berkeley',), ('fifo', 'repair=0'),
                                ('fifo', 'repair=1'), ('causal', 'repair=0'),
                                ('causal', 'repair=1'),
                                ('views', 'order=0'), ('views', 'order=1'), ('views', 'order=2')):
            params = [word for setting in settings for word in ('--param', setting)]
            run = json.loads(sim(name, '--n', '7', '--json', *params).stdout)
            text = re.sub(r'(?<=[\dn)])(?=[n(])', '*', run['formula']).replace('^', '**')
            self.assertEqual(eval(text, {'n': 7}), run['formula_messages'], (name, settings))
        table = sim('views', '--table', '--n', '7', '--param', 'order=2').stdout
        self.assertRegex(table, r'messages +n\(n-1\) +delay +2\n')
        table = sim('fifo', '--table', '--n', '7').stdout  # without repair, as all tables
        self.assertRegex(table, r'messages +n-1 +delay +1\n')

    def test_the_list_knows_settings_that_change_the_cost(self):
        rows = {row['name']: row for row in json.loads(sim('list', '--json').stdout)['algorithms']}
        self.assertEqual(rows['views']['messages'], '2(n-1) (order=2: n(n-1))')
        self.assertEqual(rows['views']['delay'], '1 (order=2: 2)')
        self.assertEqual(rows['fifo']['messages'], 'n-1 (repair=1: 2(n-1))')
        self.assertEqual(rows['ricart']['messages'], '2(n-1)')

    def test_each_order_of_views_has_its_row(self):
        for order, messages, delay in ((0, 2 * 10, 1), (1, 2 * 10, 1), (2, 11 * 10, 2)):
            text = sim('views', '--table', '--n', '11', '--param', f'order={order}').stdout
            self.assertRegex(text, rf'\n   11 +{messages} = +{messages} +{delay} = +{delay}\n$')

    def test_a_round_that_is_measured_is_one_of_all(self):
        """bench/sim.lua: 2(n − 1) messages for each of n, not for one; an election 2n."""
        for name, messages in (('ricart', 20 * 2 * 19), ('ring', 2 * 20)):
            done = subprocess.run([MARE, tap.ROOT / 'bench/sim.lua', 'round', name, '20'],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertRegex(done.stdout, rf'messages {messages}\n$', done.stderr)

    def test_the_plot_is_up_to_date(self):
        """docs/img/messages.svg: as measured now, on the formulas."""
        if SLOW > 1:
            self.skipTest('the same in every build')
        tool = tap.ROOT / 'tools/plot_formulas.py'
        done = subprocess.run([sys.executable, tool, '--check', MARE], capture_output=True,
                              text=True, timeout=120 * SLOW, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        tables = plot_formulas.measure(MARE)
        self.assertEqual(list(plot_formulas.differences(tables)), [])
        tables['ring'][3]['messages_most'] += 1
        tables['central'][0]['agrees'] = False
        self.assertEqual(len(list(plot_formulas.differences(tables))), 2)

    def test_the_documentation_knows_every_algorithm(self):
        """docs/reference/coord.md: each algorithm's costs and bytes, as the program says them."""
        page = (tap.ROOT / 'docs/reference/coord.md').read_text(encoding='utf-8')
        listed = json.loads(sim('list', '--json').stdout)
        self.assertEqual([row['name'] for row in listed['algorithms']], self.algorithms())
        self.assertEqual([row['name'] for row in listed['figures']], self.figures())
        for row in listed['algorithms']:
            lines = re.findall(rf'^\| `{row["name"]}` \|.*', page, re.M)
            self.assertEqual(len(lines), 2, row['name'])  # what it is, and its bytes
            member = (row['bytes']['100'][0] - row['bytes']['16'][0]) / (100 - 16)
            self.assertEqual(lines[0].split('|')[6].strip(), f'{member:,.0f}', row['name'])
            self.assertEqual(tolerated(lines[0].split('|')[3], page),
                             set(row['tolerates'].split(', ')), row['name'])
            if 'leader' not in row['promises'] and row['promises'] != 'nothing':
                promised = lines[0].split('|')[2].strip().replace('atomic views', 'atomic')
                self.assertEqual(promised, row['promises'])
            cells = [' + '.join(map(str, row['bytes'][n])) for n in ('5', '16', '100')]
            self.assertEqual(lines[1], f'| `{row["name"]}` | {" | ".join(cells)} |')

    def test_each_algorithm_cites_its_source_and_states_its_assumptions(self):
        """In the first paragraph of its file, before any code."""
        heads = [path.read_text(encoding='utf-8') for path in (tap.ROOT / 'src/coord').rglob('*.c')]
        heads = [text.split('#include')[0] for text in heads if re.search(
            r'^const mare_coord_algorithm mare_coord_', text, re.M)]
        self.assertEqual(len(heads), len(self.algorithms()))
        for head in heads:
            self.assertRegex(head, r'Sources?:', head[:200])
            self.assertRegex(head, r'Assumes', head[:200])

    def test_svg_is_xml_and_complete(self):
        for name in self.algorithms():
            for seed in ((), ('--seed', '3')):
                path = self.path / 'out.svg'
                self.assertEqual(sim(name, *seed, '--draw', str(path)).returncode, 0)
                root = xml.etree.ElementTree.parse(path).getroot()
                self.assertTrue(root.tag.endswith('svg'))
                self.assertGreater(len(list(root.iter())), 20)

    def test_html_fetches_nothing(self):
        path = self.path / 'out.html'
        sim('central', '--seed', '7', '--draw', str(path))
        text = path.read_text(encoding='utf-8')
        self.assertNotRegex(text, r'(src|href)=|@import|url\(')
        for word in ('class="m ', 'class="e ', 'class="s inside"', 'data-t="', '</html>'):
            self.assertIn(word, text)

    def test_views_are_drawn(self):
        path = self.path / 'out.svg'
        sim('views-crash', '--draw', str(path))
        self.assertRegex(path.read_text(encoding='utf-8'), r'class="w view"[^>]*>view 3: p2 p3<')

    def test_a_drawing_shows_no_more_than_can_be_read(self):
        path = self.path / 'out.html'
        for args in (('--rounds', '5'), ('--param', 'repair=0', '--faults', 'crash:1@90000+0',
                                         '--rounds', '30')):
            sim('ricart', '--n', '20', *args, '--draw', str(path))
            text = path.read_text(encoding='utf-8')
            shown = int(re.search(r'(\d+) messages are shown', text)[1])
            self.assertLessEqual(shown, 500)
            self.assertGreater(shown, 400)

    def test_the_legend_has_every_shape(self):
        path = self.path / 'out.html'
        sim('ricart', '--draw', str(path))
        legend = path.read_text(encoding='utf-8').split('class="scroll"')[0]
        for shape in ('asks', 'got', 'timer', 'lost', 'way'):
            self.assertIn(f'class="shape {shape}"', legend)

    def test_faults_are_drawn(self):
        path = self.path / 'out.svg'
        sim('central', '--n', '4', '--draw', str(path), '--rounds', '9', '--faults',
            'crash:3@9000+20000,partition:0.1@30000+20000,pause:2@12000+5000')
        text = path.read_text(encoding='utf-8')
        for word in ('class="cut"', 'class="side"', 'class="crash"', ' lost"', 's paused"'):
            self.assertIn(word, text)

    def test_what_cuts_nobody_off_is_not_drawn(self):
        """Seeds draw such faults too, and half a page would be shaded for nothing."""
        path = self.path / 'out.svg'
        for faults, cuts in (('partition:0@500+9000', 1), ('partition:0.1@500+9000', 0),
                             ('one-way:0.1@500+9000', 0), ('partition:@500+9000', 0)):
            sim('ricart', '--n', '2', '--faults', faults, '--draw', str(path))
            self.assertEqual(path.read_text(encoding='utf-8').count('class="cut"'), cuts, faults)

    def test_a_file_that_cannot_be_written(self):
        done = sim('ricart', '--draw', '/nowhere/out.html')
        self.assertEqual(done.returncode, 2)
        self.assertIn('/nowhere/out.html', done.stderr)

    def figures(self):
        return sorted(path.stem for path in (tap.ROOT / 'lua/mare/figures').glob('*.lua'))

    def test_figures_say_what_the_sources_say(self):
        """Numbers from the books, not from a run: what each figure must show."""
        for name, *words in FIGURES:
            text = figure(name).stdout
            for word in words:
                self.assertRegex(text, re.compile(word, re.M), name)
        self.assertEqual(sorted({row[0] for row in FIGURES}), self.figures())

    def test_figures_teach(self):
        """Each has a title, words about it, and remarks along the trace."""
        for name in self.figures():
            text = figure(name).stdout
            self.assertGreater(len(text.split('\n\n')[0].splitlines()), 2, name)
            self.assertGreaterEqual(len(re.findall(r'^# ', text, re.M)), 1, name)

    def test_figures_can_be_drawn(self):
        for name in self.figures():
            for kind in ('svg', 'html') if SLOW == 1 else ('html',):  # the text is the same
                path = self.path / f'figure.{kind}'
                self.assertEqual(sim(name, '--draw', str(path)).returncode, 0, name)
                text = path.read_text(encoding='utf-8')
                self.assertIn('class="note"', text, name)
                if kind == 'svg':
                    xml.etree.ElementTree.fromstring(text)

    def map_of(self, name):
        """The panels of a figure's map: for each, its texts, and how many shapes of each class."""
        path = self.path / 'map.svg'
        done = sim(name, '--map', str(path))
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        panels = []
        for group in xml.etree.ElementTree.parse(path).findall('{*}g'):
            shapes = collections.Counter(
                shape.get('class', shape.tag.split('}')[1])
                for shape in group if not shape.tag.endswith('text'))
            panels.append(([text.text for text in group.findall('{*}text')], shapes))
        return panels

    def test_the_map_of_an_election(self):
        """Figure 6.21: a tree over ten nodes has nine edges, and h tells g of itself, 8."""
        panels = self.map_of('wireless-ten')
        self.assertEqual([shapes['tree'] for _, shapes in panels], [0, 2, 4, 7, 9, 0])
        self.assertEqual([shapes['link'] for _, shapes in panels], [13] * 6)
        self.assertEqual(panels[5][1]['way'], 9)  # each but a reports
        self.assertEqual(panels[5][0].count('h, 8'), 3)  # h to g, g to b, b to a
        self.assertEqual([shapes['leader'] for _, shapes in panels], [0] * 5 + [1])

    def test_the_map_of_tokens(self):
        """Figure 6.22: two tokens move, and where they rest are two superpeers of seven others."""
        panels = self.map_of('superpeer-repulsion')
        self.assertEqual([shapes['token'] for _, shapes in panels], [2, 2, 0])
        self.assertEqual([shapes['way'] for _, shapes in panels], [0, 2, 0])
        self.assertEqual((panels[2][1]['leader'], panels[2][1]['weak']), (2, 7))

    def test_a_map_that_is_not_there(self):
        for words, reason in ((('ricart', '--map', 'x.svg'), 'only some figures'),
                              (('bully-eight', '--map', 'x.svg'), 'has no map'),
                              (('wireless-ten', '--map', 'x.png'), '.svg'),
                              (('wireless-ten', '--seeds', '2', '--map', 'x.svg'), 'one run'),
                              (('wireless-ten', '--map', '/nowhere/x.svg'), '/nowhere')):
            done = sim(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(reason, done.stderr)

    def test_the_risk_of_voting(self):
        """The figure's table beside the formula of the book, worked out here a second time."""
        text = figure('voting-risk').stdout
        rows = re.findall(r'^ *(\d+) +(\d+) +(0\.\d+) +(0\.\d+) +(0\.\d+)$', text, re.M)
        runs = int(re.search(r'\((\d+) runs', text)[1])
        self.assertEqual(len(rows), 4)
        for n, m, *numbers in rows:
            n, m = int(n), int(m)
            p, computed, measured = map(float, numbers)
            risk = sum(math.comb(m, k) * p ** k * (1 - p) ** (m - k)
                       for k in range(2 * m - n, m + 1))
            self.assertAlmostEqual(computed, risk, delta=0.0006)
            self.assertLess(abs(measured - risk), 4 * math.sqrt(risk * (1 - risk) / runs))

    def test_figures_are_golden(self):
        """MARE_GOLDEN=write rewrites them: read what they say before you believe it."""
        names = self.figures()
        listed = sim('list').stdout.split('Figures')[1]
        for name in names:
            done = figure(name)
            self.assertEqual(done.returncode, 0, f'{name}: {done.stderr}')
            self.assertRegex(listed, rf'\n  {name} +\w')
            golden = tap.ROOT / 'tests/golden/sim' / f'{name}.txt'
            if os.environ.get('MARE_GOLDEN') == 'write':
                golden.parent.mkdir(parents=True, exist_ok=True)
                golden.write_text(done.stdout, encoding='utf-8')
            self.assertEqual(golden.read_text(encoding='utf-8'), done.stdout, name)

    def test_a_scenario_of_ones_own(self):
        path = self.path / 'mine.lua'
        path.write_text('return {algorithm = "ricart", n = 2, requests = {{0, "enter"}}}')
        self.assertEqual(json.loads(sim(str(path), '--json').stdout)['sent'], 2)
        picture = self.path / 'mine.svg'
        self.assertEqual(sim(str(path), '--draw', str(picture)).returncode, 0)
        xml.etree.ElementTree.parse(picture)

    def test_an_algorithm_that_does_not_say_what_it_costs(self):
        mine = self.scenario("""algorithm = {name = "mine", family = "mutex", messages = {{"ASK"}},
            init = function() end, receive = function() end, exit = function() end,
            enter = function(self) self:grant() end}, n = 1, requests = {{0, "enter"}}""")
        self.assertRegex(sim(mine).stdout, r'\nan entry +0\.00 messages\n')

    def test_a_scenario_that_makes_no_sense(self):
        path = self.path / 'mine.lua'
        for text, word in (('return 1', 'table'), ('x =', 'mine.lua'),
                           ('return {algorithm = "none"}', 'none'),
                           ('return {algorithm = "ricart", n = 0}', '`n`'),
                           ('return {algorithm = "ricart", requests = {{9, "enter"}}}', 'below'),
                           ('return {algorithm = "ricart", requests = {{0, "sing"}}}', 'sing'),
                           ('return {algorithm = "ricart", faults = "flood"}', 'flood'),
                           ('return {algorithm = "ricart", params = {x = 1}}', "'x'"),
                           ('return {algorithm = "ricart", route = function() error "no!" end}',
                            'no!')):
            path.write_text(text)
            done = sim(str(path))
            self.assertEqual(done.returncode, 2, text)
            self.assertIn(word, done.stderr)

    def scenario(self, text):
        path = self.path / 'mine.lua'
        path.write_text(f'return {{{text}}}')
        return str(path)

    def test_a_scenario_does_what_options_say(self):
        mine = self.scenario('algorithm = "ricart", params = {repair = 0}, settle_us = 0')
        figures = json.loads(sim(mine, '--n', '5', '--rounds', '2', '--json').stdout)
        self.assertEqual((figures['n'], figures['grants'], figures['sent']), (5, 10, 10 * 2 * 4))
        figures = json.loads(sim(mine, '--loss', '100%', '--duplicate', '7', '--param', 'repair=1',
                                 '--faults', 'crash:1@5+5', '--json').stdout)
        self.assertEqual((figures['loss_ppm'], figures['duplicate_ppm'], figures['lost']),
                         (1000000, 7, figures['sent']))
        self.assertEqual((figures['params']['repair'], figures['faults']), (1, 'crash:1@5+5'))
        for args, word in ((('--table',), '--table'), (('--speed',), '--speed'),
                           (('--param', 'x=1'), "'x'"), (('--faults', 'crash:9@1+1'), '0 to'),
                           (('--seeds', '2', '--faults', 'crash:9@1+1'), '0 to')):
            for name in (mine, 'two-inside'):
                done = sim(name, *args, folder=self.path)
                self.assertEqual((done.returncode, done.stdout), (2, ''), (name, args))
                self.assertIn(word, done.stderr)

    def test_a_sweep_of_a_scenario_is_like_one_of_an_algorithm(self):
        mine = self.scenario('algorithm = "ricart", params = {repair = 0}')
        done = sim(mine, '--seeds', '20', '--loss', '5%', folder=self.path)
        self.assertEqual((done.returncode, done.stderr), (1, ''))
        self.assertRegex(done.stdout, r'shrunk from \d+ faults to \d+ in \d+ runs')
        self.assertEqual(len(list(self.path.glob('mare-sim-mine-*.html'))), 1)
        again = sim(*shlex.split(re.search(r'replay +mare sim (.*)', done.stdout)[1]),
                    folder=self.path)
        self.assertEqual(again.returncode, 1)
        for line in re.findall(r'^(?:time|messages|VIOLATED) .*', done.stdout, re.M):
            self.assertIn(line, again.stdout)
        picture = self.path / 'mine.svg'
        done = sim(mine, '--seeds', '20', '--loss', '5%', '--json', '--draw', str(picture))
        self.assertEqual(json.loads(done.stdout)['violation'], 'EM2')
        self.assertIn('mare sim', done.stderr)
        xml.etree.ElementTree.parse(picture)

    def test_a_sweep_of_a_scenario_that_keeps_its_promises(self):
        mine = self.scenario('algorithm = "ricart"')
        one, two = sim(mine, '--seeds', '9', '--json'), sim('ricart', '--seeds', '9', '--json')
        one, two = json.loads(one.stdout), json.loads(two.stdout)
        for name in ('seeds', 'entries', 'messages', 'lost', 'violation'):
            self.assertEqual(one[name], two[name])
        self.assertEqual(sim(mine, '--seeds', '9').returncode, 0)

    def test_a_sweep_of_what_is_to_break(self):
        mine = self.scenario('algorithm = "ricart", params = {repair = 0}, expect = "EM2", '
                             'network = {loss_ppm = 300000}')
        done = sim(mine, '--seeds', '3')
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn('EM2 is broken in 3', done.stdout)
        self.assertEqual(sim(self.scenario('algorithm = "ricart", expect = "EM2"'),
                             '--seeds', '3').returncode, 1)

    def test_an_error_in_a_scenario_is_2_in_a_sweep_too(self):
        mine = self.scenario('algorithm = "ricart", route = function() error "no!" end')
        for args in ((), ('--seeds', '3')):
            done = sim(mine, *args)
            self.assertEqual(done.returncode, 2)
            self.assertIn('no!', done.stderr)

    def test_shiviz_reads_its_log(self):
        for name in self.algorithms():
            self.check_shiviz(name)

    def check_shiviz(self, name):
        path = self.path / 'out.log'
        self.assertEqual(sim(name, '--seed', '3', '--shiviz', str(path)).returncode, 0)
        text = path.read_text(encoding='utf-8')
        events = list(SHIVIZ.finditer(text))
        self.assertEqual(2 * len(events), text.count('\n'))
        own = {}
        seen = {}
        for event in events:
            host, clock = event['host'], json.loads(event['clock'])
            self.assertEqual(clock[host], own.get(host, 0) + 1)
            own[host] = clock[host]
            for other, count in clock.items():  # nobody knows what has not happened
                self.assertLessEqual(count, own.get(other, 0))
            seen[host] = clock
        self.assertGreater(len(seen), 1)


tap.main(__name__)
