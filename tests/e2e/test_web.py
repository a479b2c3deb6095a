# SPDX-License-Identifier: MIT
"""The pieces of a web server against curl: uploads, ranges, tags, compression, cookies."""
import http.client
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
import tap  # noqa: E402
import servers  # noqa: E402

MARE = str(pathlib.Path(sys.argv.pop()).resolve())
CURL = shutil.which('curl')

SERVER = '''
local mare, net, http = require "mare", require "mare.net", require "mare.http"
local route, form, cookie = require "mare.http.route", require "mare.http.form",
    require "mare.http.cookie"
local signer = cookie.signer(("k"):rep(32))
local routes = route.new():use(require "mare.http.gzip".answers())
routes:post("/upload", function(request)
    local said, next_part = {}, assert(form.parts(request, {part = 10 << 20}))
    while true do
        local part, message = next_part()
        if message then return {status = 400, body = message .. "\\n"} end
        if not part then return table.concat(said, " ") .. "\\n" end
        said[#said + 1] = ("%s %s %s %d"):format(part.name, part.filename, part.type,
            #assert(part:text()))
    end
end)
routes:post("/login", function(request)
    local signed = signer:sign("user", form.body(request).name)
    return {status = 303, headers = {location = "/me", ["set-cookie"] = cookie.set("user", signed)}}
end)
routes:get("/me", function(request)
    return signer:check("user", cookie.of(request).user) or {status = 403}
end)
routes:get("/*rest", require "mare.http.static".files(arg[1]))
local listener = assert(net.listen("127.0.0.1", 0))
io.stdout:setvbuf "line"
print((select(2, listener:address())))
http.serve(listener, routes:handler(), {processes = 2, limits = {body = 20 << 20}})
'''


