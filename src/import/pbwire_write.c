/* Writes the wire format of protocol buffers; see pbwire.h. */
#include <string.h>

#include "import/pbwire.h"

/* Room for `more` bytes; NULL when memory is out. Old halves are left behind in the arena. */
static char *extend(stw_pb_writer *w, int64_t more) {
    if (w->failed) return NULL;
    if (w->capacity - w->length < more) {
        const int64_t capacity = 2 * w->capacity + more + 256;
        char *data = STW_NEW_DIRTY(w->arena, char, capacity);
        w->failed = data == NULL;
        if (w->failed) return NULL;
        if (w->length > 0) memcpy(data, w->data, (size_t)w->length);
        w->data = data;
        w->capacity = capacity;
    }
    char *at = w->data + w->length;
    w->length += more;
    return at;
}

static int put_varint(char *at, uint64_t value) {
    int length = 0;
    for (; value >= 0x80; value >>= 7) at[length++] = (char)(0x80 | (value & 0x7f));
    at[length++] = (char)value;
    return length;
}

static void write_varint(stw_pb_writer *w, uint64_t value) {
    char text[10];
    const int length = put_varint(text, value);
    char *at = extend(w, length);
    if (at != NULL) memcpy(at, text, (size_t)length);
}

static void write_fixed(stw_pb_writer *w, uint64_t bits, int bytes) {
    char *at = extend(w, bytes);
    for (int k = 0; at != NULL && k < bytes; k++) at[k] = (char)(bits >> (8 * k) & 0xff);
}

static void write_tag(stw_pb_writer *w, int64_t number, stw_pb_type type) { write_varint(w, (uint64_t)number << 3 | type); }

void stw_pb_write_raw(stw_pb_writer *w, stw_str fields) {
    char *at = extend(w, fields.length);
    if (at != NULL && fields.length > 0) memcpy(at, fields.p, (size_t)fields.length);
}

void stw_pb_write_int(stw_pb_writer *w, int64_t number, int64_t value) {
    write_tag(w, number, STW_PB_VARINT);
    write_varint(w, (uint64_t)value);
}

void stw_pb_write_float(stw_pb_writer *w, int64_t number, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    write_tag(w, number, STW_PB_FIXED32);
    write_fixed(w, bits, 4);
}

void stw_pb_write_double(stw_pb_writer *w, int64_t number, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    write_tag(w, number, STW_PB_FIXED64);
    write_fixed(w, bits, 8);
}

void stw_pb_write_string(stw_pb_writer *w, int64_t number, stw_str value) {
    write_tag(w, number, STW_PB_BYTES);
    write_varint(w, (uint64_t)value.length);
    stw_pb_write_raw(w, value);
}

void stw_pb_write_ints(stw_pb_writer *w, int64_t number, const int64_t *value, int64_t count) {
    const int64_t begun = stw_pb_begin(w, number);
    for (int64_t k = 0; k < count; k++) write_varint(w, (uint64_t)value[k]);
    stw_pb_end(w, begun);
}

int64_t stw_pb_begin(stw_pb_writer *w, int64_t number) {
    write_tag(w, number, STW_PB_BYTES);
    return w->length;
}

/* The length goes in front once it is known, so the content moves up a little. */
void stw_pb_end(stw_pb_writer *w, int64_t begun) {
    char text[10];
    const int64_t content = w->length - begun;
    const int length = put_varint(text, (uint64_t)content);
    if (extend(w, length) == NULL) return;
    memmove(w->data + begun + length, w->data + begun, (size_t)content);
    memcpy(w->data + begun, text, (size_t)length);
}

stw_status stw_pb_written(const stw_pb_writer *w, stw_str *out, stw_error *error) {
    if (w->failed) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    *out = (stw_str){w->data, w->length};
    return STW_OK;
}
