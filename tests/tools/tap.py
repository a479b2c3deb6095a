# SPDX-License-Identifier: MIT
"""Runs the unittest cases of a module and reports in TAP: `tap.main(__name__)` at its end."""
import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools'))
sys.dont_write_bytecode = True


class Reports:
    """What the sanitizers in the programs under test complain about. Most of these programs are
    killed when their test is over, so that the code they end with tells nothing."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for name in ('ASAN_OPTIONS', 'TSAN_OPTIONS'):
            os.environ[name] = f'{os.environ.get(name, "")}:log_path={folder}/report'

    def take(self):
        """The text of those that came since the last time."""
        files = sorted(self.folder.iterdir())
        texts = [file.read_text(errors='replace') for file in files]
        for file in files:
            file.unlink()
        # A program may also be told that there is no memory for it; that is no summary's worth.
        return ''.join(text for text in texts if 'SUMMARY: ' in text)


class Result(unittest.TestResult):
    def __init__(self, reports):
        super().__init__()
        self.reports = reports

    def line(self, verdict, test, text='', note=''):
        reports = self.reports.take()
        if reports and verdict == 'ok':
            self.failures.append((test, reports))
            verdict, note = 'not ok', ''
        text += reports
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
    with tempfile.TemporaryDirectory() as folder:
        result = Result(Reports(folder))
        suite.run(result)
        late = result.reports.take()
    print(late, end='', file=sys.stderr)
    sys.exit(0 if result.wasSuccessful() and not late else 1)
