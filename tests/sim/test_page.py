# SPDX-License-Identifier: MIT
"""The drawing as a reader meets it, in a real browser with a real mouse: a message is followed on
hover, the past of an event is shown on a click, clock values stand where the trace has them, the
drawing is zoomed, moved, and its kinds hidden."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())

# A point of the arrow that nothing else covers, so that the mouse finds it there.
POINT_OF_ARROW = '''(() => {
  const arrow = document.querySelectorAll('.m')[%d], line = arrow.querySelector('.t');
  arrow.scrollIntoView({block: 'center', inline: 'center'});
  for (let part = 0.1; part < 1; part += 0.02) {
    const p = line.getPointAtLength(line.getTotalLength() * part)
      .matrixTransform(line.getScreenCTM());
    if (document.elementFromPoint(p.x, p.y)?.closest('.m') === arrow) return [p.x, p.y];
  }
})()'''
MIDDLE = '''(() => {
  const it = document.querySelector(%r);
  it.scrollIntoView({block: 'nearest', inline: 'nearest'});
  const box = it.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})()'''
LIT = '''(() => { const ids = s => [...document.querySelectorAll(s)].map(e => e.id);
  return {past: svg.classList.contains('past'), events: ids('.e.on'),
          arrows: document.querySelectorAll('.m.on').length,
          tip: tip.style.display == 'block' ? tip.textContent : null}; })()'''
STEPS = '''[...document.querySelectorAll('.e')].map(e => [e.id, e.dataset.p])'''
ARROWS = '''[...document.querySelectorAll('.m')].map(
  m => [m.dataset.a ? 'e' + m.dataset.a : null, m.dataset.b ? 'e' + m.dataset.b : null])'''


def past_of(event, steps, arrows):
    """What happened before an event, by the definition: before it at its process, or by message."""
    before = {}
    last = {}
    for step, process in steps:
        before[step] = {last[process]} if process in last else set()
        last[process] = step
    for start, end in arrows:
        if start in before and end in before:
            before[end].add(start)
    past, todo = set(), [event]
    while todo:
        step = todo.pop()
        if step not in past:
            past.add(step)
            todo += before[step]
    return past


# What a reader would complain about: texts that lie on each other or beyond the edge (a box is
# what the letters cover, turned as the text is); stretches of the picture, or of the frame around
# it, with nothing in them, as parts of the whole; the size of the smallest letters on the screen.
LAID_OUT = r'''(() => {
    const {width, height} = svg.viewBox.baseVal, home = svg.getScreenCTM().inverse();
    const texts = [...svg.querySelectorAll('text')].filter(
        e => e.textContent.trim() && !e.closest('#names'));
    const boxes = texts.map(e => {
        const b = e.getBBox(), m = home.multiply(e.getScreenCTM());
        const top = b.y + b.height * 0.2, bottom = b.y + b.height * 0.8;
        return [[b.x, top], [b.x + b.width, top], [b.x + b.width, bottom], [b.x, bottom]].map(
            ([x, y]) => { const p = new DOMPoint(x, y).matrixTransform(m); return [p.x, p.y]; });
    });
    const sides = b => [[1, 0], [3, 0]].map(([i, j]) => {
        const x = b[i][0] - b[j][0], y = b[i][1] - b[j][1], l = Math.hypot(x, y) || 1;
        return [x / l, y / l];
    });
    const covers = (a, b) => [...sides(a), ...sides(b)].every(([x, y]) => {
        const p = a.map(v => v[0] * x + v[1] * y), q = b.map(v => v[0] * x + v[1] * y);
        return Math.min(Math.max(...p), Math.max(...q)) -
               Math.max(Math.min(...p), Math.min(...q)) > 0.5;
    });
    const name = i => texts[i].textContent;
    const covered = boxes.flatMap((a, i) => boxes.map((b, j) =>
        j > i && covers(a, b) && `${name(i)} / ${name(j)}`).filter(Boolean));
    const beyond = boxes.flatMap((b, i) => b.some(
        ([x, y]) => x < 0 || y < 0 || x > width || y > height) ? [name(i)] : []);
    const drawn = [...svg.querySelectorAll('.e, .m .l')].map(e => e.getBBox());
    const across = [...drawn.map(b => [b.x, b.x + b.width]), ...boxes.map(b => {
        const x = b.map(p => p[0]); return [Math.min(...x), Math.max(...x)]; })];
    const down = [...[...svg.querySelectorAll('.lives path, #names text, .axis text')].map(e => {
        const b = e.getBBox(); return [b.y, b.y + b.height]; }),
                  ...drawn.map(b => [b.y, b.y + b.height])];
    const empty = (spans, from, to) => {
        let most = 0, end = from;
        for (const [a, b] of spans.sort((p, q) => p[0] - q[0])) {
            most = Math.max(most, a - end);
            end = Math.max(end, b);
        }
        return Math.max(most, to - end) / (to - from);
    };
    const frame = box.getBoundingClientRect();
    return {texts: texts.length, covered, beyond, across: empty(across, 64, width),
            down: empty(down, 0, height), frame: 1 - width * z / frame.width,
            smallest: Math.min(...texts.map(e => parseFloat(getComputedStyle(e).fontSize))) * z};
})()'''


@unittest.skipUnless(browser.find(), 'Chromium is not installed')
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def draw(self, *args, code=0):
        path = pathlib.Path(self.folder.name) / 'drawing.html'
        done = subprocess.run([MARE, 'sim', *args, '--draw', str(path)], capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.browser.open(path)
        self.browser.move(1, 1)
        return done.stdout

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])
        self.assertTrue(all(url.endswith('drawing.html') for url in self.browser.fetched))

    def lit(self):
        return self.browser.run(LIT)

    def test_a_message_is_followed_on_hover(self):
        self.draw('ricart', '--n', '3', '--rounds', '2')
        arrows = self.browser.run(ARROWS)
        self.assertGreater(len(arrows), 20)
        self.assertEqual(self.lit(), {'past': False, 'events': [], 'arrows': 0, 'tip': None})
        followed = 0
        for index, (start, end) in enumerate(arrows):
            point = self.browser.run(POINT_OF_ARROW % index)
            if not point:
                continue
            self.browser.move(*point)
            seen = self.lit()
            self.assertTrue(seen['past'])
            self.assertEqual(seen['arrows'], 1)
            self.assertEqual(sorted(seen['events']), sorted((start, end)))
            self.assertRegex(seen['tip'],
                             r'^(REQUEST|GRANT|DENY) clock=\d+ ticket=\d+( stamp=\d+)?\n'
                             r'#\d+  p\d → p\d\nsent [\d.]+ (ms|µs)\narrived ')
            followed += 1
        self.assertGreater(followed, len(arrows) * 3 // 4)
        self.browser.move(1, 1)
        self.assertEqual(self.lit(), {'past': False, 'events': [], 'arrows': 0, 'tip': None})

    def test_it_opens_with_every_process_in_sight(self):
        for figure in ('bully-eight', 'wireless-ten'):
            self.draw(figure)
            for key in ('', '0'):
                if key:
                    self.browser.key(key)
                self.assertTrue(self.browser.run('box.scrollHeight <= box.clientHeight'), figure)

    def well_laid_out(self, what):
        seen = self.browser.run(LAID_OUT)
        self.assertGreater(seen['texts'], 5, what)
        self.assertEqual((seen['covered'], seen['beyond']), ([], []), what)
        for part in ('across', 'down', 'frame'):
            self.assertLess(seen[part], 1 / 3, f'{what}: {part}')
        self.assertGreaterEqual(seen['smallest'], 8.99, what)

    def test_no_text_lies_on_another_and_no_third_is_empty(self):
        """At 1400 by 900: figures with many words and with few; every family, small and large
        groups; faults that crash, cut off and lose; wide clocks; stacked deliveries."""
        cases = ('bank-acks', 'views-causal', 'superpeer-prefix', 'ring --n 2', 'bully --seed 1',
                 'causal --seed 2', 'bank-unordered', 'bully-eight', 'ring-two-rounds',
                 'vectors-concurrent', 'central-takeover', 'ricart', 'voting --n 5', 'fifo --n 8',
                 'ring --seed 3', 'total --seed 2', 'views --seed 2', 'majority --seed 1')
        for args in cases:
            self.draw(*args.split())
            self.well_laid_out(args)

    def test_a_trace_of_a_program_is_laid_out_as_well(self):
        program = pathlib.Path(self.folder.name) / 'program.lua'
        program.write_text("""
            local mare = require "mare"
            local jobs, results = mare.channel(), mare.channel()
            for i = 1, 4 do
                mare.spawn({name = "worker " .. i}, function()
                    for job in jobs.receive, jobs do results:send(job * job) end
                end)
            end
            mare.go(function() for i = 1, 12 do jobs:send(i) end jobs:close() end)
            for _ = 1, 12 do results:receive() end
        """, encoding='utf-8')
        trace, drawing = program.with_suffix('.trace'), program.with_name('drawing.html')
        for args in (('--trace', trace, program), ('trace', 'draw', trace, '--out', drawing)):
            subprocess.run([MARE, *map(str, args)], capture_output=True, timeout=120, check=True)
        self.browser.open(drawing)
        self.well_laid_out('a trace')

    def test_what_finds_no_room_is_in_the_hint(self):
        self.draw('causal', '--seed', '2')
        seen = self.browser.run("""[...document.querySelectorAll('.e')].map(e => e.dataset.t)""")
        words = self.browser.run("""[...document.querySelectorAll('.w.mark')].filter(
            e => e.textContent == 'held back').length""")
        self.assertGreater(words, 5)
        held = sum(each.count('\nheld back') for each in seen)
        self.assertGreater(held, words)

    def test_a_violation_opens_at_the_violation(self):
        self.draw('ricart', '--n', '3', '--seed', '1', '--loss', '10000', '--duplicate', '0',
                  '--abandon', '0', '--drift', '0', '--faults', '', '--param', 'repair=0', code=1)
        seen = self.browser.run("""(() => { const frame = box.getBoundingClientRect();
            return ['path', 'text'].map(e => {
                const b = svg.querySelector('.broken ' + e).getBoundingClientRect();
                return [b.left - frame.left, frame.right - b.right]; }); })()""")
        self.assertGreater(self.browser.run('box.scrollLeft'), 100)
        for left, right in seen:
            self.assertGreater(min(left, right), 0)

    def test_wide_clocks_are_left_to_the_hints(self):
        for n, written in (('8', True), ('13', False)):
            self.draw('causal', '--n', n)
            clocks = self.browser.run('document.querySelectorAll(".c").length')
            self.assertEqual(clocks > 10, written)
            self.assertEqual(clocks > 0, written)

    def test_what_is_lost_does_not_strike_out_who_crashed(self):
        self.draw('views-causal')
        boxes = """[...document.querySelectorAll('%s')].map(e => {
            const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; })"""
        words, crosses = self.browser.run(boxes % '.crash text'), self.browser.run(boxes % '.m .x')
        self.assertGreater(min(len(words), len(crosses)), 1)
        for left, top, right, bottom in words:
            for x1, y1, x2, y2 in crosses:
                self.assertFalse(x1 < right and x2 > left and y1 < bottom and y2 > top)

    def test_others_fade_while_one_is_followed(self):
        self.draw('ricart', '--n', '3')
        self.browser.move(*self.browser.run(POINT_OF_ARROW % 0))
        fade = '''[...document.querySelectorAll('.m')].map(m => getComputedStyle(m).opacity)'''
        opacity = [float(each) for each in self.browser.run(fade)]
        self.assertEqual(opacity.count(1), 1)
        self.assertLess(sorted(opacity)[-2], 0.3)

    def test_a_click_shows_all_that_happened_before(self):
        self.draw('ricart', '--n', '3', '--rounds', '2')
        steps, arrows = self.browser.run(STEPS), self.browser.run(ARROWS)
        for event, _ in (steps[0], steps[len(steps) // 2], steps[-1]):
            self.browser.click(*self.browser.run(MIDDLE % f'#{event}'))
            past = past_of(event, steps, arrows)
            self.assertEqual(set(self.lit()['events']), past)
            within = sum(end in past for _, end in arrows)
            self.assertEqual(self.lit()['arrows'], within)
            self.browser.move(1, 1)  # it stays when the mouse goes away
            self.assertEqual(set(self.lit()['events']), past)
            self.browser.key('Escape')
            self.assertEqual(self.lit()['events'], [])
        self.assertGreater(len(past_of(steps[-1][0], steps, arrows)), len(steps) // 2)

    def test_what_is_shown_stays_while_one_looks_around(self):
        self.draw('central', '--n', '5', '--rounds', '9')
        self.browser.click(*self.browser.run(MIDDLE % '.e.got'))
        shown = self.lit()['events']
        self.assertGreater(len(shown), 1)
        x, y = self.browser.run(MIDDLE % '.scroll')
        self.browser.drag((x, y), (x - 200, y))
        self.assertEqual(self.lit()['events'], shown)
        self.browser.move(*self.browser.run(POINT_OF_ARROW % 9))
        self.assertIn('sent', self.lit()['tip'])
        self.assertEqual(self.lit()['events'], shown)
        self.browser.move(1, 1)
        self.assertEqual((self.lit()['tip'], self.lit()['events']), (None, shown))

    def test_clock_values_are_those_of_the_trace(self):
        trace = self.draw('ricart', '--n', '3', '--trace')
        drawn = self.browser.run('''[...document.querySelectorAll('.c')].map(
          c => +c.textContent)''')
        clocks = {int(each) for each in re.findall(r'\[\w+ (\d+)\]', trace)}
        self.assertGreater(len(drawn), 5)
        self.assertLessEqual(set(drawn), clocks)
        self.assertEqual(max(drawn), max(clocks))
        event = self.browser.run('''[...document.querySelectorAll('.e.got')].at(-1).id''')
        self.browser.move(*self.browser.run(MIDDLE % f'#{event}'))
        self.assertRegex(self.lit()['tip'], r'clock \d+$')

    def test_zoom(self):
        self.draw('central', '--n', '5', '--rounds', '9')
        width = '+svg.getAttribute("width")'
        first = self.browser.run(width)
        for how, factor in ((lambda: self.browser.click(*self.browser.run(MIDDLE % '#in')), 1.3),
                            (lambda: self.browser.click(*self.browser.run(MIDDLE % '#out')), 1),
                            (lambda: self.browser.key('+'), 1.3),
                            (lambda: self.browser.key('-'), 1)):
            how()
            self.assertAlmostEqual(self.browser.run(width) / first, factor, places=3)
        self.browser.key('0')
        self.assertLessEqual(self.browser.run(width), self.browser.run('box.clientWidth'))

    def test_the_wheel_zooms_about_the_mouse(self):
        self.draw('central', '--n', '5', '--rounds', '9')
        x, y = self.browser.run(MIDDLE % '.scroll')
        under = f'(box.scrollLeft + {x} - box.getBoundingClientRect().left) / z'
        before, scale = self.browser.run(under), self.browser.run('z')
        self.browser.wheel(x, y, -300, modifiers=browser.CONTROL)
        self.assertGreater(self.browser.run('z'), 2 * scale)
        self.assertAlmostEqual(self.browser.run(under), before, delta=1)
        self.browser.wheel(x, y, 300, modifiers=browser.CONTROL)
        self.assertAlmostEqual(self.browser.run('z'), scale, places=3)

    def test_dragging_moves_and_names_stay(self):
        self.draw('central', '--n', '5', '--rounds', '9')
        x, y = self.browser.run(MIDDLE % '.scroll')
        name = '''document.querySelector('#names text').getBoundingClientRect().x'''
        before = self.browser.run(name)
        self.browser.drag((x, y), (x - 300, y))
        self.assertEqual(self.browser.run('box.scrollLeft'), 300)
        self.assertAlmostEqual(self.browser.run(name), before, delta=1)

    def test_a_kind_is_hidden_alone(self):
        self.draw('views', '--seed', '4')
        shown = '''Object.fromEntries([...document.querySelectorAll('[data-f]')].map(b =>
          [b.textContent, [...document.querySelectorAll('.m.f' + b.dataset.f)].filter(
            m => getComputedStyle(m).display != 'none').length]))'''
        before = self.browser.run(shown)
        self.assertGreater(before['CAST'], 0)
        self.assertGreater(len(before), 8)
        self.browser.click(*self.browser.run(MIDDLE % '[data-f="0"]'))
        self.assertEqual(self.browser.run(shown), {**before, 'CAST': 0})
        self.browser.click(*self.browser.run(MIDDLE % '[data-f="0"]'))
        self.assertEqual(self.browser.run(shown), before)

    def test_light_and_dark(self):
        self.draw('ricart')
        paper = 'getComputedStyle(document.body).backgroundColor'
        before = self.browser.run(paper)
        self.browser.click(*self.browser.run(MIDDLE % '#theme'))
        self.assertNotEqual(self.browser.run(paper), before)
        self.browser.click(*self.browser.run(MIDDLE % '#theme'))
        self.assertEqual(self.browser.run(paper), before)

    def test_the_legend_names_what_is_there(self):
        legend = 'document.querySelector(".bar").textContent'
        self.draw('ricart')
        self.assertNotIn('leads', self.browser.run(legend))
        self.draw('bully')
        self.assertIn('leads', self.browser.run(legend))
        self.draw('fifo')
        self.assertIn('delivers', self.browser.run(legend))


tap.main(__name__)
