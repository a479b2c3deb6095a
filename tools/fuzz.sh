#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs every target of tests/fuzz with libFuzzer, FUZZ_SECONDS each. New inputs stay in
# build-fuzz/corpus; a crash leaves its input in build-fuzz and ends the run with the command that
# repeats it. Move a crashing input into tests/fuzz/corpus/NAME once it is fixed.
#
#   FUZZ_SECONDS=600 tools/fuzz.sh [NAME...]
set -eu
cd "$(dirname "$0")/.."

tools/build.sh build-fuzz
# shellcheck disable=SC2046 # a list of names
[ $# -gt 0 ] || set -- $(find tests/fuzz -maxdepth 1 -name '*.c' -exec basename {} .c \; | sort)
[ $# -gt 0 ] || { echo "fuzz: there are no targets in tests/fuzz yet"; exit 0; }
for name in "$@"; do
    echo "== $name, ${FUZZ_SECONDS:-60} seconds"
    mkdir -p "build-fuzz/corpus/$name" "build-fuzz/crashes"
    seeds=tests/fuzz/corpus/$name
    [ -d "$seeds" ] || seeds=
    if ! "build-fuzz/tests/fuzz/fuzz_$name" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 \
        -artifact_prefix="build-fuzz/crashes/$name-" -print_final_stats=1 \
        "build-fuzz/corpus/$name" ${seeds:+"$seeds"} >"build-fuzz/$name.log" 2>&1; then
        tail -n 60 "build-fuzz/$name.log"
        echo "fuzz: $name failed; the input that did it is in build-fuzz/crashes; again:"
        echo "    build-fuzz/tests/fuzz/fuzz_$name build-fuzz/crashes/$name-..."
        exit 1
    fi
    grep -E 'stat::(number_of_executed_units|new_units_added)|^Done' "build-fuzz/$name.log" || true
done
