/* A growing array of int64 in an arena, for lists whose length is known only at the end. Old halves are left behind. */
#ifndef STW_BASE_VECTOR_H
#define STW_BASE_VECTOR_H

#include <string.h>

#include "base/arena.h"

typedef struct stw_vector {
    stw_arena *arena;
    int64_t *data;
    int64_t count, capacity;
} stw_vector;

/* False when out of memory. */
static inline bool stw_vector_push(stw_vector *vector, int64_t value) {
    if (vector->count == vector->capacity) {
        const int64_t capacity = 2 * vector->capacity + 64;
        int64_t *data = STW_NEW(vector->arena, int64_t, capacity);
        if (data == NULL) return false;
        if (vector->count > 0) memcpy(data, vector->data, (size_t)vector->count * sizeof *data);
        vector->data = data;
        vector->capacity = capacity;
    }
    vector->data[vector->count++] = value;
    return true;
}

#endif
