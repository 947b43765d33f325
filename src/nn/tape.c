#include <stdlib.h>

#include "nn/layers.h"

enum { MAX_CHUNKS = 64, ALIGNMENT = 64, SMALLEST_CHUNK = 1 << 22 }; /* bytes */

typedef struct {
    char *memory;
    int64_t bytes;
} chunk;

struct stw_tape {
    stw_backend *backend;
    int32_t count;
    stw_tape_mark next;
    chunk chunks[MAX_CHUNKS];
};

stw_status stw_tape_create(stw_backend *backend, stw_tape **out, stw_error *error) {
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for a tape");
    (*out)->backend = backend;
    return STW_OK;
}

void stw_tape_destroy(stw_tape *tape) {
    if (tape == NULL) return;
    for (int32_t i = 0; i < tape->count; i++) tape->backend->release(tape->backend, tape->chunks[i].memory);
    free(tape);
}

void stw_tape_reset(stw_tape *tape) { tape->next = (stw_tape_mark){0}; }

stw_tape_mark stw_tape_here(const stw_tape *tape) { return tape->next; }

void stw_tape_back(stw_tape *tape, stw_tape_mark mark) { tape->next = mark; }

int64_t stw_tape_bytes(const stw_tape *tape) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < tape->count; i++) bytes += tape->chunks[i].bytes;
    return bytes;
}

static int64_t left_in(const stw_tape *tape) { return tape->chunks[tape->next.chunk].bytes - tape->next.used; }

/* Each chunk is at least a quarter of all before it, so that there are few. */
static stw_status add_chunk(stw_tape *tape, int64_t bytes, stw_error *error) {
    if (tape->count == MAX_CHUNKS) return stw_fail(error, STW_ERROR_MEMORY, "a tape of more than %d chunks", MAX_CHUNKS);
    const int64_t quarter = stw_tape_bytes(tape) / 4 / ALIGNMENT * ALIGNMENT;
    chunk added = {.bytes = bytes > quarter ? bytes : quarter};
    if (added.bytes < SMALLEST_CHUNK) added.bytes = SMALLEST_CHUNK;
    void *memory;
    TRY(tape->backend->allocate(tape->backend, added.bytes, &memory, error));
    added.memory = memory;
    tape->chunks[tape->count++] = added;
    return STW_OK;
}

static stw_status take(stw_tape *tape, int64_t count, int64_t size, void **out, stw_error *error) {
    *out = NULL;
    if (count < 0 || count > INT64_MAX / 2 / size)
        return stw_fail(error, STW_ERROR_MEMORY, "%lld numbers do not fit memory", (long long)count);
    const int64_t bytes = (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    while (tape->next.chunk < tape->count && left_in(tape) < bytes) tape->next = (stw_tape_mark){.chunk = tape->next.chunk + 1};
    if (tape->next.chunk == tape->count) TRY(add_chunk(tape, bytes, error));
    *out = tape->chunks[tape->next.chunk].memory + tape->next.used;
    tape->next.used += bytes;
    return STW_OK;
}

stw_status stw_tape_reals(stw_tape *tape, int64_t count, void **out, stw_error *error) {
    return take(tape, count, (int64_t)tape->backend->real_bytes, out, error);
}

stw_status stw_tape_indices(stw_tape *tape, int64_t count, int32_t **out, stw_error *error) {
    void *memory;
    TRY(take(tape, count, (int64_t)sizeof(int32_t), &memory, error));
    *out = memory;
    return STW_OK;
}
