#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The row "offset against a local chronyd": true error and bound after a minute.

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

import harness

ROOT = pathlib.Path(__file__).resolve().parents[1]
MUST_US, AIM_US = 1000, 100
GRACE_S = 60    # beyond the seconds that are watched: nothing here takes that long


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def find_chronyd():
    # Where tools/setup.sh unpacks it, then where it may be installed.
    found = shutil.which('chronyd', path=os.pathsep.join([
        str(ROOT / 'build-unpacked/chrony/usr/sbin'), os.environ.get('PATH', ''), '/usr/sbin']))
    if not found:
        raise harness.Absent('chronyd is missing: tools/setup.sh test')
    return found


def end(server):
    server.terminate()
    try:
        server.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def watch(mare, seconds, folder):
    port = free_port()
    config = pathlib.Path(folder) / 'chrony.conf'
    config.write_text(f'port {port}\nbindaddress 127.0.0.1\nallow 127.0.0.1\nlocal stratum 1\n'
                      f'cmdport 0\nbindcmdaddress /\npidfile {folder}/pid\n')
    server = subprocess.Popen([find_chronyd(), '-x', '-U', '-u', getpass.getuser(), '-n', '-f',
                               config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        done = subprocess.run([mare, 'clock', 'watch', f'127.0.0.1:{port}', '--json', '--count',
                               str(seconds)], capture_output=True, text=True, check=False,
                              timeout=2 * seconds + GRACE_S)   # a silent server costs a second
    except subprocess.TimeoutExpired as late:
        raise harness.Failed(f'mare clock watch did not end: {late}') from late
    finally:
        end(server)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [row for row in rows if 'offset_ns' in row]


def measure(mare, seconds):
    """The figures of one run, in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        rows = watch(mare, seconds, folder)
    if len(rows) < seconds / 2:
        raise harness.Failed(f'chronyd answered {len(rows)} of {seconds} times')
    bounds = [row['error_ns'] / 1e3 for row in rows]
    errors = [abs(row['offset_ns']) / 1e3 for row in rows]
    return {'readings': len(rows), 'bound_us': bounds[-1], 'least_us': min(bounds),
            'most_us': max(bounds), 'error_us': max(errors),
            'outside': sum(error > bound for error, bound in zip(errors, bounds))}


def column(tools, scale):
    if not pathlib.Path(tools.mare_path).exists():
        raise harness.NotBuilt('not built: make')
    return measure(tools.mare_path, max(5, int(60 * scale)))


def within_bounds(_row, samples):
    return all(figures['outside'] == 0 for figures in samples['ours'])


def rows(make, key, note):
    """The row; `make` is the class of a row, `key` picks a figure, `note` writes one."""
    return [make('clock', 'bound against a local chronyd', 'µs', {'ours': column},
                 {'ours': key('bound_us')}, must=MUST_US, aim=AIM_US, score_unit='µs',
                 repetitions=1, also=('true error within the bound', ('ours',), within_bounds),
                 notes=[note('ours', 'readings', 'readings, one a second: {:.0f}'),
                        note('ours', 'outside', 'of them further from the truth than their '
                             'bound: {:.0f}'),
                        note('ours', 'error_us', 'largest true error: {:.1f} µs'),
                        note('ours', 'most_us', 'largest bound: {:.1f} µs')])]


def main(seconds='60'):
    try:
        found = measure(ROOT / 'build/mare', int(seconds))
    except (harness.Absent, harness.Failed) as why:
        print(why)
        return 1
    print(f'{found["readings"]} readings over {seconds} s, {found["outside"]} outside their bound')
    print(f'largest error {found["error_us"]:.1f} us')
    print(f'last bound    {found["bound_us"]:.1f} us (must {MUST_US}, aim {AIM_US}), '
          f'smallest {found["least_us"]:.1f}, largest {found["most_us"]:.1f}')
    print('aim met' if found['bound_us'] <= AIM_US else
          'met' if found['bound_us'] <= MUST_US else 'not met')
    return 0 if found['outside'] == 0 and found['bound_us'] <= MUST_US else 1


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
