// SPDX-License-Identifier: MIT
// SHA-1, for the handshake of WebSocket, where it keeps no secret but shows that the server has
// understood. For nothing else: it has long been broken. docs/decisions/211-sha1-of-our-own.md
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { MARE__SHA1_DIGEST = 20 };

void mare__sha1(const void *data, size_t size, uint8_t digest[MARE__SHA1_DIGEST]);
