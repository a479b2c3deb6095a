# SPDX-License-Identifier: MIT
"""The rows of the web: one worker of ours beside one of nginx's, and Node, in the same run.

As in events.py a server is pinned on the first core and its load on the last.
"""
import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import events
import harness

LARGE = 1 << 20

NODE = """
const fs = require('fs'), [kind, path, key] = process.argv.slice(1);
const large = Buffer.alloc(1 << 20, 'x');
const answer = (request, response) => {
  response.setHeader('content-type', 'text/plain');
  if (kind === 'file') {
    response.setHeader('content-length', large.length);
    fs.createReadStream(path).pipe(response);
  } else response.end(kind === 'string' ? large : 'hello');
};
const server = kind === 'https'
  ? require('https').createServer({cert: fs.readFileSync(path), key: fs.readFileSync(key)}, answer)
  : require('http').createServer(answer);
if (kind === 'websocket') {
  const {WebSocketServer} = require('ws');
  new WebSocketServer({server}).on('connection',
    ws => ws.on('message', (data, binary) => ws.send(data, {binary})));
}
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
"""

NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 1000000000; sendfile on; tcp_nopush on;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi; default_type text/plain;
    server {{
        listen unix:{folder}/unused; listen 127.0.0.1:{port} backlog=4096 {options};
        {tls}
        location / {{ {location} }}
    }}
}}
"""

TLS = """ssl_certificate {folder}/certificate; ssl_certificate_key {folder}/key;
ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets on;"""


@contextmanager
def files():
    """A folder with what servers need: a body, and a certificate of an RSA key with its key. (To
    sign by RSA costs a server more than a client, so that the server is what is measured.)"""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # nginx's worker is another user
        (Path(folder) / "body").write_bytes(b"x" * LARGE)
        subprocess.run([events.need("openssl", "openssl"), "req", "-x509", "-newkey", "rsa:2048",
                        "-nodes", "-subj", "/CN=localhost", "-days", "2", "-keyout",
                        f"{folder}/key", "-out", f"{folder}/certificate"],
                       check=True, capture_output=True)
        yield folder


def words(kind, folder):
    return [kind] + {"file": [f"{folder}/body"],
                     "https": [f"{folder}/certificate", f"{folder}/key"]}.get(kind, [])


def ours(kind, load):
    def measure(tools, scale):
        with files() as folder:
            command = [tools.mare_path, harness.BENCH / "web.lua", *words(kind, folder)]
            with events.serving(command) as (port, _):
                return load(tools, port, scale)
    return measure


def node(kind, load):
    def measure(tools, scale):
        with files() as folder:
            path = os.environ.get("NODE_PATH", "/usr/share/nodejs")
            command = [events.need("node", "nodejs"), "-e", NODE, *words(kind, folder)]
            with events.serving(command, env={**os.environ, "NODE_PATH": path}) as (port, _):
                return load(tools, port, scale)
    return measure


def nginx(kind, load):
    def measure(tools, scale):
        with files() as folder:
            port, secure = events.free_port(), kind == "https"
            location = {"hello": 'return 200 "hello";', "https": 'return 200 "hello";',
                        "string": f"root {folder}; rewrite ^ /body break;",
                        "file": f"root {folder}; rewrite ^ /body break;"}[kind]
            (Path(folder) / "nginx.conf").write_text(NGINX.format(
                folder=folder, port=port, options="ssl" if secure else "", location=location,
                tls=TLS.format(folder=folder) if secure else ""), encoding="utf-8")
            with events.serving([events.nginx_path(), "-p", folder, "-c", f"{folder}/nginx.conf"],
                                port=port, stderr=subprocess.DEVNULL):
                harness.settle(port)
                return load(tools, port, scale)
    return measure


# ---- Loads --------------------------------------------------------------------------------------

LAST = os.cpu_count() - 1


def wrk(connections=50, scheme="http"):
    return lambda tools, port, scale: events.wrk(port, 4 * scale, LAST, connections, scheme)


def handshakes(*more):
    def load(tools, port, scale):
        figures = harness.run(events.pinned(LAST, [tools.build / "bench/floor_tls_load", port, 16,
                                                   max(1, 4 * scale), *more]))
        if figures["resumed"] < 0.99 if more else figures["resumed"] > 0:
            raise harness.Failed(f"{figures['resumed']:.0%} of the sessions were resumed")
        return figures
    return load


def websocket(size):
    return lambda tools, port, scale: harness.run(events.pinned(
        LAST, [tools.build / "bench/floor_echo_load", port, 50, size, max(1, 4 * scale),
               "websocket"]))


def rows(Row, key, note):
    def row(name, title, kind, load, must, aim, factor=1e-3, unit="k/s", **more):
        peers = {"nginx": nginx(kind, load), "node": node(kind, load), "ours": ours(kind, load)}
        if kind == "websocket":
            del peers["nginx"]
        if name == "resumed":
            del peers["node"]  # which gives no ticket for the next time to one who resumes
        if kind == "hello":
            peers["ours"] = lambda tools, scale: events.ours_http(1, load=load)(tools, scale)
        return Row(name, title, unit, peers, dict.fromkeys(peers, key("per_second", factor)),
                   must=must, aim=aim, against="nginx" if "nginx" in peers else "node",
                   more_is_better=True, **more)

    large = {"factor": LARGE / 1e6, "unit": "MB/s"}
    return [
        row("http1000", "HTTP hello, one worker, 1,000 kept", "hello", wrk(1000), 0.7, 0.9),
        row("largestring", "HTTP answers of 1 MiB, strings", "string", wrk(), 0.9, 1, **large,
            notes=["nginx's are from a file: it has no such strings"]),
        row("largefile", "HTTP answers of 1 MiB, files", "file", wrk(), 0.9, 1, **large),
        row("https", "HTTPS hello, one worker, 50 kept", "https", wrk(scheme="https"), 0.8, 1),
        row("handshakes", "TLS 1.3 handshakes, full, RSA", "https", handshakes(), 0.8, 1,
            notes=["each with a request, on a connection of its own"]),
        row("resumed", "TLS 1.3 handshakes, resumed", "https", handshakes("resume"), 0.8, 1),
        row("ws64", "WebSocket echo, 64 bytes, 50 of them", "websocket", websocket(64), 1.5, 2),
        row("ws16k", "WebSocket echo, 16 KiB, 50 of them", "websocket", websocket(16384), 1.5, 2),
    ]
