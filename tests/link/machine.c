// SPDX-License-Identifier: MIT
#include "tests/link/machine.h"

const struct link_machine link_real = {.name = "real",
#define LINK_ENTRY(function) .function = mare__link_##function,
                                       LINK_FUNCTIONS(LINK_ENTRY)
#undef LINK_ENTRY
};
