/* Policy files: no input crashes the reader, and whatever it takes is what it says. The checksum is put right as well, so that
 * what comes after it is reached. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "policy/checkpoint.h"

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

/* Touches every byte of every tensor. */
static void walk(const stw_tensor_file *file) {
    require(file->count >= 0 && file->dimension_count >= 0 && file->dimension_count <= 64);
    for (int32_t i = 0; i < file->count; i++) {
        const stw_tensor *t = &file->tensor[i];
        require(stw_tensor_find(file, t->name) == t && t->rows >= 0 && t->cols >= 0);
        const int64_t size = t->type == STW_TENSOR_F32 || t->type == STW_TENSOR_I32 ? 4 : 8, bytes = t->rows * t->cols * size;
        volatile char sum = 0;
        for (int64_t k = 0; k < bytes; k++) sum = (char)(sum ^ ((const char *)t->data)[k]);
    }
    stw_policy_config config;
    stw_error error = {0};
    if (stw_net_config_of(file, &config, &error) != STW_OK)
        require(error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
}

static int parse(const char *bytes, size_t size) {
    stw_arena arena = {0};
    stw_tensor_file file;
    stw_error error = {0};
    require(stw_arena_create_sized(&arena, (int64_t)64 << 20, NULL) == STW_OK);
    const stw_status status = stw_tensor_file_parse((stw_str){bytes, (int64_t)size}, "fuzz", &arena, &file, &error);
    if (status == STW_OK) {
        walk(&file);
    } else {
        require(strncmp(error.message, "fuzz: ", 6) == 0 && strchr(error.message, '\n') == NULL);
    }
    stw_arena_destroy(&arena);
    return status == STW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse((const char *)data, size);
    if (size < 8) return 0;
    char *copy = malloc(size);
    require(copy != NULL);
    memcpy(copy, data, size);
    const uint64_t checksum = stw_str_hash((stw_str){copy, (int64_t)size - 8});
    for (size_t i = 0; i < 8; i++) copy[size - 8 + i] = (char)(checksum >> 8 * i & 255u);
    parse(copy, size);
    free(copy);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) { return parse((const char *)data, size); }
