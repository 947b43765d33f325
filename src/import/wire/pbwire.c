/* The wire format of protocol buffers; see pbwire.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "import/wire/pbwire.h"

/* ---- reading ---- */

stw_pb_file stw_pb_open(stw_str bytes, stw_error *error) {
    return (stw_pb_file){.begin = bytes.p, .length = bytes.length, .error = error};
}

stw_pb stw_pb_range(stw_pb_file *file, stw_str bytes, int32_t depth) {
    const char *end = bytes.length > 0 ? bytes.p + bytes.length : bytes.p;
    return (stw_pb){.file = file, .cursor = bytes.p, .end = end, .depth = depth};
}

stw_pb stw_pb_message(stw_pb_file *file) { return stw_pb_range(file, (stw_str){file->begin, file->length}, 0); }

stw_status stw_pb_close(stw_pb_file *file) { return file->failed ? STW_ERROR_INPUT : STW_OK; }

int64_t stw_pb_offset(const stw_pb_file *file, const char *at) { return at == NULL ? 0 : (int64_t)(at - file->begin); }

bool stw_pb_fail(stw_pb_file *file, const char *at, const char *format, ...) {
    if (file->failed) return false;
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    file->failed = true;
    stw_fail(file->error, STW_ERROR_INPUT, "byte %lld: %s", (long long)stw_pb_offset(file, at), text);
    return false;
}

/* Seven bits a byte, lowest first; at most ten bytes. */
static bool read_varint(stw_pb_file *file, const char **cursor, const char *end, uint64_t *out) {
    uint64_t value = 0;
    for (int k = 0; k < 10; k++) {
        if (*cursor + k == end)
            return stw_pb_fail(file, *cursor, "a number runs over the end of its message; is the file cut off?");
        const uint8_t byte = (uint8_t)(*cursor)[k];
        if (k == 9 && byte > 1) break;
        value |= (uint64_t)(byte & 0x7f) << (7 * k);
        if (byte < 0x80) {
            *cursor += k + 1;
            *out = value;
            return true;
        }
    }
    return stw_pb_fail(file, *cursor, "a number is longer than 64 bits; the file is damaged");
}

static bool read_fixed(stw_pb_file *file, const char **cursor, const char *end, int bytes, uint64_t *out) {
    if (end - *cursor < bytes)
        return stw_pb_fail(file, *cursor, "a number runs over the end of its message; is the file cut off?");
    *out = 0;
    for (int k = 0; k < bytes; k++) *out |= (uint64_t)(uint8_t)(*cursor)[k] << (8 * k);
    *cursor += bytes;
    return true;
}

static bool read_bytes(stw_pb *message, stw_pb_field *field) {
    uint64_t length = 0;
    if (!read_varint(message->file, &message->cursor, message->end, &length)) return false;
    const uint64_t left = (uint64_t)(message->end - message->cursor);
    if (length > left)
        return stw_pb_fail(message->file, field->at, "field %lld has %llu bytes, but only %llu are left; is the file cut off?",
                           (long long)field->number, (unsigned long long)length, (unsigned long long)left);
    field->bytes = (stw_str){message->cursor, (int64_t)length};
    message->cursor += length;
    return true;
}

bool stw_pb_next(stw_pb *message, stw_pb_field *field) {
    stw_pb_file *file = message->file;
    uint64_t tag = 0;
    *field = (stw_pb_field){.at = message->cursor};
    if (file->failed || message->cursor == message->end) return false;
    if (!read_varint(file, &message->cursor, message->end, &tag)) return false;
    if (tag < 8 || tag > UINT32_MAX) return stw_pb_fail(file, field->at, "no field can have this number; the file is damaged");
    field->number = (int64_t)(tag >> 3);
    field->type = (stw_pb_type)(tag & 7);
    switch (tag & 7) {
        case STW_PB_VARINT: return read_varint(file, &message->cursor, message->end, &field->value);
        case STW_PB_FIXED64: return read_fixed(file, &message->cursor, message->end, 8, &field->value);
        case STW_PB_FIXED32: return read_fixed(file, &message->cursor, message->end, 4, &field->value);
        case STW_PB_BYTES: return read_bytes(message, field);
        default: break;
    }
    return stw_pb_fail(file, field->at, "field %lld is of wire type %d, which is not in use; the file is damaged",
                       (long long)field->number, (int)(tag & 7));
}

static bool check_type(stw_pb *message, const stw_pb_field *field, stw_pb_type type) {
    if (message->file->failed) return false;
    return field->type == type || stw_pb_fail(message->file, field->at, "field %lld is of wire type %d; %d is expected",
                                              (long long)field->number, (int)field->type, (int)type);
}

