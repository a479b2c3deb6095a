# SPDX-License-Identifier: MIT
"""The rows of events and I/O: servers of ours beside the same ones elsewhere, under one load.

A server is pinned on the first core and its load on the last, so that the two do not take turns. A
server prints its port first; it is ended by a signal.
"""
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import harness

NODE = """
const hello = (request, response) => {
  response.setHeader('content-type', 'text/plain');
  response.end('hello');
};
const server = require('http').createServer(hello);
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
"""

NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen unix:{folder}/unused; listen 127.0.0.1:{port}{how};
        location / {{ default_type text/plain; return 200 "hello"; }}
    }}
}}
"""


def pinned(core, command):
    """On one core; where there is no taskset, anywhere."""
    taskset = shutil.which("taskset")
    return ([taskset, "-c", str(core)] if taskset else []) + [str(word) for word in command]


@contextmanager
def serving(command, core=0, port=None, **options):
    child = subprocess.Popen(pinned(core, command) if core is not None else command,
                             stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True,
                             cwd=harness.ROOT, **options)
    try:
        yield (port or int(child.stdout.readline().split()[-1])), child
    finally:
        child.terminate()  # so that nginx ends its workers
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def need(program, package):
    path = shutil.which(program)
    if not path:
        raise harness.Absent(f"not installed: {package} (make bench-peers)")
    return path


def echo(command_of):
    def measure(tools, scale):
        load = tools.build / "bench/floor_echo_load"
        with serving(command_of(tools)) as (port, _):
            return harness.run(pinned(os.cpu_count() - 1,
                                      [load, port, 50, 64, max(1, 4 * scale)]))
    return measure


def wrk(port, seconds, core, connections=50, scheme="http"):
    command = [need("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}",
               f"{scheme}://127.0.0.1:{port}/"]
    done = subprocess.run(pinned(core, command), capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("Requests/sec:"):
            return {"per_second": float(line.split()[1])}
        if "Non-2xx" in line:
            raise harness.Failed(line.strip())
    raise harness.Failed("wrk: " + (done.stderr.strip() or "no figure"))


def h2load(port, seconds, core):
    """Hello over HTTP/2, in clear text, 100 streams on a connection."""
    command = [need("h2load", "nghttp2-client"), "-c1", "-m100", f"-D{max(1, round(seconds))}",
               f"http://127.0.0.1:{port}/"]
    done = subprocess.run(pinned(core, command), capture_output=True, text=True, check=False)
    figure = re.search(r"finished in .*?, ([0-9.]+) req/s", done.stdout)
    failed = re.search(r"([0-9]+) failed, ([0-9]+) errored", done.stdout)
    if not figure or not failed or int(failed[1]) > 100:  # those under way at the end are
        raise harness.Failed("h2load: " + (done.stderr.strip() or done.stdout.strip()))
    return {"per_second": float(figure[1])}


def ours_http2(tools, scale):
    with serving([tools.mare_path, harness.BENCH / "http.lua", "1"]) as (port, _):
        return h2load(port, 4 * scale, os.cpu_count() - 1)


def ours_http(workers, additions=0, load=None):
    def measure(tools, scale):
        command = [tools.mare_path, harness.BENCH / "http.lua", str(workers), str(additions)]
        with serving(command, core=0 if workers == 1 else None) as (port, _):
            if load:
                return load(tools, port, scale)
            return wrk(port, 4 * scale, os.cpu_count() - 1)
    return measure


def node(_tools, scale):
    with serving([need("node", "nodejs"), "-e", NODE]) as (port, _):
        return wrk(port, 4 * scale, os.cpu_count() - 1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def nginx_path():
    unpacked = harness.ROOT / "build-unpacked/nginx/usr/sbin/nginx"
    return str(unpacked) if unpacked.exists() else need("nginx", "nginx")


def nginx(_tools, scale, load=wrk, how=""):
    path, port = nginx_path(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "nginx.conf"
        config.write_text(NGINX.format(folder=folder, port=port, how=how), encoding="utf-8")
        with serving([path, "-p", folder, "-c", str(config)], port=port,
                     stderr=subprocess.DEVNULL):
            harness.settle(port)
            return load(port, 4 * scale, os.cpu_count() - 1)


def nginx_http2(tools, scale):
    return nginx(tools, scale, h2load, " http2")


def ahead_of_node(row, samples):
    ours = harness.summary([f["per_second"] for f in samples["ours"]])["median"]
    return ours >= 1.5 * harness.summary([f["per_second"] for f in samples["node"]])["median"]


def idle(tools, scale):
    """Bytes of the server's memory for each connection that says nothing."""
    wanted = max(100, int(10000 * scale))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted + 100:
        raise harness.Absent(f"needs {wanted + 100} open files; the limit is {hard}")

    def raise_limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted + 100, hard))

    def ask(server):
        server.stdin.write("?\n")
        server.stdin.flush()
        figures = harness.parse(server.stdout.readline() + server.stdout.readline())
        return figures["held"], figures["bytes"]

    command = [tools.mare_path, harness.BENCH / "idle.lua"]
    with serving(command, core=None, preexec_fn=raise_limit) as (port, server):
        _, before = ask(server)
        load = [tools.build / "bench/floor_echo_load", port, wanted, 64, 0]
        with serving([str(word) for word in load], core=None, port=port,
                     preexec_fn=raise_limit) as (_, client):
            client.stdout.readline()
            held, after = ask(server)
            while held < wanted:
                held, after = ask(server)
    return {"bytes": (after - before) / wanted, "connections": held}


