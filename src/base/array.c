#include "base/array.h"

#include <stdlib.h>
#include <string.h>

stw_status stw_array_grow(stw_arena *arena, void *list, size_t size, int64_t needed, int64_t *room, stw_error *error) {
    enum { FIRST = 64 };
    if (needed <= *room) return STW_OK;
    const bool fits = needed < INT64_MAX / 4 && (uint64_t)needed < SIZE_MAX / 4 / size;
    const int64_t more = fits ? 2 * needed + FIRST : needed;
    void *old = NULL, *grown = NULL;
    memcpy(&old, list, sizeof old); /* a pointer to any type */
    if (fits)
        grown =
            arena == NULL ? realloc(old, (size_t)more * size) : stw_arena_alloc_dirty(arena, size, _Alignof(max_align_t), more);
    if (grown == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (%lld items of %zu bytes)", (long long)more, size);
    if (arena != NULL && *room > 0) memcpy(grown, old, (size_t)*room * size);
    memcpy(list, &grown, sizeof grown);
    *room = more;
    return STW_OK;
}
