#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Small servers for LuaSocket's protocols: HTTP, SMTP and FTP on free ports of the loopback.

    servers.py

Prints four ports: control, http, smtp, ftp. Ends when the connection to the first is closed, or
when nobody makes one for a minute.
"""
import http.server
import os
import socket
import socketserver
import sys
import threading
from urllib.parse import parse_qs, urlparse

FILES = {'hello.txt': b'hello from a file\r\n', 'big.bin': bytes(range(256)) * 2000}
MAILS = []
MEETINGS = {}
LOCK = threading.Lock()


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def answer(self, body, status=200, **headers):
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    def chunks(self, parts):
        self.send_response(200)
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        for part in parts:
            self.wfile.write(b'%x\r\n%s\r\n' % (len(part), part))
        self.wfile.write(b'0\r\n\r\n')

    def body(self):
        """What was sent with the request, by length or in chunks."""
        if self.headers.get('Transfer-Encoding') != 'chunked':
            return self.rfile.read(int(self.headers.get('Content-Length', 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b''.join(parts)

    def meet(self, count, name):
        """Answers when so many ask at once."""
        with LOCK:
            barrier = MEETINGS.setdefault(name, threading.Barrier(count))
        try:
            barrier.wait(60)
            self.answer(b'met')
        except threading.BrokenBarrierError:
            self.answer(b'alone', 500)

    def do_GET(self):
        url = urlparse(self.path)
        query = parse_qs(url.query)
        if url.path == '/hello':
            self.answer(b'hello\n')
        elif url.path == '/big':
            self.answer(b'0123456789' * 30000)
        elif url.path == '/chunks':
            self.chunks([b'first ', b'second ', b'third' * 1000])
        elif url.path == '/redirect':
            self.answer(b'', 302, Location='/hello')
        elif url.path == '/private':
            allowed = self.headers.get('Authorization') == 'Basic YW5hOnNlY3JldA=='
            self.answer(b'secret' if allowed else b'no', 200 if allowed else 401)
        elif url.path == '/agent':
            self.answer(self.headers.get('User-Agent', '').encode())
        elif url.path == '/meet':
            self.meet(int(query['count'][0]), query['name'][0])
        elif url.path == '/mails':
            self.answer(b''.join(MAILS))
        elif url.path == '/file':
            self.answer(FILES.get(query['name'][0], b'none'))
        else:
            self.answer(b'not here', 404)

    do_HEAD = do_GET

    def do_POST(self):
        self.answer(self.headers.get('Content-Type', 'none').encode() + b': ' + self.body())

    do_PUT = do_POST

    def log_message(self, *arguments):
        pass


class Lines(socketserver.StreamRequestHandler):
    """A protocol of lines: one method for each command."""

    def say(self, text):
        self.wfile.write(text.encode() + b'\r\n')

    def handle(self):
        self.say('220 ready')
        self.over = False
        while not self.over and (line := self.rfile.readline()):
            word, _, rest = line.decode().strip().partition(' ')
            getattr(self, 'on_' + word.lower(), self.unknown)(rest)

    def unknown(self, rest):
        self.say('500 what?')

    def on_quit(self, rest):
        self.say('221 bye')
        self.over = True


class Mail(Lines):
    def on_ehlo(self, rest):
        self.say('250-greetings')
        self.say('250 SIZE 1000000')

    def on_mail(self, rest):
        self.envelope = [rest]
        self.say('250 from')

    def on_rcpt(self, rest):
        if 'nobody' in rest:
            self.say('550 no such user')
        else:
            self.envelope.append(rest)
            self.say('250 to')

    def on_data(self, rest):
        self.say('354 go on')
        text = b''
        while (line := self.rfile.readline()) not in (b'.\r\n', b''):
            text += line[1:] if line.startswith(b'.') else line
        with LOCK:
            MAILS.append('|'.join(self.envelope).encode() + b'\r\n' + text)
        self.say('250 taken')


class Files(Lines):
    def on_user(self, rest):
        self.say('331 password')

    def on_pass(self, rest):
        self.say('530 no' if rest == 'wrong' else '230 in')

    def on_type(self, rest):
        self.say('200 ' + rest)

    def on_cwd(self, rest):
        self.say('250 there')

    def on_epsv(self, rest):
        self.data = socket.create_server(('127.0.0.1', 0))
        self.say(f'229 passive (|||{self.data.getsockname()[1]}|)')

    def transfer(self):
        with self.data:
            self.data.settimeout(60)
            return self.data.accept()[0]

    def on_retr(self, rest):
        content = FILES.get(os.path.basename(rest))
        if content is None:
            self.say('550 no such file')
            return
        self.say('150 coming')
        with self.transfer() as data:
            data.sendall(content)
        self.say('226 done')

    def on_stor(self, rest):
        self.say('150 send')
        with self.transfer() as data:
            with data.makefile('rb') as stream:
                FILES[os.path.basename(rest)] = stream.read()
        self.say('226 done')

    def on_nlst(self, rest):
        self.say('150 list')
        with self.transfer() as data:
            data.sendall('\r\n'.join(sorted(FILES)).encode() + b'\r\n')
        self.say('226 done')


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Clients may go away when they like."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main():
    control = socket.create_server(('127.0.0.1', 0))
    ports = [control.getsockname()[1]]
    for handler in (Web, Mail, Files):
        server = Server(('127.0.0.1', 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ports.append(server.server_address[1])
    print(*ports, flush=True)
    os.close(1)  # whoever reads the ports need not wait for the end
    control.settimeout(60)
    connection = control.accept()[0]
    connection.recv(1)
    os._exit(0)


if __name__ == '__main__':
    sys.exit(main())
