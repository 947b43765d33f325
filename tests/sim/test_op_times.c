/* sim: when each op ran, with and without groups. */
#include "sim/op_times.h"

#include <string.h>

#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

typedef struct times {
    stw_arena arena;
    int64_t *start, *end;
    int32_t *task;
} times;

static times times_of(const small *s) {
    times t;
    stw_error error = {0};
    const int32_t T = s->simulator->unfused.T;
    CHECK_EQ_INT(stw_arena_create(&t.arena, &error), STW_OK);
    t.start = STW_NEW(&t.arena, int64_t, T);
    t.end = STW_NEW(&t.arena, int64_t, T);
    t.task = STW_NEW(&t.arena, int32_t, T);
    CHECK_EQ_INT(stw_op_times(s->workspace, t.start, t.end, t.task, t.arena, &error), STW_OK);
    return t;
}

static void check_time(const small *s, const times *t, const char *name, double start_us, double end_us) {
    const int32_t op = s->simulator->unfused.task_of[small_node(s, name)];
    test_context("%s", name);
    CHECK_NEAR((double)t->start[op] / 1e6, start_us, 1e-5);
    CHECK_NEAR((double)t->end[op] / 1e6, end_us, 1e-5);
    test_context("%s", "");
}

/* A kernel that takes 6 for ops of 2 and 4, in this order; the op that is recomputed in two kernels counts for the first. */
TEST(op_times, of_groups) {
    static const int64_t duration[] = {1000000, 6000000, 6000000, 3000000, 5000000, 5000000};
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[0]", 1, 2) OP(2, "c", "[1]", 1, 4)
                                           OP(3, "r", "[2]", 1, 1) OP(4, "d", "[3]", 1, 1) OP(5, "e", "[3]", 1, 3),
                                       .group = "[0,1,1,-1,4,5]",
                                       .outputs = "[4,5]"});
    s->duration_ps = duration;
    small_run(s);
    CHECK_STR(s->timeline, "d0: a[0,1) b[1,7) d[7,12) e[12,17)\n");
    times t = times_of(s);
    check_time(s, &t, "a", 0, 1);
    check_time(s, &t, "b", 1, 3);
    check_time(s, &t, "c", 3, 7);
    check_time(s, &t, "r", 7, 9.5);
    check_time(s, &t, "d", 9.5, 12);
    check_time(s, &t, "e", 12, 17);
    stw_arena_destroy(&t.arena);
    small_close(s);
}

/* Whatever the groups: every op lies within its task, and none begins before what it reads has ended. */
TEST(op_times, follow_the_graph) {
    const stw_rng seeds = stw_rng_create(8);
    int32_t grouped = 0;
    for (int number = 0; number < 120; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 60, .device_count = 1 + number % 3, .model = number % 2 == 1});
        random_placement(&rng, s->simulator, s->plan);
        grouped += random_groups(&rng, s->simulator, s->plan, number % 4 * 20);
        small_run(s);
        times t = times_of(s);
        const stw_tasks *ops = &s->simulator->unfused;
        const stw_timeline *timeline = &s->workspace->timeline;
        test_context("problem %d", number);
        for (int32_t v = 0; v < ops->V; v++) {
            const int32_t op = ops->value_task[v];
            for (int32_t u = ops->use_start[v]; op >= 0 && t.task[op] >= 0 && u < ops->use_start[v + 1]; u++) {
                const int32_t reader = ops->use[u].task;
                if (t.task[reader] >= 0) CHECK(t.start[reader] >= t.end[op]);
            }
        }
        for (int32_t op = 0; op < ops->T; op++) {
            if (t.task[op] < 0) continue;
            CHECK(t.start[op] >= timeline->start_ps[t.task[op]] && t.end[op] <= timeline->end_ps[t.task[op]]);
            CHECK(t.start[op] <= t.end[op]);
            if (number % 4 == 0)
                CHECK(t.start[op] == timeline->start_ps[op] && t.end[op] == timeline->end_ps[op] && t.task[op] == op);
        }
        stw_arena_destroy(&t.arena);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(grouped > 500);
}