bool stw_pb_enter(stw_pb *message, const stw_pb_field *field, stw_pb *inner) {
    if (!check_type(message, field, STW_PB_BYTES)) return false;
    if (message->depth >= STW_PB_MAX_DEPTH)
        return stw_pb_fail(message->file, field->at,
                           "messages are nested deeper than %d, which protobuf refuses too; " STW_PB_DEPTH_REMEDY,
                           STW_PB_MAX_DEPTH);
    *inner = stw_pb_range(message->file, field->bytes, message->depth + 1);
    return true;
}

static double float_of(uint64_t bits) {
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return (double)value;
}

static double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool stw_pb_int(stw_pb *message, const stw_pb_field *field, int64_t *out) {
    if (!check_type(message, field, STW_PB_VARINT)) return false;
    *out = (int64_t)field->value;
    return true;
}

bool stw_pb_float(stw_pb *message, const stw_pb_field *field, double *out) {
    if (!check_type(message, field, STW_PB_FIXED32)) return false;
    *out = float_of(field->value);
    return true;
}

bool stw_pb_string(stw_pb *message, const stw_pb_field *field, stw_str *out) {
    if (!check_type(message, field, STW_PB_BYTES)) return false;
    *out = field->bytes;
    return true;
}

stw_pb_list stw_pb_list_of(const stw_pb_field *field) {
    const stw_str packed = field->type == STW_PB_BYTES ? field->bytes : (stw_str){field->at, 0};
    const char *end = packed.length > 0 ? packed.p + packed.length : packed.p;
    return (stw_pb_list){.field = *field, .cursor = packed.p, .end = end, .single_due = field->type != STW_PB_BYTES};
}

/* The next value of the list as bits; `type` is what a value is when it stands alone. */
static bool next_bits(stw_pb *message, stw_pb_list *list, stw_pb_type type, uint64_t *out) {
    stw_pb_file *file = message->file;
    if (file->failed) return false;
    if (list->single_due) {
        list->single_due = false;
        *out = list->field.value;
        return check_type(message, &list->field, type);
    }
    if (list->cursor == list->end) return false;
    if (type == STW_PB_VARINT) return read_varint(file, &list->cursor, list->end, out);
    return read_fixed(file, &list->cursor, list->end, type == STW_PB_FIXED64 ? 8 : 4, out);
}

bool stw_pb_list_int(stw_pb *message, stw_pb_list *list, int64_t *out) {
    uint64_t bits = 0;
    if (!next_bits(message, list, STW_PB_VARINT, &bits)) return false;
    *out = (int64_t)bits;
    return true;
}

bool stw_pb_list_float(stw_pb *message, stw_pb_list *list, double *out) {
    uint64_t bits = 0;
    if (!next_bits(message, list, STW_PB_FIXED32, &bits)) return false;
    *out = float_of(bits);
    return true;
}

bool stw_pb_list_double(stw_pb *message, stw_pb_list *list, double *out) {
    uint64_t bits = 0;
    if (!next_bits(message, list, STW_PB_FIXED64, &bits)) return false;
    *out = double_of(bits);
    return true;
}

bool stw_pb_ints(stw_pb *message, const stw_pb_field *field, stw_vector *out) {
    int64_t value = 0;
    for (stw_pb_list list = stw_pb_list_of(field); stw_pb_list_int(message, &list, &value);) {
        if (!stw_vector_push(out, value)) return stw_pb_fail(message->file, field->at, "out of memory");
    }
    return !message->file->failed;
}

/* ---- writing ---- */

/* Room for `more` bytes; NULL when memory is out. */
static char *extend(stw_pb_writer *w, int64_t more) {
    w->failed |= STW_GROW(w->arena, w->data, w->length + more, w->capacity, NULL) != STW_OK;
    if (w->failed) return NULL;
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

static void write_tag(stw_pb_writer *w, int64_t number, stw_pb_type type) { write_varint(w, (uint64_t)number << 3 | type); }

void stw_pb_write_raw(stw_pb_writer *w, stw_str fields) {
    char *at = extend(w, fields.length);
    if (at != NULL && fields.length > 0) memcpy(at, fields.p, (size_t)fields.length);
}

void stw_pb_write_int(stw_pb_writer *w, int64_t number, int64_t value) {
    write_tag(w, number, STW_PB_VARINT);
    write_varint(w, (uint64_t)value);
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
