/* Tensor files: named tensors, read and written. */
#include "base/tensor_file.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum {
    MOST_TENSORS = 4096,
    CHECKSUM_BYTES = 8, /* stw_str_hash of all before */
    ALIGNMENT = 16      /* of a tensor's first byte, as written */
};

/* ---- tensors ---- */

static int64_t element_bytes(stw_tensor_type type) { return type == STW_TENSOR_F32 || type == STW_TENSOR_I32 ? 4 : 8; }

int64_t stw_tensor_bytes(const stw_tensor *tensor) { return tensor->rows * tensor->cols * element_bytes(tensor->type); }

const char *stw_tensor_type_name(stw_tensor_type type) {
    static const char *const names[] = {"f32", "f64", "i32", "i64"};
    return names[type];
}

/* 1 to 63 printable ASCII characters. */
static bool name_is_good(const char *name, size_t length) {
    if (length < 1 || length > STW_TENSOR_MOST_NAME) return false;
    for (size_t i = 0; i < length; i++) {
        if (name[i] < ' ' || name[i] > '~') return false;
    }
    return true;
}

/* Copies elements between the host's byte order and the file's, which is little-endian. */
static void copy_elements(void *to, const void *from, int64_t bytes, int64_t element) {
    const uint16_t one = 1;
    if (*(const unsigned char *)&one == 1) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    for (int64_t i = 0; i < bytes; i++) ((char *)to)[i] = ((const char *)from)[i / element * element + element - 1 - i % element];
}

const stw_tensor *stw_tensor_find(const stw_tensor_file *file, const char *name) {
    for (int32_t i = 0; i < file->count; i++) {
        if (strcmp(file->tensor[i].name, name) == 0) return &file->tensor[i];
    }
    return NULL;
}

stw_status stw_tensor_expect(const stw_tensor_file *file, const char *name, stw_tensor_type type, int64_t rows, int64_t cols,
                             const stw_tensor **out, stw_error *error) {
    const stw_tensor *t = *out = stw_tensor_find(file, name);
    if (t == NULL) return stw_fail(error, STW_ERROR_INPUT, "the file has no tensor %s; it is not a file of this network", name);
    if (t->type != type || t->rows != rows || t->cols != cols)
        return stw_fail(error, STW_ERROR_INPUT, "tensor %s is %s of %lld x %lld; expected is %s of %lld x %lld", name,
                        stw_tensor_type_name(t->type), (long long)t->rows, (long long)t->cols, stw_tensor_type_name(type),
                        (long long)rows, (long long)cols);
    return STW_OK;
}

bool stw_tensor_file_dimension(const stw_tensor_file *file, const char *name, int64_t *out) {
    for (int32_t i = 0; i < file->dimension_count; i++) {
        if (strcmp(file->dimension[i].name, name) != 0) continue;
        *out = file->dimension[i].value;
        return true;
    }
    return false;
}

/* ---- reading ---- */

/* Nothing that a file says is used before it is checked. */

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
    if (!name_is_good(s->begin + s->at, length))
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
    const uint64_t room = (uint64_t)(s->end / element_bytes(t->type));
    if (rows > INT64_MAX || cols > INT64_MAX || __builtin_mul_overflow(rows, cols, &count) || count > room ||
        from > (uint64_t)s->end || count * (uint64_t)element_bytes(t->type) > (uint64_t)s->end - from)
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
    TRY(get_count(s, "tensors", MOST_TENSORS, &count));
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
        if (bytes > 0) copy_elements(data, s->begin + offset[i], bytes, element_bytes(t->type));
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
    if (s->end - s->at < CHECKSUM_BYTES) return cut_short(s, "the head");
    source last = {s->begin, s->end - CHECKSUM_BYTES, s->end, s->error};
    s->end -= CHECKSUM_BYTES;
    TRY(get_number(&last, CHECKSUM_BYTES, "the checksum", &checksum));
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

/* ---- writing ---- */

