// SPDX-License-Identifier: MIT
// A thin layer over zlib. What comes out is collected in steps, so that the limit holds before
// memory is asked for: a few bytes can become a thousand times as many.
#include "wire/zip.h"

#include <limits.h>
#include <stdint.h>
#include <zlib.h>

#include "base/alloc.h"

struct mare__zip {
    z_stream z;
    enum mare__zip_form form;
    bool deflates, ended;
};

static void *allocate(void *unused, unsigned count, unsigned size)
{
    (void)unused;
    return mare__alloc((size_t)count * size);
}

static void release(void *unused, void *block)
{
    (void)unused;
    mare__free(block);
}

// The window as zlib wants it, in which it also says which form.
static int bits_of(enum mare__zip_form form, int window)
{
    return form == MARE__ZIP_GZIP ? window + 16 : form == MARE__ZIP_RAW ? -window : window;
}

static struct mare__zip *create(enum mare__zip_form form, bool deflates)
{
    struct mare__zip *zip = mare__alloc_zero(sizeof *zip);
    if (!zip)
        return NULL;
    zip->z.zalloc = allocate;
    zip->z.zfree = release;
    zip->form = form;
    zip->deflates = deflates;
    return zip;
}

struct mare__zip *mare__zip_deflater(enum mare__zip_form form, int level, int window)
{
    struct mare__zip *zip = create(form, true);
    int memory = window > 9 ? window - 7 : 2; // hashes in proportion to the window
    if (zip && deflateInit2(&zip->z, level, Z_DEFLATED, bits_of(form, window), memory,
                            Z_DEFAULT_STRATEGY) == Z_OK)
        return zip;
    mare__free(zip);
    return NULL;
}

struct mare__zip *mare__zip_inflater(enum mare__zip_form form, int window)
{
    struct mare__zip *zip = create(form, false);
    if (zip && inflateInit2(&zip->z, bits_of(form, window)) == Z_OK)
        return zip;
    mare__free(zip);
    return NULL;
}

void mare__zip_destroy(struct mare__zip *zip)
{
    if (!zip)
        return;
    if (zip->deflates)
        deflateEnd(&zip->z);
    else
        inflateEnd(&zip->z);
    mare__free(zip);
}

void mare__zip_reset(struct mare__zip *zip)
{
    zip->ended = false;
    if (zip->deflates)
        deflateReset(&zip->z);
    else
        inflateReset(&zip->z);
}

// One step of zlib, with the room there is.
static int step(struct mare__zip *zip, enum mare__zip_flush flush)
{
    static const int how[] = {Z_NO_FLUSH, Z_SYNC_FLUSH, Z_FINISH};
    if (zip->deflates)
        return deflate(&zip->z, how[flush]);
    if (zip->ended) {
        if (zip->form == MARE__ZIP_ZLIB) // the other forms can have several members
            return Z_DATA_ERROR;
        inflateReset(&zip->z);
        zip->ended = false;
    }
    int result = inflate(&zip->z, Z_SYNC_FLUSH);
    zip->ended = result == Z_STREAM_END;
    return result;
}

mare_err mare__zip_write(struct mare__zip *zip, const void *bytes, size_t size,
                         enum mare__zip_flush flush, size_t most, struct mare__bytes *out)
{
    enum { STEP = 16384 };
    z_stream *z = &zip->z;
    size_t before = out->size;
    if (size > UINT_MAX)
        return MARE_TOOBIG;
    z->next_in = (Bytef *)(uintptr_t)bytes; // zlib does not write there
    z->avail_in = (unsigned)size;
    for (;;) {
        if (!zip->deflates && size == 0) // zlib calls that an error
            return MARE_OK;
        mare_err err = mare__bytes_reserve(out, STEP);
        if (err)
            return err;
        z->next_out = (Bytef *)out->at + out->size;
        z->avail_out = STEP;
        int result = step(zip, flush);
        out->size += STEP - z->avail_out;
        if (out->size - before > most)
            return MARE_TOOBIG;
        if (result == Z_MEM_ERROR)
            return MARE_NOMEM;
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            return MARE_BADMSG;
        if (z->avail_in == 0 && (z->avail_out > 0 || zip->ended))
            return MARE_OK;
    }
}

bool mare__zip_ended(const struct mare__zip *zip)
{
    return zip->ended;
}
