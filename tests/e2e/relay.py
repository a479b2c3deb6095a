# SPDX-License-Identifier: MIT
"""A cable that can be slow: passes on every frame between two interfaces.

    relay.py LEFT RIGHT

It waits until both are there, says "ready", and then takes orders, a line each:

    delay SECONDS     each frame is that long on its way
    spoil CHANCE      with this chance a frame is delayed by another 20 ms, so that others overtake
                      it; and with the same chance it comes twice
    lose left|right   what comes from there is lost;  lose none

It runs in a network of its own, so that the kernel there has nothing to say to what passes. A
kernel with netem could do the same; this needs none.
"""
import heapq
import random
import select
import socket
import subprocess
import sys
import time

LATE = 0.02  # seconds


class Cable:
    def __init__(self, names):
        self.ends = [self.open(name) for name in names]
        self.names = names
        self.delay, self.spoil, self.lost = 0.0, 0.0, None
        self.queue, self.count = [], 0
        self.chance = random.Random(1)

    def open(self, name):
        while subprocess.run(['ip', 'link', 'set', name, 'up'], capture_output=True).returncode:
            time.sleep(0.02)
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # every protocol
        end.bind((name, 0))
        return end

    def obey(self, line):
        what, value = line.split()
        if what == 'lose':
            self.lost = dict(zip(self.names, (0, 1))).get(value)
        else:
            setattr(self, what, float(value))

    def put(self, to, frame, extra):
        self.count += 1  # what has the same time keeps its order
        heapq.heappush(self.queue, (time.monotonic() + self.delay + extra, self.count, to, frame))

    def take(self, side):
        try:
            frame, address = self.ends[side].recvfrom(65536)
        except OSError:  # its interface is gone: the test is over
            sys.exit(0)
        if address[2] == socket.PACKET_OUTGOING or side == self.lost:
            return
        late = self.chance.random() < self.spoil
        self.put(1 - side, frame, LATE if late else 0)
        if self.chance.random() < self.spoil:
            self.put(1 - side, frame, 0)

    def send(self):
        while self.queue and self.queue[0][0] <= time.monotonic():
            _, _, to, frame = heapq.heappop(self.queue)
            try:
                self.ends[to].send(frame)
            except OSError:
                pass  # a cable may lose what it cannot carry

    def run(self):
        print('ready', flush=True)
        while True:
            wait = max(self.queue[0][0] - time.monotonic(), 0) if self.queue else None
            for ready in select.select([sys.stdin, *self.ends], [], [], wait)[0]:
                if ready is sys.stdin:
                    line = sys.stdin.readline()
                    if not line:
                        return
                    self.obey(line)
                    print('done', flush=True)
                else:
                    self.take(self.ends.index(ready))
            self.send()


Cable(sys.argv[1:3]).run()
