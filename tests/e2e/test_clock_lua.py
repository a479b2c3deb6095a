# SPDX-License-Identifier: MIT
"""mare.ntp, from Lua, against a real chronyd in both directions, and against the commands."""
import json
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
from clocks import (  # noqa: E402
    BRIEFLY, MARE, PATIENCE, SECRET, SLOW, Case, ChronyCase, Served, query, reply)

# Asks the servers and prints what they say.
CLIENT = '''
local ntp = require "mare.ntp"
local key = arg[1] ~= "" and assert(ntp.keys(arg[1]))[tonumber(arg[2])]
local said, message, code, view = ntp.query({table.unpack(arg, 4)}, {
    key = key, wait = tonumber(arg[3]), samples = 4})
view = said or view
local function list(name)
    local all = {}
    for i, one in ipairs(view.servers) do all[i] = ('"%s"'):format(tostring(one[name])) end
    return table.concat(all, ",")
end
print(('{"code":"%s","offset":%d,"error":%d,"stratum":%d,"why":[%s],"outlier":[%s]}'):format(
    tostring(code), said and said.offset or 0, said and said.error or 0, said and said.stratum or 0,
    list "why", list "outlier"))
'''

# Serves, the system's clock or one that follows, with or without keys, until it is ended.
SERVER = '''
local mare, ntp = require "mare", require "mare.ntp"
local keys, follow = {}, false
for _, key in pairs(arg[1] ~= "" and assert(ntp.keys(arg[1])) or {}) do keys[#keys + 1] = key end
if arg[2] then
    follow = ntp.follower({table.unpack(arg, 2)}, {interval = 0.1})
    mare.go(follow.run, follow)
end
local server = assert(ntp.server {host = "127.0.0.1", port = 0, stratum = 5, error = 1000000,
    keys = keys, authenticated = #keys > 0, follow = follow})
print(("serving on %s:%d"):format(server:address()))
io.stdout:flush()
server:run()
'''


class Programs(Case):
    def program(self, name, text):
        path = self.path / name
        path.write_text(text)
        return path

    def ask(self, *servers, keys='', key=0, wait=PATIENCE):
        done = subprocess.run(
            [MARE, self.program('client.lua', CLIENT), keys, str(key), str(wait), *servers],
            capture_output=True, text=True, timeout=60 * SLOW, check=False)
        self.assertEqual(done.stderr, '')
        return json.loads(done.stdout)

    def serving_lua(self, *args):
        """A server in Lua; returns its name."""
        process = subprocess.Popen([MARE, self.program('server.lua', SERVER), *args], text=True,
                                   stdout=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process.stdout.readline().split()[-1]

    @staticmethod
    def end(process):
        process.terminate()
        process.communicate(timeout=PATIENCE)

    def assert_true(self, said):
        """The same clock at both ends: the offset is all error, and within the bound."""
        self.assertEqual(said['code'], 'nil', said)
        self.assertLessEqual(abs(said['offset']), said['error'])


class Chrony(ChronyCase, Programs):
    def test_lua_asks_chronyd(self):
        name = self.serving()
        said = self.ask(name)
        self.assert_true(said)
        self.assertEqual(said['stratum'], 1)
        for key in 7, 9:
            self.assert_true(self.ask(name, keys=str(self.keys), key=key))
        other = self.path / 'other'
        other.write_text(f'7 AES128 HEX:{SECRET[::-1]}\n')
        said = self.ask(name, keys=str(other), key=7, wait=BRIEFLY)
        self.assertEqual(said['code'], 'timeout')
        liar = self.fake_by(lambda question, now: reply(question, now + 10))
        said = self.ask(name, liar.name, name)
        self.assert_true(said)
        self.assertEqual(said['outlier'], ['nil', 'true', 'nil'])

    def test_chronyd_asks_lua_with_a_key(self):
        port = self.serving_lua(str(self.keys)).split(':')[-1]
        done = self.once(f'server 127.0.0.1 port {port} iburst key 7')
        self.assertEqual(done.returncode, 0, done.stderr)
        wrong = float(re.search(r'wrong by (-?[\d.]+) seconds', done.stderr)[1])
        self.assertLess(abs(wrong), 0.5 * SLOW)  # far more than a packet waits for a processor

    def test_lua_between_chronyd_and_others(self):
        name = self.serving_lua('', self.serving())
        deadline, said = time.monotonic() + PATIENCE, {'code': None}
        while said['code'] != 'nil':  # it follows nobody yet
            self.assertLess(time.monotonic(), deadline, said)
            said = self.ask(name, wait=BRIEFLY)
        self.assert_true(said)
        self.assertEqual(said['stratum'], 2)
        code, said = query(name, options=('--samples', '2'))
        self.assertEqual((code, said['stratum']), (0, 2))
        self.assertLessEqual(abs(said['offset_ns']), said['error_ns'])
        self.assertEqual(said['servers'][0]['reference'], '127.0.0.1')


class Commands(Programs):
    def test_lua_and_the_commands_ask_each_other(self):
        with Served('--keys', str(self.keys), '--authenticated') as served:
            self.assert_true(self.ask(served.name, keys=str(self.keys), key=7))
        name = self.serving_lua(str(self.keys))
        code, said = query(name, options=('--keys', str(self.keys), '--key', '9'))
        self.assertEqual((code, said['stratum']), (0, 5))
        self.assertLessEqual(abs(said['offset_ns']), said['error_ns'])
        code, said = query(name, options=('--samples', '1'), timeout=BRIEFLY)
        self.assertEqual((code, said['servers'][0]['why']), (1, 'no answer'))


tap.main(__name__)
