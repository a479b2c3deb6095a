# SPDX-License-Identifier: MIT
"""Corosync beside the multicasts of groups: three nodes, each in a network namespace of its own.

On one loopback interface there can be one Corosync only: its programs find it by a name that is the
machine's. So each node has a namespace, on a bridge in a fourth; that needs the rights of root.
Corosync keeps nothing on the disk.
"""
import contextlib
import os
import shutil
import subprocess
import tempfile
import time

import harness

NODES, READY_S = (1, 2, 3), 30
CONFIGURATION = """
totem {
    version: 2
    cluster_name: bench
    transport: udpu
    crypto_cipher: none
    crypto_hash: none
}
logging {
    to_stderr: yes
    to_syslog: no
    to_logfile: no
}
system {
    sched_rr: no
}
nodelist {
"""
NODE = "    node {{\n        nodeid: {0}\n        ring0_addr: 10.213.0.{0}\n    }}\n"
# What it keeps in places that are the machine's is its own.
INSIDE = ("mount -t tmpfs none /var/run && mount -t tmpfs none /var/lib && "
          "mkdir /var/lib/corosync && exec \"$0\" -f -c \"$1\"")


def find():
    unpacked = harness.ROOT / "build-unpacked/corosync/usr/sbin/corosync"
    found = str(unpacked) if unpacked.exists() else shutil.which("corosync")
    if not found or not os.path.exists("/usr/include/corosync/cpg.h"):
        raise harness.Absent("not installed: make bench-peers")
    if os.geteuid() != 0:
        raise harness.Absent("network namespaces need the rights of root")
    return found


def ip(*words, inside=None):
    within = ["netns", "exec", inside, "ip"] if inside else []
    done = subprocess.run(["ip", *within, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise harness.Absent("no network namespaces here: " + done.stderr.strip())


@contextlib.contextmanager
def hosts():
    """The names of the namespaces."""
    names = [f"mare-bench-{os.getpid()}-{i}" for i in NODES]
    switch = f"mare-bench-{os.getpid()}"
    made = []
    try:
        for name in [switch, *names]:
            ip("netns", "add", name)
            made.append(name)
        ip("link", "add", "bridge", "type", "bridge", inside=switch)
        ip("link", "set", "bridge", "up", inside=switch)
        for i, name in zip(NODES, names):
            ip("link", "add", "eth", "type", "veth", "peer", "name", f"port{i}", "netns", switch,
               inside=name)
            ip("link", "set", f"port{i}", "master", "bridge", "up", inside=switch)
            ip("addr", "add", f"10.213.0.{i}/24", "dev", "eth", inside=name)
            ip("link", "set", "eth", "up", inside=name)
            ip("link", "set", "lo", "up", inside=name)
        yield names
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False)


@contextlib.contextmanager
def nodes(program, names, folder):
    configuration = os.path.join(folder, "corosync.conf")
    with open(configuration, "w", encoding="ascii") as file:
        file.write(CONFIGURATION + "".join(NODE.format(i) for i in NODES) + "}\n")
    running = []
    try:
        for name in names:
            running.append(subprocess.Popen(
                ["ip", "netns", "exec", name, "unshare", "-m", "sh", "-c", INSIDE, program,
                 configuration],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def compiled(folder):
    program = os.path.join(folder, "cpg")
    done = subprocess.run(
        ["cc", "-O2", str(harness.BENCH / "peers/c/cpg.c"), "-o", program, "-lcpg"],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise harness.Failed("cpg.c does not compile: " + done.stderr.strip())
    return program


def exchange(client, names, messages):
    """What the last of them is delivered. One that is too early for its node begins again."""
    deadline, others = time.monotonic() + READY_S, []
    try:
        for name in names[:-1]:
            others.append(subprocess.Popen(
                ["ip", "netns", "exec", name, "sh", "-c",
                 "until \"$0\" \"$1\" 2>/dev/null; do sleep 0.2; done", client, str(messages)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        while True:
            try:
                return harness.run(["ip", "netns", "exec", names[-1], client, messages])
            except harness.Failed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
    finally:
        for one in others:
            one.kill()
            one.wait()


def multicast(_tools, scale):
    program, folder = find(), tempfile.mkdtemp()
    try:
        client = compiled(folder)
        with hosts() as names, nodes(program, names, folder):
            return exchange(client, names, max(1000, int(20000 * scale)))
    finally:
        shutil.rmtree(folder)
