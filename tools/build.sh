#!/bin/sh
# SPDX-License-Identifier: MIT
# Configures (once) and builds one kind of build, each in its own folder; all of it, or only some
# targets. More than half of the C files are tests.
#
#   tools/build.sh build | build-tiny | build-asan | build-tsan | build-fuzz [TARGET ...]
set -eu
cd "$(dirname "$0")/.."

dir=${1:-build}
[ $# -eq 0 ] || shift
targets=$*
CC=${CC:-}
case $dir in
    build)      set -- --prefix "${PREFIX:-/usr/local}" ;;
    build-tiny) set -- -Dtiny=true -Doptimization=1 ;;
    # One malloc for each Lua object, or AddressSanitizer would see only the pages they are carved from.
    build-asan) CC=${SAN_CC:-clang}
                set -- -Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Dplain_heap=true \
                       -Dc_args=-fno-sanitize-recover=undefined ;;
    build-tsan) CC=${SAN_CC:-clang}
                set -- -Dbuildtype=debugoptimized -Db_sanitize=thread ;;
    # Meson's b_sanitize has no "fuzzer": the library is instrumented here, tests/fuzz links the driver.
    build-fuzz) CC=clang
                set -- -Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Dplain_heap=true \
                       -Dfuzz=true -Dc_args=-fsanitize=fuzzer-no-link ;;
    *) echo "build.sh: no build called '$dir'" >&2; exit 2 ;;
esac
[ -z "$CC" ] || export CC

command -v meson >/dev/null || { echo "build.sh: Meson is missing; run: tools/setup.sh build" >&2; exit 1; }
if [ ! -f "$dir/build.ninja" ]; then
    echo "configuring $dir"
    rm -rf "$dir" # a folder without build.ninja is one whose configuration failed half way
    out=$(meson setup "$dir" "$@" 2>&1) || { printf '%s\n' "$out" >&2; exit 1; }
fi
echo "building $dir"
# shellcheck disable=SC2086 # names of targets have no blanks
ninja -C "$dir" --quiet $targets
