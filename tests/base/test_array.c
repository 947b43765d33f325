/* base/array and base/vector: lists that grow, in an arena and on the heap. */
#include "base/array.h"

#include <stdlib.h>

#include "base/vector.h"
#include "test.h"

typedef struct {
    int64_t number;
    char name[5];
} item;

typedef struct {
    item *list;
    int32_t list_count;
    int64_t list_room;
} owner;

static stw_status push(stw_arena *arena, owner *o, int64_t number, stw_error *error) {
    STW_PUSH(arena, o, list, ((item){number, "item"}), error);
    return STW_OK;
}

static int count_wrong(const owner *o) {
    int wrong = 0;
    for (int32_t k = 0; k < o->list_count; k++) wrong += o->list[k].number != 3 * k || o->list[k].name[3] != 'm';
    return wrong;
}

TEST(array, grows_in_an_arena) {
    stw_arena arena;
    owner o = {0};
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    for (int32_t k = 0; k < 10000; k++) CHECK_EQ_INT(push(&arena, &o, 3 * k, NULL), STW_OK);
    CHECK_EQ_INT(o.list_count, 10000);
    CHECK(o.list_room >= 10000 && o.list_room < 3 * 10000);
    CHECK_EQ_INT(count_wrong(&o), 0);
    stw_arena_destroy(&arena);
}

TEST(array, grows_on_the_heap) {
    owner o = {0};
    for (int32_t k = 0; k < 10000; k++) CHECK_EQ_INT(push(NULL, &o, 3 * k, NULL), STW_OK);
    CHECK_EQ_INT(o.list_count, 10000);
    CHECK_EQ_INT(count_wrong(&o), 0);
    free(o.list);
}

TEST(array, many_at_once) {
    stw_arena arena;
    char *text = NULL;
    int64_t room = 0;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(STW_GROW(&arena, text, 0, room, NULL), STW_OK);
    CHECK(text == NULL);
    CHECK_EQ_INT(STW_GROW(&arena, text, 1000, room, NULL), STW_OK);
    CHECK(text != NULL && room >= 1000);
    text[0] = 'a', text[999] = 'z';
    const char *before = text;
    CHECK_EQ_INT(STW_GROW(&arena, text, room, room, NULL), STW_OK);
    CHECK(text == before);
    CHECK_EQ_INT(STW_GROW(&arena, text, 100000, room, NULL), STW_OK);
    CHECK(text != before && text[0] == 'a' && text[999] == 'z');
    stw_arena_destroy(&arena);
}

TEST(array, out_of_memory_leaves_what_is_there) {
    stw_arena arena;
    stw_error error;
    owner o = {0};
    CHECK_EQ_INT(stw_arena_create_sized(&arena, 8192, NULL), STW_OK);
    while (o.list_count < 10000 && push(&arena, &o, 3 * o.list_count, &error) == STW_OK) {
    }
    CHECK(o.list_count > 0 && o.list_count < 10000);
    CHECK_EQ_INT(error.status, STW_ERROR_MEMORY);
    CHECK_EQ_INT(o.list_count, o.list_room);
    CHECK_EQ_INT(count_wrong(&o), 0);
    stw_arena_destroy(&arena);
}

TEST(array, sizes_that_overflow) {
    static const int64_t counts[] = {INT64_MAX, INT64_MAX / 2, INT64_MAX / 16, INT64_MAX / 64};
    stw_arena arena;
    stw_error error;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        item *list = NULL;
        int64_t room = 0;
        test_context("%lld items", (long long)counts[k]);
        CHECK_EQ_INT(STW_GROW(&arena, list, counts[k], room, &error), STW_ERROR_MEMORY);
        CHECK_EQ_INT(STW_GROW(NULL, list, counts[k] / 2 + INT64_MAX / 4, room, &error), STW_ERROR_MEMORY);
        CHECK(list == NULL && room == 0);
    }
    stw_arena_destroy(&arena);
}

TEST(vector, numbers) {
    stw_arena arena;
    int wrong = 0;
    CHECK_EQ_INT(stw_arena_create_sized(&arena, 1 << 16, NULL), STW_OK);
    stw_vector v = {.arena = &arena};
    while (v.count < 100000 && stw_vector_push(&v, v.count * v.count)) {
    }
    CHECK(v.count > 64 && v.count < 100000); /* then memory is out */
    for (int64_t k = 0; k < v.count; k++) wrong += v.data[k] != k * k;
    CHECK_EQ_INT(wrong, 0);
    stw_arena_destroy(&arena);
}
