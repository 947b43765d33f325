/* explain: what it tries (an op elsewhere, a group apart and merged, other machines) is what a simulation of the same change by
 * hand says. */
#include <stdio.h>
#include <string.h>

#include "explain/explain.h"
#include "support/random.h"
#include "test.h"

static stw_options *options_of(const char *name, const char *value) {
    stw_options *options = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_options_create(&options, &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, name, value, &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", "3", &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "threads", "1", &error), STW_OK);
    CHECK_STR(error.message, "");
    return options;
}

static stw_explanation *explain(const small *s, const char *name, const char *value) {
    stw_explanation *x = NULL;
    stw_error error = {0};
    stw_options *options = options_of(name, value);
    CHECK_EQ_INT(stw_explain(s->simulator, s->plan, options, NULL, &x, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_options_destroy(options);
    return x;
}

static void check_fault(const small *s, const char *name, const char *value, const char *says) {
    stw_explanation *x = NULL;
    stw_error error = {0};
    stw_options *options = options_of(name, value);
    CHECK_EQ_INT(stw_explain(s->simulator, s->plan, options, NULL, &x, &error), STW_ERROR_INPUT);
    CHECK(x == NULL);
    if (!CHECK(strstr(error.message, says) != NULL)) CHECK_STR(error.message, says);
    stw_options_destroy(options);
}

/* The plan simulated by hand. */
static stw_evaluation run(const small *s, const stw_plan *plan, stw_workspace *workspace) {
    stw_evaluation result = {0};
    stw_error error = {0};
    CHECK_EQ_INT(stw_simulate(s->simulator, plan, workspace, &result, &error), STW_OK);
    return result;
}

static bool has_order(const stw_plan *plan) {
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        if (plan->order[d] != NULL) return true;
    }
    return false;
}

/* ---- an op elsewhere ---- */

/* What must be with what, found by passing over all ties until nothing changes. */
static void find_ties(const small *s, int32_t op, bool *with) {
    const stw_graph *graph = s->graph;
    stw_membership m;
    stw_str reason;
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_membership_build(graph, s->machine, s->plan->group, s->plan->device, &arena, &m, &reason, NULL), STW_OK);
    memset(with, 0, (size_t)graph->N * sizeof *with);
    with[op] = true;
    for (bool more = true; more;) {
        more = false;
        for (int32_t i = 0; i < graph->N; i++) {
            const int32_t other[] = {graph->updates[i], graph->colocate[i] >= 0 ? graph->root[graph->colocate[i]] : -1};
            for (int k = 0; k < 2; k++) {
                if (other[k] < 0 || stw_node_is_everywhere(graph->kind[other[k]])) continue;
                const int32_t self = graph->root[i];
                if (stw_node_is_everywhere(graph->kind[self]) || with[self] == with[other[k]]) continue;
                with[self] = with[other[k]] = more = true;
            }
        }
        for (int32_t t = 0; t < m.T; t++) {
            bool any = false;
            for (int32_t k = m.member_start[t]; k < m.member_start[t + 1]; k++) any |= with[m.member[k]];
            for (int32_t k = m.member_start[t]; any && k < m.member_start[t + 1]; k++) {
                more |= !with[m.member[k]];
                with[m.member[k]] = true;
            }
        }
    }
    stw_arena_destroy(&arena);
}

static void check_moves(const small *s, int32_t op, int64_t *legal) {
    char id[20];
    bool with[400];
    stw_move_trial move;
    int32_t count = 0, expected = 0;
    snprintf(id, sizeof id, "%d", op);
    stw_explanation *x = explain(s, "op", id);
    if (x == NULL) return;
    const int32_t *moved = stw_explanation_moved(x, &count);
    find_ties(s, op, with);
    for (int32_t i = 0; i < s->graph->N; i++) expected += with[i];
    CHECK_EQ_INT(count, expected);
    CHECK_EQ_INT(moved[0], op);
    for (int32_t k = 0; k < count; k++) CHECK(with[moved[k]]);
    stw_plan *plan;
    stw_workspace *workspace;
    CHECK_EQ_INT(stw_workspace_create(s->simulator, &workspace, NULL), STW_OK);
    for (int32_t k = 0; stw_explanation_move(x, k, &move); k++) {
        CHECK_EQ_INT(move.device, k);
        CHECK_EQ_INT(move.here, s->plan->device[op] == k);
        CHECK(move.trial.reason != STW_INVALID_ORDER && move.trial.reason != STW_INVALID_COLOCATION);
        if (move.here) CHECK_EQ_INT(move.trial.step_ps, s->result.step_ps);
        if (has_order(s->plan)) continue; /* which the hand would have to change as well */
        CHECK_EQ_INT(stw_plan_copy(s->plan, &plan, NULL), STW_OK);
        for (int32_t i = 0; i < s->graph->N; i++) {
            if (with[i]) plan->device[i] = k;
        }
        const stw_evaluation by_hand = run(s, plan, workspace);
        CHECK_EQ_INT(move.trial.reason, by_hand.reason);
        CHECK_EQ_INT(move.trial.step_ps, by_hand.step_ps);
        CHECK_EQ_INT(move.trial.peak_bytes, by_hand.worst_peak_bytes);
        CHECK_STR(move.trial.message, by_hand.message);
        if (by_hand.peak_bytes != NULL) {
            *legal += !move.here;
            CHECK_EQ_INT(move.device_peak_bytes, by_hand.peak_bytes[k]);
            CHECK_EQ_INT(move.appear_count - move.vanish_count, by_hand.transfer_count - s->result.transfer_count);
            CHECK_EQ_INT(move.appear_bytes - move.vanish_bytes, by_hand.transfer_bytes - s->result.transfer_bytes);
        }
        stw_plan_destroy(plan);
    }
    stw_workspace_destroy(workspace);
    stw_explanation_destroy(x);
}

/* ---- a group ---- */

static void check_group(const small *s, int32_t op, int64_t *fused, int64_t *merged) {
    char id[20];
    stw_group_worth group;
    stw_merge_trial merge;
    snprintf(id, sizeof id, "%d", op);
    stw_explanation *x = explain(s, "group", id);
    if (x == NULL || !CHECK(stw_explanation_group(x, &group))) return;
    CHECK(group.apart.reason != STW_INVALID_ORDER);
    *fused += group.member_count > 1;
    stw_plan *plan;
    stw_workspace *workspace;
    CHECK_EQ_INT(stw_workspace_create(s->simulator, &workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_copy(s->plan, &plan, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_canonical_groups(plan, NULL), STW_OK);
    for (int32_t k = 0; k < group.member_count; k++) plan->group[group.member[k]] = group.member[k];
    if (!has_order(plan)) {
        const stw_evaluation by_hand = run(s, plan, workspace);
        CHECK_EQ_INT(group.apart.reason, by_hand.reason);
        CHECK_EQ_INT(group.apart.step_ps, by_hand.step_ps);
    }
    for (int32_t k = 0; stw_explanation_merge(x, k, &merge); k++) {
        /* The order of another device may forbid it: that one has a reader of one half before something that the other half
         * needs. */
        if (!has_order(s->plan)) CHECK(merge.trial.reason != STW_INVALID_ORDER);
        *merged += stw_has_step(&merge.trial);
        if (has_order(plan)) continue;
        CHECK_EQ_INT(stw_plan_assign(plan, s->plan, NULL), STW_OK);
        CHECK_EQ_INT(stw_plan_canonical_groups(plan, NULL), STW_OK);
        const int32_t both[] = {group.group, merge.node};
        for (int32_t i = 0; i < s->graph->N; i++) {
            if (plan->group[i] == both[1]) plan->group[i] = both[0];
        }
        const stw_evaluation by_hand = run(s, plan, workspace);
        CHECK_EQ_INT(merge.trial.reason, by_hand.reason);
        CHECK_EQ_INT(merge.trial.step_ps, by_hand.step_ps);
    }
    stw_plan_destroy(plan);
    stw_workspace_destroy(workspace);
    stw_explanation_destroy(x);
}

static int32_t draw_op(stw_rng *rng, const small *s, bool written) {
    for (int tries = 0; tries < 100; tries++) {
        const int32_t i = (int32_t)stw_rng_below(rng, s->graph->N);
        if (s->graph->kind[i] == STW_NODE_OP && (!written || s->plan->group[i] >= 0)) return i;
    }
    return -1;
}

TEST(explain_trials, moves_and_merges_are_those_by_hand) {
    const stw_rng seeds = stw_rng_create(4711);
    int64_t moves = 0, fused = 0, merged = 0;
    for (int number = 0; number < 300; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        test_context("problem %d", number);
        small *s = random_open(&rng, (random_shape){.nodes = 20 + (int32_t)stw_rng_below(&rng, 60),
                                                    .device_count = 1 + number % 4,
                                                    .unlike = number % 2 == 1,
                                                    .buses = number % 3 == 0,
                                                    .charges = number % 4 < 2,
                                                    .model = number % 5 < 2});
        random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        if (number % 3 > 0) random_groups(&rng, s->simulator, s->plan, 60);
        if (number % 4 == 3) random_orders(&rng, s->simulator, s->plan);
        small_run(s);
        for (int k = 0; k < 3; k++) {
            const int32_t op = draw_op(&rng, s, false), member = draw_op(&rng, s, true);
            if (op >= 0) check_moves(s, op, &moves);
            if (member >= 0) check_group(s, member, &fused, &merged);
        }
        small_close(s);
    }
    test_context("%s", "");
    CHECK(moves > 100 && fused > 50 && merged > 50); /* each was put to the test */
}

/* ---- other machines ---- */

static const small_text DRAWN = {.nodes = SOURCE(0, "w", "parameter", 2) OP(1, "a", "[0]", 4, 2) OP(2, "b", "[1]", 6, 3)
                                     OP(3, "c", "[1]", 2, 5) OP_WITH(4, "u", "[0,2,3]", 2, 1, ",'updates':0"),
                                 .device_count = 3,
                                 .device = "[0,0,1,2,0]"};

static stw_what_if what_if_of(const stw_explanation *x, int32_t index) {
    stw_what_if row = {0};
    CHECK(stw_explanation_what_if(x, index, &row));
    return row;
}

/* a [0,2) on d0, to d1 and d2 [2,6); b [6,9), back [9,15); c [6,11), back [11,13); u [15,16). */
TEST(explain_trials, what_ifs_drawn) {
    small *s = small_open(DRAWN);
    CHECK_EQ_INT(s->result.step_ps, 16000000);
    stw_explanation *x = explain(s, "what-if", "bandwidth=x2,devices=+1,devices=-1,memory=-50%,times=+10%");
    CHECK_STR(what_if_of(x, 0).change, "");
    CHECK_EQ_INT(what_if_of(x, 0).kept.step_ps, 16000000);
    CHECK_EQ_INT(what_if_of(x, 1).kept.step_ps, 11000000); /* a [0,2), [2,4), b [4,7), [7,10), u [10,11) */
    CHECK_EQ_INT(what_if_of(x, 2).kept.step_ps, 16000000);
    CHECK_STR(what_if_of(x, 2).words, "1 more like d2");
    /* c goes to d1, the less busy of the two (d0: 3, d1: 3; the first of equals is d0): a [0,2), c [2,7) on d0, u after b. */
    CHECK_STR(what_if_of(x, 3).words, "without d2, whose ops go to d0");
    CHECK_EQ_INT(what_if_of(x, 3).kept.step_ps, 16000000);
    CHECK_EQ_INT(what_if_of(x, 4).kept.step_ps, 16000000);
    CHECK_EQ_INT(what_if_of(x, 5).kept.step_ps, 2200000 + 4000000 + 3300000 + 6000000 + 1100000);
    for (int32_t k = 0; k < 6; k++) { /* a search is never worse */
        CHECK_EQ_INT(what_if_of(x, k).searched.reason, STW_VALID);
        CHECK(what_if_of(x, k).searched.step_ps <= what_if_of(x, k).kept.step_ps);
    }
    CHECK(what_if_of(x, 0).searched.step_ps <=
          11000000); /* all on one device, which a search from the plan alone would not try */
    stw_explanation_destroy(x);
    small_close(s);
}

TEST(explain_trials, machines_that_cannot_be) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 4, 2)});
    stw_explanation *x = explain(s, "what-if", "devices=+1,devices=-1");
    CHECK(!what_if_of(x, 1).kept.tried && !what_if_of(x, 1).searched.tried);
    CHECK(strstr(what_if_of(x, 1).words, "no link") != NULL);
    CHECK(!what_if_of(x, 2).kept.tried);
    CHECK_STR(what_if_of(x, 2).words, "the machine has 1 device");
    stw_explanation_destroy(x);
    small_close(s);
}

