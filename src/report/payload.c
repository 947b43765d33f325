/* The data of a report: JSON and columns of numbers, packed by gzip, as base64. */
#include <string.h>
#include <zlib.h>

#include "report/report.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "columns are written as they lie in memory, and browsers read them as little-endian"
#endif

static const int64_t type_bytes[] = {[STW_COLUMN_U8] = 1, [STW_COLUMN_I32] = 4, [STW_COLUMN_F64] = 8};
static const char *const type_name[] = {[STW_COLUMN_U8] = "u8", [STW_COLUMN_I32] = "i32", [STW_COLUMN_F64] = "f64"};

stw_status stw_payload_add(stw_payload *payload, int32_t run, const char *name, stw_column_type type, const void *data,
                           int64_t count, stw_error *error) {
    const stw_str full =
        run < 0 ? stw_str_format(payload->arena, "%s", name) : stw_str_format(payload->arena, "%d.%s", run, name);
    if (full.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    STW_PUSH(payload->arena, payload, column, ((stw_column){full, type, count, data}), error);
    return STW_OK;
}

stw_status stw_payload_add_int64(stw_payload *payload, int32_t run, const char *name, const int64_t *data, int64_t count,
                                 stw_error *error) {
    double *numbers;
    STW_TRY_NEW(payload->arena, numbers, count, error);
    for (int64_t k = 0; k < count; k++) numbers[k] = (double)data[k];
    return stw_payload_add(payload, run, name, STW_COLUMN_F64, numbers, count, error);
}

static int64_t padded(int64_t bytes) { return (bytes + 7) / 8 * 8; }

void stw_payload_describe(const stw_payload *payload, stw_json_writer *writer) {
    int64_t offset = 0;
    stw_json_write_key(writer, "columns");
    stw_json_begin_array(writer);
    for (int64_t k = 0; k < payload->column_count; k++) {
        const stw_column *column = &payload->column[k];
        stw_json_begin_array(writer);
        stw_json_write_string(writer, column->name);
        stw_json_write_string(writer, stw_str_of(type_name[column->type]));
        stw_json_write_int64(writer, offset);
        stw_json_write_int64(writer, column->count);
        stw_json_end_array(writer);
        offset += padded(column->count * type_bytes[column->type]);
    }
    stw_json_end_array(writer);
}

/* ---- packing ---- */

void stw_base64(const uint8_t *bytes, int64_t count, char *out) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int64_t k = 0; k < count; k += 3) {
        const uint32_t left = (uint32_t)(count - k);
        const uint32_t three =
            (uint32_t)bytes[k] << 16 | (left > 1 ? (uint32_t)bytes[k + 1] << 8 : 0) | (left > 2 ? (uint32_t)bytes[k + 2] : 0);
        *out++ = digit[three >> 18];
        *out++ = digit[three >> 12 & 63];
        *out++ = left > 1 ? digit[three >> 6 & 63] : '=';
        *out++ = left > 2 ? digit[three & 63] : '=';
    }
    *out = '\0';
}

enum { PACKED_BYTES = 48 << 10 }; /* a multiple of 3, so that padding comes at the very end */

typedef struct packer {
    z_stream z;
    FILE *file;
    uint8_t packed[PACKED_BYTES];
    char text[PACKED_BYTES / 3 * 4 + 1];
} packer;

static void put_packed(packer *p) {
    stw_base64(p->packed, PACKED_BYTES - (int64_t)p->z.avail_out, p->text);
    fputs(p->text, p->file);
    p->z.next_out = p->packed;
    p->z.avail_out = PACKED_BYTES;
}

/* The part of zlib's contract that matters here: all input is taken before it returns with room left. */
static void pack(packer *p, const void *bytes, int64_t count, int flush) {
    enum { MOST = 1 << 28 }; /* zlib counts in 32 bits */
    const uint8_t *next = bytes;
    do {
        const int64_t now = count < MOST ? count : MOST;
        const int how = now == count ? flush : Z_NO_FLUSH;
        p->z.next_in = (uint8_t *)(uintptr_t)next;
        p->z.avail_in = (uInt)now;
        for (;;) {
            const int result = deflate(&p->z, how);
            if (p->z.avail_out > 0 || result == Z_STREAM_END) break;
            put_packed(p);
        }
        next += now;
        count -= now;
    } while (count > 0);
}

static void pack_padded(packer *p, const void *bytes, int64_t count) {
    static const char zeros[8] = "";
    if (count > 0) pack(p, bytes, count, Z_NO_FLUSH);
    if (count % 8 != 0) pack(p, zeros, 8 - count % 8, Z_NO_FLUSH);
}

stw_status stw_payload_write(const stw_payload *payload, stw_str head, FILE *file, stw_error *error) {
    packer *p;
    stw_arena scratch = *payload->arena;
    STW_TRY_NEW(&scratch, p, 1, error);
    if (head.length > INT32_MAX) return stw_fail(error, STW_ERROR_INPUT, "the graph's names take more than 2 GiB");
    if (deflateInit2(&p->z, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    p->file = file;
    p->z.next_out = p->packed;
    p->z.avail_out = PACKED_BYTES;
    const uint32_t length[2] = {(uint32_t)head.length, 0};
    pack_padded(p, length, sizeof length);
    pack_padded(p, head.p, head.length);
    for (int64_t k = 0; k < payload->column_count; k++)
        pack_padded(p, payload->column[k].data, payload->column[k].count * type_bytes[payload->column[k].type]);
    pack(p, "", 0, Z_FINISH);
    put_packed(p);
    deflateEnd(&p->z);
    return STW_OK;
}
