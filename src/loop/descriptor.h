// SPDX-License-Identifier: MIT
// A transport over a descriptor that an observer watches: a socket, a pipe, a terminal.
#pragma once

#include "loop/observer.h"
#include "platform/transport.h"

// Takes over the descriptor, in any case. NULL: not enough memory.
struct mare__transport *mare__descriptor_new(mare_runtime *runtime, int fd);

// Gives the descriptor back: from now on it is somebody else's, who closes it, and the transport is
// closed. Of a transport that mare__descriptor_new made.
int mare__descriptor_lend(struct mare__transport *transport);
