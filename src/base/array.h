/* Arrays that grow: a pointer, a count, and the room that there is for items, as `step`, `step_count` and `step_room` of a
 * struct. All three begin at 0. */
#ifndef STW_BASE_ARRAY_H
#define STW_BASE_ARRAY_H

#include "base/arena.h"

/* Room for `needed` items; `list` is the address of the pointer to those there are. They move when it grows: in an arena what
 * they leave behind is lost, without one (NULL) they lie on the heap and the caller frees them. New items are not zeroed. */
stw_status stw_array_grow(stw_arena *arena, void *list, size_t size, int64_t needed, int64_t *room, stw_error *error);

/* The same of a pointer and an int64_t. */
#define STW_GROW(arena, list, needed, room, error) \
    ((needed) <= (room) ? STW_OK : stw_array_grow((arena), &(list), sizeof *(list), (needed), &(room), (error)))

/* Appends to owner->list, or returns STW_ERROR_MEMORY from the calling function. */
#define STW_PUSH(arena, owner, list, value, error)                                                                \
    do {                                                                                                          \
        TRY(STW_GROW((arena), (owner)->list, (int64_t)(owner)->list##_count + 1, (owner)->list##_room, (error))); \
        (owner)->list[(owner)->list##_count++] = (value);                                                         \
    } while (0)

#endif
