# SPDX-License-Identifier: MIT
"""The line of counts: nothing is counted twice, and nothing that failed is missed."""
import io
import json
import os
import tempfile
import unittest

import tap
import testsum


class Counts(unittest.TestCase):
    def total(self, *tests, code='0'):
        with tempfile.NamedTemporaryFile('w', suffix='.json', delete=False) as log:
            for test in tests:
                log.write(json.dumps({'name': 'x', 'returncode': 0, **test}) + '\n')
        self.addCleanup(os.unlink, log.name)
        total = testsum.Sum()
        testsum.add_run(total, 'plain', code, log.name)
        return total

    def check(self, line, *tests, code='0'):
        self.assertEqual(self.total(*tests, code=code).line(), line)

    def test_cases_are_counted_not_programs(self):
        self.check('3 passed, 0 failed',
                   {'stdout': '1..2\nok 1 - a\nok 2 - b\n', 'result': 'OK'}, {'result': 'OK'})

    def test_not_ok(self):
        self.check('1 passed, 1 failed', code='1', *[
            {'stdout': '1..2\nok 1 - a\nnot ok 2 - b\n', 'result': 'FAIL'}])

    def test_skips_in_both_spellings(self):
        self.check('0 passed, 0 failed, 3 skipped',
                   {'stdout': 'ok 1 - a # SKIP x\nnot ok 2 - b # skip\n', 'result': 'OK'},
                   {'result': 'SKIP', 'returncode': 77})

    def test_crash_after_passes(self):
        self.check('1 passed, 1 failed', code='1', *[
            {'stdout': '1..2\nok 1 - a\n', 'result': 'ERROR', 'returncode': -11}])

    def test_ends_early_with_exit_code_0(self):
        self.check('1 passed, 1 failed', {'stdout': '1..2\nok 1 - a\n', 'result': 'OK'})

    def test_timeout(self):
        self.check('0 passed, 1 failed', {'stdout': '', 'result': 'TIMEOUT'}, code='1')

    def test_failed_run_without_failed_test(self):
        self.check('1 passed, 1 failed', {'result': 'OK'}, code='2')

    def test_build_that_failed(self):
        total = testsum.Sum()
        testsum.add_run(total, 'tiny', 'build', '-')
        self.assertEqual(total.line(), '0 passed, 1 failed')

    def test_nothing_ran(self):
        out = io.StringIO()
        testsum.report(testsum.Sum(), out)
        self.assertEqual(out.getvalue().splitlines(), ['No test ran.', '0 passed, 0 failed'])

    def test_failure_is_shown_with_its_own_reason(self):
        total = self.total({'stdout': 'not ok 1 - a\n# why\nok 2 - b\n# no\n', 'stderr': 'tail\n',
                            'result': 'FAIL'}, code='1')
        self.assertEqual(total.failures, [('plain: x: a', '# why\ntail\n')])

    def test_report_ends_with_the_counts(self):
        out = io.StringIO()
        testsum.report(self.total({'result': 'FAIL', 'stdout': 'why\n'}, code='1'), out)
        lines = out.getvalue().splitlines()
        self.assertIn('    why', lines)
        self.assertEqual(lines[-1], '0 passed, 1 failed')


tap.main(__name__)
