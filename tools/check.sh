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
check_tidy() {
    python3 - <<'END' | sort -u | xargs -r -n 4 -P "$(nproc)" clang-tidy -p build --quiet 2>&1 |
import json, os
for entry in json.load(open('build/compile_commands.json')):
    path = os.path.relpath(os.path.join(entry['directory'], entry['file']))
    if path.startswith(('src/', 'sim/', 'tests/', 'examples/')):
        print(path)
END
        grep -v -E '^([0-9]+ warnings? (and [0-9]+ errors? )?generated|Suppressed|Use -header)' |
        { ! grep . ; }
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
