# SPDX-License-Identifier: MIT
"""tap.py, with a module whose programs have sanitizers in them, as far as it can see."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tap

MODULE = '''
import os, pathlib, re, sys, unittest
sys.path.insert(0, {tools!r})
import tap

def report(text):
    path = re.search("log_path=([^:]*)", os.environ["TSAN_OPTIONS"])[1]
    pathlib.Path(path + ".123").write_text(text)

class Cases(unittest.TestCase):
    def test_a(self):
        pass
    {case}
    def test_c(self):
        pass
tap.main(__name__)
'''
RACE = 'WARNING: ThreadSanitizer: data race\\nSUMMARY: ThreadSanitizer: data race x.c:1\\n'


class Tap(unittest.TestCase):
    def run_module(self, case):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'cases.py'
            path.write_text(MODULE.format(tools=str(pathlib.Path(tap.__file__).parent), case=case),
                            encoding='utf-8')
            done = subprocess.run([sys.executable, path], capture_output=True, text=True,
                                  env={**os.environ, 'TSAN_OPTIONS': 'history_size=4'})
        lines = [line for line in done.stdout.splitlines() if not line.startswith('#')]
        return done, lines

    def test_all_is_well(self):
        done, lines = self.run_module('def test_b(self): pass')
        self.assertEqual(done.returncode, 0)
        self.assertEqual(lines, ['1..3', 'ok 1 - test_a', 'ok 2 - test_b', 'ok 3 - test_c'])

    def test_a_report_fails_the_case_in_which_it_came(self):
        done, lines = self.run_module(f'def test_b(self): report("{RACE}")')
        self.assertEqual(done.returncode, 1)
        self.assertEqual(lines, ['1..3', 'ok 1 - test_a', 'not ok 2 - test_b', 'ok 3 - test_c'])
        self.assertIn('#   SUMMARY: ThreadSanitizer: data race x.c:1', done.stdout.splitlines())

    def test_a_report_is_shown_beside_the_failure(self):
        done, lines = self.run_module(f'def test_b(self): report("{RACE}"); self.fail("gone")')
        self.assertEqual(done.returncode, 1)
        self.assertEqual(lines[2], 'not ok 2 - test_b')
        self.assertIn('gone', done.stdout)
        self.assertIn('data race x.c:1', done.stdout)

    def test_a_report_after_the_last_case_fails_the_program(self):
        done, lines = self.run_module(f'''
    @classmethod
    def tearDownClass(cls): report("{RACE}")
    def test_b(self): pass''')
        self.assertEqual(done.returncode, 1)
        self.assertEqual(lines[1:], ['ok 1 - test_a', 'ok 2 - test_b', 'ok 3 - test_c'])
        self.assertIn('data race x.c:1', done.stderr)

    def test_what_has_no_summary_is_no_report(self):
        done, lines = self.run_module(
            'def test_b(self): report("WARNING: AddressSanitizer failed to allocate")')
        self.assertEqual(done.returncode, 0)
        self.assertEqual(lines[2], 'ok 2 - test_b')


tap.main(__name__)
