#!/bin/sh
# SPDX-License-Identifier: MIT
# The library and alone.c for a small microcontroller, a Cortex-M0: compiled with headers of the
# compiler alone, and linked with what it uses of the library. Nothing may be missing but the memory
# functions and the arithmetic that every compiler brings; what is left must fit.
# usage: microcontroller.sh SOURCE
set -eu
flash_most=32768 ram_most=8192 # of a small part; five members and their network in one
tools=
for tool in llvm-link opt llc llvm-nm llvm-size; do
    path=$(clang -print-prog-name=$tool 2>/dev/null || echo none)
    [ -x "$path" ] || {
        echo "no clang, or no $tool beside it"
        exit 77
    }
    tools=$(dirname "$path")
done
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/include"
cat >"$work/include/string.h" <<'END'
#include <stddef.h>
int memcmp(const void *, const void *, size_t);
void *memcpy(void *, const void *, size_t);
void *memmove(void *, const void *, size_t);
void *memset(void *, int, size_t);
END
count=0
for file in $(find src/coord -name '*.c') tests/unit/coord/alone.c; do
    count=$((count + 1))
    clang --target=thumbv6m-none-eabi -std=gnu11 -Os -ffreestanding -Wall -Wextra -Wconversion \
        -Werror -Iinclude -Isrc -isystem "$work/include" -emit-llvm -c "$file" -o "$work/$count.bc"
done
"$tools/llvm-link" "$work"/*.bc -o "$work/all.bc"
"$tools/opt" --passes='internalize,globaldce' --internalize-public-api-list=coord_alone \
    "$work/all.bc" -o "$work/used.bc"
"$tools/llc" -O2 --filetype=obj "$work/used.bc" -o "$work/used.o"
foreign=$("$tools/llvm-nm" --undefined-only "$work/used.o" | awk '{ print $NF }' |
    grep -vxE 'mem(cmp|cpy|move|set)|__aeabi_[a-z0-9]+' || true)
[ -z "$foreign" ] || {
    echo "asks for: $foreign" >&2
    exit 1
}
"$tools/llvm-size" "$work/used.o" | awk -v flash="$flash_most" -v ram="$ram_most" 'NR == 2 {
    printf "Cortex-M0: %d bytes of code, %d of memory (five members, a network)\n", $1, $2 + $3
    if ($1 == 0 || $1 + $2 > flash || $2 + $3 > ram) { print "nothing, or too large"; exit 1 }
}'
