// SPDX-License-Identifier: MIT
// Bytes made smaller and larger again by zlib, in parts, with a limit on what comes out.
#pragma once

#include <stdbool.h>

#include "wire/bytes.h"

enum mare__zip_form {
    MARE__ZIP_GZIP, // RFC 1952, any number of members
    MARE__ZIP_RAW,  // RFC 1951 alone, likewise: RFC 7692 has blocks behind the last one
    MARE__ZIP_ZLIB  // RFC 1950
};

// What is to be said of the bytes that are given: more follow; more follow, but who reads what has
// come out must be able to have all of it; they are the last.
enum mare__zip_flush { MARE__ZIP_MORE, MARE__ZIP_SYNC, MARE__ZIP_END };

struct mare__zip;

// One that compresses, at a level of 1 to 9, or one that undoes it. NULL: there is no memory.
// `window` is the logarithm of how far back it looks, 9 to 15: it is what memory is needed for,
// four times that and two times more when it compresses.
struct mare__zip *mare__zip_deflater(enum mare__zip_form form, int level, int window);
struct mare__zip *mare__zip_inflater(enum mare__zip_form form, int window);
void mare__zip_destroy(struct mare__zip *zip);

// Forgets what came before, so that other bytes can follow.
void mare__zip_reset(struct mare__zip *zip);

// Adds what becomes of the bytes to `out`. MARE_TOOBIG: that would be more than `most` bytes;
// MARE_BADMSG: what was to be undone is broken, or goes on behind its end; MARE_NOMEM. After any of
// them the object is of no more use.
mare_err mare__zip_write(struct mare__zip *zip, const void *bytes, size_t size,
                         enum mare__zip_flush flush, size_t most, struct mare__bytes *out);

// Whether what was undone has come to its end.
bool mare__zip_ended(const struct mare__zip *zip);
