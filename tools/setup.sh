#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what is missing of the given groups of tools/packages.txt, and says so first. Quiet and
# quick when nothing is missing. Without the right to install, prints the command to run and fails.
#
#   tools/setup.sh build test
set -eu

list=$(dirname "$0")/packages.txt
if [ $# = 0 ]; then
    echo "usage: tools/setup.sh GROUP...   (groups are in tools/packages.txt)" >&2
    exit 2
fi

wanted=$(awk -v groups="$*" '
    BEGIN { n = split(groups, g, " "); for (i = 1; i <= n; i++) want[g[i]] = 1 }
    /^[a-z]/ && ($1 in want) { print $2; seen[$1] = 1 }
    END { for (k in want) if (!(k in seen)) { print "no group \"" k "\"" > "/dev/stderr"; exit 2 } }
' "$list")

if ! command -v dpkg-query >/dev/null; then
    echo "setup: this is not Debian; please have the equivalents of these:" $wanted >&2
    exit 0
fi

# dpkg-query complains about packages it has never heard of; they are as missing as the others.
present=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
    sed -n 's/^installed //p' || true)
missing=$(printf '%s\n' "$present" -- $wanted |
    awk '$0 == "--" { second = 1; next } !second { have[$0] = 1; next } !($0 in have)' |
    tr '\n' ' ')
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends $missing"
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    as_root=sudo
else
    echo "setup: these packages are missing, and installing them needs root. Please run:" >&2
    echo "    sudo apt-get update && sudo $install" >&2
    exit 1
fi

echo "setup: installing from Debian: $missing"
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}
get() {
    apt install -y --no-install-recommends $missing
}

# A new machine has no package lists, an old one may have lists whose packages are gone: update when
# either shows.
if ! apt-cache show $missing >/dev/null 2>&1; then
    echo "setup: updating the package lists"
    apt update
    get
elif ! get; then
    echo "setup: that failed; updating the package lists and trying once more"
    apt update
    get
fi

# Meson asked for these when it configured, and was told no. A build.ninja older than what it was
# made from is made again.
for configured in "$(dirname "$0")"/../build*/build.ninja; do
    [ ! -f "$configured" ] || touch -d 1970-01-02 "$configured"
done
