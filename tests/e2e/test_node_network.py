# SPDX-License-Identifier: MIT
"""Two nodes in network namespaces of their own, with a cable between them: it is cut and mended, or
loses what goes one way. What each waiting call reports, how soon, and what stays behind."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
SILENCE = 0.6 * servers.SLOW  # seconds after which a node that is not heard is lost
HEAD = f'''
local mare, node, rpc = require "mare", require "mare.node", require "mare.rpc"
local function say(...)
    print(...)
    io.stdout:flush()
end
local function begin(name, listen, join)
    return assert(node.start {{name = name, listen = listen, join = join, insecure = true,
        silence = {SILENCE}}})
end
'''

# Has something of each kind that one can wait for.
SERVER = HEAD + '''
begin("server", "10.77.0.2:7000")
mare.channel(0, "silent")
local got, echo = mare.channel(100, "got"), mare.channel(100, "echo")
mare.spawn({name = "sleeper"}, function() mare.sleep(1000) end)
mare.spawn({name = "callee"}, function()
    function hang() mare.sleep(1000) end
    function answer() return "here" end
    require "mare.rpc".serve()
end)
local full = mare.channel(0, "full")
mare.spawn(function()
    for n, reply in mare.find "got":messages() do
        if reply then reply:trysend(n) else say("got", n) end
    end
end)
say "server is up"
mare.sleep(1000)
'''

# Waits in each way, and says how each wait ended, and when.
CLIENT = HEAD + '''
begin("client", "10.77.0.1:7000", {"10.77.0.2:7000"})
local function find(name)
    local found
    repeat
        found = mare.find(name, 1)
        if not found then mare.sleep(0.02) end
    until found
    return found
end
local news = node.monitor()
local silent, sleeper, full = find "silent@server", find "sleeper@server", find "full@server"
local callee, got = find "callee@server", find "got@server"
local hang = rpc.sync(callee, "hang")
local waits = {
    receive = function() return silent:receive() end,
    select = function() return select(2, mare.select {silent}) end,
    join = function() return sleeper:join() end,
    call = function() return hang() end,
    send = function()
        repeat local ok, message, code = full:send(1) until not ok
        return nil, "", select(3, full:send(1))
    end,
    monitor = function()
        local told = mare.channel(1)
        sleeper:monitor(told)
        local _, how = told:receive()
        return nil, "", how
    end,
    link = function()
        local process = mare.spawn(function() sleeper:link() mare.sleep(1000) end)
        local _, message = process:join()
        return nil, "", message
    end,
}
local count = 0
for name, wait in pairs(waits) do
    count = count + 1
    mare.go(function()
        local _, message, code = wait()
        say("ended", name, code or message, mare.now())
        count = count - 1
    end)
end
mare.sleep(0.1)
say("waits", count)
mare.go(function()
    while true do
        local what, name = news:receive()
        say("news", what, name, mare.now())
    end
end):detach()
repeat mare.sleep(0.02) until count == 0

-- What belonged to the life before stays lost, and what is found again works.
say("old", select(3, silent:receive(1)), select(3, full:sendwithin(1, 1)))
say "ready to go on"
local again = find "callee@server"
say("again", rpc.sync(again, "answer", 20)())

-- Numbers, one after the other, through whatever happens.
local n, lost = 0, 0
local last = os.getenv "MARE_NUMBERS"
while n < tonumber(last) do
    n = n + 1
    local ok, _, code = got:sendwithin(5, n)
    if not ok then
        lost = lost + 1
        got = find "got@server"
    end
    mare.sleep(0.002)
end
local reply = mare.channel(1)
repeat got = find "got@server" got:send(0, reply) until reply:receive(2)
say("sent", n, lost)
mare.sleep(1000)
'''

ENDS = {**dict.fromkeys(['receive', 'select', 'join', 'call', 'send', 'monitor'], 'nonode'),
        'link': 'linked process N was lost with its node'}


def run(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True)


def private_network():
    """Runs this test again in a network of its own; where there is none, says why not."""
    if os.environ.get('MARE_TEST_NETWORK'):
        return None
    if not shutil.which('unshare') or not shutil.which('ip'):
        return 'unshare or ip is not installed'
    own = ['unshare', '-n'] if os.geteuid() == 0 else ['unshare', '-Urn']
    probe = run(*own, 'sh', '-c', 'ip link add left type veth peer name right', check=False)
    if probe.returncode != 0:
        return 'no network of one\'s own here'
    os.environ['MARE_TEST_NETWORK'] = '1'
    os.execvp(own[0], [*own, sys.executable, *sys.argv, MARE])
    return None


REASON = private_network()


@unittest.skipIf(REASON, REASON)
class Network(unittest.TestCase):
    def setUp(self):
        run('ip', 'link', 'add', 'left', 'type', 'veth', 'peer', 'name', 'right')
        self.addCleanup(run, 'ip', 'link', 'del', 'left', check=False)
        run('ip', 'addr', 'add', '10.77.0.1/24', 'dev', 'left')
        run('ip', 'link', 'set', 'left', 'up')
        run('ip', 'link', 'set', 'lo', 'up')
        # The server waits in its namespace until it has its end of the cable.
        self.server = servers.Program(
            ['unshare', '-n', 'sh', '-c', 'echo begun; while ! ip link show right >/dev/null 2>&1;'
             ' do sleep 0.02; done; ip addr add 10.77.0.2/24 dev right; ip link set lo up;'
             ' ip link set right up; exec "$0" -e "$1"', MARE, SERVER])
        self.addCleanup(self.end, self.server)
        self.server.line(0)
        self.inside = ['nsenter', '-t', str(self.server.process.pid), '-n']
        run('ip', 'link', 'set', 'right', 'netns', str(self.server.process.pid))
        self.server.line(1)

    def end(self, program):
        program.process.kill()
        program.wait()
        program.process.stdout.close()

    def client(self, numbers=0):
        client = servers.Program([MARE, '-e', CLIENT],
                                 env={**os.environ, 'MARE_NUMBERS': str(numbers)})
        self.addCleanup(self.end, client)
        self.until(client, 'waits\t7')
        return client

    def until(self, program, start):
        """The first line that begins so."""
        with program.news:
            program.news.wait_for(lambda: program.ended or self.those(program, start),
                                  servers.PATIENCE)
        found = self.those(program, start)
        self.assertTrue(found, program.lines)
        return found[0]

    def those(self, program, start):
        return [line for line in program.lines if line.startswith(start)]

    def all_told(self, client, begin):
        """Every wait has ended by the loss of the node, soon after its silence was over."""
        self.until(client, 'old')
        ended = [line.split('\t')[1:] for line in self.those(client, 'ended')]
        self.assertEqual({name: re.sub('[0-9]+', 'N', how) for name, how, _ in ended},
                         ENDS)
        times = [float(when) - begin for _, _, when in ended]
        self.assertLess(max(times), SILENCE * 2 + 10 * servers.SLOW)
        self.until(client, 'news\tdown\tserver')
        self.assertEqual(self.until(client, 'old'), 'old\tnonode\tnonode')

    def test_a_cut_cable_is_told_and_a_mended_one_is_used(self):
        client = self.client()
        begin = time.monotonic()
        run('ip', 'link', 'set', 'left', 'down')
        self.all_told(client, begin)
        run('ip', 'link', 'set', 'left', 'up')
        self.assertEqual(self.until(client, 'again'), 'again\there')

    def test_what_is_lost_one_way_is_lost(self):
        client = self.client()
        begin = time.monotonic()
        run(*self.inside, 'ip', 'route', 'add', 'blackhole', '10.77.0.1/32')
        self.all_told(client, begin)
        run(*self.inside, 'ip', 'route', 'del', 'blackhole', '10.77.0.1/32')
        self.assertEqual(self.until(client, 'again'), 'again\there')

    def test_numbers_keep_their_order_through_cuts(self):
        client = self.client(numbers=1000)
        run('ip', 'link', 'set', 'left', 'down')
        self.until(client, 'ready')
        run('ip', 'link', 'set', 'left', 'up')
        self.until(client, 'again')
        before = self.memory(self.server)
        cuts = 0
        while not self.those(client, 'sent') and cuts < 3:
            time.sleep(0.3)
            run('ip', 'link', 'set', 'left', 'down')
            time.sleep(2 * SILENCE)
            run('ip', 'link', 'set', 'left', 'up')
            time.sleep(1)
            cuts += 1
        sent = self.until(client, 'sent')
        numbers = [int(line.split('\t')[1]) for line in self.those(self.server, 'got')]
        self.assertEqual(numbers, sorted(set(numbers)), 'in order, and none twice')
        self.assertGreater(len(numbers), 1000 // 4)
        self.assertEqual(int(sent.split('\t')[1]), 1000)
        self.assertLess(self.memory(self.server), before + (16 << 20) * servers.SLOW)

    def memory(self, program):
        status = pathlib.Path(f'/proc/{program.process.pid}/status').read_text()
        return int(re.search(r'VmRSS:\s*(\d+)', status).group(1)) << 10


tap.main(__name__)
