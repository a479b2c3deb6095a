#!/bin/sh
# SPDX-License-Identifier: MIT
# The library and alone.c for a small microcontroller: compiled for a Cortex-M0 with headers of the
# compiler alone, and linked. Nothing may be missing but the memory functions and the arithmetic
# that the compiler's own library has; what is linked must fit.
# usage: microcontroller.sh SOURCE
set -eu
flash_most=32768 ram_most=8192 # those of the smallest parts on sale: of 32 KB and 8 KB
for tool in clang ld.lld llvm-nm llvm-size; do
    command -v $tool >/dev/null || {
        echo "no $tool"
        exit 77
    }
done
clang --print-targets | grep -q ' thumb ' || {
    echo "no clang for ARM"
    exit 77
}
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
        -Werror -ffunction-sections -fdata-sections -Iinclude -Isrc -isystem "$work/include" \
        -c "$file" -o "$work/$count.o"
done
ld.lld --gc-sections --entry coord_alone --unresolved-symbols=ignore-all "$work"/*.o \
    -o "$work/alone"
foreign=$(llvm-nm --undefined-only "$work"/*.o | awk '$1 == "U" { print $2 }' | sort -u |
    grep -vxE 'mem(cmp|cpy|move|set)|__aeabi_[a-z0-9]+|mare_.*|coord_alone' || true)
[ -z "$foreign" ] || {
    echo "asks for:" $foreign >&2
    exit 1
}
llvm-size "$work/alone" | awk -v flash="$flash_most" -v ram="$ram_most" 'NR == 2 {
    printf "Cortex-M0: %d bytes of code, %d of memory (five members and the wire)\n", $1, $2 + $3
    if ($1 + $2 > flash || $2 + $3 > ram) { print "too large"; exit 1 }
}'
