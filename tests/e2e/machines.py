# SPDX-License-Identifier: MIT
"""Two machines with a cable between them, in network namespaces: this one, 10.77.0.1, and another,
10.77.0.2, in which a command runs that has `self.inside` before it."""
import os
import shutil
import subprocess
import sys


def run(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True)


def private_network(mare):
    """Runs this test again in a network of its own; where there is none, says why not."""
    if os.environ.get('MARE_TEST_NETWORK'):
        return None
    if not shutil.which('unshare') or not shutil.which('ip'):
        return 'unshare or ip is not installed'
    own = ['unshare', '-n'] if os.geteuid() == 0 else ['unshare', '-Urn']
    probe = run(*own, 'sh', '-c', 'ip link add left type veth peer name right', check=False)
    if probe.returncode != 0:
        return 'no network of one\'s own here'
    os.environ['MARE_TEST_NETWORK'] = '1'
    os.execvp(own[0], [*own, sys.executable, *sys.argv, mare])
    return None


class Machines:
    """For a test case, in a network of its own."""

    def setUp(self):
        # A process that does nothing keeps the other's network while nothing else runs there.
        self.holder = subprocess.Popen(['unshare', '-n', 'sh', '-c', 'echo; exec cat'],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.stop, self.holder)
        self.holder.stdout.readline()
        self.inside = ['nsenter', '-t', str(self.holder.pid), '-n']
        run('ip', 'link', 'set', 'lo', 'up')

    def stop(self, process):
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def lay(self):
        """Lays the cable."""
        run('ip', 'link', 'add', 'left', 'type', 'veth', 'peer', 'name', 'right')
        self.plug_in()

    def plug_in(self):
        """Plugs in what is called `left` and `right`."""
        self.addCleanup(run, 'ip', 'link', 'del', 'left', check=False)
        run('ip', 'link', 'set', 'right', 'netns', str(self.holder.pid))
        for place, name, number in ([], 'left', 1), (self.inside, 'right', 2):
            run(*place, 'ip', 'addr', 'add', f'10.77.0.{number}/24', 'dev', name)
            run(*place, 'ip', 'link', 'set', 'lo', 'up')
            run(*place, 'ip', 'link', 'set', name, 'up')

    def unplug(self):
        run('ip', 'link', 'set', 'left', 'down')

    def plug(self):
        run('ip', 'link', 'set', 'left', 'up')
