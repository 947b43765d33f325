/* base/index: numbers found by hash, whatever the hashes; names to numbers. */
#include "base/index.h"

#include "test.h"

enum { MANY = 5000 };

/* All numbers that were added with the hash, in their order; those of other hashes may stand between them. */
static bool finds_in_order(const stw_index *index, uint64_t hash, const int32_t *expected, int32_t count) {
    int32_t k, found = 0;
    for (uint32_t step = 0; (k = stw_index_next(index, hash, &step)) >= 0;) {
        if (found < count && k == expected[found]) found++;
    }
    return found == count;
}

TEST(index, an_empty_one_has_nothing) {
    stw_arena arena;
    stw_index index;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_index_create(&arena, 0, &index, NULL), STW_OK);
    for (uint64_t hash = 0; hash < 100; hash++) CHECK_EQ_INT(stw_index_next(&index, hash * hash, &(uint32_t){0}), -1);
    stw_arena_destroy(&arena);
}

TEST(index, grows_and_keeps_everything) {
    static const int64_t firsts[] = {0, 1, 8, 9, MANY, 2 * MANY};
    for (size_t f = 0; f < sizeof firsts / sizeof firsts[0]; f++) {
        stw_arena arena;
        stw_index index;
        test_context("room for %d at first", (int)firsts[f]);
        CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
        CHECK_EQ_INT(stw_index_create(&arena, firsts[f], &index, NULL), STW_OK);
        const stw_index before = index;
        for (int32_t k = 0; k < MANY; k++) CHECK_EQ_INT(stw_index_add(&index, stw_hash_pair((uint64_t)k, 7), k, NULL), STW_OK);
        for (int32_t k = 0; k < MANY; k++) CHECK(finds_in_order(&index, stw_hash_pair((uint64_t)k, 7), &k, 1));
        CHECK_EQ_INT(index.count, MANY);
        CHECK(index.count <= index.mask / 2 + 1); /* at most half full */
        CHECK((index.slot == before.slot) == (firsts[f] >= MANY));
        stw_arena_destroy(&arena);
    }
}

/* Those of one hash lie behind each other, over the end of the table too, before and after it grows. */
TEST(index, equal_hashes_keep_their_order) {
    for (uint64_t hash = 0; hash < 64; hash++) {
        int32_t expected[40];
        stw_arena arena;
        stw_index index;
        test_context("hash %d", (int)hash);
        CHECK_EQ_INT(stw_arena_create_sized(&arena, 1 << 16, NULL), STW_OK);
        CHECK_EQ_INT(stw_index_create(&arena, 0, &index, NULL), STW_OK);
        for (int32_t k = 0; k < 40; k++) {
            expected[k] = (k * 7 + 3) % 40;
            CHECK_EQ_INT(stw_index_add(&index, hash, expected[k], NULL), STW_OK);
            CHECK(finds_in_order(&index, hash, expected, k + 1));
        }
        stw_arena_destroy(&arena);
    }
}

/* Poor hashes, as whoever writes the file may choose them, cost time and nothing else. */
TEST(index, poor_hashes) {
    static const uint64_t factors[] = {0, 1, 16, UINT64_C(1) << 20, UINT64_C(1) << 32, UINT64_C(1) << 52};
    enum { COUNT = 600 };
    for (size_t f = 0; f < sizeof factors / sizeof factors[0]; f++) {
        stw_arena arena;
        stw_index index;
        int wrong = 0;
        test_context("multiples of %llu", (unsigned long long)factors[f]);
        CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
        CHECK_EQ_INT(stw_index_create(&arena, 0, &index, NULL), STW_OK);
        for (int32_t k = 0; k < COUNT; k++) CHECK_EQ_INT(stw_index_add(&index, (uint64_t)k * factors[f], k, NULL), STW_OK);
        for (int32_t k = 0; k < COUNT; k++) wrong += !finds_in_order(&index, (uint64_t)k * factors[f], &k, 1);
        CHECK_EQ_INT(wrong, 0);
        stw_arena_destroy(&arena);
    }
}

TEST(index, the_largest_number) {
    stw_arena arena;
    stw_index index;
    const int32_t most = INT32_MAX;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_index_create(&arena, 1, &index, NULL), STW_OK);
    CHECK_EQ_INT(stw_index_add(&index, 5, most, NULL), STW_OK);
    CHECK(finds_in_order(&index, 5, &most, 1));
    stw_arena_destroy(&arena);
}

