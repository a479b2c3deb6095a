#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that the commands of the README work on a new machine: makes a minimal Debian 12 with
# nothing but git and make, clones this repository's HEAD into it, and runs there what is asked.
# Needs root and tools/setup.sh fresh.
#
#   tools/fresh.sh                        make run, then make test
#   tools/fresh.sh make                   what a command needs beyond git and make is a failure
#   tools/fresh.sh 'tools/setup.sh build && make'
#   FRESH_KEEP=1 tools/fresh.sh ...       leaves the root in place and says where
#
# The machine's package sources and their settings are copied, so that a mirror or a proxy that
# works here works there. FRESH_CACHE names a folder where the bare system is kept between runs.
set -eu
cd "$(dirname "$0")/.."

suite=bookworm
[ "$(id -u)" = 0 ] || { echo "fresh: needs root, to make and enter a new system" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "fresh: run tools/setup.sh fresh" >&2; exit 1; }
[ $# -gt 0 ] || set -- 'make run' 'make test'

root=$(mktemp -d "${TMPDIR:-/tmp}/fresh.XXXXXX")
chmod 755 "$root" # apt fetches as a user of its own
mounted=
clean() {
    code=$?
    trap - EXIT INT TERM
    for point in $mounted; do # the innermost comes first
        umount -R "$root/$point" 2>/dev/null || umount -l "$root/$point"
    done
    if [ -n "${FRESH_KEEP:-}" ]; then
        echo "fresh: kept in $root"
    elif ! grep -q " $root/" /proc/mounts; then
        rm -rf --one-file-system "$root"
    fi
    exit $code
}
trap clean EXIT
trap 'exit 130' INT TERM

# The mirror that apt uses for this suite here; debootstrap's own default when apt names none.
# shellcheck disable=SC2016 # apt puts these in
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null |
    awk -v suite=$suite '$2 == suite { print $1; exit }')

cached=${FRESH_CACHE:+$FRESH_CACHE/$suite.tar}
if [ -n "$cached" ] && [ -f "$cached" ]; then
    echo "fresh: unpacking a Debian $suite"
    tar -C "$root" -xpf "$cached"
else
    echo "fresh: making a Debian $suite"
    debootstrap --variant=minbase --include=git,make,ca-certificates $suite "$root" \
        ${mirror:+"$mirror"} >"$root.log" 2>&1 || { tail -n 30 "$root.log" >&2; exit 1; }
    rm -f "$root.log"
    if [ -n "$cached" ]; then
        mkdir -p "$FRESH_CACHE"
        tar -C "$root" -cpf "$cached.new" . && mv "$cached.new" "$cached"
    fi
fi

# Package sources as on this machine; the lists themselves are left to be fetched.
rm -f "$root/etc/apt/sources.list"
for from in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf /etc/apt/apt.conf.d \
    /etc/apt/trusted.gpg.d /etc/apt/keyrings /usr/share/keyrings; do
    [ ! -e $from ] || cp -a $from "$root${from%/*}/"
done
rm -rf "$root"/var/lib/apt/lists/*
cp /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true

git clone -q --no-local . "$root/root/mare"
git -C "$root/root/mare" checkout -q "$(git rev-parse HEAD)"

mkdir -p "$root/proc" "$root/dev"
mount -t proc proc "$root/proc" && mounted="proc"
mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev" && mounted="dev $mounted"

for command in "$@"; do
    echo "fresh: $command"
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM:-dumb}" \
        LANG=C.UTF-8 http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" \
        no_proxy="${no_proxy:-}" sh -c "cd /root/mare && $command"
done
echo "fresh: all of it works"
