# SPDX-License-Identifier: MIT
"""What the tests of `mare sim` share: the command, a folder for its files, and what there is."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
SLOW = int(os.environ.get('MARE_TEST_SLOW', '1'))


def sim(*args, folder=None):
    return subprocess.run([MARE, 'sim', *args], capture_output=True, text=True, timeout=120 * SLOW,
                          cwd=folder, check=False)


class Sim(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def algorithms(self):
        text = sim('list').stdout.split('Figures')[0]
        return re.findall(r'^([a-z][\w-]*) ', text, re.M)

    def figures(self):
        return sorted(path.stem for path in (tap.ROOT / 'lua/mare/figures').glob('*.lua'))

    def scenario(self, text):
        path = self.path / 'mine.lua'
        path.write_text(f'return {{{text}}}')
        return str(path)
