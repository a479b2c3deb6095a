# SPDX-License-Identifier: MIT
"""Runs the unittest cases of a module and reports in TAP: `tap.main(__name__)` at its end."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools'))
sys.dont_write_bytecode = True


class Result(unittest.TestResult):
    def line(self, verdict, test, text='', note=''):
        print(f'{verdict} {self.testsRun} - {test.id().split(".")[-1]}{note}')
        for row in text.splitlines():
            print(f'#   {row}')

    def addSuccess(self, test):
        self.line('ok', test)

    def addSkip(self, test, reason):
        self.line('ok', test, note=f' # SKIP {reason}')

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line('not ok', test, self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        self.line('not ok', test, self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            text = self._exc_info_to_string(err, test)
            self.line('not ok', test, text, note=f' {subtest._subDescription()}')


def main(name):
    if name != '__main__':
        return
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[name])
    print(f'1..{suite.countTestCases()}')
    result = Result()
    suite.run(result)
    sys.exit(0 if result.wasSuccessful() else 1)
