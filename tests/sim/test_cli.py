# SPDX-License-Identifier: MIT
"""`mare sim` as people and programs meet it: help, exit codes, JSON, drawings, ShiViz logs."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())

# What ShiViz offers for a start; Python wants ?P.
SHIVIZ = re.compile(r'(?P<event>.*)\n(?P<host>\S*) (?P<clock>{.*})')
FAULTY = ('ricart', '--n', '3', '--param', 'repair=0', '--faults', 'crash:1@1000+0')


def sim(*args, folder=None):
    return subprocess.run([MARE, 'sim', *args], capture_output=True, text=True, timeout=120,
                          cwd=folder, check=False)


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

    def test_wrong_usage_is_2_and_says_why(self):
        for args, word in ((('nobody',), 'nobody'), (('ricart', '--n', '0'), '--n'),
                           (('ricart', '--n', 'x'), '--n'),
                           (('ricart', '--loss', '101%'), '--loss'),
                           (('ricart', '--param', 'x=1'), 'x=1'), (('ricart', '--what'), '--what'),
                           (('ricart', '--param', 'repair=7'), 'repair=7'),
                           (('ricart', '--faults', 'flood:1@2+3'), 'flood'), ((), 'usage'),
                           (('ricart', 'central'), 'central'), (('ricart', '--n'), '--n')):
            done = sim(*args)
            self.assertEqual(done.returncode, 2, args)
            if args:
                self.assertIn(word, done.stderr)
            self.assertEqual(done.stdout, '')

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
        replay = re.search(r'replay +mare sim (.*)', done.stdout)[1].replace("'", '').split()
        violated = re.search(r'VIOLATED .*', done.stdout)[0]
        again = sim(*replay)
        self.assertEqual(again.returncode, 1)
        self.assertIn(violated, again.stdout)
        self.assertEqual(len(list(self.path.glob('mare-sim-ricart-*.html'))), 1)

    def test_no_bar_where_there_is_no_terminal(self):
        self.assertEqual(sim('ricart', '--seeds', '50').stderr, '')

    def test_table_equals_the_formula(self):
        done = sim('ricart', '--table')
        self.assertEqual(done.returncode, 0)
        self.assertIn('2(n-1)', done.stdout)
        self.assertRegex(done.stdout, r'\n  200 +\d+ +398\.00 +398 =')

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

    def test_faults_are_drawn(self):
        path = self.path / 'out.svg'
        sim('central', '--n', '4', '--draw', str(path), '--rounds', '9', '--faults',
            'crash:3@9000+20000,partition:0.1@30000+20000,pause:2@12000+5000')
        text = path.read_text(encoding='utf-8')
        for word in ('class="cut"', 'class="side"', 'class="crash"', ' lost"', 's paused"'):
            self.assertIn(word, text)

    def test_a_file_that_cannot_be_written(self):
        done = sim('ricart', '--draw', '/nowhere/out.html')
        self.assertEqual(done.returncode, 2)
        self.assertIn('/nowhere/out.html', done.stderr)

    def test_figures_are_golden(self):
        """MARE_GOLDEN=write rewrites them: read what they say before you believe it."""
        names = sorted(path.stem for path in (tap.ROOT / 'lua/mare/figures').glob('*.lua'))
        listed = sim('list').stdout.split('Figures')[1]
        for name in names:
            done = sim(name)
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
