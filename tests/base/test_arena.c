/* base/arena: memory that never moves, is always zero, and comes back with a copy's end. */
#include "base/arena.h"

#include <string.h>

#include "test.h"

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif
#ifdef ASAN
#include <sanitizer/asan_interface.h>
#define POISONED(address) (__asan_address_is_poisoned(address) != 0)
#endif

static bool all_zero(const char *memory, int64_t size) {
    for (int64_t i = 0; i < size; i++) {
        if (memory[i] != 0) return false;
    }
    return true;
}

TEST(arena, a_zeroed_arena_gives_nothing) {
    stw_arena arena = {0};
    CHECK(STW_NEW(&arena, int, 1) == NULL);
    CHECK_EQ_INT(stw_arena_used(&arena), 0);
    stw_arena_destroy(&arena);
    stw_arena_destroy(&arena);
}

TEST(arena, memory_is_zero_aligned_and_distinct) {
    stw_arena arena;
    stw_error error;
    CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
    char *previous_end = NULL;
    for (int i = 0; i < 200; i++) {
        const size_t alignment = (size_t)1 << (i % 7); /* 1 to 64 */
        const int64_t count = (i * 37) % 101;
        char *memory = stw_arena_alloc(&arena, 3, alignment, count);
        test_context("allocation %d of %d x 3 bytes aligned to %zu", i, (int)count, alignment);
        if (!CHECK(memory != NULL)) break;
        CHECK_EQ_INT((uintptr_t)memory % alignment, 0);
        CHECK(all_zero(memory, 3 * count));
        CHECK(memory >= previous_end);
        memset(memory, 0xaa, (size_t)(3 * count));
        previous_end = memory + 3 * count;
    }
    stw_arena_destroy(&arena);
    CHECK(arena.block == NULL && arena.next == NULL);
}

TEST(arena, used_grows_with_what_is_handed_out) {
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    const int64_t before = stw_arena_used(&arena);
    CHECK(STW_NEW(&arena, double, 1000) != NULL);
    CHECK(stw_arena_used(&arena) >= before + 8000);
    CHECK(stw_arena_used(&arena) < before + 8000 + 200);
    stw_arena_destroy(&arena);
}

/* Scratch: a copy by value. Nothing of it is left when the function returns. */
static int64_t *fill_scratch(stw_arena scratch, int64_t count) {
    int64_t *numbers = STW_NEW(&scratch, int64_t, count);
    for (int64_t i = 0; numbers != NULL && i < count; i++) numbers[i] = -1;
    return numbers;
}

TEST(arena, a_copy_is_scratch_memory) {
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    int64_t *kept = STW_NEW(&arena, int64_t, 10);
    kept[9] = 77;
    const int64_t used = stw_arena_used(&arena);
    const int64_t *gone = fill_scratch(arena, 5000);
    CHECK(gone != NULL);
    CHECK_EQ_INT(stw_arena_used(&arena), used);
    int64_t *again = STW_NEW(&arena, int64_t, 2500);
    CHECK(again == gone); /* the same place, zeroed anew */
    CHECK(all_zero((const char *)again, 2500 * 8));
    int64_t *beyond = STW_NEW(&arena, int64_t, 5000); /* half used before, half untouched */
    CHECK(all_zero((const char *)beyond, 5000 * 8));
    CHECK_EQ_INT(kept[9], 77);
    stw_arena_destroy(&arena);
}

TEST(arena, dirty_memory_and_the_high_water_mark) {
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_arena_high_water(&arena), stw_arena_used(&arena));
    const int64_t *gone = fill_scratch(arena, 5000);
    CHECK(stw_arena_high_water(&arena) >= stw_arena_used(&arena) + 40000); /* copies count */
    const int64_t high = stw_arena_high_water(&arena);
    int64_t *dirty = STW_NEW_DIRTY(&arena, int64_t, 100);
    CHECK(dirty == gone && dirty[99] == -1); /* what was there before */
    stw_arena copy = arena;
    CHECK(STW_NEW_DIRTY(&copy, int64_t, -1) == NULL && STW_NEW_DIRTY(&copy, int64_t, INT64_MAX / 8 + 1) == NULL);
    CHECK(all_zero((const char *)STW_NEW(&arena, int64_t, 100), 800)); /* zeroed memory after dirty memory */
    CHECK_EQ_INT(stw_arena_high_water(&arena), high);
    stw_arena none = {0};
    CHECK(STW_NEW_DIRTY(&none, int64_t, 1) == NULL);
    CHECK_EQ_INT(stw_arena_high_water(&none), 0);
    stw_arena_destroy(&arena);
}

