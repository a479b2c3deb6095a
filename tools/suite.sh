#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds and tests each of the given runs, goes on when one fails, and ends with one line of counts
# over all of them.
#
#   tools/suite.sh plain stress tiny asan tsan
#
#   plain     the ordinary build: everything
#   stress    the ordinary build again, the Lua tests with a collector that collects all the time
#   tiny      buffers, slices and chunks so small that rare paths become common
#   asan      AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan      ThreadSanitizer: whatever has threads, but for the examples, whose endless loops it
#             does not let a signal into, and for the whole programs, which are
#   tsan-e2e  in the same build, but not in make test, which is to take a quarter of an hour
#   soak      ThreadSanitizer: the random programs and a few others, for MARE_STRESS_SECONDS each
#   chaos     AddressSanitizer: nodes killed at any moment, for MARE_CHAOS_SECONDS
#   chaos-etcd  members of a cluster of etcd killed, frozen, cut off, for as long
#   chaos-groups  members of a group the same, and the history checked
#
# MARE_TEST_ARGS goes to `meson test`, for example MARE_TEST_ARGS='unit-sched-queue'.
set -u
cd "$(dirname "$0")/.." || exit 1

support=$PWD/tests/support
null=allocator_may_return_null=1 # as malloc does when too much is asked for
asan=$null:print_legend=0:detect_stack_use_after_return=1:strict_string_checks=1
tsan=$null:second_deadlock_stack=1:history_size=4:suppressions=$support/tsan.supp
export ASAN_OPTIONS="${ASAN_OPTIONS:-$asan}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-$tsan}"
export LSAN_OPTIONS="${LSAN_OPTIONS:-suppressions=$support/lsan.supp:print_suppressions=0}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}"

# The same tests each time, so that what fails is what was changed. Long runs draw new ones.
case $* in
    soak | chaos*) ;;
    *) export MARE_SEED="${MARE_SEED:-1}" ;;
esac

# Many tests wait more than they work.
export MESON_TESTTHREADS="${MESON_TESTTHREADS:-$(($(nproc) + 1))}"

rm -f build/test-summary.txt
for run in "$@"; do
    case $run in
        plain)    dir=build       args="" ;;
        stress)   dir=build       args="--setup stress --suite lua" ;;
        tiny)     dir=build-tiny  args="--setup slow --suite unit --suite lua --suite examples" ;;
        asan)     dir=build-asan  args="--setup slow" ;;
        tsan)     dir=build-tsan
                  args="--setup slow --suite unit --suite lua --no-suite serial" ;;
        tsan-e2e) dir=build-tsan  args="--setup slow --suite e2e" ;;
        soak)     dir=build-tsan
                  args="--setup slow -t 0 unit-sched-stress"
                  args="$args lua-stress lua-net_stress lua-anything lua-minute" ;;
        chaos)    dir=build-asan  args="--setup slow -t 0 lua-node_kills lua-node_steps" ;;
        chaos-etcd) dir=build     args="-t 0 lua-etcd_faults" ;;
        chaos-groups) dir=build   args="-t 0 lua-group_chaos" ;;
        *) echo "suite.sh: no run called '$run'" >&2; exit 2 ;;
    esac
    log=$dir/meson-logs/$run.json
    rm -f "$log"
    echo "== $run"
    if ! tools/build.sh $dir; then
        results="${results:-} --run $run build -"
        continue
    fi
    # --setup makes another name for the log, so it is fetched from where it went.
    rm -f $dir/meson-logs/testlog*.json
    # shellcheck disable=SC2086 # lists of words
    meson test -C $dir --no-rebuild $args ${MARE_TEST_ARGS:-}
    code=$?
    cat $dir/meson-logs/testlog*.json >"$log" 2>/dev/null
    results="${results:-} --run $run $code $log"
done
mkdir -p build
echo
# shellcheck disable=SC2086 # a list of words
exec python3 tools/testsum.py --save build/test-summary.txt $results
