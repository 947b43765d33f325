/* Arena: one large address-space reservation from which memory is handed out in order and given back all at once.
 *
 * It never moves, so pointers stay valid. A stw_arena is a small value: passing a COPY gives the callee scratch memory that is
 * gone when it returns; passing a POINTER gives it memory that the caller keeps. Pages are committed by the system on first
 * touch. Memory is always zeroed. */
#ifndef STW_BASE_ARENA_H
#define STW_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct stw_arena_block stw_arena_block;

typedef struct stw_arena {
    char *next;             /* first free byte */
    stw_arena_block *block; /* the reservation; shared by copies */
} stw_arena;

/* Reserves address space: 16 GiB; less where the system refuses, a 32nd part of a limit (ulimit -v) at first. Fails with
 * STW_ERROR_MEMORY. */
stw_status stw_arena_create(stw_arena *out, stw_error *error);
/* The same of a file that is read, which takes more of an address space with a limit (ulimit -v). */
stw_status stw_arena_create_for_file(stw_arena *out, stw_error *error);
/* The same with room for `bytes`, for objects of which there may be thousands: address space is large, not endless. */
stw_status stw_arena_create_sized(stw_arena *out, int64_t bytes, stw_error *error);
/* Gives everything back; a zeroed arena is allowed. */
void stw_arena_destroy(stw_arena *arena);

/* `count` zeroed items; NULL when the size overflows or the reservation is used up. */
void *stw_arena_alloc(stw_arena *arena, size_t size, size_t alignment, int64_t count);

/* The same without zeroing, for memory that is filled at once. */
void *stw_arena_alloc_dirty(stw_arena *arena, size_t size, size_t alignment, int64_t count);

/* Gives the pages back to the system that nothing in use is on, if they are at least so many bytes. No copy of the arena may be
 * in use that has handed out more. */
void stw_arena_trim(stw_arena *arena, int64_t least);

/* Bytes in use. */
int64_t stw_arena_used(const stw_arena *arena);
/* The most bytes that were ever in use (since the last trim that gave some back), copies of the arena included: what was taken
 * from the system. */
int64_t stw_arena_high_water(const stw_arena *arena);

#define STW_NEW(arena, type, count) ((type *)stw_arena_alloc((arena), sizeof(type), _Alignof(type), (count)))

#define STW_NEW_DIRTY(arena, type, count) ((type *)stw_arena_alloc_dirty((arena), sizeof(type), _Alignof(type), (count)))

/* Allocates into `pointer` or returns STW_ERROR_MEMORY from the calling function. */
#define STW_TRY_NEW(arena, pointer, count, error)                                                                     \
    do {                                                                                                              \
        (pointer) = stw_arena_alloc((arena), sizeof *(pointer), _Alignof(max_align_t), (count));                      \
        if ((pointer) == NULL)                                                                                        \
            return stw_fail((error), STW_ERROR_MEMORY, "out of memory (%lld items of %zu bytes)", (long long)(count), \
                            sizeof *(pointer));                                                                       \
    } while (0)

#endif