TEST(explain_trials, little_memory) {
    small_text text = DRAWN;
    text.devices = DEVICE("d0", "h200", 1000) DEVICE("d1", "h200", 9) DEVICE("d2", "h200", 1000);
    small *s = small_open(text); /* b's input and output: 10 bytes on d1 */
    CHECK_EQ_INT(s->result.reason, STW_INVALID_MEMORY);
    stw_explanation *x = explain(s, "what-if", "memory=+20%,memory=x0.5");
    CHECK_EQ_INT(what_if_of(x, 0).kept.reason, STW_INVALID_MEMORY);
    CHECK_EQ_INT(what_if_of(x, 1).kept.reason, STW_VALID);
    CHECK_EQ_INT(what_if_of(x, 1).kept.step_ps, 16000000);
    CHECK_EQ_INT(what_if_of(x, 2).kept.reason, STW_INVALID_MEMORY);
    stw_explanation_destroy(x);
    small_close(s);
}

/* ---- what is not understood ---- */

TEST(explain_trials, faults) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "weight", "parameter", 2) SOURCE(1, "image", "input", 2)
                                           OP(2, "layer1/mul", "[0,1]", 4, 2) OP(3, "layer2/mul", "[2]", 4, 2)
                                               OP(4, "twin", "[3]", 4, 2) OP(5, "twin", "[4]", 4, 2) VIEW(6, "part", 5, 2)});
    check_fault(s, "op", "layer1/mull", "no op 'layer1/mull'; near are layer1/mul (2), layer2/mul (3)");
    check_fault(s, "op", "mul", "near are layer1/mul (2), layer2/mul (3)");
    check_fault(s, "op", "nothing like it", "an id from 0 to 6");
    check_fault(s, "op", "7", "an id from 0 to 6");
    check_fault(s, "op", "-1", "an id from 0 to 6");
    check_fault(s, "op", "twin", "such as 4 and 5; give the id");
    check_fault(s, "op", "part", "a view");
    check_fault(s, "op", "image", "an input or constant");
    check_fault(s, "group", "weight", "a parameter or buffer");
    check_fault(s, "what-if", "bandwidth", "'bandwidth' is no change");
    check_fault(s, "what-if", "bandwidth=2", "'bandwidth=2' needs a factor");
    check_fault(s, "what-if", "bandwidth=x0", "'bandwidth=x0' needs a factor");
    check_fault(s, "what-if", "memory=-100%", "needs a factor");
    check_fault(s, "what-if", "memory=+%", "needs a factor");
    check_fault(s, "what-if", "devices=1", "needs a number of devices");
    check_fault(s, "what-if", "devices=+0", "needs a number of devices");
    check_fault(s, "what-if", "bandwidth=x2,", "'' is no change");
    stw_explanation *x = explain(s, "op", "weight"); /* a parameter may move */
    stw_explanation_destroy(x);
    small_close(s);
}
