# SPDX-License-Identifier: MIT
"""The row of etcd: a lock taken and given back, by mare.etcd and by the same requests sent bare.

A cluster of three on loopback is begun with the first figure and serves all of them. Both ask the
same member.
"""
import atexit
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import events
import harness

READY_S = 60
cluster = {}


def find():
    unpacked = harness.ROOT / "build-unpacked/etcd-server/usr/bin/etcd"
    found = str(unpacked) if unpacked.exists() else shutil.which("etcd")
    if not found:
        raise harness.Absent("etcd is missing: tools/setup.sh test")
    return found


def healthy(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def end():
    for member in cluster.get("members", []):
        member.kill()
        member.wait()
    shutil.rmtree(cluster["folder"], ignore_errors=True)


def port_of_cluster():
    """The client port of a member of the cluster, which is begun if there is none."""
    if "port" in cluster:
        return cluster["port"]
    program = find()
    cluster["folder"], cluster["members"] = tempfile.mkdtemp(), []
    atexit.register(end)
    ports = [(events.free_port(), events.free_port()) for _ in range(3)]
    everybody = ",".join(f"m{i}=http://127.0.0.1:{peer}" for i, (_, peer) in enumerate(ports))
    for i, (client, peer) in enumerate(ports):
        cluster["members"].append(subprocess.Popen(
            [program, "--name", f"m{i}", "--data-dir", f"{cluster['folder']}/{i}",
             "--listen-client-urls", f"http://127.0.0.1:{client}",
             "--advertise-client-urls", f"http://127.0.0.1:{client}",
             "--listen-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-cluster", everybody],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    deadline = time.monotonic() + READY_S
    while not all(healthy(client) for client, _ in ports):
        if time.monotonic() > deadline:
            raise harness.Failed("etcd does not get ready")
        time.sleep(0.05)
    cluster["port"] = ports[0][0]
    return cluster["port"]


def ours(tools, scale):
    port = port_of_cluster()
    return tools.mare("etcd.lua", f"http://127.0.0.1:{port}", max(20, int(1000 * scale)))


def bare(tools, scale):
    port = port_of_cluster()
    requests = os.path.join(cluster["folder"], "requests")
    done = subprocess.run([tools.mare_path, harness.BENCH / "etcd.lua", f"http://127.0.0.1:{port}",
                           "0", requests], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise harness.Failed("etcd.lua: " + done.stderr.strip())
    return harness.run([tools.build / "bench/floor_etcd", port, requests,
                        max(20, int(1000 * scale))])


def rows(Row, key, _note):
    return [
        Row("etcdlock", "etcd, three members: lock + unlock", "µs",
            {"floor": bare, "ours": ours}, dict.fromkeys(("floor", "ours"), key("us")),
            must=1.2, aim=1.05, against="floor",
            notes=["the floor sends the same two requests bare, from C, on one connection"]),
    ]
