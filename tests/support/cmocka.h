/* SPDX-License-Identifier: MIT */
#pragma once

/* cmocka with the headers that it wants before it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
