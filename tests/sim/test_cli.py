# SPDX-License-Identifier: MIT
"""`mare sim` as people and programs meet it: help, exit codes, JSON, scenarios."""
import json
import os
import pty
import re
import shlex
import subprocess
import xml.etree.ElementTree

from sim_cli import MARE, Sim, sim, tap

FAULTY = ('ricart', '--n', '3', '--param', 'repair=0', '--faults', 'crash:1@1000+0')


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


class Command(Sim):
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


tap.main(__name__)
