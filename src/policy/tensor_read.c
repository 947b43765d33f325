/* Tensor files: reading. Nothing that a file says is used before it is checked. */
#include <string.h>

#include "base/file.h"
#include "policy/tensor.h"

typedef struct {
    const char *begin;
    int64_t at, end;
    stw_error *error;
} source;

static stw_status cut_short(const source *s, const char *what) {
    return stw_fail(s->error, STW_ERROR_INPUT, "ends within %s, at byte %lld; the file is damaged, write it again", what,
                    (long long)s->end);
}

static stw_status get_number(source *s, int32_t bytes, const char *what, uint64_t *out) {
    if (s->end - s->at < bytes) return cut_short(s, what);
    *out = 0;
    for (int32_t i = 0; i < bytes; i++) *out |= (uint64_t)(unsigned char)s->begin[s->at + i] << 8 * i;
    s->at += bytes;
    return STW_OK;
}

static stw_status get_name(source *s, const char *what, char out[64]) {
    uint64_t length = 0;
    TRY(get_number(s, 2, what, &length));
    if ((uint64_t)(s->end - s->at) < length) return cut_short(s, what);
    if (!stw_tensor_name_is_good(s->begin + s->at, length))
        return stw_fail(s->error, STW_ERROR_INPUT, "%s at byte %lld has a bad name of %d bytes; 1 to 63 ASCII characters", what,
                        (long long)s->at, (int)length);
    memcpy(out, s->begin + s->at, length);
    out[length] = '\0';
    s->at += (int64_t)length;
    return STW_OK;
}

static stw_status get_count(source *s, const char *what, int32_t most, int32_t *out) {
    uint64_t count = 0;
    TRY(get_number(s, 4, what, &count));
    if (count > (uint64_t)most)
        return stw_fail(s->error, STW_ERROR_INPUT, "%llu %s; at most %d are read", (unsigned long long)count, what, most);
    *out = (int32_t)count;
    return STW_OK;
}

static stw_status get_dimensions(source *s, stw_tensor_file *out) {
    int32_t count = 0;
    TRY(get_count(s, "dimensions", STW_TENSOR_MOST_DIMENSIONS, &count));
    for (int32_t i = 0; i < count; i++) {
        uint64_t value = 0;
        int64_t other = 0;
        TRY(get_name(s, "a dimension", out->dimension[i].name));
        TRY(get_number(s, 8, "a dimension", &value));
        if (stw_tensor_file_dimension(out, out->dimension[i].name, &other))
            return stw_fail(s->error, STW_ERROR_INPUT, "dimension %s is there twice", out->dimension[i].name);
        out->dimension[i].value = (int64_t)value;
        out->dimension_count = i + 1;
    }
    return STW_OK;
}

/* One line of the table. offset: from the beginning of the file. */
static stw_status get_entry(source *s, stw_tensor *t, int64_t *offset) {
    uint64_t type = 0, rows = 0, cols = 0, from = 0, count = 0;
    TRY(get_name(s, "a tensor", t->name));
    TRY(get_number(s, 4, "a tensor", &type));
    TRY(get_number(s, 8, "a tensor", &rows));
    TRY(get_number(s, 8, "a tensor", &cols));
    TRY(get_number(s, 8, "a tensor", &from));
    if (type > STW_TENSOR_I64)
        return stw_fail(s->error, STW_ERROR_INPUT, "tensor %s has type %llu; known are 0 to 3", t->name,
                        (unsigned long long)type);
    t->type = (stw_tensor_type)type;
    const uint64_t room = (uint64_t)(s->end / stw_tensor_element_bytes(t->type));
    if (rows > INT64_MAX || cols > INT64_MAX || __builtin_mul_overflow(rows, cols, &count) || count > room ||
        from > (uint64_t)s->end || count * (uint64_t)stw_tensor_element_bytes(t->type) > (uint64_t)s->end - from)
        return stw_fail(s->error, STW_ERROR_INPUT, "tensor %s: %llu x %llu from byte %llu is outside of the file's %lld", t->name,
                        (unsigned long long)rows, (unsigned long long)cols, (unsigned long long)from, (long long)s->end);
    t->rows = (int64_t)rows;
    t->cols = (int64_t)cols;
    *offset = (int64_t)from;
    return STW_OK;
}

