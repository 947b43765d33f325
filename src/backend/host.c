#include "backend/host.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* bytes: a cache line, and the widest vectors */

static stw_status allocate(stw_backend *b, int64_t bytes, void **out, stw_error *error) {
    (void)b;
    *out = NULL;
    void *memory = NULL;
    if (bytes >= 0 && bytes <= INT64_MAX - ALIGNMENT) {
        const size_t rounded = ((size_t)bytes / ALIGNMENT + 1) * ALIGNMENT;
        memory = aligned_alloc(ALIGNMENT, rounded);
        if (memory != NULL) memset(memory, 0, rounded);
    }
    if (memory == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (%lld bytes for the network)", (long long)bytes);
    *out = memory;
    return STW_OK;
}

static void release(stw_backend *b, void *buffer) {
    (void)b;
    free(buffer);
}

static void copy(stw_backend *b, void *to, const void *from, int64_t bytes) {
    (void)b;
    if (bytes > 0) memcpy(to, from, (size_t)bytes);
}

static void zero(stw_backend *b, void *buffer, int64_t bytes) {
    (void)b;
    if (bytes > 0) memset(buffer, 0, (size_t)bytes);
}

void stw_host_memory(stw_backend *b) {
    b->allocate = allocate;
    b->release = release;
    b->copy_in = copy;
    b->copy_out = copy;
    b->copy = copy;
    b->zero = zero;
}
