/* method: the moves of annealing, one by one: atoms stay whole, groups legal, and what is taken back is as before. */
#include "method/anneal/affinity.h"
#include "method/annealing.h"
#include "search/fusing.h"
#include "train/decode.h"

/* Another chain has each atom on some device. */
static void meet_another(const stw_annealing *a, stw_chain *c, stw_arena *arena) {
    const stw_units *atoms = &a->units.level[0];
    const int32_t N = c->plan->graph->N, D = c->plan->machine->device_count;
    c->other_device = STW_NEW(arena, int32_t, N);
    c->other_priority = STW_NEW(arena, double, N);
    c->differ = STW_NEW(arena, int32_t, N);
    memcpy(c->other_device, c->plan->device, (size_t)N * sizeof *c->other_device);
    for (int32_t u = 0; u < atoms->count; u++) {
        const int32_t device = (int32_t)stw_rng_below(&c->rng, D);
        for (int32_t m = atoms->start[u]; m < atoms->start[u + 1]; m++) c->other_device[atoms->member[m]] = device;
    }
    stw_anneal_compare(a, c);
    int32_t elsewhere = 0;
    for (int32_t u = 0; u < atoms->count; u++) {
        const int32_t node = atoms->member[atoms->start[u]];
        elsewhere += c->other_device[node] != c->plan->device[node];
    }
    CHECK_EQ_INT(c->differ_count, elsewhere);
}

static void prepare_changes(stw_annealing *a, stw_chain *c, const small *s, stw_arena *arena) {
    static const int32_t wanted[] = {16, 4};
    const stw_simulator *simulator = s->simulator;
    const stw_tasks *tasks = &simulator->unfused;
    const stw_units *atoms = &a->units.level[0];
    const int32_t N = s->graph->N, T = tasks->T;
    double *rank = STW_NEW(arena, double, T);
    CHECK_EQ_INT(stw_units_build(s->graph, s->costs->us[0], wanted, 2, arena, &a->units, NULL), STW_OK);
    CHECK_EQ_INT(stw_affinity_build(simulator, atoms, wanted, 2, arena, &a->affinity, NULL), STW_OK);
    stw_rule_upward_ranks(s->costs, tasks, NULL, rank);
    CHECK_EQ_INT(stw_board_prepare(s->costs, tasks, atoms->of, atoms->count, rank, arena, &a->board, NULL), STW_OK);
    a->affinity_share = 0.5;
    a->largest_rank = 10.0;
    a->mean_us = 1.0;
    c->plan = s->plan;
    c->moved = STW_NEW(arena, int32_t, N);
    c->old_device = STW_NEW(arena, int32_t, N);
    c->old_priority = STW_NEW(arena, double, N);
    c->critical = STW_NEW(arena, int32_t, T);
    c->start_ps = STW_NEW(arena, int64_t, T);
    c->order = STW_NEW(arena, int32_t, T);
    c->mark = STW_NEW(arena, int32_t, N);
    c->queue = STW_NEW(arena, int32_t, N);
    c->plan_glue = STW_NEW(arena, double, T);
    c->aversion = STW_NEW(arena, double, T);
    c->steered = STW_NEW(arena, int32_t, N);
    if (a->search->fusing != NULL) {
        c->fusion = STW_NEW(arena, double, N);
        c->old_fusion = STW_NEW(arena, double, N);
        c->old_group = STW_NEW(arena, int32_t, N);
        CHECK_EQ_INT(stw_fusion_begin(s->simulator, a->search->fusing->priority, c->plan, c->fusion, *arena, NULL), STW_OK);
        stw_anneal_regroup(a, c, 0);
    }
    memcpy(c->start_ps, s->workspace->timeline.start_ps, (size_t)T * sizeof *c->start_ps);
    c->step_ps = s->result.step_ps;
    meet_another(a, c, arena);
}

static bool are_grouped_alike(const stw_plan *a, const stw_plan *b) {
    return memcmp(a->group, b->group, (size_t)a->graph->N * sizeof *a->group) == 0;
}

/* The groups are legal for the devices, and those that the fusion priorities make. */
static void check_groups(const stw_annealing *a, const stw_chain *c, stw_arena arena) {
    const stw_graph *graph = c->plan->graph;
    stw_membership membership;
    stw_str reason = STW_STR("");
    CHECK_EQ_INT(
        stw_membership_build(graph, c->plan->machine, c->plan->group, c->plan->device, &arena, &membership, &reason, NULL),
        STW_OK);
    CHECK_EQ_INT(reason.length, 0);
    int32_t *group = STW_NEW(&arena, int32_t, graph->N);
    stw_fuse_by_priority(a->search->fusing->fuser[0], c->fusion, c->plan->device, group);
    CHECK(memcmp(group, c->plan->group, (size_t)graph->N * sizeof *group) == 0);
}

