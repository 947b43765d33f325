/* base/sort and base/union_find: lists of ids, and sets of them. */
#include <string.h>

#include "base/rng.h"
#include "base/sort.h"
#include "base/union_find.h"
#include "test.h"

enum { IDS = 40 };

/* Ascending ids below IDS, each with a chance of one half; `has` says which. */
static int32_t draw(stw_rng *rng, int32_t *out, bool *has) {
    int32_t count = 0;
    for (int32_t id = 0; id < IDS; id++) {
        has[id] = stw_rng_below(rng, 2) == 1;
        if (has[id]) out[count++] = id;
    }
    return count;
}

TEST(ids, are_sorted) {
    int32_t ids[] = {5, -1, 7, 0, 7, 2};
    const int32_t sorted[] = {-1, 0, 2, 5, 7, 7};
    stw_sort_ids(ids, 6);
    CHECK(memcmp(ids, sorted, sizeof ids) == 0);
    stw_sort_ids(ids, 0);
    CHECK_EQ_INT(ids[0], -1);
}

TEST(ids, of_two_lists_stand_once_and_in_order) {
    stw_rng rng = stw_rng_create(3);
    for (int32_t round = 0; round < 50; round++) {
        int32_t a[IDS], b[IDS], both[IDS], expected = 0;
        bool in_a[IDS], in_b[IDS];
        const int32_t a_count = draw(&rng, a, in_a), b_count = draw(&rng, b, in_b);
        const int32_t count = stw_unite_ids(a, a_count, b, b_count, both, IDS);
        for (int32_t id = 0; id < IDS; id++) {
            if (!in_a[id] && !in_b[id]) continue;
            CHECK(expected < count && both[expected] == id);
            expected++;
        }
        CHECK_EQ_INT(count, expected);
        CHECK_EQ_INT(stw_unite_ids(a, a_count, b, b_count, both, expected), expected);
        CHECK_EQ_INT(stw_unite_ids(a, a_count, b, b_count, both, expected - 1), -1);
    }
}

TEST(sets, are_what_was_joined_and_the_smallest_leads) {
    stw_rng rng = stw_rng_create(4);
    int32_t leader[IDS], set[IDS]; /* set: the smallest of each element's set, kept by hand */
    stw_sets_begin(leader, IDS);
    for (int32_t i = 0; i < IDS; i++) set[i] = i;
    for (int32_t k = 0; k < IDS - 8; k++) {
        const int32_t a = (int32_t)stw_rng_below(&rng, IDS), b = (int32_t)stw_rng_below(&rng, IDS);
        const int32_t least = set[a] < set[b] ? set[a] : set[b], most = set[a] + set[b] - least;
        stw_sets_join(leader, a, b);
        for (int32_t i = 0; i < IDS; i++) set[i] = set[i] == most ? least : set[i];
        for (int32_t i = 0; i < IDS; i++) CHECK_EQ_INT(stw_sets_find(leader, i), set[i]);
    }
}