static int64_t align(int64_t offset) { return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* The file is made in memory, so that its checksum is of what is written. */
typedef struct {
    char *begin;
    int64_t at;
} sink; /* begin NULL: counts only */

static void put(sink *s, const void *bytes, int64_t count) {
    if (s->begin != NULL && count > 0) memcpy(s->begin + s->at, bytes, (size_t)count);
    s->at += count;
}

static void put_number(sink *s, uint64_t value, int32_t bytes) {
    for (int32_t i = 0; i < bytes; i++) put(s, &(char){(char)(value >> 8 * i & 255u)}, 1);
}

static void put_name(sink *s, const char *name) {
    put_number(s, strlen(name), 2);
    put(s, name, (int64_t)strlen(name));
}

/* The head, with the data beginning at `data`. */
static void put_head(sink *s, const stw_tensor_file *file, int64_t data) {
    put(s, STW_TENSOR_MAGIC, STW_TENSOR_MAGIC_BYTES);
    put_number(s, STW_TENSOR_VERSION, 4);
    put_number(s, (uint64_t)file->dimension_count, 4);
    for (int32_t i = 0; i < file->dimension_count; i++) {
        put_name(s, file->dimension[i].name);
        put_number(s, (uint64_t)file->dimension[i].value, 8);
    }
    put_number(s, (uint64_t)file->count, 4);
    for (int32_t i = 0; i < file->count; i++) {
        const stw_tensor *t = &file->tensor[i];
        put_name(s, t->name);
        put_number(s, (uint64_t)t->type, 4);
        put_number(s, (uint64_t)t->rows, 8);
        put_number(s, (uint64_t)t->cols, 8);
        put_number(s, (uint64_t)data, 8);
        data = align(data + stw_tensor_bytes(t));
    }
}

static stw_status check_written(const stw_tensor_file *file, stw_error *error) {
    if (file->dimension_count > STW_TENSOR_MOST_DIMENSIONS || file->count > MOST_TENSORS)
        return stw_fail(error, STW_ERROR_INPUT, "%d dimensions and %d tensors; a file takes %d and %d", file->dimension_count,
                        file->count, STW_TENSOR_MOST_DIMENSIONS, MOST_TENSORS);
    for (int32_t i = 0; i < file->dimension_count; i++) {
        if (!name_is_good(file->dimension[i].name, strlen(file->dimension[i].name)))
            return stw_fail(error, STW_ERROR_INPUT, "dimension %d has no proper name; 1 to 63 ASCII characters", i);
    }
    for (int32_t i = 0; i < file->count; i++) {
        const stw_tensor *t = &file->tensor[i];
        if (!name_is_good(t->name, strlen(t->name)) || t->rows < 0 || t->cols < 0 || stw_tensor_find(file, t->name) != t)
            return stw_fail(error, STW_ERROR_INPUT, "tensor %d (%.63s) has no proper name or size, or there are two of the name",
                            i, t->name);
    }
    return STW_OK;
}

static stw_status write_bytes(const char *path, stw_str bytes, stw_error *error) {
    stw_output output;
    TRY(stw_output_open(&output, path, error));
    (void)!fwrite(bytes.p, 1, (size_t)bytes.length, output.file); /* commit asks ferror */
    return stw_output_commit(&output, error);
}

static stw_status write_file(const stw_tensor_file *file, const char *path, stw_arena scratch, stw_error *error) {
    sink count = {0};
    put_head(&count, file, 0);
    const int64_t data = align(count.at);
    int64_t end = data;
    for (int32_t i = 0; i < file->count; i++) end = align(end + stw_tensor_bytes(&file->tensor[i]));
    sink s = {0};
    STW_TRY_NEW(&scratch, s.begin, end + CHECKSUM_BYTES, error); /* zeroed: the gaps between tensors are 0 */
    put_head(&s, file, data);
    int64_t at = data;
    for (int32_t i = 0; i < file->count; i++) {
        const stw_tensor *t = &file->tensor[i];
        if (stw_tensor_bytes(t) > 0) copy_elements(s.begin + at, t->data, stw_tensor_bytes(t), element_bytes(t->type));
        at = align(at + stw_tensor_bytes(t));
    }
    s.at = end;
    put_number(&s, stw_str_hash((stw_str){s.begin, end}), CHECKSUM_BYTES);
    return write_bytes(path, (stw_str){s.begin, s.at}, error);
}

stw_status stw_tensor_file_write(const stw_tensor_file *file, const char *path, stw_error *error) {
    stw_status status = check_written(file, error);
    if (status != STW_OK) {
        stw_error_prefix(error, path);
        return status;
    }
    stw_arena scratch = {0};
    TRY(stw_arena_create(&scratch, error));
    status = write_file(file, path, scratch, error);
    stw_arena_destroy(&scratch);
    return status;
}
