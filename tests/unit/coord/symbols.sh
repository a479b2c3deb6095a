#!/bin/sh
# SPDX-License-Identifier: MIT
# Libraries that are to stand alone may ask, all together, for nothing but the memory functions that
# a freestanding compiler needs.
# usage: symbols.sh ARCHIVE...
set -eu
defined=$(nm --defined-only "$@" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u)
asked=$(nm -u "$@" 2>/dev/null | awk '$1 == "U" { print $2 }' | sort -u)
[ -n "$defined" ] || {
    echo "no symbols in" "$@" >&2
    exit 1
}
allowed='mem(cpy|set|move|cmp)|_GLOBAL_OFFSET_TABLE_|__(asan|ubsan|tsan|sanitizer|gcov|llvm)_.*'
foreign=$(printf '%s\n' "$asked" | grep -vxF "$defined" | grep -vxE "$allowed" || true)
if [ -n "$foreign" ]; then
    echo "asks for: $foreign" >&2
    exit 1
fi
