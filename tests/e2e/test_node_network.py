# SPDX-License-Identifier: MIT
"""Two nodes in network namespaces of their own, with a cable between them: it is cut and mended,
loses what goes one way, is slow, or delivers twice and in another order. The node at its other end
is frozen, killed, started again. What each waiting call reports, how soon, what stays behind."""
import array
import fcntl
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402
from machines import Machines, private_network, run  # noqa: E402

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
local function find(name)
    local found
    repeat
        found = mare.find(name, 1)
        if not found then mare.sleep(0.02) end
    until found
    return found
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

# Calls and sends over a cable that is slow.
DISTANT = HEAD + '''
begin("client", "10.77.0.1:7000", {"10.77.0.2:7000"})
local news = node.monitor()
local got, answer = find "got@server", rpc.sync(find "callee@server", "answer", 60)
say "connected"
local begin = mare.now()
answer()
say("call", mare.now() - begin)
for n = 1, tonumber(os.getenv "MARE_NUMBERS") do assert(got:send(n)) end
local reply = mare.channel(1)
got:send(0, reply)
reply:receive()
repeat -- heartbeats, while nothing else is said
    mare.sleep(0.05)
    local measured
    for _, member in ipairs(node.list()) do
        measured = member.name == "server" and member.round_trip or measured
    end
    say("round trip", measured or 0)
until measured and measured >= tonumber(os.getenv "MARE_ROUND_TRIP")
local what, name = news:tryreceive()
while what do
    say("news", what, name)
    what, name = news:tryreceive()
end
say "all"
mare.sleep(1000)
'''

