/* feature/proposal: what a proposal to move units means to each of them. */
#include "plan/plan.h"
#include "problem.h"

enum { NODES = 4, DEVICES = 3 };
#define FORK_JOIN OP(0, "a", "[]", 1, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[0]", 1, 1) OP(3, "d", "[1,2]", 1, 1)

TEST(proposal, rows_are_the_pairs_of_both_devices_and_zeros_stay) {
    small *s = small_open((small_text){.nodes = FORK_JOIN, .device_count = DEVICES, .device = "[0,0,1,1]"});
    problem p = problem_of(s, 0);
    const sight seen = look_at_run(&p, s->plan, s->workspace, &s->result);
    const int32_t pairs = stw_feature_count(STW_FEATURES_PAIR), columns = stw_features_proposal_columns();
    const int32_t now[NODES] = {0, 0, 1, 1}, then[NODES] = {0, 2, 0, 1};
    double *row = STW_NEW(&p.arena, double, (int64_t)NODES *columns);
    CHECK_EQ_INT(columns, 1 + 2 * pairs);
    for (int32_t k = 0; k < NODES * columns; k++) row[k] = 7.0; /* all is written */
    stw_features_proposal(&p.features, seen.pair, now, then, row);
    for (int32_t u = 0; u < NODES; u++) {
        const bool moves = now[u] != then[u];
        const double *to = &seen.pair[(u * DEVICES + then[u]) * pairs], *from = &seen.pair[(u * DEVICES + now[u]) * pairs];
        test_context("op %d", u);
        CHECK(row[u * columns] == (moves ? 1.0 : 0.0));
        for (int32_t k = 0; k < pairs; k++) {
            CHECK(row[u * columns + 1 + k] == (moves ? to[k] : 0.0));
            CHECK(row[u * columns + 1 + pairs + k] == (moves ? from[k] : 0.0));
        }
    }
    /* By name: c has its input at d0, where it would go, and all of the way back where it is. */
    const int32_t share = column_of(STW_FEATURES_PAIR, "share"), in_from = column_of(STW_FEATURES_PAIR, "in_from");
    CHECK(row[2 * columns + 1 + share] == 0.0 && row[2 * columns + 1 + pairs + share] == 1.0);
    CHECK(row[2 * columns + 1 + in_from] > 0.0 && row[2 * columns + 1 + pairs + in_from] == 0.0);
    test_context("%s", "");
    stw_arena_destroy(&p.arena);
    small_close(s);
}

/* Units of several nodes go by their first; on a graph that ships, all numbers are in range. */
TEST(proposal, units_go_by_their_first_member) {
    problem p = problem_open("unet", "h200x4", 40);
    const stw_features *f = &p.features;
    const int32_t N = p.graph->N, columns = stw_features_proposal_columns();
    stw_plan *plan = NULL;
    stw_workspace *workspace = NULL;
    stw_evaluation result;
    stw_error error = {0};
    stw_rng rng = stw_rng_create(2);
    need(stw_plan_create(p.graph, p.machine, &plan, &error), &error);
    need(stw_workspace_create(p.simulator, &workspace, &error), &error);
    random_placement(&rng, p.simulator, plan);
    need(stw_simulate(p.simulator, plan, workspace, &result, &error), &error);
    const sight seen = look_at_run(&p, plan, workspace, &result);
    int32_t *then = STW_NEW(&p.arena, int32_t, N), moved = 0;
    double *row = STW_NEW(&p.arena, double, (int64_t)f->M *columns);
    memcpy(then, plan->device, (size_t)N * sizeof *then);
    stw_features_proposal(f, seen.pair, plan->device, then, row);
    for (int64_t k = 0; k < (int64_t)f->M * columns; k++) CHECK(row[k] == 0.0); /* nothing moves */
    for (int32_t u = 0; u < f->M; u += 2) then[f->units->member[f->units->start[u]]] = (int32_t)stw_rng_below(&rng, 4);
    for (int32_t u = 1; u < f->M; u += 2) { /* only others than the first: not seen */
        for (int32_t m = f->units->start[u] + 1; m < f->units->start[u + 1]; m++) then[f->units->member[m]] = 3;
    }
    stw_features_proposal(f, seen.pair, plan->device, then, row);
    for (int32_t u = 0; u < f->M; u++) {
        const int32_t member = f->units->member[f->units->start[u]];
        const bool moves = then[member] != plan->device[member];
        CHECK(row[(int64_t)u * columns] == (moves ? 1.0 : 0.0));
        CHECK(u % 2 == 0 || !moves);
        moved += moves;
    }
    CHECK(moved > 5);
    CHECK_EQ_INT(count_bad(row, (int64_t)f->M * columns), 0);
    stw_workspace_destroy(workspace);
    stw_plan_destroy(plan);
    problem_close(&p);
}
