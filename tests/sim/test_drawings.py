# SPDX-License-Identifier: MIT
"""The drawings of `mare sim`, and its logs for ShiViz."""
import json
import re
import xml.etree.ElementTree

from sim_cli import Sim, sim, tap

# What ShiViz offers for a start; Python wants ?P.
SHIVIZ = re.compile(r'(?P<event>.*)\n(?P<host>\S*) (?P<clock>{.*})')


class Drawings(Sim):
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