/* Makes the change, looks at it, takes it back. Returns whether it came to anything. */
static bool try_change(const stw_annealing *a, stw_chain *c, stw_plan *before, bool places, stw_arena arena) {
    bool changed = false;
    double *fusion = STW_NEW(&arena, double, before->graph->N); /* as it was before */
    if (c->fusion != NULL) memcpy(fusion, c->fusion, (size_t)before->graph->N * sizeof *fusion);
    CHECK_EQ_INT(stw_plan_assign(before, c->plan, NULL), STW_OK);
    a->search->scratch = &arena;
    CHECK_EQ_INT(stw_anneal_change(a, c, 0, &changed), STW_OK);
    const size_t N = (size_t)before->graph->N;
    const bool moved = !are_placed_alike(before, c->plan), reordered = !have_equal_priorities(before, c->plan);
    CHECK(!moved || (places && c->moved_count > 0));
    CHECK(!reordered || c->priorities_changed);
    CHECK(!reordered || !places || a->search->rule >= 0);
    const bool regrouped = !are_grouped_alike(before, c->plan);
    CHECK(!regrouped || (c->fusion != NULL && (moved || c->fusion_changed)));
    CHECK(changed || !regrouped);
    if (c->fusion != NULL) check_groups(a, c, arena);
    const stw_units *atoms = &a->units.level[0]; /* what must be together is */
    for (int32_t m = 1; m < atoms->start[atoms->count]; m++) {
        const int32_t x = atoms->member[m - 1], y = atoms->member[m];
        if (atoms->of[x] == atoms->of[y]) CHECK_EQ_INT(c->plan->device[x], c->plan->device[y]);
    }
    for (int32_t i = 0; a->weight[STW_MOVE_CROSS] > 0.0 && i < before->graph->N; i++)
        CHECK(c->plan->device[i] == before->device[i] || c->plan->device[i] == c->other_device[i]);
    stw_anneal_take_back(c);
    CHECK(memcmp(before->device, c->plan->device, N * sizeof *before->device) == 0);
    CHECK(have_equal_priorities(before, c->plan));
    CHECK(are_grouped_alike(before, c->plan));
    if (c->fusion != NULL) CHECK(memcmp(fusion, c->fusion, N * sizeof *fusion) == 0);
    return moved || reordered || regrouped;
}

TEST(anneal, changes_keep_atoms_whole_and_are_taken_back) {
    const stw_rng seeds = stw_rng_create(552);
    int changes[STW_MOVE_COUNT] = {0};
    for (int number = 0; number < 12; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        const bool fuses = number % 3 != 2;
        for (int32_t i = 0; fuses && i < s->graph->N; i++) s->plan->device[i] = 0; /* so that much can be merged */
        small_run(s);
        stw_arena arena;
        stw_plan *before;
        stw_search search = {.simulator = s->simulator, .tasks = BOTH, .rule = number == 0 ? STW_RULE_UPWARD_RANK : -1};
        stw_fusing fusing = {0};
        stw_annealing *a = calloc(1, sizeof *a);
        stw_chain *c = calloc(1, sizeof *c);
        CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
        if (fuses) {
            search.tasks |= STW_TASK_FUSION;
            search.fusing = &fusing;
            CHECK_EQ_INT(stw_fusing_open(s->simulator, -1, STW_FUSION_DEFAULT, 1, NULL, &arena, &fusing, NULL), STW_OK);
        }
        CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &before, NULL), STW_OK);
        a->search = &search;
        c->rng = stw_rng_split(&rng, 1);
        prepare_changes(a, c, s, &arena);
        for (int k = 0; k < 30 * STW_MOVE_COUNT; k++) {
            const int move = k % STW_MOVE_COUNT;
            if (move == STW_MOVE_FUSE && !fuses) continue;
            test_context("problem %d, move %d", number, move);
            memset(a->weight, 0, sizeof a->weight);
            a->weight[move] = 1.0;
            changes[move] += try_change(a, c, before, move <= STW_MOVE_STEER || move == STW_MOVE_CROSS, arena);
        }
        if (fuses) stw_fusing_close(&fusing);
        stw_plan_destroy(before);
        stw_arena_destroy(&arena);
        free(a);
        free(c);
        small_close(s);
    }
    test_context("%s", "");
    for (int k = 0; k < STW_MOVE_COUNT; k++) {
        test_context("move %d: %d changes", k, changes[k]);
        CHECK(changes[k] > (k == STW_MOVE_FUSE ? 40 : 100)); /* most ops here cannot be merged */
    }
    test_context("%s", "");
}
