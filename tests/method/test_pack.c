/* method: packing finds plans where they are rare, and claims none where there are none. */
#include "search/pack.h"

#include <stdlib.h>
#include <string.h>

#include "method/whole_search.h"
#include "search/repair.h"
#include "sim/bounds.h"
#include "support/every_plan.h"

/* ---- the model ---- */

static stw_pack open_model(const small *s, stw_arena *arena) {
    stw_pack pack = {0};
    CHECK_EQ_INT(stw_pack_open(s->costs, s->machine, &s->workspace->timeline, s->plan->device, arena, &pack, NULL), STW_OK);
    return pack;
}

TEST(pack, one_device_holds_what_the_simulator_says) {
    const stw_rng seeds = stw_rng_create(91);
    for (int number = 0; number < 100; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 10 + number, .device_count = 1, .model = number % 4 == 0});
        random_priorities(&rng, s->plan);
        if (number % 2 == 1) random_groups(&rng, s->simulator, s->plan, 20);
        small_run(s);
        stw_arena arena = s->simulator->arena; /* scratch: nobody else allocates meanwhile */
        const stw_pack pack = open_model(s, &arena);
        test_context("problem %d", number);
        CHECK_EQ_INT(stw_pack_peak(&pack, 0), s->result.peak_bytes[0]);
        small_close(s);
    }
    test_context("%s", "");
}

/* Moves change the model to what a new one of the same run with these devices would be. */
TEST(pack, moves_leave_nothing_behind) {
    const stw_rng seeds = stw_rng_create(92);
    for (int number = 0; number < 60; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        const int32_t D = 2 + number % 3;
        small *s = random_open(&rng, (random_shape){.nodes = 60, .device_count = D, .unlike = number % 2 == 1});
        random_placement(&rng, s->simulator, s->plan);
        small_run(s);
        stw_arena arena = s->simulator->arena;
        stw_pack pack = open_model(s, &arena);
        for (int move = 0; move < 30; move++) {
            int32_t node[3], count = 0;
            for (int k = 0; k < 3; k++) {
                const int32_t i = (int32_t)stw_rng_below(&rng, s->graph->N);
                bool again = false;
                for (int32_t n = 0; n < count; n++) again |= node[n] == i;
                if (!again && s->graph->kind[i] != STW_NODE_VIEW && !stw_node_is_everywhere(s->graph->kind[i])) node[count++] = i;
            }
            stw_pack_move(&pack, node, count, (int32_t)stw_rng_below(&rng, D));
        }
        memcpy(s->plan->device, pack.device, (size_t)s->graph->N * sizeof *pack.device);
        const stw_pack fresh = open_model(s, &arena);
        test_context("problem %d", number);
        for (int32_t d = 0; d < D; d++) {
            CHECK_EQ_INT(stw_pack_peak(&pack, d), stw_pack_peak(&fresh, d));
            CHECK_NEAR(pack.busy_us[d], fresh.busy_us[d], 1e-6);
        }
        CHECK_NEAR(pack.sent_us, fresh.sent_us, 1e-6 * (1.0 + fresh.sent_us));
        small_close(s);
    }
    test_context("%s", "");
}

/* ---- against every plan ---- */

typedef struct {
    small *s;
    int32_t sequence[EVERY_PLAN_MOST];
    bool done[EVERY_PLAN_MOST];
    int64_t least; /* the largest peak of the best plan so far */
} every;

static void try_sequence(every *e) {
    stw_plan *plan = e->s->plan;
    const stw_tasks *tasks = &e->s->simulator->unfused;
    stw_evaluation result;
    for (int32_t d = 0; d < plan->machine->device_count; d++) plan->order_count[d] = 0;
    for (int32_t k = 0; k < tasks->T; k++) {
        const int32_t node = tasks->task_node[e->sequence[k]], d = plan->device[node];
        plan->order[d][plan->order_count[d]++] = node;
    }
    CHECK_EQ_INT(stw_simulate(e->s->simulator, plan, e->s->workspace, &result, NULL), STW_OK);
    if (result.reason == STW_INVALID_ORDER) return; /* not an order in which they can run */
    CHECK_EQ_INT(result.reason, STW_VALID);
    if (result.worst_peak_bytes < e->least) e->least = result.worst_peak_bytes;
}

static void extend(every *e, int32_t length) {
    const int32_t T = e->s->simulator->unfused.T;
    if (length == T) try_sequence(e);
    for (int32_t t = 0; t < T; t++) {
        if (e->done[t]) continue;
        e->done[t] = true;
        e->sequence[length] = t;
        extend(e, length + 1);
        e->done[t] = false;
    }
}

/* The smallest memory for which any plan of ops is valid. */
static int64_t least_memory(small *s) {
    every e = {.s = s, .least = INT64_MAX};
    every_plan_begin(s);
    do {
        extend(&e, 0);
    } while (next_placement(s->plan));
    remove_orders(s->plan);
    return e.least;
}

static small *open_few(stw_rng *rng, int number, int32_t most) {
    return random_open(rng, (random_shape){.nodes = most,
                                           .device_count = 2 + number % 2,
                                           .plain = true,
                                           .wide = number % 4 == 0,
                                           .free_links = number % 5 == 0,
                                           .contention = number % 3 == 0 ? "none" : "queue"});
}

