/* Policy files: named tensors in one binary file (docs/formats/policy.md). Little-endian: magic "STWPOLCY", u32 version, u32
 * number of dimensions, (name, i64) each, u32 number of tensors, (name, u32 type, i64 rows, i64 cols, i64 offset) each, the data,
 * and a 64-bit checksum of all that comes before it. Names: u16 length and bytes.
 *
 * The network's parameters, Adam's moments and whatever else training needs to go on are tensors of it. */
#ifndef STW_POLICY_CHECKPOINT_H
#define STW_POLICY_CHECKPOINT_H

#include "base/str.h"
#include "policy/policy.h"

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

/* The net's config as dimensions and its parameters as tensors "parameter/<name>"; with `moments`, "first/<name>",
 * "second/<name>" and the dimension "adam_step". Appends to `file`, whose tensor array has room for all. */
stw_status stw_net_save(stw_net *net, bool moments, stw_arena *arena, stw_tensor_file *file, stw_error *error);
/* The config that a file states. */
stw_status stw_net_config_of(const stw_tensor_file *file, stw_policy_config *out, stw_error *error);
/* Fills the parameters (and moments, where the file has them) of a net of the same config. Bit for bit. */
stw_status stw_net_load(stw_net *net, const stw_tensor_file *file, stw_arena scratch, stw_error *error);
/* The same from a policy for any graph into a net for one: the vectors of its rows become 0, moments stay as they are. */
stw_status stw_net_load_shared(stw_net *net, const stw_tensor_file *file, stw_arena scratch, stw_error *error);

/* The pre-trained policy that comes with the library: the bytes of a file; none if it was built without. */
stw_str stw_shipped_policy(void);
/* Likewise the scorer of moves (method/anneal/scorer.h). */
stw_str stw_shipped_proposals(void);

#endif
