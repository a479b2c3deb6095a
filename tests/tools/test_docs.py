# SPDX-License-Identifier: MIT
"""What people can use is documented; and a gap is caught, kind by kind."""
import pathlib
import sys
import tempfile
import unittest

import tap
import check_docs

# The binary, given by Meson once there is one.
MARE = sys.argv.pop() if len(sys.argv) > 1 else None
HELP = '#!/bin/sh\nprintf "usage: mare ...\\n\\n  help     what it says\\n  sim      draws\\n"\n'


class Docs(unittest.TestCase):
    def gaps(self, files, mare=False):
        """What the checker says about a tree of these files, and of a binary that prints HELP."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {'bin/mare': HELP, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding='utf-8')
            (root / 'bin/mare').chmod(0o755)
            found = [*check_docs.check_headers(root), *check_docs.check_lua(root),
                     *check_docs.check_tests(root)]
            if mare:
                found += check_docs.check_commands(root, str(root / 'bin/mare'))
            return found

    def test_this_tree(self):
        gaps = [*check_docs.check_headers(tap.ROOT), *check_docs.check_lua(tap.ROOT),
                *check_docs.check_tests(tap.ROOT)]
        if gaps:
            self.fail('\n'.join(gaps))

    @unittest.skipUnless(MARE, 'there is no binary yet')
    def test_this_binary(self):
        self.assertEqual(list(check_docs.check_commands(tap.ROOT, MARE)), [])

    def test_documented(self):
        self.assertEqual(self.gaps({
            'include/mare.h': '/* Stops. */\nMARE_API void mare_stop(struct mare *m);\n\n'
                              '// A pair: ref counts up, unref down.\n'
                              'void mare_ref(void);\nvoid mare_unref(void);\n',
            'src/lua/chan.c': 'static const luaL_Reg f[] = {{"send", send}, {NULL, NULL}};\n',
            'docs/reference/lua.md': '### `ch:send(...)`\n'}), [])

    def test_function_without_comment(self):
        gaps = self.gaps({'include/mare.h': '\nMARE_API mare_err mare_start(struct mare **out);\n'})
        self.assertEqual(len(gaps), 1, gaps)
        self.assertIn('include/mare.h:2: mare_start', gaps[0])

    def test_type_without_comment(self):
        gaps = self.gaps({'include/mare/x.h': 'typedef struct mare_x mare_x;\n'})
        self.assertEqual(len(gaps), 1, gaps)
        self.assertIn('mare_x', gaps[0])

    def test_lua_function_not_in_reference(self):
        gaps = self.gaps({'src/lua/chan.c': 'const luaL_Reg f[] = {\n  {"receive", receive},\n};\n',
                          'docs/reference/lua.md': 'One can receive.\n'})
        self.assertEqual(len(gaps), 1, gaps)
        self.assertIn('src/lua/chan.c:2: the Lua function receive', gaps[0])

    def test_other_tables_are_no_functions(self):
        self.assertEqual(self.gaps({
            'src/lua/x.c': 'const luaL_Reg f[] = {{NULL, NULL}};\n'
                           'struct counter c[] = {{"switches", switches}};\n'}), [])

    def test_threat_without_test(self):
        head, line = '| tries to | what happens | shown by |\n|---|---|---|\n', '| x | refused | '
        tests = {'tests/lua/test_keys.lua': 'function cases.none_comes_in(folder)\n',
                 'tests/lua/test_box.lua': 'return {\n    it_ends_there = endless "x",\n}\n'}
        for shown, gap in {'lua-keys `none_comes_in`; lua-box `it_ends_there` |': None,
                           'lua-keys `all_come_in` |': 'no case all_come_in in lua-keys',
                           'lua-box `none_comes_in` |': 'no case none_comes_in in lua-box',
                           'lua-gone `it_ends_there` |': 'no case it_ends_there in lua-gone',
                           '`it_ends_there` |': 'no case it_ends_there in lua-None',
                           '|': 'no test shows that', 'lua-keys |': 'no test shows that'}.items():
            found = self.gaps({**tests, 'docs/guide/security.md': head + line + shown + '\n'})
            self.assertEqual(len(found), 1 if gap else 0, found)
            self.assertIn(gap or '', ''.join(found))
        self.assertEqual(self.gaps({**tests, 'docs/guide/security.md': f'All in lua-box:\n\n{head}'
                                    f'{line}`it_ends_there` |\n'}), [])

    def test_command_not_in_reference(self):
        gaps = self.gaps({'docs/reference/cli.md': '`mare help`\n'}, mare=True)
        self.assertEqual(len(gaps), 1, gaps)
        self.assertIn('the command sim', gaps[0])

    def test_binary_without_help(self):
        gaps = self.gaps({'bin/mare': '#!/bin/sh\nexit 1\n'}, mare=True)
        self.assertEqual(len(gaps), 1, gaps)


tap.main(__name__)
