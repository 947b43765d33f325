/* Packed files as they are written: a FILE whose bytes go through zlib or zstd. The result depends on the bytes alone; the gzip
 * header has no time and no name. */
#define _GNU_SOURCE /* fopencookie */
#include "base/pack.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <zlib.h>
#include <zstd.h>

enum { ROOM = 1 << 16, ZSTD_LEVEL = 9 };

typedef struct {
    FILE *to;
    bool failed;
    z_stream gzip;
    ZSTD_CStream *zstd;
    unsigned char out[ROOM];
} packer;

static void put(packer *p, size_t bytes) {
    if (bytes > 0 && fwrite(p->out, 1, bytes, p->to) != bytes) p->failed = true;
}

static void deflate_all(packer *p, int flush) {
    do {
        p->gzip.next_out = p->out;
        p->gzip.avail_out = ROOM;
        deflate(&p->gzip, flush);
        put(p, ROOM - p->gzip.avail_out);
    } while (p->gzip.avail_out == 0);
}

/* stdio passes its buffer on, which is far below what fits into zlib's counters. */
static ssize_t write_gzip(void *cookie, const char *bytes, size_t size) {
    packer *p = cookie;
    p->gzip.next_in = (Bytef *)(uintptr_t)bytes;
    p->gzip.avail_in = (uInt)size;
    deflate_all(p, Z_NO_FLUSH);
    return p->failed ? 0 : (ssize_t)size;
}

static int close_gzip(void *cookie) {
    packer *p = cookie;
    p->gzip.avail_in = 0;
    deflate_all(p, Z_FINISH);
    deflateEnd(&p->gzip);
    const int status = p->failed ? EOF : 0;
    free(p);
    return status;
}

static void compress_all(packer *p, ZSTD_inBuffer *in, ZSTD_EndDirective end) {
    size_t left = 1;
    while (!p->failed && (end == ZSTD_e_end ? left > 0 : in->pos < in->size)) {
        ZSTD_outBuffer out = {p->out, ROOM, 0};
        left = ZSTD_compressStream2(p->zstd, &out, in, end);
        if (ZSTD_isError(left)) p->failed = true;
        put(p, out.pos);
    }
}

static ssize_t write_zstd(void *cookie, const char *bytes, size_t size) {
    packer *p = cookie;
    ZSTD_inBuffer in = {bytes, size, 0};
    compress_all(p, &in, ZSTD_e_continue);
    return p->failed ? 0 : (ssize_t)size;
}

static int close_zstd(void *cookie) {
    packer *p = cookie;
    ZSTD_inBuffer in = {NULL, 0, 0};
    compress_all(p, &in, ZSTD_e_end);
    ZSTD_freeCStream(p->zstd);
    const int status = p->failed ? EOF : 0;
    free(p);
    return status;
}

FILE *stw_pack_gzip(FILE *to) {
    packer *p = calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    p->to = to;
    if (deflateInit2(&p->gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(p);
        return NULL;
    }
    FILE *file = fopencookie(p, "w", (cookie_io_functions_t){.write = write_gzip, .close = close_gzip});
    if (file == NULL) {
        deflateEnd(&p->gzip);
        free(p);
    }
    return file;
}

FILE *stw_pack_zstd(FILE *to) {
    packer *p = calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    p->to = to;
    p->zstd = ZSTD_createCStream();
    FILE *file = NULL;
    if (p->zstd != NULL && !ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL))) {
        file = fopencookie(p, "w", (cookie_io_functions_t){.write = write_zstd, .close = close_zstd});
    }
    if (file == NULL) {
        ZSTD_freeCStream(p->zstd);
        free(p);
    }
    return file;
}