TEST(index, out_of_memory_leaves_what_is_there) {
    stw_arena arena;
    stw_index index;
    stw_error error;
    CHECK_EQ_INT(stw_arena_create_sized(&arena, 4096, NULL), STW_OK);
    CHECK_EQ_INT(stw_index_create(&arena, 1 << 20, &index, &error), STW_ERROR_MEMORY);
    stw_arena_destroy(&arena);
    CHECK_EQ_INT(stw_arena_create_sized(&arena, 4096, NULL), STW_OK);
    CHECK_EQ_INT(stw_index_create(&arena, 0, &index, &error), STW_OK);
    int32_t count = 0;
    while (count < MANY && stw_index_add(&index, (uint64_t)count, count, &error) == STW_OK) count++;
    CHECK(count > 16 && count < MANY);
    CHECK_EQ_INT(error.status, STW_ERROR_MEMORY);
    CHECK_EQ_INT(index.count, count);
    for (int32_t k = 0; k < count; k++) CHECK(finds_in_order(&index, (uint64_t)k, &k, 1));
    stw_arena_destroy(&arena);
}

/* ---- names ---- */

static void enter(stw_names *names, int32_t scope, stw_str name, int32_t expected, int32_t set) {
    int32_t *number = NULL;
    if (!CHECK_EQ_INT(stw_names_enter(names, scope, name, &number, NULL), STW_OK)) return;
    CHECK_EQ_INT(*number, expected);
    *number = set;
}

TEST(names, first_last_and_scopes) {
    stw_arena arena;
    stw_names names;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_names_create(&arena, 0, &names, NULL), STW_OK);
    CHECK_EQ_INT(stw_names_find(&names, 0, STW_STR("a")), -1);
    enter(&names, 0, STW_STR("a"), -1, 4);
    enter(&names, 0, STW_STR("a"), 4, 5);
    enter(&names, 1, STW_STR("a"), -1, 6);
    enter(&names, -1, STW_STR("a"), -1, 7);
    enter(&names, 0, STW_STR(""), -1, 8);
    enter(&names, 0, (stw_str){0}, 8, 9); /* empty as well */
    CHECK_EQ_INT(stw_names_find(&names, 0, STW_STR("a")), 5);
    CHECK_EQ_INT(stw_names_find(&names, 1, STW_STR("a")), 6);
    CHECK_EQ_INT(stw_names_find(&names, -1, STW_STR("a")), 7);
    CHECK_EQ_INT(stw_names_find(&names, 2, STW_STR("a")), -1);
    CHECK_EQ_INT(stw_names_find(&names, 0, STW_STR("")), 9);
    CHECK_EQ_INT(stw_names_find(&names, 0, STW_STR("aa")), -1);
    CHECK_EQ_INT(names.entry_count, 4);
    stw_arena_destroy(&arena);
}

TEST(names, many) {
    stw_arena arena;
    stw_names names;
    int wrong = 0;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_names_create(&arena, 3, &names, NULL), STW_OK);
    for (int32_t k = 0; k < MANY; k++) enter(&names, k % 3, stw_str_format(&arena, "n%d", k / 3), -1, k);
    for (int32_t k = 0; k < MANY; k++) wrong += stw_names_find(&names, k % 3, stw_str_format(&arena, "n%d", k / 3)) != k;
    CHECK_EQ_INT(wrong, 0);
    stw_arena_destroy(&arena);
}

TEST(names, out_of_memory_leaves_what_is_there) {
    stw_arena texts, arena;
    stw_names names;
    stw_error error;
    int32_t count = 0, *number = NULL;
    CHECK_EQ_INT(stw_arena_create(&texts, NULL), STW_OK);
    CHECK_EQ_INT(stw_arena_create_sized(&arena, 8192, NULL), STW_OK);
    CHECK_EQ_INT(stw_names_create(&arena, 0, &names, NULL), STW_OK);
    for (; count < MANY; count++) {
        if (stw_names_enter(&names, 0, stw_str_format(&texts, "n%d", count), &number, &error) != STW_OK) break;
        *number = count;
    }
    CHECK(count > 8 && count < MANY);
    CHECK_EQ_INT(error.status, STW_ERROR_MEMORY);
    for (int32_t k = 0; k <= count; k++)
        CHECK_EQ_INT(stw_names_find(&names, 0, stw_str_format(&texts, "n%d", k)), k < count ? k : -1);
    stw_arena_destroy(&arena);
    stw_arena_destroy(&texts);
}
