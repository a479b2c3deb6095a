# SPDX-License-Identifier: MIT
"""The runners of Lua tests and examples report what happens, with a stand-in for the runtime."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tap

# Runs a process at once, to its end, in the same state.
STAND_IN = '''
local process = {}
process.__index = process
function process:join() return table.unpack(self, 1, self.n) end
return {spawn = function(f, ...)
    local trace
    local r = table.pack(xpcall(f, function(e) trace = debug.traceback() return e end, ...))
    if not r[1] then r = table.pack(nil, r[2], "died", trace) end
    return setmetatable(r, process)
end}
'''


class Runner(unittest.TestCase):
    def run_in(self, files, *command):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(text, encoding='utf-8')
            done = subprocess.run(command, cwd=root, env={'LUA_PATH': './?.lua;;'},
                                  capture_output=True, text=True, check=False)
            return done.returncode, done.stdout.splitlines()

    def lua(self, text, *pattern):
        return self.run_in({'mare.lua': STAND_IN, 'test_x.lua': text}, '/usr/bin/lua5.4',
                           tap.ROOT / 'tests/lua/run.lua', 'test_x.lua', *pattern)

    def examples(self, files):
        return self.run_in({'examples/' + name: text for name, text in files.items()},
                           sys.executable, tap.ROOT / 'tests/support/examples.py',
                           '/usr/bin/lua5.4', 'examples')

    def test_passes_and_skips(self):
        code, lines = self.lua('''local t = require "t"
            return {a = function() t.eq({1, {2}}, {1, {2}}) end,
                    b = {function() t.skip "today" end, timeout = 1}}''')
        self.assertEqual((code, lines), (0, ['ok 1 - a', 'ok 2 - b # SKIP today', '1..2']))

    def test_each_assertion_can_fail(self):
        code, lines = self.lua('''local t = require "t"
            local cycle = {}
            cycle[1] = cycle
            return {a = function() t.eq(1, 1.0) end, b = function() t.eq({1}, {1, 2}) end,
                    c = function() t.ok(false) end, d = function() t.raises("x", error, "y") end,
                    e = function() t.raises("x", print) end, f = function() t.eq(cycle, {{}}) end,
                    g = function() t.fails("closed", nil, "no", "timeout") end}''')
        self.assertEqual(code, 1)
        self.assertEqual([line for line in lines if 'ok' in line.split()],
                         [f'not ok {i} - {name}' for i, name in enumerate('abcdefg', 1)])
        self.assertTrue(any('expected 1.0, got 1' in line for line in lines), lines)

    def test_pattern(self):
        code, lines = self.lua('return {one = function() end, two = error}', 'one')
        self.assertEqual((code, lines), (0, ['ok 1 - one', '1..1']))

    def test_no_case_is_a_failure(self):
        self.assertEqual(self.lua('return {}')[0], 1)

    def test_file_that_does_not_load(self):
        code, lines = self.lua('return {')
        self.assertEqual(code, 1)
        self.assertTrue(lines[0].startswith('not ok 1 - test_x.lua'), lines)

    def test_examples(self):
        code, lines = self.examples({'a.lua': 'print(1)', 'a.out': '1\n', 'b.lua': 'print(2)'})
        self.assertEqual((code, lines), (0, ['1..2', 'ok 1 - a.lua', 'ok 2 - b.lua']))

    def test_examples_can_fail(self):
        code, lines = self.examples({'a.lua': 'print(1)', 'a.out': '2\n', 'b.lua': 'error "no"'})
        self.assertEqual(code, 1)
        self.assertEqual([line for line in lines if line[:6] == 'not ok'],
                         ['not ok 1 - a.lua', 'not ok 2 - b.lua'])


tap.main(__name__)
