/* Tensors by name, and the bytes they are made of. */
#include "policy/tensor.h"

#include <string.h>

int64_t stw_tensor_element_bytes(stw_tensor_type type) { return type == STW_TENSOR_F32 || type == STW_TENSOR_I32 ? 4 : 8; }

int64_t stw_tensor_bytes(const stw_tensor *tensor) {
    return tensor->rows * tensor->cols * stw_tensor_element_bytes(tensor->type);
}

const char *stw_tensor_type_name(stw_tensor_type type) {
    static const char *const names[] = {"f32", "f64", "i32", "i64"};
    return names[type];
}

bool stw_tensor_name_is_good(const char *name, size_t length) {
    if (length < 1 || length > STW_TENSOR_MOST_NAME) return false;
    for (size_t i = 0; i < length; i++) {
        if (name[i] < ' ' || name[i] > '~') return false;
    }
    return true;
}

void stw_tensor_copy(void *to, const void *from, int64_t bytes, int64_t element) {
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
