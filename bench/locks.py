# SPDX-License-Identifier: MIT
"""Locks of others, beside those of groups: taken and given back by one client, one at a time.

Redis: SET NX PX, and a script that deletes what is still ours, as its documentation has it; one
server. etcd: its lock service, over its JSON gateway; the cluster of etcd.py. The client is a bare
socket: what it costs is a small part of what it waits for.
"""
import base64
import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

import etcd
import events
import harness
import nodes

RELEASE = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) end'
# redis-tools has the server, under another name: it does what it is called by.
REDIS = "/usr/bin/redis-check-rdb"


def timed(turn, rounds):
    for _ in range(rounds // 10):
        turn()
    begin = time.monotonic()
    for _ in range(rounds):
        turn()
    return {"us": (time.monotonic() - begin) / rounds * 1e6}


def command(*words):
    parts = [f"*{len(words)}\r\n"] + [f"${len(word)}\r\n{word}\r\n" for word in words]
    return "".join(parts).encode()


def use_redis(port, rounds):
    deadline = time.monotonic() + 20
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port))
            break
        except OSError:
            if time.monotonic() > deadline:
                raise harness.Failed("Redis does not get ready") from None
            time.sleep(0.05)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    take = command("SET", "lock", "mine", "NX", "PX", "3000")
    give = command("EVAL", RELEASE, "1", "lock", "mine")

    def turn():
        for request, answer in ((take, b"+OK\r\n"), (give, b":1\r\n")):
            connection.sendall(request)
            got = connection.recv(100)
            if got != answer:
                raise harness.Failed(f"Redis answers {got}")
    with connection:
        return timed(turn, rounds)


def redis(_tools, scale):
    if not os.path.exists(REDIS):
        raise harness.Absent("Redis is missing: tools/setup.sh test")
    folder, port = tempfile.mkdtemp(), events.free_port()
    os.symlink(REDIS, folder + "/redis-server")
    server = subprocess.Popen(
        [folder + "/redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
         "--dir", folder], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        return use_redis(port, max(1000, int(10000 * scale)))
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


def etcd_service(_tools, scale):
    connection = http.client.HTTPConnection("127.0.0.1", etcd.port_of_cluster())

    def ask(path, **what):
        connection.request("POST", "/v3/" + path, json.dumps(what))
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise harness.Failed(f"etcd answers {text}")
        return json.loads(text)
    lease = ask("lease/grant", TTL=300)["ID"]
    name = base64.b64encode(b"lock").decode()

    def turn():
        ask("lock/unlock", key=ask("lock/lock", name=name, lease=lease)["key"])
    return timed(turn, max(20, int(200 * scale)))


def erlang(tools, scale):
    return tools.erlang("locks", max(200, int(5000 * scale)), cores=None,
                        env=nodes.port_mapper())
