/* sim: the number of threads changes no result. One simulator for all, a workspace for each. */
#include <stdlib.h>

#include "base/pool.h"
#include "support/random.h"
#include "test.h"

enum { PLANS = 200, MAX_THREADS = 8 };

typedef struct {
    int64_t step_ps, worst_peak_bytes;
    uint64_t hash; /* of the whole timeline */
    stw_status status;
} outcome;

typedef struct {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan[PLANS];
    stw_workspace *workspace[MAX_THREADS];
    outcome *outcome; /* (PLANS) */
} job;

static void evaluate(void *context, int64_t index, int32_t worker) {
    job *j = context;
    const stw_run_options options = {.record_memory = index % 2 == 0};
    stw_evaluation result;
    outcome *out = &j->outcome[index];
    out->status = stw_simulator_run(j->simulator, j->plan[index], &options, j->workspace[worker], &result, NULL);
    out->step_ps = result.step_ps;
    out->worst_peak_bytes = result.worst_peak_bytes;
    out->hash = hash_run(j->workspace[worker], &result);
}

/* Placements of all sorts, a third of them fused, a third with strict orders, one with orders that cannot be kept. */
static bool make_plans(job *j) {
    const stw_rng seeds = stw_rng_create(21);
    for (int k = 0; k < PLANS; k++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)k);
        if (stw_plan_create(j->graph, j->machine, &j->plan[k], NULL) != STW_OK) return false;
        random_placement(&rng, j->simulator, j->plan[k]);
        random_priorities(&rng, j->plan[k]);
        if (k % 3 == 1) random_groups(&rng, j->simulator, j->plan[k], 15);
        if (k % 3 == 2 || k % 6 == 1) random_orders(&rng, j->simulator, j->plan[k]);
        if (k == 0) (void)stw_plan_set_order(j->plan[k], 0, NULL, 0, NULL); /* the device has tasks, its order none */
    }
    return true;
}

static bool open_job(job *j) {
    stw_error error = {0};
    *j = (job){0};
    const bool ok = stw_graph_open(STW_SOURCE_DIR "/data/graphs/rnnlm-2.json.gz", NULL, &j->graph, &error) == STW_OK &&
                    stw_machine_open("h200x4", &j->machine, &error) == STW_OK &&
                    stw_costs_create(j->graph, j->machine, NULL, &j->costs, &error) == STW_OK &&
                    stw_simulator_create(j->costs, &j->simulator, &error) == STW_OK && make_plans(j);
    CHECK_STR(error.message, "");
    for (int k = 0; ok && k < MAX_THREADS; k++) CHECK_EQ_INT(stw_workspace_create(j->simulator, &j->workspace[k], NULL), STW_OK);
    return CHECK(ok);
}

static void close_job(job *j) {
    for (int k = 0; k < MAX_THREADS; k++) stw_workspace_destroy(j->workspace[k]);
    for (int k = 0; k < PLANS; k++) stw_plan_destroy(j->plan[k]);
    stw_simulator_destroy(j->simulator);
    stw_costs_destroy(j->costs);
    stw_machine_destroy(j->machine);
    stw_graph_destroy(j->graph);
}

static void run_with(job *j, int32_t threads, outcome *out) {
    stw_pool *pool;
    if (!CHECK_EQ_INT(stw_pool_create(threads, &pool, NULL), STW_OK)) return;
    j->outcome = out;
    stw_pool_run(pool, PLANS, evaluate, j);
    stw_pool_destroy(pool);
}

TEST(threads, results_do_not_depend_on_their_number) {
    static job j;
    static outcome one[PLANS], many[PLANS];
    if (!open_job(&j)) return;
    run_with(&j, 1, one);
    int valid = 0, different = 0;
    for (int k = 0; k < PLANS; k++) {
        test_context("plan %d", k);
        CHECK_EQ_INT(one[k].status, STW_OK);
        valid += one[k].step_ps > 0;
        different += k > 0 && one[k].hash != one[k - 1].hash;
    }
    test_context("%s", "");
    CHECK_EQ_INT(valid, PLANS - 1);
    CHECK_EQ_INT(different, PLANS - 1);
    static const int32_t counts[] = {2, 8, 8};
    for (int c = 0; c < 3; c++) {
        run_with(&j, counts[c], many);
        for (int k = 0; k < PLANS; k++) {
            test_context("%d threads, plan %d", counts[c], k);
            CHECK_EQ_INT(many[k].status, STW_OK);
            CHECK_EQ_INT(many[k].step_ps, one[k].step_ps);
            CHECK_EQ_INT(many[k].worst_peak_bytes, one[k].worst_peak_bytes);
            CHECK(many[k].hash == one[k].hash);
        }
    }
    test_context("%s", "");
    close_job(&j);
}
