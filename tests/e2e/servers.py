# SPDX-License-Identifier: MIT
"""Programs that serve, for the length of a test: ours, Node's and nginx."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

from ports import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLOW = float(os.environ.get('MARE_TEST_SLOW', '1'))
PATIENCE = 60 * SLOW
NODE = shutil.which('node')
NODE_MODULES = pathlib.Path('/usr/share/nodejs')  # where Debian's packages are
UNPACKED = ROOT / 'build-unpacked/nginx/usr/sbin/nginx'
NGINX = str(UNPACKED) if UNPACKED.exists() else shutil.which('nginx')


class Program:
    """A program that prints its port first. What it prints then is `lines`, and what it complains
    about goes where the test's own complaints do."""

    def __init__(self, command, **options):
        self.lines = []
        self.news = threading.Condition()
        self.ended = False
        self.process = subprocess.Popen([str(word) for word in command], text=True, cwd=ROOT,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **options)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.news:
                self.lines.append(line.rstrip('\n'))
                self.news.notify_all()
        with self.news:
            self.ended = True
            self.news.notify_all()

    def line(self, number):
        """The line of that number, from 0, when it has been printed."""
        with self.news:
            self.news.wait_for(lambda: len(self.lines) > number or self.ended, PATIENCE)
            if len(self.lines) <= number:
                raise AssertionError(f'no line {number} of {self.process.args}: {self.lines}')
            return self.lines[number]

    @property
    def port(self):
        return int(self.line(0).split()[-1])

    def wait(self):
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return code

    def close(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(PATIENCE)
        self.process.stdout.close()


def lua(case, mare, text, *arguments, **options):
    """A program of ours, ended with the test."""
    with tempfile.NamedTemporaryFile('w', suffix='.lua', delete=False) as file:
        file.write(text)
    case.addCleanup(os.remove, file.name)
    program = Program([mare, file.name, *arguments], **options)
    case.addCleanup(program.close)
    return program


def node(case, text, *arguments):
    """A program of Node's, which finds Debian's modules."""
    program = Program([NODE, '-e', text, *arguments],
                      env={**os.environ, 'NODE_PATH': str(NODE_MODULES)})
    case.addCleanup(program.close)
    return program


NGINX_CONF = '''
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
{user}
events {{ worker_connections 256; }}
http {{
    access_log {folder}/access.log; types {{ text/html html; text/plain txt; }}
    default_type application/octet-stream;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; root {folder}/www; {server} }}
}}
'''


def start_nginx(folder, server):
    """nginx and its port. Somebody may take the port before it does; then it ends, and another is
    tried. It writes its process number when it has the port."""
    user = 'user root;' if os.geteuid() == 0 else ''
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        port = free_port()
        (folder / 'nginx.conf').write_text(
            NGINX_CONF.format(folder=folder, port=port, user=user,
                              server=server.replace('{port}', str(port))))
        child = subprocess.Popen([NGINX, '-p', str(folder), '-c', str(folder / 'nginx.conf')],
                                 stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while child.poll() is None and time.monotonic() < deadline:
            if (folder / 'pid').exists() and (folder / 'pid').read_text().strip():
                return child, port
            time.sleep(0.01)
        child.kill()
        child.wait()
    raise AssertionError('nginx does not start: ' + (folder / 'error.log').read_text())


def nginx(case, files, server=''):
    """nginx with these files, by name, and more for its `server` block, in which `{port}` is its
    port: its port and its folder."""
    if not NGINX:
        raise unittest.SkipTest('nginx is not there: tools/setup.sh test')
    folder = tempfile.TemporaryDirectory()
    case.addCleanup(folder.cleanup)
    www = pathlib.Path(folder.name) / 'www'
    for name, content in files.items():
        (www / name).parent.mkdir(parents=True, exist_ok=True)
        (www / name).write_bytes(content)
    child, port = start_nginx(pathlib.Path(folder.name), server)

    def stop():
        child.terminate()
        child.wait()
    case.addCleanup(stop)
    return port, pathlib.Path(folder.name)