/* In a copy, since an arena that has refused something refuses everything from then on. */
static bool refuses(stw_arena copy, size_t size, int64_t count) {
    const bool refused = stw_arena_alloc(&copy, size, 1, count) == NULL;
    return refused && (count < 0 || stw_arena_alloc(&copy, 1, 1, 1) == NULL);
}

TEST(arena, impossible_sizes_are_refused) {
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK(refuses(arena, 1, -1));
    CHECK(refuses(arena, 1, INT64_MIN));
    CHECK(refuses(arena, 1, INT64_MAX));
    CHECK(refuses(arena, 8, INT64_MAX / 8 + 1)); /* the product wraps to a small number */
    CHECK(refuses(arena, SIZE_MAX / 2 + 1, 2));
    CHECK(refuses(arena, 1, (int64_t)1 << 40));
    CHECK(STW_NEW(&arena, char, 0) != NULL);
    CHECK(STW_NEW(&arena, char, 100 << 20) != NULL); /* every reservation has at least 128 MiB */
    stw_arena_destroy(&arena);
}

static stw_status allocate(stw_arena *arena, int64_t count, stw_error *error) {
    int32_t *numbers;
    STW_TRY_NEW(arena, numbers, count, error);
    numbers[count - 1] = 5;
    return STW_OK;
}

TEST(arena, try_new_tells_of_the_failure) {
    stw_arena arena;
    stw_error error = {STW_OK, ""};
    CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
    CHECK_EQ_INT(allocate(&arena, 3, &error), STW_OK);
    CHECK_EQ_INT(allocate(&arena, INT64_MAX, &error), STW_ERROR_MEMORY);
    CHECK_EQ_INT(error.status, STW_ERROR_MEMORY);
    CHECK_STR(error.message, "out of memory (9223372036854775807 items of 4 bytes)");
    CHECK_EQ_INT(allocate(&arena, INT64_MAX, NULL), STW_ERROR_MEMORY);
    stw_arena_destroy(&arena);
}

TEST(arena, trimming_gives_back_what_copies_have_used) {
    enum { MANY = 1 << 20 };
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    char *kept = STW_NEW(&arena, char, 100);
    memset(kept, 7, 100);
    stw_arena copy = arena;
    char *used = STW_NEW(&copy, char, MANY);
    memset(used, 9, MANY);
    CHECK(stw_arena_high_water(&arena) >= MANY);
    stw_arena_trim(&arena, 2 * MANY); /* not worth it */
    CHECK(stw_arena_high_water(&arena) >= MANY);
    stw_arena_trim(&arena, MANY / 2);
    CHECK(stw_arena_high_water(&arena) < MANY / 2);
    for (int i = 0; i < 100; i++) CHECK_EQ_INT(kept[i], 7);
    copy = arena;
    used = STW_NEW(&copy, char, MANY);
    for (int i = 0; i < MANY; i++) CHECK(used[i] == 0);
    stw_arena_destroy(&arena);
    stw_arena_trim(&arena, 0); /* of none there is nothing to give */
}

TEST(arena, many_arenas_at_once) {
    enum { COUNT = 64 };
    stw_arena arenas[COUNT];
    int64_t *numbers[COUNT];
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ_INT(stw_arena_create(&arenas[i], NULL), STW_OK);
        numbers[i] = STW_NEW(&arenas[i], int64_t, 1);
        *numbers[i] = i;
    }
    for (int i = 0; i < COUNT; i++) CHECK_EQ_INT(*numbers[i], i);
    for (int i = 0; i < COUNT; i++) stw_arena_destroy(&arenas[i]);
}

TEST(arena, the_address_sanitizer_sees_an_overrun) {
#ifndef POISONED
    SKIP("built without the address sanitizer");
#else
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    char *first = STW_NEW(&arena, char, 13);
    char *second = STW_NEW(&arena, char, 13);
    CHECK(!POISONED(first) && !POISONED(first + 12) && POISONED(first + 13) && POISONED(first + 13 + 16));
    CHECK(!POISONED(second) && !POISONED(second + 12) && POISONED(second + 13));
    stw_arena_destroy(&arena);
#endif
}