# Waits in each way, and says how each wait ended, and when.
CLIENT = HEAD + '''
begin("client", "10.77.0.1:7000", {"10.77.0.2:7000"})
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
    find = function()
        local found, message, code
        repeat
            mare.sleep(0.01)
            found, message, code = mare.find("silent@server", 100)
        until not found
        return nil, message, code
    end,
    spawn = function()
        local code
        repeat
            mare.sleep(0.01)
            code = select(3, mare.spawn({node = "server", timeout = 100}, "nothing"))
        until code ~= "noname"
        return nil, "", code
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

ENDS = {**dict.fromkeys(['receive', 'select', 'join', 'call', 'send', 'monitor', 'find', 'spawn'],
                        'nonode'),
        'link': 'linked process N was lost with its node'}


def plain_frames(name):
    """Has the kernel write whole frames, with checksums, for who reads them from the cable."""
    device = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for feature in 0x17, 0x1f, 0x24:  # ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO
        value = array.array('B', struct.pack('II', feature, 0))
        request = struct.pack('16sP', name.encode(), value.buffer_info()[0])
        fcntl.ioctl(device, 0x8946, request)  # SIOCETHTOOL
    device.close()


REASON = private_network(MARE)


@unittest.skipIf(REASON, REASON)
class Network(Machines, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.relay = None

    def cable(self, relayed=False):
        """Lays one, through a relay if it is to be slow, and starts the server at its end."""
        if relayed:
            self.lay_through_relay()
            self.plug_in()
        else:
            self.lay()
        self.start_server()

    def lay_through_relay(self):
        self.relay = subprocess.Popen(
            ['unshare', '-n', sys.executable, pathlib.Path(__file__).with_name('relay.py'),
             'left2', 'right2'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop, self.relay)
        while self.namespace(self.relay.pid) == self.namespace('self'):
            time.sleep(0.01)  # unshare has not yet
        for name in 'left', 'right':
            run('ip', 'link', 'add', name, 'type', 'veth', 'peer', 'name', name + '2')
            plain_frames(name)
            run('ip', 'link', 'set', name + '2', 'netns', str(self.relay.pid))
        self.assertEqual(self.relay.stdout.readline(), 'ready\n')

    def namespace(self, pid):
        return os.readlink(f'/proc/{pid}/ns/net')

    def order(self, text):
        """Tells the relay what kind of cable it is from now on."""
        self.relay.stdin.write(text + '\n')
        self.relay.stdin.flush()
        self.assertEqual(self.relay.stdout.readline(), 'done\n')

    def start_server(self):
        self.server = servers.Program([*self.inside, MARE, '-e', SERVER])
        self.addCleanup(self.end, self.server)
        self.server.line(0)

    def end(self, program):
        program.process.kill()
        program.wait()
        program.process.stdout.close()
        if program.process.stdin:
            program.process.stdin.close()

    def client(self, numbers=0):
        client = servers.Program([MARE, '-e', CLIENT],
                                 env={**os.environ, 'MARE_NUMBERS': str(numbers)})
        self.addCleanup(self.end, client)
        self.until(client, f'waits\t{len(ENDS)}')
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
        times = {name: float(when) - begin for name, _, when in ended}
        print(f'# {self.id().split(".")[-1]}: told after ' + ', '.join(
            f'{name} {seconds:.2f} s' for name, seconds in sorted(times.items())), flush=True)
        self.assertLess(max(times.values()), SILENCE * 2 + 10 * servers.SLOW)
        self.until(client, 'news\tdown\tserver')
        self.assertEqual(self.until(client, 'old'), 'old\tnonode\tnonode')

    def test_a_cut_cable_is_told_and_a_mended_one_is_used(self):
        self.cable()
        client = self.client()
        begin = time.monotonic()
        self.unplug()
        self.all_told(client, begin)
        self.plug()
        self.assertEqual(self.until(client, 'again'), 'again\there')

    def test_a_node_that_stands_still_is_lost_and_goes_on_when_it_wakes(self):
        self.cable()
        client = self.client()
        begin = time.monotonic()
        self.freeze()
        self.all_told(client, begin)
        self.thaw()
        self.assertEqual(self.until(client, 'again'), 'again\there')

    def test_a_node_that_was_killed_is_told_and_its_next_life_is_found(self):
        self.cable()
        client = self.client()
        begin = time.monotonic()
        os.kill(self.server.process.pid, signal.SIGKILL)
        self.all_told(client, begin)
        self.start_server()  # of the same name; what belonged to its first life stays lost
        self.assertEqual(self.until(client, 'again'), 'again\there')

    def test_what_a_cable_loses_one_way_is_lost(self):
        self.cable(relayed=True)
        client = self.client()
        begin = time.monotonic()
        self.order('lose right2')
        self.all_told(client, begin)
        self.order('lose none')
        self.assertEqual(self.until(client, 'again'), 'again\there')

    def distant(self, numbers, round_trip):
        client = servers.Program([MARE, '-e', DISTANT], env={
            **os.environ, 'MARE_NUMBERS': str(numbers), 'MARE_ROUND_TRIP': str(round_trip)})
        self.addCleanup(self.end, client)
        return client

    def test_over_a_slow_cable_calls_take_their_time_and_nothing_is_lost(self):
        self.cable(relayed=True)
        self.order('delay 0.06')
        client = self.distant(500, 0.12)
        self.until(client, 'all')
        self.assertGreaterEqual(float(self.until(client, 'call').split('\t')[1]), 0.12)
        self.assertEqual(self.numbers(), list(range(1, 501)))
        self.assertEqual(self.those(client, 'news\tdown'), [])

    def test_frames_that_come_twice_or_late_change_nothing(self):
        self.cable(relayed=True)
        client = self.distant(500, 0)
        self.until(client, 'connected')
        self.order('spoil 0.2')
        self.until(client, 'all')
        self.assertEqual(self.numbers(), list(range(1, 501)))
        self.assertEqual(self.those(client, 'news\tdown'), [])

    def numbers(self):
        return [int(line.split('\t')[1]) for line in self.those(self.server, 'got')]

    def test_numbers_keep_their_order_through_cuts_and_freezes(self):
        self.cable()
        client = self.client(numbers=1000)
        self.unplug()
        self.until(client, 'ready')
        self.plug()
        self.until(client, 'again')
        before = [self.memory(program) for program in (self.server, client)]
        faults = 0
        while not self.those(client, 'sent') and faults < 3:
            begin, end = ((self.unplug, self.plug), (self.freeze, self.thaw))[faults % 2]
            time.sleep(0.3)
            begin()
            time.sleep(2 * SILENCE)
            end()
            time.sleep(1)
            faults += 1
        sent = self.until(client, 'sent')
        numbers = self.numbers()
        self.assertEqual(numbers, sorted(set(numbers)), 'in order, and none twice')
        self.assertGreater(len(numbers), 1000 // 4)
        self.assertEqual(int(sent.split('\t')[1]), 1000)
        for program, size in zip((self.server, client), before):
            self.assertLess(self.memory(program), size + (16 << 20) * servers.SLOW)

    def freeze(self):
        os.kill(self.server.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.server.process.pid, signal.SIGCONT)

    def memory(self, program):
        status = pathlib.Path(f'/proc/{program.process.pid}/status').read_text()
        return int(re.search(r'VmRSS:\s*(\d+)', status).group(1)) << 10


tap.main(__name__)
