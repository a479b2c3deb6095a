// SPDX-License-Identifier: MIT
// Compression and decompression by zlib, in parts, with a limit on what comes out.
#pragma once

#include <stdbool.h>

#include "wire/bytes.h"

enum mare__zip_form {
    MARE__ZIP_GZIP, // RFC 1952, any number of members
    MARE__ZIP_RAW,  // RFC 1951 alone, also any number: RFC 7692 has blocks after the last one
    MARE__ZIP_ZLIB  // RFC 1950
};

// What follows the given bytes. MORE: more bytes. SYNC: more bytes, but the receiver must be able
// to read all that was given so far. END: nothing.
enum mare__zip_flush { MARE__ZIP_MORE, MARE__ZIP_SYNC, MARE__ZIP_END };

struct mare__zip;

// Makes one that compresses, at a level of 1 to 9, or one that decompresses. NULL: not enough
// memory. `window` is the logarithm of how far back it looks, 9 to 15. It decides how much memory
// is needed: four times that and two times more to compress.
struct mare__zip *mare__zip_deflater(enum mare__zip_form form, int level, int window);
struct mare__zip *mare__zip_inflater(enum mare__zip_form form, int window);
void mare__zip_destroy(struct mare__zip *zip);

// Forgets what came before, so that other bytes can follow.
void mare__zip_reset(struct mare__zip *zip);

// Adds what becomes of the bytes to `out`. MARE_TOOBIG: that would be more than `most` bytes;
// MARE_BADMSG: the compressed bytes are broken, or go on after their end; MARE_NOMEM. After an
// error the object cannot be used any more.
mare_err mare__zip_write(struct mare__zip *zip, const void *bytes, size_t size,
                         enum mare__zip_flush flush, size_t most, struct mare__bytes *out);

// Whether the compressed bytes have come to their end.
bool mare__zip_ended(const struct mare__zip *zip);
