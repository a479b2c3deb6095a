// SPDX-License-Identifier: MIT
// In builds for ThreadSanitizer only. Debian's Lua is hardened, so that it jumps by __longjmp_chk,
// which ThreadSanitizer does not know: it does not see that functions were left, and its own stack
// of calls grows with every yield and error until it overflows. It knows longjmp.
#undef _FORTIFY_SOURCE // which would make of longjmp what this replaces
#include <setjmp.h>

_Noreturn void __longjmp_chk(jmp_buf buffer, int value);

_Noreturn void __longjmp_chk(jmp_buf buffer, int value)
{
    longjmp(buffer, value);
}
