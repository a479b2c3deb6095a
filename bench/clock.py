#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The figure "offset against a local chronyd": true error and bound after a minute.

    python3 bench/clock.py [SECONDS]

Starts a chronyd of its own on the loopback interface, with -x, so that nobody's clock is touched.
Both ends read the same clock: every offset is all error. Ends with 0 if the truth was within the
bound every time and the last bound is what the specification asks for.
"""
import getpass
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
MUST_NS, AIM_NS = 1_000_000, 100_000


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def watch(seconds, folder, chronyd):
    port = free_port()
    config = pathlib.Path(folder) / 'chrony.conf'
    config.write_text(f'port {port}\nbindaddress 127.0.0.1\nallow 127.0.0.1\nlocal stratum 1\n'
                      f'cmdport 0\nbindcmdaddress /\npidfile {folder}/pid\n')
    server = subprocess.Popen([chronyd, '-x', '-U', '-u', getpass.getuser(), '-n', '-f', config],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        done = subprocess.run([ROOT / 'build/mare', 'clock', 'watch', f'127.0.0.1:{port}',
                               '--json', '--count', str(seconds)],
                              capture_output=True, text=True, check=False)
    finally:
        server.terminate()
        server.wait()
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [row for row in rows if 'offset_ns' in row]


def main(seconds='60'):
    # Where tools/setup.sh unpacks it, then where it may be installed.
    chronyd = shutil.which('chronyd', path=os.pathsep.join([
        str(ROOT / 'build-unpacked/chrony/usr/sbin'), os.environ.get('PATH', ''), '/usr/sbin']))
    if not chronyd:
        print('chronyd is missing: tools/setup.sh test')
        return 1
    with tempfile.TemporaryDirectory() as folder:
        rows = watch(int(seconds), folder, chronyd)
    if not rows:
        print('no answer from chronyd')
        return 1
    outside = sum(abs(row['offset_ns']) > row['error_ns'] for row in rows)
    last = rows[-1]['error_ns']
    print(f'{len(rows)} readings over {seconds} s, {outside} outside their bound')
    print(f'largest error {max(abs(row["offset_ns"]) for row in rows) / 1e3:.1f} us')
    print(f'last bound    {last / 1e3:.1f} us (must 1000, aim 100), '
          f'smallest {min(row["error_ns"] for row in rows) / 1e3:.1f}, '
          f'largest {max(row["error_ns"] for row in rows) / 1e3:.1f}')
    print('aim met' if last <= AIM_NS else 'met' if last <= MUST_NS else 'not met')
    return 0 if outside == 0 and last <= MUST_NS else 1


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
