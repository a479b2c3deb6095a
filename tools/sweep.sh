#!/bin/sh
# SPDX-License-Identifier: MIT
# Simulates many seeds of every coordination algorithm, or of those named, with the settings that
# change what it does besides the usual ones, of nodes that move about, of the link between two
# nodes (`link`), and of the transaction of synchronizers (`synchronizer`, a tenth as many); goes on
# after a violation, and fails in the end if there was one.
#
# Each is swept under every profile of faults (docs/reference/sim.md), or those of SWEEP_PROFILES.
#
#   SWEEP_SEEDS=1000 SWEEP_FROM=1 SWEEP_PROFILES='usual brief' tools/sweep.sh [NAME...]
set -u
cd "$(dirname "$0")/.." || exit 1
export SWEEP_SEEDS="${SWEEP_SEEDS:-100000}" SWEEP_FROM="${SWEEP_FROM:-1}"
profiles="${SWEEP_PROFILES:-usual clustered joiners suspected brief quiet}"

# A line is an algorithm and its settings.
variants='
central+lease keepers=2
ricart+lease keepers=2
token+lease keepers=2
majority+lease keepers=2
voting+lease keepers=2
central majority=1
central repair=0
voting queue=0
voting repair=0
ricart repair=0
majority repair=0
token rest_us=0
token repair=0
bully repair=0
ring repair=0 single=0
wireless repair=0
superpeer-dht bits=16
superpeer-dht repair=0
superpeer-tokens tokens=4 hold=2
fifo window=1
fifo repair=0
fifo repair=0 window=2
causal window=2
causal repair=0
causal repair=0 window=1
total repair=0
total repair=0 window=2
total repair=0 acks=0
total acks=0
total acks=0 window=2
views window=2
views order=1
views order=1 window=2
views order=2
views order=2 window=2
'

failed=
sweep() { # NAME [SETTING...]
    algorithm=$1
    shift
    for profile in $profiles; do
        echo "$algorithm, $profile${*:+, with $*}:"
        # shellcheck disable=SC2046 # two words for each setting
        build/mare sim "$algorithm" --profile "$profile" --seed "$SWEEP_FROM" \
            --seeds "$SWEEP_SEEDS" $(for setting in "$@"; do echo "--param $setting"; done) ||
            failed="$failed $algorithm"
    done
}

# shellcheck disable=SC2046 # a list of names
[ $# -gt 0 ] || set -- link synchronizer \
    central+lease ricart+lease token+lease majority+lease voting+lease \
    $(build/mare sim list | sed -n '/^Figures/q; s/^\([a-z][a-z0-9-]*\) .*/\1/p')
for name in "$@"; do
    if [ "$name" = link ]; then
        build/tests/link/test_link_seeds || failed="$failed link"
        continue
    fi
    if [ "$name" = synchronizer ]; then
        for profile in $profiles; do
            echo "synchronizer, $profile:"
            build/mare examples/sim_synchronizer.lua $(((SWEEP_SEEDS + 9) / 10)) "$SWEEP_FROM" \
                "$profile" || failed="$failed synchronizer"
        done
        continue
    fi
    sweep "$name"
    while read -r variant settings; do
        # shellcheck disable=SC2086 # a list of settings
        [ "$variant" != "$name" ] || sweep "$name" $settings
    done <<END
$variants
END
    if [ "$name" = wireless ] && [ -x build/tests/sim/test_sim_roaming ]; then
        build/tests/sim/test_sim_roaming || failed="$failed wireless-moving"
    fi
done
[ -z "$failed" ] || { echo "sweep: promises broken by:$failed" >&2; exit 1; }