def rows(Row, key, note):
    per_second = key("per_second", 1e-3)
    return [
        Row("echo", "TCP echo, 64 bytes, 50 connections", "k/s",
            {"floor": echo(lambda t: [t.build / "bench/floor_echo"]),
             "ours": echo(lambda t: [t.mare_path, harness.BENCH / "echo.lua", "1"])},
            dict.fromkeys(("floor", "ours"), per_second),
            must=0.7, aim=0.9, against="floor", more_is_better=True,
            notes=["the floor is the same server in C on libuv"]),
        Row("http", "HTTP hello, one worker, 50 kept", "k/s",
            {"nginx": nginx, "node": node, "ours": ours_http(1)},
            dict.fromkeys(("nginx", "node", "ours"), per_second),
            must=0.75, aim=0.9, against="nginx", more_is_better=True,
            also=("≥ 1.5 × Node", ("node",), ahead_of_node)),
        Row("http2", "HTTP/2 hello, 100 streams on a connection", "k/s",
            {"nginx": nginx_http2, "ours": ours_http2},
            dict.fromkeys(("nginx", "ours"), per_second),
            must=0.6, aim=0.9, against="nginx", more_is_better=True),
        Row("httptwo", "HTTP hello, two workers", "k/s",
            {"one": ours_http(1), "ours": ours_http(2)},
            dict.fromkeys(("one", "ours"), per_second),
            must=1.6, against="one", more_is_better=True,
            unjudged=None if os.cpu_count() > 2 else
            "the load needs a core of its own, as much as a worker; see the next row"),
        # Beside it, one in which the load does not cost as much as the server.
        Row("httpwork", "HTTP, 50,000 additions each, two workers", "k/s",
            {"one": ours_http(1, 50000), "ours": ours_http(2, 50000)},
            dict.fromkeys(("one", "ours"), per_second),
            must=1.6, against="one", more_is_better=True,
            notes=["the load runs on the same two cores, and takes its part of one"]),
        Row("idle", "10,000 idle connections, each", "KiB",
            {"ours": idle}, {"ours": key("bytes", 1 / 1024)},
            must=12, aim=8, score_unit="KiB", repetitions=3),
        Row("timers", "pending timers made and cancelled", "M/s",
            {"ours": lambda t, s: t.mare("timers.lua", max(1000, int(1000000 * s)))},
            {"ours": key("per_second", 1e-6)},
            must=1, score_unit="M/s", more_is_better=True,
            notes=[note("ours", "create_per_second", "made: {:.2f} M/s", 1e-6),
                   note("ours", "cancel_per_second", "cancelled: {:.2f} M/s", 1e-6)]),
        Row("late", "timer on an idle machine, p99 late", "ms",
            {"ours": lambda t, s: t.mare("late.lua", max(100, int(500 * s)))},
            {"ours": key("p99_ms")}, must=2, score_unit="ms", repetitions=3,
            notes=[note("ours", "p50_ms", "p50 {:.2f} ms")]),
    ]
