/* Named tensors in one binary file (docs/formats/policy.md): policies, what anneal proposes moves by, the learned model of
 * kernels. Little-endian: magic "STWPOLCY", u32 version, u32 number of dimensions, (name, i64) each, u32 number of tensors,
 * (name, u32 type, i64 rows, i64 cols, i64 offset) each, the data, and a 64-bit checksum of all that comes before it. Names: u16
 * length and bytes.
 */
#ifndef STW_BASE_TENSOR_FILE_H
#define STW_BASE_TENSOR_FILE_H

#include "base/arena.h"
#include "base/str.h"

#define STW_TENSOR_MAGIC "STWPOLCY"
enum { STW_TENSOR_MAGIC_BYTES = 8, STW_TENSOR_VERSION = 1, STW_TENSOR_MOST_DIMENSIONS = 64, STW_TENSOR_MOST_NAME = 63 };

typedef enum stw_tensor_type { STW_TENSOR_F32, STW_TENSOR_F64, STW_TENSOR_I32, STW_TENSOR_I64 } stw_tensor_type;

typedef struct stw_tensor {
    char name[STW_TENSOR_MOST_NAME + 1];
    stw_tensor_type type;
    int64_t rows, cols;
    const void *data; /* host */
} stw_tensor;

typedef struct stw_tensor_file {
    int32_t dimension_count;
    struct {
        char name[STW_TENSOR_MOST_NAME + 1];
        int64_t value;
    } dimension[STW_TENSOR_MOST_DIMENSIONS];
    int32_t count;
    stw_tensor *tensor; /* (count) */
} stw_tensor_file;

const char *stw_tensor_type_name(stw_tensor_type type);
int64_t stw_tensor_bytes(const stw_tensor *tensor);

/* Written aside and renamed. */
stw_status stw_tensor_file_write(const stw_tensor_file *file, const char *path, stw_error *error);
/* Everything is checked before use: sizes against what is left, names distinct, the checksum. Data lives in the arena. */
stw_status stw_tensor_file_read(const char *path, stw_arena *arena, stw_tensor_file *out, stw_error *error);
stw_status stw_tensor_file_parse(stw_str bytes, const char *label, stw_arena *arena, stw_tensor_file *out, stw_error *error);
const stw_tensor *stw_tensor_find(const stw_tensor_file *file, const char *name); /* or NULL */
/* The tensor of this name, type and size, or an error that says what is there instead. */
stw_status stw_tensor_expect(const stw_tensor_file *file, const char *name, stw_tensor_type type, int64_t rows, int64_t cols,
                             const stw_tensor **out, stw_error *error);
bool stw_tensor_file_dimension(const stw_tensor_file *file, const char *name, int64_t *out);

#endif
