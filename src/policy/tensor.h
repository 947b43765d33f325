/* What the reader and the writer of tensor files share. */
#ifndef STW_POLICY_TENSOR_H
#define STW_POLICY_TENSOR_H

#include "policy/checkpoint.h"

#define STW_TENSOR_MAGIC "STWPOLCY"
enum {
    STW_TENSOR_MAGIC_BYTES = 8,
    STW_TENSOR_VERSION = 1,
    STW_TENSOR_MOST_DIMENSIONS = 64,
    STW_TENSOR_MOST_TENSORS = 4096,
    STW_TENSOR_MOST_NAME = 63,
    STW_TENSOR_CHECKSUM_BYTES = 8, /* stw_str_hash of all before */
    STW_TENSOR_ALIGNMENT = 16      /* of a tensor's first byte, as written */
};

int64_t stw_tensor_element_bytes(stw_tensor_type type);
int64_t stw_tensor_bytes(const stw_tensor *tensor);
const char *stw_tensor_type_name(stw_tensor_type type);
/* 1 to 63 printable ASCII characters. */
bool stw_tensor_name_is_good(const char *name, size_t length);
/* Copies elements between the host's byte order and the file's, which is little-endian. */
void stw_tensor_copy(void *to, const void *from, int64_t bytes, int64_t element);

#endif
