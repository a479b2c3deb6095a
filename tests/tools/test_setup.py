# SPDX-License-Identifier: MIT
"""tools/setup.sh, with a dpkg and an apt that only pretend."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import tap

# Packages named in HAVE are installed; apt knows packages once the lists were updated.
FAKES = {
    'dpkg-query': '''for p; do
    case " $HAVE " in *" $p "*) echo "installed $p" ;; esac
done
exit 1''',
    'apt-cache': '''[ -f "$STATE/updated" ]''',
    'apt-get': '''echo "apt-get $*"
case "$*" in
*update*) touch "$STATE/updated" ;;
*install*) [ -f "$STATE/updated" ] ;;
esac''',
    'id': '''echo "${FAKE_UID:-0}"''',
}


class Setup(unittest.TestCase):
    def setup_sh(self, *groups, **env):
        with tempfile.TemporaryDirectory() as folder:
            state = pathlib.Path(folder)
            for name, body in FAKES.items():
                (state / name).write_text(f'#!/bin/sh\n{body}\n', encoding='ascii')
                (state / name).chmod(0o755)
            if env.get('UPDATED'):
                (state / 'updated').touch()
            if env.get('SUDO'):
                (state / 'sudo').write_text('#!/bin/sh\n[ "$1" != -n ] || shift\nexec "$@"\n',
                                            encoding='ascii')
                (state / 'sudo').chmod(0o755)
            for tool in ('sh', 'awk', 'sed', 'tr', 'env', 'dirname', 'true', 'touch'):
                (state / tool).symlink_to(next(p for p in (f'/usr/bin/{tool}', f'/bin/{tool}')
                                               if os.path.exists(p)))
            # In a tree of its own, whose build folder it may declare out of date.
            (state / 'tools').mkdir()
            for name in ('setup.sh', 'packages.txt'):
                shutil.copy(tap.ROOT / 'tools' / name, state / 'tools')
            (state / 'build').mkdir()
            (state / 'build/build.ninja').touch()
            done = subprocess.run(['/bin/sh', state / 'tools/setup.sh', *groups],
                                  env={'PATH': folder, 'STATE': folder, **env},
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False)
            done.outdated = (state / 'build/build.ninja').stat().st_mtime < 1e9
            return done

    def test_nothing_missing_says_nothing(self):
        done = self.setup_sh('peers', HAVE='erlang-base golang-go')
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, '', ''))
        self.assertFalse(done.outdated)

    def test_installs_only_what_is_missing(self):
        done = self.setup_sh('peers', HAVE='golang-go', UPDATED='1')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('--no-install-recommends erlang-base', done.stdout)
        self.assertNotIn('golang-go', done.stdout)
        self.assertNotIn('update', done.stdout)
        self.assertTrue(done.outdated, 'Meson must look for the new packages')

    def test_updates_the_lists_of_a_new_machine(self):
        done = self.setup_sh('peers', HAVE='')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(done.stdout.index(' update'), done.stdout.index(' install -y'))

    def test_through_sudo(self):
        done = self.setup_sh('peers', HAVE='', UPDATED='1', FAKE_UID='1000', SUDO='1')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('erlang-base golang-go', done.stdout)

    def test_without_the_right_to_install(self):
        done = self.setup_sh('peers', HAVE='golang-go', FAKE_UID='1000')
        self.assertEqual(done.returncode, 1)
        self.assertIn('sudo apt-get install -y --no-install-recommends erlang-base', done.stderr)

    def test_unknown_group(self):
        self.assertNotEqual(self.setup_sh('nonsense').returncode, 0)

    def test_every_package_has_a_reason(self):
        for line in (tap.ROOT / 'tools/packages.txt').read_text(encoding='utf-8').splitlines():
            if line and not line.startswith('#'):
                self.assertGreater(len(line.split()), 2, line)


tap.main(__name__)