@unittest.skipUnless(CURL, 'curl is not installed')
class Web(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        public = self.folder / 'public'
        public.mkdir()
        (self.folder / 'secret').write_text('secret')
        (public / 'digits.txt').write_text('0123456789')
        (public / 'long.txt').write_text('tide ' * 20000)
        self.base = f'http://127.0.0.1:{servers.lua(self, MARE, SERVER, str(public)).port}'

    def curl(self, path, *options):
        """What it prints, and the status and the bytes that came."""
        done = subprocess.run(
            [CURL, '-sS', '--path-as-is', '-w', '\n%{http_code} %{size_download}', *options,
             self.base + path], capture_output=True, text=True, timeout=servers.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        text, _, numbers = done.stdout.rpartition('\n')
        status, size = numbers.split()
        return text, int(status), int(size)

    def test_files(self):
        self.assertEqual(self.curl('/digits.txt'), ('0123456789', 200, 10))
        self.assertEqual(self.curl('/digits.txt', '-r', '2-4'), ('234', 206, 3))
        self.assertEqual(self.curl('/digits.txt', '-r', '-1'), ('9', 206, 1))
        self.assertEqual(self.curl('/digits.txt', '-r', '10-')[1], 416)
        for path in ('/../secret', '/%2e%2e/secret', '/..%2fsecret'):
            self.assertEqual(self.curl(path)[1], 404)

    def test_who_has_it_gets_it_no_more(self):
        tag = str(self.folder / 'tag')
        self.assertEqual(self.curl('/digits.txt', '--etag-save', tag)[1], 200)
        self.assertEqual(self.curl('/digits.txt', '--etag-compare', tag)[1:], (304, 0))
        self.assertEqual(self.curl('/digits.txt', '-z', '1 Jan 2037')[1], 304)
        self.assertEqual(self.curl('/digits.txt', '-z', '1 Jan 1999')[1], 200)

    def test_compression(self):
        text, status, size = self.curl('/long.txt', '--compressed')
        self.assertEqual((text, status), ('tide ' * 20000, 200))
        self.assertLess(size, 1000)
        self.assertEqual(self.curl('/long.txt')[2], 100000)

    def test_an_upload_in_parts(self):
        large = self.folder / 'large.csv'
        large.write_bytes(b'\r\n--' * 1000000)
        self.assertEqual(
            self.curl('/upload', '-F', 'name=Ada', '-F', f'file=@{large};type=text/csv'),
            ('name nil nil 3 file large.csv text/csv 4000000\n', 200, 47))

    def test_a_login(self):
        jar = str(self.folder / 'jar')
        self.assertEqual(
            self.curl('/login', '-L', '-b', jar, '-c', jar, '-d', 'name=Ada L.')[:2],
            ('Ada L.', 200))
        self.assertEqual(self.curl('/me', '-b', jar)[:2], ('Ada L.', 200))
        self.assertEqual(self.curl('/me', '-b', 'user=Ada')[1], 403)


FILES = {'digits.txt': b'0123456789', 'empty.txt': b'', 'sub/index.html': b'<p>'}
ALL, OLD, NEW = '200 10', 'Thu, 01 Jan 1970 00:00:00 GMT', 'Fri, 31 Dec 2032 23:59:59 GMT'

# Of /digits.txt, or another path: a header, what ours answers ("status bytes content-range"), and
# what nginx does, if that is something else, with the RFC's word on it.
ODD = [
    ('Range', 'bytes=0-0', '206 1 bytes 0-0/10'),
    ('Range', 'bytes=9-99', '206 1 bytes 9-9/10'),
    ('Range', 'bytes=-99', '206 10 bytes 0-9/10'),
    ('Range', 'bytes=10-', '416 bytes */10'),
    ('Range', 'bytes=-0', '416 bytes */10'),
    ('Range', 'items=0-1', ALL),
    ('Range', 'bytes=5-4', ALL, '416 bytes */10'),  # 9110 14.1.2: invalid; 14.2: MAY ignore
    ('Range', 'bytes=a-b', ALL, '416 bytes */10'),
    ('Range', 'bytes=1', ALL, '416 bytes */10'),
    ('Range', 'bytes=-', ALL, '416 bytes */10'),
    ('Range', 'bytes=1-2,4-5', ALL, '206'),  # 9110 15.3.7.2: MAY send several, or all
    # 9110 14.1.2: a last position beyond the end is the end
    ('Range', 'bytes=0-99999999999999999999', '206 10 bytes 0-9/10', '416 bytes */10'),
    ('Range', 'bytes=99999999999999999999-', '416 bytes */10'),
    ('If-None-Match', '*', '304'),
    ('If-None-Match', '"other"', ALL),
    ('If-None-Match', 'nonsense', ALL),
    ('If-Modified-Since', NEW, '304'),
    ('If-Modified-Since', OLD, ALL),
    ('If-Modified-Since', 'nonsense', ALL),
    ('If-Modified-Since', 'Friday, 31-Dec-32 23:59:59 GMT', '304'),
    ('If-Modified-Since', 'Fri Dec 31 23:59:59 2032', '304'),
    ('/empty.txt', '', '200 0'),
    ('/sub', '', '301'),
    ('/sub/', '', '200 3'),
    ('/none', '', '404'),
    ('/digits.txt/', '', '404'),
    ('//digits.txt', '', '200 10'),
    ('/./digits.txt', '', '404', '200 10'),  # 3986 6.2.2.3: normalizing is the client's to do
    ('/sub/../digits.txt', '', '404', '200 10'),
    ('/sub/%2e%2e/digits.txt', '', '404', '200 10'),
    ('/../secret', '', '404', '400'),
    ('/%2e%2e%2fsecret', '', '404', '400'),
    ('/digits.txt%00', '', '404', '400'),
]


def answer_of(port, name, value):
    path, headers = (name, {}) if name.startswith('/') else ('/digits.txt', {name: value})
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=servers.PATIENCE)
    connection.request('GET', path, headers=headers)
    response = connection.getresponse()
    body, span = response.read(), response.headers.get('Content-Range')
    connection.close()
    words = [str(response.status)] + ([str(len(body))] if response.status in (200, 206) else [])
    return ' '.join(words + ([span] if span else []))


class OddFiles(unittest.TestCase):
    def test_ours_and_nginx_agree_or_it_is_said_why_not(self):
        port, folder = servers.nginx(self, FILES, 'if_modified_since before;')
        (folder / 'secret').write_text('secret')
        ours = servers.lua(self, MARE, SERVER, str(folder / 'www')).port
        for name, value, expected, *theirs in ODD:
            with self.subTest(name, value=value):
                self.assertEqual(answer_of(ours, name, value), expected, (name, value))
                said = answer_of(port, name, value)
                theirs = theirs[0] if theirs else expected
                self.assertEqual(said[:len(theirs)], theirs, ('nginx', name, value))


tap.main(__name__)
