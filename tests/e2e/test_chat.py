# SPDX-License-Identifier: MIT
"""The chat example as people meet it: two pages in a real browser that talk to each other."""
import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / 'tools'), str(HERE.parent / 'sim')]
import tap  # noqa: E402
import browser  # noqa: E402
import servers  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
SAID = '''[...document.querySelectorAll('#log li')].map(
    li => [li.className, ...[...li.childNodes].map(node => node.textContent)])'''


@unittest.skipUnless(browser.find(), 'Chromium is not installed')
class Chat(unittest.TestCase):
    def setUp(self):
        self.server = servers.Program([MARE, 'examples/15_chat.lua', 0])
        self.addCleanup(self.server.close)
        self.url = self.server.line(0)
        self.browser = browser.Browser(900, 700)
        self.addCleanup(self.browser.close)

    def enter(self, session, name, room=''):
        self.browser.session = session
        self.browser.call('Emulation.setFocusEmulationEnabled', enabled=True)
        self.browser.go(self.url + room)
        self.awaits(session, 'document.activeElement.id', 'text')
        self.write(session, name)
        return session

    def write(self, session, text):
        self.browser.session = session
        self.browser.call('Input.insertText', text=text)
        for kind in ('keyDown', 'keyUp'):
            self.browser.call('Input.dispatchKeyEvent', type=kind, key='Enter', code='Enter',
                              windowsVirtualKeyCode=13, text='\r' if kind == 'keyDown' else '')

    def awaits(self, session, expression, expected):
        """What the expression is in that page becomes what is expected."""
        self.browser.session = session
        deadline = time.monotonic() + browser.PATIENCE
        while (got := self.browser.run(expression)) != expected and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(got, expected)

    def test_two_pages_talk(self):
        ana = self.enter(self.browser.session, 'Ana')
        enters = [['news', 'Ana enters']]
        self.awaits(ana, SAID, enters)
        bo = self.enter(self.browser.another(), 'Bo')
        self.awaits(ana, SAID, enters + [['news', 'Bo enters']])
        self.awaits(bo, SAID, [['news', 'Bo enters']])
        self.awaits(bo, "document.getElementById('state').textContent", 'You are Bo, in #harbour.')

        self.write(ana, 'olá, maré')
        self.awaits(bo, SAID, [['news', 'Bo enters'], ['theirs', 'Ana', 'olá, maré']])
        self.awaits(ana, SAID, enters + [['news', 'Bo enters'], ['mine', 'Ana', 'olá, maré']])

        # What looks like a program is shown, and not run.
        evil = '<script>document.title = "mine"</script><img src=x onerror="document.title = 1">'
        self.write(bo, evil)
        self.awaits(ana, SAID + '.slice(-1)', [['theirs', 'Bo', evil]])
        self.awaits(ana, 'document.title', 'Maré chat')
        self.awaits(ana, "document.querySelectorAll('#log :is(script, img)').length", 0)

        # A third is in another room, and hears none of it; a name can be had once in a room.
        third = self.enter(self.browser.another(), 'Ana', '#kitchen')
        self.awaits(third, SAID, enters)
        fourth = self.enter(self.browser.another(), 'Ana')
        self.awaits(fourth, "document.getElementById('state').textContent",
                    'Somebody is called Ana already. Choose another name.')
        self.write(fourth, 'Anabela')
        self.awaits(fourth, SAID, [['news', 'Anabela enters']])

        # Who closes the page leaves.
        self.browser.session = bo
        self.browser.go('about:blank')
        self.awaits(ana, SAID + '.slice(-2)', [['news', 'Anabela enters'], ['news', 'Bo leaves']])
        self.assertEqual(self.browser.errors, [])
        elsewhere = [url for url in self.browser.fetched
                     if not url.startswith((self.url, 'data:', 'about:'))]
        self.assertEqual(elsewhere, [])
        if len(sys.argv) > 1:  # test_chat.py picture.png MARE: to look at
            self.browser.session = ana
            self.browser.screenshot(pathlib.Path(sys.argv[1]))


tap.main(__name__)
