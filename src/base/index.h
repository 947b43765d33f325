/* Finding things by a key, in nearly constant time: one hash table for all.
 *
 * An index knows hashes and numbers, nothing else. The things that have the numbers are the caller's, and so is the question
 * which of them has the key:
 *
 *     int32_t k;
 *     for (uint32_t step = 0; (k = stw_index_next(&index, hash, &step)) >= 0;) {
 *         if (has_key(&thing[k], key)) break;
 *     }
 *
 * leaves -1 if there is none. Names, the commonest keys, have a table of their own on top of it.
 * Nobody can walk through an index: what is done with its numbers never depends on hashes. */
#ifndef STW_BASE_INDEX_H
#define STW_BASE_INDEX_H

#include "base/str.h"

typedef struct stw_index {
    stw_arena *arena; /* must last as long as numbers are added */
    struct stw_index_slot {
        uint32_t hash;
        uint32_t number; /* + 1; 0: free */
    } * slot;            /* (mask + 1) at most half of them taken */
    uint32_t mask;
    uint32_t count;
} stw_index;

/* With room for `count` numbers; it grows when there are more. */
stw_status stw_index_create(stw_arena *arena, int64_t count, stw_index *out, stw_error *error);

/* The hash of two numbers, or of another hash and a number. */
static inline uint64_t stw_hash_pair(uint64_t a, uint64_t b) {
    const uint64_t mixed = (a * 0x9e3779b97f4a7c15u) ^ (b * 0xc2b2ae3d27d4eb4fu);
    return mixed ^ mixed >> 29;
}

/* Even of poor hashes, such as a number itself, few share a slot: the middle bits of a product are well mixed. */
static inline uint32_t stw_index_fold(uint64_t hash) { return (uint32_t)(hash * 0x9e3779b97f4a7c15u >> 32); }

/* The next number that was added with this hash (or, rarely, with another), in the order in which they were; -1: no more. */
static inline int32_t stw_index_next(const stw_index *index, uint64_t hash, uint32_t *step) {
    const uint32_t folded = stw_index_fold(hash);
    for (;;) {
        const struct stw_index_slot *slot = &index->slot[(folded + (*step)++) & index->mask];
        if (slot->number == 0 || slot->hash == folded) return (int32_t)(slot->number - 1);
    }
}

stw_status stw_index_grow(stw_index *index, stw_error *error);

/* The same number may be added several times, with one hash or with several. number: 0 or more. */
static inline stw_status stw_index_add(stw_index *index, uint64_t hash, int32_t number, stw_error *error) {
    if (index->count > index->mask / 2) TRY(stw_index_grow(index, error));
    const uint32_t folded = stw_index_fold(hash);
    uint32_t at = folded;
    while (index->slot[at & index->mask].number != 0) at++;
    index->slot[at & index->mask] = (struct stw_index_slot){folded, (uint32_t)number + 1};
    index->count++;
    return STW_OK;
}

/* Names to numbers. Names are kept as views; a name may stand for something else in each scope. */
typedef struct stw_names {
    stw_index index;
    struct stw_name {
        stw_str name;
        int32_t scope, number;
    } * entry;
    int64_t entry_count, entry_room;
} stw_names;

stw_status stw_names_create(stw_arena *arena, int64_t count, stw_names *out, stw_error *error);
/* The number that a name has in a scope, or -1. */
int32_t stw_names_find(const stw_names *names, int32_t scope, stw_str name);
/* Where that number stands, to be read and set until the next name is entered: -1 if the name is new. */
stw_status stw_names_enter(stw_names *names, int32_t scope, stw_str name, int32_t **number, stw_error *error);

#endif
