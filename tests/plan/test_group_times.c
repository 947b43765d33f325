/* What groups took: the last one of each id is known, until the store is full and everything is forgotten. */
#include "plan/group_times.h"
#include "test.h"

static const int32_t member[STW_MAX_GROUP_MEMBERS] = {3, 4, 5, 6, 7, 8};

TEST(group_times, knows_the_last_group_of_an_id) {
    static stw_machine machine = {.cost_class_count = 1};
    const stw_graph graph = {.N = 10};
    const stw_costs costs = {.graph = &graph, .machine = &machine};
    stw_arena arena;
    stw_group_times times;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    CHECK_EQ_INT(stw_group_times_create(&costs, &arena, &times, NULL), STW_OK);
    CHECK(stw_group_times_find(&times, 3, member, 2, 1) == NULL);
    *stw_group_times_note(&times, 3, member, 2, 1) = 20;
    *stw_group_times_note(&times, 4, member + 1, 3, 5) = 30;
    const int64_t *two = stw_group_times_find(&times, 3, member, 2, 1),
                  *three = stw_group_times_find(&times, 4, member + 1, 3, 5);
    CHECK(two != NULL && *two == 20 && three != NULL && *three == 30);
    CHECK(stw_group_times_find(&times, 3, member, 2, 2) == NULL);     /* others are written */
    CHECK(stw_group_times_find(&times, 3, member + 1, 2, 1) == NULL); /* others are in it */
    *stw_group_times_note(&times, 3, member, 6, 1) = 60;              /* it needs another place */
    const int64_t *six = stw_group_times_find(&times, 3, member, 6, 1);
    three = stw_group_times_find(&times, 4, member + 1, 3, 5);
    CHECK(six != NULL && *six == 60 && three != NULL && *three == 30 && stw_group_times_find(&times, 3, member, 2, 1) == NULL);
    stw_arena_destroy(&arena);
}

/* 10 nodes have room for 144 members: the third group of 64 forgets the first two. */
TEST(group_times, forgets_when_the_store_is_full) {
    static stw_machine machine = {.cost_class_count = 1};
    const stw_graph graph = {.N = 10};
    const stw_costs costs = {.graph = &graph, .machine = &machine};
    stw_arena arena;
    stw_group_times times;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    CHECK_EQ_INT(stw_group_times_create(&costs, &arena, &times, NULL), STW_OK);
    for (int32_t id = 0; id < 3; id++) *stw_group_times_note(&times, id, member, STW_MAX_GROUP_MEMBERS, 1) = id;
    CHECK(stw_group_times_find(&times, 0, member, STW_MAX_GROUP_MEMBERS, 1) == NULL);
    CHECK(stw_group_times_find(&times, 1, member, STW_MAX_GROUP_MEMBERS, 1) == NULL);
    const int64_t *last = stw_group_times_find(&times, 2, member, STW_MAX_GROUP_MEMBERS, 1);
    CHECK(last != NULL && *last == 2);
    stw_arena_destroy(&arena);
}
