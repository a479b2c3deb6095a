# SPDX-License-Identifier: MIT
"""A headless Chromium for tests, driven by the DevTools protocol over a pipe: messages are JSON
that ends with a zero byte, so nothing is needed but Python itself."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE = 60 * int(os.environ.get('MARE_TEST_SLOW', '1'))
CONTROL = 2  # of modifiers


def find():
    return shutil.which('chromium') or shutil.which('chromium-browser')


class Browser:
    """One window with one page, or several. Exceptions of the page are collected in `errors`,
    requests for anything but the page itself in `fetched`."""

    def __init__(self, width=1400, height=900):
        self.errors, self.fetched = [], []
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        inwards, self.to_browser = os.pipe()
        self.from_browser, outwards = os.pipe()
        self.process = subprocess.Popen(
            ['sh', '-c', f'exec "$0" "$@" 3<&{inwards} 4>&{outwards}', find(), '--headless',
             '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--remote-debugging-pipe',
             f'--user-data-dir={self.folder.name}', f'--window-size={width},{height}',
             'about:blank'],
            pass_fds=(inwards, outwards), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(inwards)
        os.close(outwards)
        self.buffer, self.number, self.session, self.loaded = b'', 0, None, set()
        self.size = {'width': width, 'height': height}
        self.attach(self.first_page())

    def first_page(self):
        """The page that it opens by itself, be it a moment after its start."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for target in self.call('Target.getTargets')['targetInfos']:
                if target['type'] == 'page':
                    return target['targetId']
            time.sleep(0.02)
        raise RuntimeError('Chromium has no page')

    def attach(self, target):
        """What is done from now on is done to that page. Returns what `session` is then."""
        self.session = None
        self.session = self.call('Target.attachToTarget', targetId=target,
                                 flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Network'):
            self.call(f'{domain}.enable')
        self.call('Page.setLifecycleEventsEnabled', enabled=True)
        self.call('Emulation.setDeviceMetricsOverride', deviceScaleFactor=1, mobile=False,
                  **self.size)
        return self.session

    def another(self):
        """One more page: see attach."""
        self.session = None
        return self.attach(self.call('Target.createTarget', url='about:blank')['targetId'])

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.folder.cleanup()

    def receive(self):
        deadline = time.monotonic() + PATIENCE
        while b'\0' not in self.buffer:
            ready, _, _ = select.select([self.from_browser], [], [], deadline - time.monotonic())
            piece = os.read(self.from_browser, 65536) if ready else b''
            if not piece:
                raise RuntimeError('Chromium is gone, or does not answer')
            self.buffer += piece
        message, _, self.buffer = self.buffer.partition(b'\0')
        message = json.loads(message)
        if message.get('method') == 'Runtime.exceptionThrown':
            self.errors.append(message['params']['exceptionDetails'])
        if message.get('method') == 'Network.requestWillBeSent':
            self.fetched.append(message['params']['request']['url'])
        if message.get('method') == 'Page.lifecycleEvent' and message['params']['name'] == 'load':
            self.loaded.add(message['params']['loaderId'])
        return message

    def call(self, method, **params):
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': params}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b'\0')
        while True:
            answer = self.receive()
            if answer.get('id') == self.number:
                if 'error' in answer:
                    raise RuntimeError(f'{method}: {answer["error"]}')
                return answer['result']

    def open(self, path):
        self.go(path.resolve().as_uri())

    def go(self, url):
        loader = self.call('Page.navigate', url=url)['loaderId']
        while loader not in self.loaded:  # perhaps it was, before that answer came
            self.receive()

    def run(self, expression):
        """The value of an expression in the page, as JSON makes it."""
        answer = self.call('Runtime.evaluate', expression=expression, returnByValue=True)
        if 'exceptionDetails' in answer:
            raise RuntimeError(f'{expression}: {answer["exceptionDetails"]}')
        return answer['result'].get('value')

    def mouse(self, kind, x, y, **more):
        self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, **more)

    def move(self, x, y):
        self.mouse('mouseMoved', x, y)

    def click(self, x, y):
        self.move(x, y)
        for kind in ('mousePressed', 'mouseReleased'):
            self.mouse(kind, x, y, button='left', clickCount=1)

    def drag(self, start, end):
        self.move(*start)
        self.mouse('mousePressed', *start, button='left', clickCount=1)
        self.mouse('mouseMoved', *end, button='left', buttons=1)
        self.mouse('mouseReleased', *end, button='left', clickCount=1)

    def wheel(self, x, y, by, modifiers=0):
        self.mouse('mouseWheel', x, y, deltaX=0, deltaY=by, modifiers=modifiers)

    def key(self, key):
        for kind in ('keyDown', 'keyUp'):
            self.call('Input.dispatchKeyEvent', type=kind, key=key,
                      text=key if kind == 'keyDown' and len(key) == 1 else '')

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call('Page.captureScreenshot')['data']))
