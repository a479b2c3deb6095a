# SPDX-License-Identifier: MIT
"""Hosts in network namespaces of their own, and the wires between them, which this program is.

    wires.py COUNT

Each host has an address and a TUN device, from which packets are read here, and given to the device
of the host that they are for: at once, later, or not at all. No queueing discipline, filter or
route of the kernel is needed, and each direction has its own quality. What it prints: a line for
each host, ADDRESS and the path of its namespace (for `nsenter --net=`), then `ok` for each command:

    set FROM TO LOSS DELAY JITTER   from one host to another (numbers from 1): how much is lost, of
                                    1, and by how many seconds it is late, at random up to JITTER
                                    later still, so that packets overtake each other

It ends, with its namespaces, when there are no more commands. With no right to make namespaces or
devices it says why, and ends with code 77.
"""
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN_NO_PI = 0x1001
MTU = 9000  # few, large packets: each costs this program a turn

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def make_host(address):
    """The descriptor of a device in a new namespace, and that of the namespace."""
    check(libc.unshare(CLONE_NEWNET), "no network namespace of one's own")
    space = os.open("/proc/self/ns/net", os.O_RDONLY)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"wire", IFF_TUN_NO_PI))
    for words in (["link", "set", "lo", "up"], ["addr", "add", address + "/24", "dev", "wire"],
                  ["link", "set", "wire", "up", "mtu", str(MTU)]):
        subprocess.run(["ip", *words], check=True)
    return device, space


class Wires:
    def __init__(self, devices):
        self.devices, self.quality = devices, {}
        self.late, self.count = [], 0  # packets on their way: when, a number, to whom, bytes

    def set(self, source, target, loss, delay, jitter):
        self.quality[int(source), int(target)] = (float(loss), float(delay), float(jitter))

    def give(self, target, packet):
        try:
            os.write(self.devices[target - 1], packet)
        except OSError:
            pass  # no room, or it is going away: lost

    def read(self, source):
        for _ in range(64):
            try:
                packet = os.read(self.devices[source - 1], MTU + 64)
            except OSError:
                return
            target = packet[19] if packet[0] >> 4 == 4 else 0  # its address ends with its number
            if not 1 <= target <= len(self.devices):
                continue
            loss, delay, jitter = self.quality.get((source, target), (0, 0, 0))
            if loss and random.random() < loss:
                continue
            if not delay and not jitter:
                self.give(target, packet)
                continue
            self.count += 1
            when = time.monotonic() + delay + random.random() * jitter
            heapq.heappush(self.late, (when, self.count, target, packet))

    def give_late(self):
        """Gives what is due; returns after how many seconds something will be, or None."""
        now = time.monotonic()
        while self.late and self.late[0][0] <= now:
            _, _, target, packet = heapq.heappop(self.late)
            self.give(target, packet)
        return self.late[0][0] - now if self.late else None

    def run(self):
        poll, which = select.epoll(), {}
        for number, device in enumerate(self.devices, 1):
            poll.register(device, select.EPOLLIN)
            which[device] = number
        poll.register(0, select.EPOLLIN)
        rest = b""
        while True:
            for ready, _ in poll.poll(self.give_late()):
                if ready != 0:
                    self.read(which[ready])
                    continue
                part = os.read(0, 65536)
                if not part:
                    return
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    self.set(*line.split()[1:])
                    print("ok", flush=True)


def main(count):
    devices = []
    try:
        for number in range(1, count + 1):
            address = f"10.77.0.{number}"
            device, space = make_host(address)
            devices.append(device)
            print(f"{address} /proc/{os.getpid()}/fd/{space}", flush=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(error)
        return 77
    Wires(devices).run()
    return 0


sys.exit(main(int(sys.argv[1])))
