# SPDX-License-Identifier: MIT
"""tools/setup.sh, with a dpkg and an apt that only pretend."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import tap

# Packages named in HAVE are installed; apt knows packages once the lists were updated. With
# FETCH_FAILS the first download fails.
FAKES = {
    'dpkg-query': '''for p; do
    case " $HAVE " in *" $p "*) echo "installed $p" ;; esac
done
exit 1''',
    'apt-cache': '''[ -f "$STATE/updated" ]''',
    'apt-get': '''echo "apt-get $*"
case "$*" in
*update*) touch "$STATE/updated" ;;
*download*)
    [ -f "$STATE/updated" ] || exit 100
    if [ -n "${FETCH_FAILS:-}" ] && [ ! -f "$STATE/failed" ]; then
        touch "$STATE/failed"
        exit 100
    fi
    for p; do :; done
    touch "${p}_1.2_amd64.deb" ;;
*install*) [ -f "$STATE/updated" ] ;;
esac''',
    'dpkg-deb': '''case "$*" in
"-x "*/chrony_1.2_amd64.deb*) mkdir -p "$3/usr/sbin"; touch "$3/usr/sbin/chronyd" ;;
"-x "*/corosync_1.2_amd64.deb*) mkdir -p "$3/usr/sbin"; touch "$3/usr/sbin/corosync" ;;
"-x "*/etcd-server_1.2_amd64.deb*) mkdir -p "$3/usr/bin"; touch "$3/usr/bin/etcd" ;;
"-x "*/nginx_1.2_amd64.deb*) mkdir -p "$3/usr/sbin"; touch "$3/usr/sbin/nginx" ;;
"-x "*/postgresql-15_1.2_amd64.deb*) mkdir -p "$3/usr/lib"; touch "$3/usr/lib/postgres" ;;
*) exit 2 ;;
esac''',
    'id': '''echo "${FAKE_UID:-0}"''',
    # What npm has: a text, and the sum of it is its sum.
    'npm': '''[ -z "${NO_REGISTRY:-}" ] || exit 7
for p; do :; done
touch "${p%@*}-${p##*@}.tgz"''',
    'sha512sum': '''read -r sum file && [ "${BAD_SUM:-}" != "$file" ]''',
    'tar': '''touch "$4/index.js"''',
}

# What the group `test` has of such packages, when it is there; and of npm's.
MODULES = ['event-lite-0.1.3', 'ieee754-1.2.1', 'int64-buffer-0.1.10', 'isarray-1.0.0',
           'msgpack-lite-0.1.26', 'msgpack-rpc-lite-1.0.2']
DEBIAN = ['chrony/usr/sbin/chronyd', 'etcd-server/usr/bin/etcd', 'nginx/usr/sbin/nginx',
          'postgresql-15/usr/lib/postgres']
UNPACKED = sorted(DEBIAN + [f'{module}/index.js' for module in MODULES])


class Setup(unittest.TestCase):
    def setup_sh(self, *groups, **env):
        with tempfile.TemporaryDirectory() as folder:
            state = pathlib.Path(folder)
            for name, body in FAKES.items():
                (state / name).write_text(f'#!/bin/sh\n{body}\n', encoding='ascii')
                (state / name).chmod(0o755)
            if env.get('NO_NPM'):
                (state / 'npm').unlink()
            if env.get('UPDATED'):
                (state / 'updated').touch()
            if env.get('SUDO'):
                (state / 'sudo').write_text('#!/bin/sh\n[ "$1" != -n ] || shift\nexec "$@"\n',
                                            encoding='ascii')
                (state / 'sudo').chmod(0o755)
            for tool in ('sh', 'awk', 'sed', 'tr', 'env', 'dirname', 'true', 'touch', 'mkdir', 'mv',
                         'rm', 'ln', 'grep'):
                (state / tool).symlink_to(next(p for p in (f'/usr/bin/{tool}', f'/bin/{tool}')
                                               if os.path.exists(p)))
            # In a tree of its own, whose build folder it may declare out of date.
            (state / 'tools').mkdir()
            for name in ('setup.sh', 'packages.txt', 'npm.sums'):
                shutil.copy(tap.ROOT / 'tools' / name, state / 'tools')
            (state / 'build').mkdir()
            (state / 'build/build.ninja').touch()
            for name in env.get('UNPACKED', '').split():
                (state / 'build-unpacked' / name).mkdir(parents=True)
            done = subprocess.run(['/bin/sh', state / 'tools/setup.sh', *groups],
                                  env={'PATH': folder, 'STATE': folder, **env},
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False)
            done.unpacked = sorted(str(p.relative_to(state / 'build-unpacked'))
                                   for p in (state / 'build-unpacked').rglob('*')
                                   if p.is_file() and 'node_modules' not in p.parts)
            done.required = sorted(p.parent.name for p in
                                   (state / 'build-unpacked/node_modules').glob('*/index.js'))
            done.outdated = (state / 'build/build.ninja').stat().st_mtime < 1e9
            return done

    @staticmethod
    def packages(group):
        """The packages of a group that are installed."""
        lines = (tap.ROOT / 'tools/packages.txt').read_text(encoding='utf-8').splitlines()
        return [line.split()[1] for line in lines if line.split()[:1] == [group]]

    def test_nothing_missing_says_nothing(self):
        done = self.setup_sh('peers', HAVE=' '.join(self.packages('peers')) + ' corosync')
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

    def test_what_has_a_service_is_unpacked_and_never_installed(self):
        done = self.setup_sh('test', UPDATED='1')
        self.assertEqual(done.returncode, 0, done.stderr)
        installs = [line for line in done.stdout.splitlines() if ' install ' in line]
        self.assertEqual(len(installs), 1, done.stdout)
        self.assertNotIn('chrony', installs[0])
        self.assertIn('libseccomp2', installs[0])
        self.assertEqual(done.unpacked, UNPACKED)

    def test_on_a_new_machine_it_is_fetched_after_the_update(self):
        done = self.setup_sh('test')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(done.stdout.index(' update'), done.stdout.index(' download chrony'))
        self.assertEqual(done.unpacked, UNPACKED)

    def test_what_is_unpacked_or_installed_is_left_alone(self):
        have, modules = ' '.join(self.packages('test')), ' '.join(MODULES)
        for env in ({'UNPACKED': f'chrony etcd-server nginx postgresql-15 {modules}'},
                    {'UNPACKED': modules, 'HAVE': have + ' chrony etcd-server nginx postgresql-15'},
                    {'UNPACKED': f'nginx etcd-server {modules}',
                     'HAVE': have + ' chrony postgresql-15'}):
            done = self.setup_sh('test', **{'HAVE': have, 'UPDATED': '1', **env})
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, '', ''), env)

    def test_a_failed_download_is_tried_again_and_leaves_nothing_behind(self):
        have = ' '.join(self.packages('test'))
        done = self.setup_sh('test', HAVE=have, UPDATED='1', FETCH_FAILS='1')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(' download chrony'), 2)
        self.assertNotIn(' install ', done.stdout)
        self.assertFalse(done.outdated)
        self.assertEqual(done.unpacked, UNPACKED)

    def test_unpacking_needs_no_root_but_an_update_does(self):
        have = ' '.join(self.packages('test'))
        done = self.setup_sh('test', HAVE=have, UPDATED='1', FAKE_UID='1000')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.unpacked, UNPACKED)
        done = self.setup_sh('test', HAVE=have, FAKE_UID='1000')
        self.assertEqual(done.returncode, 1)
        self.assertIn('    sudo apt-get update\n', done.stderr)

    def test_without_the_right_to_install_nobody_is_told_to_install_a_service(self):
        done = self.setup_sh('test', FAKE_UID='1000')
        self.assertEqual(done.returncode, 1)
        self.assertIn('sudo apt-get install', done.stderr)
        self.assertNotIn('chrony', done.stderr)

    def test_modules_of_npm_are_found_by_their_names(self):
        done = self.setup_sh('test', UPDATED='1')
        self.assertEqual(done.required, [module.rsplit('-', 1)[0] for module in MODULES])

    def test_without_the_registry_or_with_another_file_modules_are_left_out(self):
        have = ' '.join(self.packages('test')) + ' chrony etcd-server nginx postgresql-15'
        for env in ({'NO_REGISTRY': '1'}, {'BAD_SUM': 'msgpack-rpc-lite-1.0.2.tgz'}):
            done = self.setup_sh('test', HAVE=have, **env)
            self.assertEqual((done.returncode, done.unpacked), (0, []), done.stderr)
            self.assertIn('the tests that want it will be skipped', done.stdout)

    def test_without_npm_its_modules_are_left_out_without_a_word(self):
        have = ' '.join(self.packages('test')) + ' chrony etcd-server nginx postgresql-15'
        done = self.setup_sh('test', HAVE=have, NO_NPM='1')
        self.assertEqual((done.returncode, done.stdout, done.unpacked), (0, '', []), done.stderr)

    def test_every_module_of_npm_has_a_sum(self):
        sums = (tap.ROOT / 'tools/npm.sums').read_text(encoding='ascii').split()[1::2]
        self.assertEqual(sums, [f'{module}.tgz' for module in MODULES])

    def test_unknown_group(self):
        self.assertNotEqual(self.setup_sh('nonsense').returncode, 0)

    def test_every_package_has_a_reason(self):
        for line in (tap.ROOT / 'tools/packages.txt').read_text(encoding='utf-8').splitlines():
            if line and not line.startswith('#'):
                self.assertGreater(len(line.split()), 2, line)


tap.main(__name__)
