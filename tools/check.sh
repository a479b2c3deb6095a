#!/bin/sh
# SPDX-License-Identifier: MIT
# make check: format, lint, layout rules. Runs all of them and fails if any complains.
# Needs build/: its compilation database, and the commands that its mare lists.
set -u
cd "$(dirname "$0")/.." || exit 1

failed=
run() {
    name=$1
    shift
    echo "== $name"
    "$@" || failed="$failed $name"
}
files() {
    git ls-files --cached --others --exclude-standard -- "$@"
}

check_format() {
    files '*.c' '*.h' | xargs -r clang-format --dry-run -Werror
}
# Only what the compilation database knows: other files would be read with the wrong flags.
compiled() {
    python3 - <<'END' | sort -u
import json, os
for entry in json.load(open('build/compile_commands.json')):
    path = os.path.relpath(os.path.join(entry['directory'], entry['file']))
    if path.startswith(('src/', 'sim/', 'tests/', 'examples/')):
        print(path)
END
}
# Several at a time, so each keeps what it says until it has ended, or their words would mix. All of
# them count warnings, also those of others' headers: nothing is shown of those that found none.
check_tidy() {
    # shellcheck disable=SC2016 # the inner shell's
    compiled | xargs -r -n 4 -P "$(nproc)" sh -c '
        said=$(clang-tidy -p build --quiet "$@" 2>&1) || { printf "%s\n" "$said"; exit 1; }
    ' clang-tidy
}
check_cppcheck() {
    [ -n "$(files 'src/*.c')" ] || return 0
    cppcheck --quiet -j "$(nproc)" --std=c11 --enable=warning,portability --inline-suppr \
        --error-exitcode=1 --library=tools/cppcheck.cfg --suppress=missingIncludeSystem \
        -I include -I src -I . -D__linux__ src
}
check_lua() {
    files '*.lua' | xargs -r luacheck --quiet --no-color
}
check_shell() {
    files '*.sh' .ci/run | xargs -r shellcheck
}

run format check_format
run clang-tidy check_tidy
run cppcheck check_cppcheck
run luacheck check_lua
run shellcheck check_shell
run layout python3 tools/check_layout.py
run docs python3 tools/check_docs.py . build/mare

[ -z "$failed" ] || { echo "check: these complained:$failed" >&2; exit 1; }
echo "check: all is well"
