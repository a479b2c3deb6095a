// SPDX-License-Identifier: MIT
// SHA-1 after RFC 3174. Written for being read: it digests sixty bytes for each WebSocket.
#include "wire/sha1.h"

#include <string.h>

enum { BLOCK = 64 };

static uint32_t rotate(uint32_t word, unsigned bits)
{
    return word << bits | word >> (32 - bits);
}

// One block of sixteen words (section 6.1).
static void digest_block(uint32_t hash[5], const uint8_t block[BLOCK])
{
    uint32_t words[80], a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4];
    for (unsigned i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
                   (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < 80; i++)
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    for (unsigned i = 0; i < 80; i++) {
        uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                         : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                         : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                  : (b ^ c ^ d) + 0xca62c1d6;
        uint32_t next = rotate(a, 5) + mixed + e + words[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    hash[0] += a;
    hash[1] += b;
    hash[2] += c;
    hash[3] += d;
    hash[4] += e;
}

void mare__sha1(const void *data, size_t size, uint8_t digest[MARE__SHA1_DIGEST])
{
    uint32_t hash[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const uint8_t *in = data;
    uint8_t tail[2 * BLOCK] = {0};
    size_t left = size;
    for (; left >= BLOCK; left -= BLOCK, in += BLOCK)
        digest_block(hash, in);
    if (left)
        memcpy(tail, in, left);
    tail[left] = 0x80; // section 4: a one, zeros, and the length in bits
    size_t end = left < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    for (unsigned i = 0; i < 8; i++)
        tail[end - 1 - i] = (uint8_t)((uint64_t)size * 8 >> 8 * i);
    for (size_t at = 0; at < end; at += BLOCK)
        digest_block(hash, tail + at);
    for (unsigned i = 0; i < MARE__SHA1_DIGEST; i++)
        digest[i] = (uint8_t)(hash[i / 4] >> (24 - 8 * (i % 4)));
}
