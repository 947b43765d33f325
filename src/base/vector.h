/* A growing array of int64 in an arena that is passed around as one thing. */
#ifndef STW_BASE_VECTOR_H
#define STW_BASE_VECTOR_H

#include "base/array.h"

typedef struct stw_vector {
    stw_arena *arena;
    int64_t *data;
    int64_t count, capacity;
} stw_vector;

/* False when out of memory. */
static inline bool stw_vector_push(stw_vector *vector, int64_t value) {
    if (STW_GROW(vector->arena, vector->data, vector->count + 1, vector->capacity, NULL) != STW_OK) return false;
    vector->data[vector->count++] = value;
    return true;
}

#endif
