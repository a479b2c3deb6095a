# SPDX-License-Identifier: MIT
"""bench/variants.py: what was decided against can still be built from this tree."""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import tap

# The program that was built, where all is that its files need.
BUILD = pathlib.Path(sys.argv.pop()).parent if len(sys.argv) > 1 else tap.ROOT / 'build'

sys.path.insert(0, str(tap.ROOT / 'bench'))
import variants  # noqa: E402 (its folder had to be named first)


def patched_files():
    return re.findall(r'^\+\+\+ b/(\S+)', variants.PATCH.read_text(), re.MULTILINE)


def compile_command(name, place):
    """As the build compiles the file, only to look whether it would."""
    for entry in json.loads((BUILD / 'compile_commands.json').read_text()):
        if (BUILD / entry['file']).resolve() == tap.ROOT / name:
            words = [w for w in shlex.split(entry['command']) if re.match(r'-([IDW]|std)', w)]
            return ['cc', '-fsyntax-only', *words, str(place / name)]
    raise LookupError(f'{name} is not built')


class Variants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name)
        for name in patched_files():
            (self.place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tap.ROOT / name, self.place / name)

    def test_the_patch_names_files(self):
        self.assertEqual(patched_files(), ['src/loop/observer.c'])

    def test_the_patch_applies_and_what_it_makes_compiles(self):
        self.assertIsNone(variants.apply_patch(self.place))
        for name in patched_files():
            self.assertIn('mare-io', (self.place / name).read_text())
            done = subprocess.run(compile_command(name, self.place), cwd=BUILD,
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ''))

    def test_a_patch_that_does_not_apply_is_told(self):
        for name in patched_files():
            text = (self.place / name).read_text()
            (self.place / name).write_text(text.replace('nearest(', 'farthest('))
        self.assertIn('FAILED', variants.apply_patch(self.place))


tap.main(__name__)
