# SPDX-License-Identifier: MIT
"""The figures of the books, as `mare sim` plays them: what they say, and their drawings."""
import collections
import functools
import math
import os
import re
import xml.etree.ElementTree

from sim_cli import SLOW, Sim, sim, tap

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


@functools.lru_cache(maxsize=None)
def figure(name):
    """What a figure prints, and how it ends."""
    return sim(name)


class Figures(Sim):
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


tap.main(__name__)
