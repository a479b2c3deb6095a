# SPDX-License-Identifier: MIT
"""What the algorithms cost: the tables of `mare sim`, and the documentation of each algorithm."""
import json
import re
import subprocess
import sys

from sim_cli import MARE, SLOW, Sim, sim, tap
import plot_formulas

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


class Costs(Sim):
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


tap.main(__name__)
