/* Tensor files: writing. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "policy/tensor.h"

static int64_t align(int64_t offset) { return (offset + STW_TENSOR_ALIGNMENT - 1) / STW_TENSOR_ALIGNMENT * STW_TENSOR_ALIGNMENT; }

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
    if (file->dimension_count > STW_TENSOR_MOST_DIMENSIONS || file->count > STW_TENSOR_MOST_TENSORS)
        return stw_fail(error, STW_ERROR_INPUT, "%d dimensions and %d tensors; a file takes %d and %d", file->dimension_count,
                        file->count, STW_TENSOR_MOST_DIMENSIONS, STW_TENSOR_MOST_TENSORS);
    for (int32_t i = 0; i < file->dimension_count; i++) {
        if (!stw_tensor_name_is_good(file->dimension[i].name, strlen(file->dimension[i].name)))
            return stw_fail(error, STW_ERROR_INPUT, "dimension %d has no proper name; 1 to 63 ASCII characters", i);
    }
    for (int32_t i = 0; i < file->count; i++) {
        const stw_tensor *t = &file->tensor[i];
        if (!stw_tensor_name_is_good(t->name, strlen(t->name)) || t->rows < 0 || t->cols < 0 ||
            stw_tensor_find(file, t->name) != t)
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
    STW_TRY_NEW(&scratch, s.begin, end + STW_TENSOR_CHECKSUM_BYTES, error); /* zeroed: the gaps between tensors are 0 */
    put_head(&s, file, data);
    int64_t at = data;
    for (int32_t i = 0; i < file->count; i++) {
        const stw_tensor *t = &file->tensor[i];
        if (stw_tensor_bytes(t) > 0)
            stw_tensor_copy(s.begin + at, t->data, stw_tensor_bytes(t), stw_tensor_element_bytes(t->type));
        at = align(at + stw_tensor_bytes(t));
    }
    s.at = end;
    put_number(&s, stw_str_hash((stw_str){s.begin, end}), STW_TENSOR_CHECKSUM_BYTES);
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
