#!/bin/sh
# SPDX-License-Identifier: MIT
# The table of memory in the reference is what the library says of itself.
# usage: memory.sh PROGRAM PAGE
set -u
rows=$("$1") || exit $?
printf '%s\n' "$rows" | grep -vxFf "$2" >&2 && {
    echo "these rows are not in $2; write them there" >&2
    exit 1
}
exit 0
