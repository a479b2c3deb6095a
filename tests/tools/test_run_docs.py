# SPDX-License-Identifier: MIT
"""The programs in the documentation print what it says; and a page that lies is caught."""
import sys
import unittest

import tap
import run_docs

# The binary, given by Meson once there is one.
MARE = sys.argv.pop() if len(sys.argv) > 1 else None


def page(source, output=None, info='lua', result='text', between=''):
    text = f'# Title\n\n```{info}\n{source}\n```\n{between}'
    return text + (f'```{result}\n{output}\n```\n' if output is not None else '')


class Docs(unittest.TestCase):
    def wrong(self, text):
        """What is said about each program of a page, None where it is right."""
        return [run_docs.complaint(MARE, *program[1:]) for program in run_docs.programs(text)]

    @unittest.skipUnless(MARE, 'there is no binary yet')
    def test_this_tree(self):
        checked = list(run_docs.check(MARE, run_docs.pages(tap.ROOT)))
        self.assertGreater(len(checked), 0)
        self.assertEqual([f'{path}:{line}: {bad}' for path, line, bad in checked if bad], [])

    @unittest.skipUnless(MARE, 'there is no binary yet')
    def test_right_and_wrong_output(self):
        self.assertEqual(self.wrong(page('print(1 + 1)', '2')), [None])
        self.assertIn('it printed:\n2', self.wrong(page('print(1 + 1)', '3'))[0])
        self.assertIn('it printed', self.wrong(page('print(1)', '1\n2'))[0])

    @unittest.skipUnless(MARE, 'there is no binary yet')
    def test_any_lines(self):
        three = 'print(1) print(2) print(3)'
        self.assertEqual(self.wrong(page(three, '1\n...\n3')), [None])
        self.assertEqual(self.wrong(page(three, '1\n2\n3\n...')), [None])
        self.assertNotEqual(self.wrong(page(three, '...\n2')), [None])
        self.assertEqual(self.wrong(page('print("process 7 died")', 'process ... died')), [None])
        self.assertNotEqual(self.wrong(page('print("process 7")', 'process ... died')), [None])

    @unittest.skipUnless(MARE, 'there is no binary yet')
    def test_exit_code(self):
        self.assertIn('exit code 7', self.wrong(page('print(1) os.exit(7)', '1'))[0])
        self.assertEqual(self.wrong(page('print(1) os.exit(7)', '1', result='text exit 7')), [None])

    @unittest.skipUnless(MARE, 'there is no binary yet')
    def test_errors_are_output(self):
        self.assertEqual(self.wrong(page('error("x", 0)', 'mare: x\n...', result='text exit 1')),
                         [None])

    def test_program_without_output(self):
        self.assertIn('fragment', self.wrong(page('print(1)'))[0])
        self.assertIn('fragment', self.wrong(page('print(1)', '1', between='a\nb\n'))[0])

    def test_fragments_and_other_languages_are_left_alone(self):
        self.assertEqual(self.wrong(page('...', info='lua fragment')), [])
        self.assertEqual(self.wrong(page('int main;', '1', info='c')), [])


tap.main(__name__)
