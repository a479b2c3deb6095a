#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what is missing of the given groups of tools/packages.txt, and says so first; unpacks
# into build-unpacked what is to be used without being installed. Quiet and quick when nothing is
# missing. Without the right to install, prints the command to run and fails.
#
#   tools/setup.sh build test
set -eu

tools=$(dirname "$0")
list=$tools/packages.txt
unpacked=$tools/../build-unpacked
sums=$(cd "$tools" && pwd)/npm.sums
if [ $# = 0 ]; then
    echo "usage: tools/setup.sh GROUP...   (groups are in tools/packages.txt)" >&2
    exit 2
fi

# listed install|unpack|npm GROUP...: the packages of these groups that are used in this way.
listed() {
    awk -v groups="$*" '
        BEGIN { n = split(groups, g, " "); for (i = 2; i <= n; i++) want[g[i]] = 1 }
        /^[a-z]/ {
            split($1, part, "/")
            if (!(part[1] in want)) next
            seen[part[1]] = 1
            if ((part[2] ? part[2] : "install") == g[1]) print $2
        }
        END {
            for (k in want)
                if (!(k in seen)) { print "no group \"" k "\"" > "/dev/stderr"; exit 2 }
        }
    ' "$list"
}
wanted=$(listed install "$@")
aside=$(listed unpack "$@")
modules=$(listed npm "$@")

if ! command -v dpkg-query >/dev/null; then
    # shellcheck disable=SC2086 # lists of words
    echo "setup: this is not Debian; please have the equivalents of these:" $wanted $aside >&2
    exit 0
fi

# dpkg-query complains about packages it has never heard of; they are as missing as the others.
missing_of() {
    [ $# -gt 0 ] || return 0
    present=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
        sed -n 's/^installed //p' || true)
    printf '%s\n' "$present" -- "$@" |
        awk '$0 == "--" { second = 1; next } !second { have[$0] = 1; next } !($0 in have)' |
        tr '\n' ' '
}
# shellcheck disable=SC2086 # lists of words
missing=$(missing_of $wanted)
# shellcheck disable=SC2086 # another
for package in $(missing_of $aside); do
    [ -d "$unpacked/$package" ] || to_unpack="${to_unpack:-}$package "
done
to_unpack=${to_unpack:-}

# One of npm's: its files, in a folder that gets its name when all of them are there; `require`
# looks for it in build-unpacked/node_modules. npm fetches the archive, and neither builds nor runs
# anything of it.
fetch_module() {
    name=${1%-*}
    rm -rf "$unpacked/new"
    mkdir -p "$unpacked/new/package" "$unpacked/node_modules"
    (cd "$unpacked/new" && npm pack --silent --fetch-retries=0 --fetch-timeout=60000 \
        "$name@${1##*-}" >/dev/null) || return 1
    (cd "$unpacked/new" && grep -F "  $1.tgz" "$sums" | sha512sum -c --quiet -) || return 1
    tar -xzf "$unpacked/new/$1.tgz" -C "$unpacked/new/package" --strip-components=1 || return 1
    mv "$unpacked/new/package" "$unpacked/$1" && rm -rf "$unpacked/new"
    ln -sfn "../$1" "$unpacked/node_modules/$name"
}
fetch_modules() {
    [ -z "$modules" ] || command -v npm >/dev/null || return 0
    for package in $modules; do
        [ ! -d "$unpacked/$package" ] || continue
        echo "setup: fetching from npm, into build-unpacked: $package"
        if ! fetch_module "$package"; then
            echo "setup: that failed; the tests that want it will be skipped"
            rm -rf "$unpacked/new"
            return 0
        fi
    done
}
if [ -z "$missing$to_unpack" ]; then
    fetch_modules
    exit 0
fi

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    as_root=sudo
elif [ -n "$missing" ]; then
    echo "setup: these packages are missing, and installing them needs root. Please run:" >&2
    echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends $missing" >&2
    exit 1
else
    as_root=nobody # fetching needs no rights, as long as the package lists are good
fi

[ -z "$missing" ] || echo "setup: installing from Debian: $missing"
[ -z "$to_unpack" ] || echo "setup: unpacking from Debian, into build-unpacked: $to_unpack"
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}
update() {
    if [ "$as_root" = nobody ]; then
        echo "setup: the package lists are too old, and updating them needs root. Please run:" >&2
        echo "    sudo apt-get update" >&2
        exit 1
    fi
    apt update
}

# Into a folder that gets its name when all of it is there. Done by the user who asked, so that
# `make clean` can remove it; apt's own user need not be able to write here.
unpack() {
    rm -rf "$unpacked/new"
    mkdir -p "$unpacked/new/root"
    (cd "$unpacked/new" && apt-get -q -o APT::Sandbox::User=root download "$1") || return 1
    dpkg-deb -x "$unpacked/new/$1"_*.deb "$unpacked/new/root" || return 1
    mv "$unpacked/new/root" "$unpacked/$1" && rm -rf "$unpacked/new"
}
get() {
    if [ -n "$missing" ]; then
        # shellcheck disable=SC2086 # a list of words
        apt install -y --no-install-recommends $missing || return 1
    fi
    for package in $to_unpack; do
        [ -d "$unpacked/$package" ] || unpack "$package" || return 1
    done
}

# A new machine has no package lists, an old one may have lists whose packages are gone: update when
# either shows.
# shellcheck disable=SC2086 # lists of words
if ! apt-cache show $missing $to_unpack >/dev/null 2>&1; then
    echo "setup: updating the package lists"
    update
    get
elif ! get; then
    echo "setup: that failed; updating the package lists and trying once more"
    update
    get
fi

fetch_modules

# Meson asked for these when it configured, and was told no. A build.ninja older than what it was
# made from is made again. What is unpacked Meson never asks for.
[ -n "$missing" ] || exit 0
for configured in "$tools"/../build*/build.ninja; do
    [ ! -f "$configured" ] || touch -d 1970-01-02 "$configured"
done