/* Thousands of problems: what the bounds call impossible, no plan is. Those whatever the groups are never above those of ops. */
TEST(pack, what_is_called_impossible_is) {
    const stw_rng seeds = stw_rng_create(93);
    int met = 0;
    for (int number = 0; number < 2000; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_few(&rng, 2 * number, 4);
        const int64_t least = s->graph->N <= EVERY_PLAN_MOST ? least_memory(s) : INT64_MAX;
        int64_t of_ops = 0, of_groups = 0;
        stw_arena arena = s->simulator->arena;
        CHECK_EQ_INT(stw_bound_peak(s->simulator, &s->simulator->unfused, arena, &of_ops, NULL), STW_OK);
        CHECK_EQ_INT(stw_bound_peak_of_groups(s->simulator, arena, &of_groups, NULL), STW_OK);
        test_context("problem %d", number);
        CHECK(of_ops <= least);
        CHECK(of_groups <= least);
        met += of_ops == least;
        small_close(s);
    }
    test_context("met %d times", met);
    CHECK(met > 500);
    test_context("%s", "");
}

/* With exactly the memory of the leanest plan there is, optimize finds one; with a byte less it claims none. */
TEST(pack, rare_plans_are_found) {
    const stw_rng seeds = stw_rng_create(94);
    int rare = 0;
    for (int number = 0; number < 240; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_few(&rng, number, 5);
        const int64_t alone = s->result.worst_peak_bytes, least = s->graph->N <= EVERY_PLAN_MOST ? least_memory(s) : 0;
        test_context("problem %d", number);
        for (int less = 0; less < 2 && least > 1 && least < alone; less++) {
            small_set_memory(s, least - less);
            stw_result *result = optimize(s->simulator, options_of("evaluations", "400", NULL), NULL);
            CHECK_EQ_INT(result->best >= 0, less == 0);
            stw_result_destroy(result);
            rare++;
        }
        small_close(s);
    }
    test_context("%d problems", rare);
    CHECK(rare > 100);
    test_context("%s", "");
}

/* However rare plans are, no more are tried than were asked for, beside the groups that every plan is tried with. */
TEST(pack, keeps_to_the_evaluations_of_the_search) {
    enum { GROUPS = 3 };
    static const char *const asked[] = {"1", "5", "50"};
    const stw_rng seeds = stw_rng_create(95);
    int ran = 0;
    for (int number = 0; number < 60; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 60, .device_count = 2 + number % 3});
        small_set_memory(s, s->result.worst_peak_bytes / (2 + number % 3) + 1);
        const char *evaluations = asked[number % 3];
        test_context("problem %d, %s evaluations", number, evaluations);
        stw_result *result = number % 2 == 0
                                 ? optimize(s->simulator, options_of(ALL_TASKS, "evaluations", evaluations, NULL), NULL)
                                 : optimize(s->simulator, options_of("evaluations", evaluations, "budget", "100s", NULL), NULL);
        for (int32_t k = 0; k < result->count; k++) {
            const stw_candidate *candidate = &result->entry[k]->candidate;
            if (strcmp(candidate->method, "pack") != 0) continue;
            CHECK(candidate->evaluations <= atoi(evaluations) + GROUPS);
            ran++;
        }
        CHECK(count_evaluations(result) <= atoi(evaluations) + 2 * 8 + result->count * (1 + GROUPS)); /* one plan of each */
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(ran > 20);
}

/* The parameters of this graph alone take most of the memory: what other methods build does not fit, and repairs unit by unit
 * end before it does. */
TEST(pack, rare_plans_of_a_real_graph_are_found) {
    problem p = open_graph("gnmt-4", "h200x4");
    CHECK_EQ_INT(stw_machine_set_memory(p.machine, 880 * 1000 * 1000, NULL), STW_OK);
    stw_result *result = optimize(p.simulator, options_of(ALL_TASKS, "evaluations", "700", "policy", "none", NULL), NULL);
    if (CHECK(result != NULL)) check_result(p.simulator, result);
    stw_result_destroy(result);
    close_graph(p);
}

static const stw_entry *entry_of(const stw_result *result, const char *method) {
    int32_t k = 0;
    while (k < result->count && strcmp(result->entry[k]->candidate.method, method) != 0) k++;
    return k < result->count ? result->entry[k] : NULL;
}

/* Where nothing fits on one device `expert` tells whether memory is scarce. If it is not, no method is passed over. */
TEST(pack, methods_are_passed_over_only_where_memory_is_scarce) {
    static const char *const passed_over[] = {"spread", "topo", "etf"};
    const stw_rng seeds = stw_rng_create(96);
    int ample = 0;
    for (int number = 0; number < 30; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 80, .device_count = 4});
        small_set_memory(s, s->result.worst_peak_bytes * (5 + number % 5) / 10);
        stw_result *result = optimize(s->simulator, options_of("evaluations", "1500", "policy", "none", NULL), NULL);
        const stw_entry *pack = entry_of(result, "pack"), *expert = entry_of(result, "expert");
        const bool fits = expert != NULL && expert->candidate.valid && !expert->candidate.repaired;
        const bool all = pack != NULL && fits && entry_of(result, "steer") != NULL; /* it goes last */
        test_context("problem %d", number);
        for (int k = 0; k < 3 && all; k++) CHECK(entry_of(result, passed_over[k]) != NULL);
        ample += all;
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(ample > 5);
}

/* Groups that are placed as one recompute nothing; those that the plan then gets do, and hold far less. So what lacks memory is
 * repaired with the groups that it will run with. */
TEST(pack, repairs_are_for_the_groups_that_will_run) {
    problem p = open_graph("gpt2", "0.1/h200x4");
    CHECK_EQ_INT(stw_machine_set_memory(p.machine, 7500 * 1000 * 1000LL, NULL), STW_OK);
    stw_result *result = compare(p.simulator, "heft", options_of(ALL_TASKS, "evaluations", "200", "threads", "1", NULL));
    const stw_entry *heft = result == NULL ? NULL : entry_of(result, "heft");
    if (CHECK(heft != NULL)) CHECK(heft->candidate.valid && heft->candidate.repaired);
    stw_result_destroy(result);
    close_graph(p);
}
