#include "base/index.h"

#include "base/array.h"

stw_status stw_index_create(stw_arena *arena, int64_t count, stw_index *out, stw_error *error) {
    int64_t slots = 16;
    while (slots < 2 * count && slots < (int64_t)1 << 32) slots *= 2;
    *out = (stw_index){.arena = arena, .mask = (uint32_t)(slots - 1)};
    STW_TRY_NEW(arena, out->slot, slots, error);
    return STW_OK;
}

/* The walk begins behind a free slot, which no probe has passed: so numbers of one hash keep their order. */
stw_status stw_index_grow(stw_index *index, stw_error *error) {
    if (index->mask == UINT32_MAX) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (more than 2^31 keys)");
    stw_index larger;
    uint32_t from = 0;
    TRY(stw_index_create(index->arena, (int64_t)index->mask + 1, &larger, error));
    while (index->slot[from].number != 0) from++;
    for (uint32_t k = 1; k <= index->mask; k++) {
        const struct stw_index_slot *slot = &index->slot[(from + k) & index->mask];
        uint32_t at = slot->hash;
        if (slot->number == 0) continue;
        while (larger.slot[at & larger.mask].number != 0) at++;
        larger.slot[at & larger.mask] = *slot;
    }
    larger.count = index->count;
    *index = larger;
    return STW_OK;
}

/* ---- names ---- */

static uint64_t hash_name(int32_t scope, stw_str name) { return stw_str_hash(name) + (uint64_t)(uint32_t)scope; }

stw_status stw_names_create(stw_arena *arena, int64_t count, stw_names *out, stw_error *error) {
    *out = (stw_names){0};
    TRY(stw_index_create(arena, count, &out->index, error));
    STW_TRY_NEW(arena, out->entry, count, error);
    out->entry_room = count;
    return STW_OK;
}

static struct stw_name *find(const stw_names *names, uint64_t hash, int32_t scope, stw_str name) {
    int32_t k;
    for (uint32_t step = 0; (k = stw_index_next(&names->index, hash, &step)) >= 0;) {
        struct stw_name *entry = &names->entry[k];
        if (entry->scope == scope && stw_str_equal(entry->name, name)) return entry;
    }
    return NULL;
}

int32_t stw_names_find(const stw_names *names, int32_t scope, stw_str name) {
    const struct stw_name *entry = find(names, hash_name(scope, name), scope, name);
    return entry != NULL ? entry->number : -1;
}

stw_status stw_names_enter(stw_names *names, int32_t scope, stw_str name, int32_t **number, stw_error *error) {
    const uint64_t hash = hash_name(scope, name);
    struct stw_name *entry = find(names, hash, scope, name);
    if (entry == NULL) {
        const int64_t count = names->entry_count;
        TRY(STW_GROW(names->index.arena, names->entry, count + 1, names->entry_room, error));
        TRY(stw_index_add(&names->index, hash, (int32_t)count, error));
        entry = &names->entry[names->entry_count++];
        *entry = (struct stw_name){name, scope, -1};
    }
    *number = &entry->number;
    return STW_OK;
}
