# SPDX-License-Identifier: MIT
"""The crawler of the examples over a site that nginx serves, in a pipe and on a terminal."""
import os
import pathlib
import pty
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
SITE = {'index.html': b''.join(b'<a href="p/%d.html">%d</a>' % (n, n) for n in range(40)),
        'big.bin': bytes(300000)}
SITE |= {f'p/{n}.html': b'<a href="../big.bin">big</a><a href="/index.html">home</a>'
         for n in range(39)}  # one is missing
SERVER = 'location = /moved { return 302 /p/1.html; } location = /cut { return 444; }'


class Crawler(unittest.TestCase):
    def site(self, files):
        port, _ = servers.nginx(self, files, SERVER)
        return f'http://127.0.0.1:{port}'

    def crawl(self, url, **options):
        return subprocess.run([MARE, 'examples/17_crawler.lua', url, '8'], cwd=servers.ROOT,
                              stdin=subprocess.DEVNULL, timeout=servers.PATIENCE, check=False,
                              **options)

    def test_dead_links_are_found(self):
        done = self.crawl(self.site(SITE), stdout=subprocess.PIPE, text=True)
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, 1)
        # The site's root is one page, index.html another, and the large file is fetched once.
        self.assertEqual(sorted(lines[:43]), sorted(
            ['200\t/', '200\t/index.html', '200\t/big.bin', '404\t/p/39.html'] +
            [f'200\t/p/{n}.html' for n in range(39)]))
        self.assertRegex(lines[43], r'^43 pages, \d+ bytes, 1 dead links$')
        self.assertEqual(lines[44:], ['dead: /p/39.html (404), on /'])

    def test_a_site_without_dead_links(self):
        done = self.crawl(self.site({'index.html': b'<a href="/moved">', 'p/1.html': b'end'}),
                          stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.splitlines()[:3], ['200\t/', '302\t/moved', '200\t/p/1.html'])

    def test_a_server_that_hangs_up(self):
        done = self.crawl(self.site({'index.html': b'<a href="cut">'}), stdout=subprocess.PIPE,
                          text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.splitlines()[:2], ['200\t/', '---\t/cut'])

    def test_on_a_terminal_there_is_a_bar(self):
        ours, theirs = pty.openpty()
        url = self.site(SITE)
        child = subprocess.Popen([MARE, 'examples/17_crawler.lua', url], cwd=servers.ROOT,
                                 stdin=subprocess.DEVNULL, stdout=theirs)
        os.close(theirs)
        text = b''
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            text += piece
        os.close(ours)
        self.assertEqual(child.wait(servers.PATIENCE), 1)
        text = text.decode()
        self.assertIn('\r[' + '#' * 30 + '] 43 of 43', text)
        self.assertNotIn('200\t', text)
        self.assertTrue(text.endswith('1 dead links\r\ndead: /p/39.html (404), on /\r\n'), text)


tap.main(__name__)
