#!/bin/sh
# SPDX-License-Identifier: MIT
# Simulates many seeds of every coordination algorithm, or of those named; goes on after a
# violation, and fails in the end if there was one.
#
#   SWEEP_SEEDS=1000 SWEEP_FROM=1 tools/sweep.sh [NAME...]
set -u
cd "$(dirname "$0")/.." || exit 1

[ $# -gt 0 ] || set -- $(build/mare sim list | sed -n '/^Figures/q; s/^\([a-z][a-z0-9-]*\) .*/\1/p')
failed=
for name in "$@"; do
    build/mare sim "$name" --seed "${SWEEP_FROM:-1}" --seeds "${SWEEP_SEEDS:-100000}" ||
        failed="$failed $name"
done
[ -z "$failed" ] || { echo "sweep: promises broken by:$failed" >&2; exit 1; }
