// SPDX-License-Identifier: MIT
// A transport over a descriptor that an observer watches: a socket, a pipe, a terminal.
#pragma once

#include "loop/observer.h"
#include "platform/transport.h"

// Takes over the descriptor, even if this fails. NULL: not enough memory.
struct mare__transport *mare__descriptor_new(mare_runtime *runtime, int fd);

// Returns the descriptor and closes the transport. The descriptor stays open: the caller owns it
// from now on, and closes it. Only for a transport that mare__descriptor_new made.
int mare__descriptor_lend(struct mare__transport *transport);