static stw_status get_tensors(source *s, stw_arena *arena, stw_tensor_file *out) {
    int32_t count = 0;
    int64_t *offset = NULL;
    TRY(get_count(s, "tensors", STW_TENSOR_MOST_TENSORS, &count));
    STW_TRY_NEW(arena, out->tensor, count, s->error);
    STW_TRY_NEW(arena, offset, count, s->error);
    for (int32_t i = 0; i < count; i++) {
        TRY(get_entry(s, &out->tensor[i], &offset[i]));
        if (stw_tensor_find(out, out->tensor[i].name) != NULL)
            return stw_fail(s->error, STW_ERROR_INPUT, "tensor %s is there twice", out->tensor[i].name);
        out->count = i + 1;
    }
    int64_t before = s->at; /* the end of what comes before: tensors lie in order and do not overlap */
    for (int32_t i = 0; i < count; i++) {
        stw_tensor *t = &out->tensor[i];
        const int64_t bytes = stw_tensor_bytes(t);
        if (offset[i] < before)
            return stw_fail(s->error, STW_ERROR_INPUT, "tensor %s begins at byte %lld, within what ends at %lld", t->name,
                            (long long)offset[i], (long long)before);
        before = offset[i] + bytes;
        char *data = NULL;
        STW_TRY_NEW(arena, data, bytes, s->error);
        if (bytes > 0) stw_tensor_copy(data, s->begin + offset[i], bytes, stw_tensor_element_bytes(t->type));
        t->data = data;
    }
    return STW_OK;
}

static stw_status check_frame(source *s) {
    uint64_t version = 0, checksum = 0;
    if (s->end < (int64_t)STW_TENSOR_MAGIC_BYTES || memcmp(s->begin, STW_TENSOR_MAGIC, STW_TENSOR_MAGIC_BYTES) != 0)
        return stw_fail(s->error, STW_ERROR_INPUT, "is not a policy file: it does not begin with STWPOLCY");
    s->at = STW_TENSOR_MAGIC_BYTES;
    TRY(get_number(s, 4, "the version", &version));
    if (version != STW_TENSOR_VERSION)
        return stw_fail(s->error, STW_ERROR_INPUT, "has version %llu of the format; this program reads %d",
                        (unsigned long long)version, STW_TENSOR_VERSION);
    if (s->end - s->at < STW_TENSOR_CHECKSUM_BYTES) return cut_short(s, "the head");
    source last = {s->begin, s->end - STW_TENSOR_CHECKSUM_BYTES, s->end, s->error};
    s->end -= STW_TENSOR_CHECKSUM_BYTES;
    TRY(get_number(&last, STW_TENSOR_CHECKSUM_BYTES, "the checksum", &checksum));
    const uint64_t computed = stw_str_hash((stw_str){s->begin, s->end});
    if (checksum != computed)
        return stw_fail(s->error, STW_ERROR_INPUT,
                        "its checksum is %016llx, its content's %016llx; the file is damaged, get it again",
                        (unsigned long long)checksum, (unsigned long long)computed);
    return STW_OK;
}

static stw_status parse(source *s, stw_arena *arena, stw_tensor_file *out) {
    TRY(check_frame(s));
    TRY(get_dimensions(s, out));
    return get_tensors(s, arena, out);
}

stw_status stw_tensor_file_parse(stw_str bytes, const char *label, stw_arena *arena, stw_tensor_file *out, stw_error *error) {
    *out = (stw_tensor_file){0};
    source s = {bytes.p, 0, bytes.length, error};
    const stw_status status = parse(&s, arena, out);
    if (status != STW_OK) stw_error_prefix(error, label);
    return status;
}

stw_status stw_tensor_file_read(const char *path, stw_arena *arena, stw_tensor_file *out, stw_error *error) {
    stw_arena aside = {0}; /* the file's bytes, which are copied */
    stw_str bytes = {0};
    TRY(stw_arena_create(&aside, error));
    stw_status status = stw_file_read(path, &aside, &bytes, error);
    if (status == STW_OK) status = stw_tensor_file_parse(bytes, stw_file_label(path), arena, out, error);
    stw_arena_destroy(&aside);
    return status;
}
