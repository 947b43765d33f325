/* `balance`: makes the largest load of a device small, for steps that follow each other as in a pipeline. Contiguous splits of
 * several orders, annealed in eight chains; whatever the number of threads, chain k computes the same. Loads are kept up to date
 * move by move; the best placement of each round is judged by the simulator. */
#include <math.h>
#include <string.h>

#include "method/balance.h"
#include "method/method.h"
#include "plan/plan.h"

enum {
    CHAINS = 8,
    ROUNDS = 4,                   /* after each, chains may go on from the best of all */
    MOVES_PER_EVALUATION = 10000, /* what moves cost when the budget is a number of evaluations */
    DEFAULT_EVALUATIONS = 400,    /* without any budget */
    MOVES_PER_SPLIT = 10000,      /* a split takes about as long */
    CLUSTER_ROOM = 128
};
static const double FRESH_HEAT = 0.1; /* the first temperature of a run from a new split, relative to the largest load */

typedef struct {
    int32_t *best;  /* (A) */
    double best_us; /* its largest load; infinite: it does not fit */
    stw_status status;
    stw_error error;
} chain;

typedef struct {
    stw_search *search;
    stw_arena scratch; /* behind what is kept for the whole run */
    stw_balance_model model;
    chain chain[CHAINS];
    int32_t *leader; /* (A) the best of all rounds so far */
    double leader_us;
    int32_t round;
    int64_t moves;  /* of a chain in this round, or INT64_MAX */
    double slice_s; /* of a chain in this round, or 0 */
} balance;

/* ---- one chain in one round ---- */

/* Devices in random order: where slow ones stand matters, and equal ones lose nothing. */
static void shuffle_devices(int32_t *sequence, int32_t D, stw_rng *rng, bool shuffled) {
    for (int32_t d = 0; d < D; d++) sequence[d] = d;
    for (int32_t d = D - 1; d > 0 && shuffled; d--) {
        const int32_t other = (int32_t)stw_rng_below(rng, d + 1), swap = sequence[d];
        sequence[d] = sequence[other];
        sequence[other] = swap;
    }
}

static stw_status make_split(const balance *b, int32_t kind, bool shuffled, stw_rng *rng, int32_t *device, stw_arena scratch,
                             stw_error *error) {
    int32_t sequence[STW_MAX_DEVICES], *order;
    STW_TRY_NEW(&scratch, order, b->model.A, error);
    shuffle_devices(sequence, b->model.D, rng, shuffled);
    TRY(stw_balance_order(&b->model, kind, rng, order, scratch, error));
    return stw_balance_split(&b->model, order, sequence, device, scratch, error);
}

static void keep_if_better(chain *c, const stw_balance_state *state) {
    if (stw_balance_lacks(state) > 0.0 || stw_balance_largest(state) >= c->best_us) return;
    c->best_us = stw_balance_largest(state);
    memcpy(c->best, state->device, (size_t)state->model->A * sizeof *c->best);
}

/* How long the next annealing is: longer each time, and no longer than what is left. */
static int64_t length_of_run(const balance *b, const stw_balance_limit *limit, int32_t run, double began_s) {
    int64_t moves = ((int64_t)b->model.A * b->model.D * 160 + 4096) << (run < 12 ? run / 2 : 6);
    if (limit->moves - limit->made < moves) moves = limit->moves - limit->made;
    if (limit->until_s > 0.0 && limit->made > 0) {
        const double now_s = stw_now_s(), rate = (double)limit->made / (now_s - began_s + 1e-9);
        const double left = (limit->until_s - now_s) * rate * 1.02;
        if (left < (double)moves) moves = left > 1.0 ? (int64_t)left : 1;
    }
    return moves;
}

/* The best of several splits into `start`. They take a tenth of the chain's slice, and there is at least one. */
static stw_status start_from_splits(const balance *b, chain *c, int32_t index, stw_rng *rng, stw_balance_state *state,
                                    stw_balance_limit *limit, int32_t *start, stw_arena scratch, stw_error *error) {
    int32_t *device;
    double best_us = HUGE_VAL;
    const double began_s = stw_now_s();
    STW_TRY_NEW(&scratch, device, b->model.A, error);
    for (int32_t k = 0; k == 0 || !stw_balance_limit_is_over(limit); k++) {
        if (k > 0 && (limit->moves < INT64_MAX ? limit->made >= limit->moves / 10 : stw_now_s() - began_s >= b->slice_s / 10.0))
            break;
        TRY(make_split(b, (index + k) % STW_BALANCE_ORDERS, k > 0 || index > 0, rng, device, scratch, error));
        stw_balance_state_set(state, device);
        keep_if_better(c, state);
        limit->made += MOVES_PER_SPLIT;
        const double value_us = stw_balance_largest(state) * (1.0 + stw_balance_lacks(state));
        if (value_us >= best_us) continue;
        best_us = value_us;
        memcpy(start, device, (size_t)b->model.A * sizeof *start);
    }
    return STW_OK;
}

/* Chains begin with splits. Later they start from another split, from what they found best, or from the best of all. */
static stw_status choose_start(const balance *b, chain *c, int32_t index, int32_t run, stw_rng *rng, stw_balance_state *state,
                               stw_balance_limit *limit, int32_t *start, bool *fresh, stw_arena scratch, stw_error *error) {
    *fresh = b->round == 0 ? run < 4 || run % 2 == 0 : run % 4 == 3;
    if (b->round == 0 && run == 0) {
        TRY(start_from_splits(b, c, index, rng, state, limit, start, scratch, error));
    } else if (*fresh) {
        TRY(make_split(b, (index + run) % STW_BALANCE_ORDERS, true, rng, start, scratch, error));
        limit->made += MOVES_PER_SPLIT;
    } else {
        const bool from_leader = b->round > 0 && (index + run) % 2 == 0;
        memcpy(start, from_leader ? b->leader : c->best, (size_t)b->model.A * sizeof *start);
    }
    stw_balance_state_set(state, start);
    keep_if_better(c, state);
    return STW_OK;
}

static stw_status run_slice(balance *b, int32_t index, int32_t worker, stw_error *error) {
    chain *c = &b->chain[index];
    stw_arena scratch = b->search->scratch[worker];
    const stw_rng seeded = stw_rng_create(b->search->seed), mine = stw_rng_split(&seeded, 0x62616c616e6365); /* "balance" */
    stw_rng rng = stw_rng_split(&mine, (uint64_t)(b->round * CHAINS + index));
    const double began_s = stw_now_s();
    stw_balance_limit limit = {.search = b->search, .moves = b->moves, .until_s = b->slice_s > 0.0 ? began_s + b->slice_s : 0.0};
    stw_balance_state state;
    int32_t *start, *room;
    TRY(stw_balance_state_create(&b->model, &scratch, &state, error));
    STW_TRY_NEW(&scratch, start, b->model.A, error);
    STW_TRY_NEW(&scratch, room, CLUSTER_ROOM, error);
    for (int32_t run = 0; run == 0 || !stw_balance_limit_is_over(&limit); run++) {
        bool fresh = false;
        TRY(choose_start(b, c, index, run, &rng, &state, &limit, start, &fresh, scratch, error));
        const double temperature = fresh ? FRESH_HEAT : 0.003 * pow(10.0, stw_rng_uniform(&rng));
        const int64_t moves = length_of_run(b, &limit, run, began_s);
        const int32_t squarings = 2 + (index + run) % 3; /* soft and sharp norms find different things */
        stw_balance_anneal(&state, squarings, temperature, moves, &rng, &limit, room, c->best, &c->best_us);
    }
    return STW_OK;
}

static void work_on_chain(void *context, int64_t index, int32_t worker) {
    balance *b = context;
    chain *c = &b->chain[index];
    c->status = run_slice(b, (int32_t)index, worker, &c->error);
}

/* ---- the exact judgement ---- */

static void expand(const balance *b, const int32_t *atom_device, stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) {
        const int32_t atom = b->model.atom_of[i];
        plan->device[i] = atom < 0 ? 0 : atom_device[atom];
    }
    stw_plan_join(b->search->simulator, plan);
}

/* Where tensors did not fit beside the residents, as many bytes of residents have to go, and what was found so far does not
 * count any more. */
static void learn_memory(balance *b, const int32_t *device) {
    const stw_machine *machine = b->search->simulator->machine;
    const int64_t *peak_bytes = b->search->workspace[0]->timeline.peak_bytes;
    int64_t resident[STW_MAX_DEVICES] = {0};
    for (int32_t a = 0; a < b->model.A; a++) resident[device[a]] += b->model.resident[a];
    for (int32_t d = 0; d < b->model.D; d++) {
        const int64_t over = peak_bytes[d] - machine->device[d].memory_bytes;
        if (over > 0) b->model.memory[d] = resident[d] > over ? resident[d] - over : 0;
    }
    for (int32_t k = 0; k < CHAINS; k++) b->chain[k].best_us = HUGE_VAL;
    b->leader_us = HUGE_VAL;
}

static stw_status judge(balance *b, const int32_t *device, stw_plan *trial, stw_plan *plan, stw_score *best, bool *has_best,
                        stw_error *error) {
    stw_search *search = b->search;
    stw_score score;
    expand(b, device, trial);
    const stw_rule rule = search->rule >= 0 ? (stw_rule)search->rule : STW_RULE_UPWARD_RANK;
    TRY(stw_rule_apply(rule, search->simulator->costs, &search->simulator->unfused, trial, b->scratch, error));
    TRY(stw_search_evaluate(search, trial, 0, &score, error));
    if (score.reason == STW_INVALID_MEMORY) learn_memory(b, device);
    if (*has_best && !stw_score_is_better(&score, best)) return STW_OK;
    *best = score;
    *has_best = true;
    TRY(stw_plan_copy(plan, trial, error));
    if (search->found != NULL) search->found(search->watch_context, plan, best);
    return STW_OK;
}

/* ---- rounds ---- */

static void share_budget(balance *b, int64_t evaluations, double began_s) {
    static const double until[ROUNDS] = {0.5, 0.7, 0.85, 1.0}; /* share of the budget that is gone after each round */
    const stw_search *search = b->search;
    const double part = until[b->round] - (b->round > 0 ? until[b->round - 1] : 0.0);
    const int32_t threads = stw_pool_threads(search->pool);
    const int32_t turns = (CHAINS + threads - 1) / threads; /* chains that one thread runs one after the other */
    b->moves = INT64_MAX;
    b->slice_s = 0.0;
    if (evaluations > 0) {
        b->moves = (int64_t)(part * (double)evaluations * MOVES_PER_EVALUATION / CHAINS);
    }
    if (search->budget.until_s > 0.0) {
        const double end_s = began_s + until[b->round] * (search->budget.until_s - began_s), left_s = end_s - stw_now_s();
        b->slice_s = fmax(left_s / turns, 1e-6);
    }
}

static stw_status run_round(balance *b, stw_plan *trial, stw_plan *plan, stw_score *best, bool *has_best, stw_error *error) {
    stw_pool_run(b->search->pool, CHAINS, work_on_chain, b);
    int32_t winner = 0;
    for (int32_t k = 0; k < CHAINS; k++) {
        if (b->chain[k].status != STW_OK) {
            if (error != NULL) *error = b->chain[k].error;
            return b->chain[k].status;
        }
        if (b->chain[k].best_us < b->chain[winner].best_us) winner = k;
    }
    const chain *c = &b->chain[winner];
    if (*has_best && c->best_us >= b->leader_us) return STW_OK;
    b->leader_us = c->best_us;
    memcpy(b->leader, c->best, (size_t)b->model.A * sizeof *b->leader);
    return judge(b, c->best, trial, plan, best, has_best, error);
}

static stw_status run_rounds(balance *b, stw_plan *trial, stw_plan *plan, stw_error *error) {
    const stw_search *search = b->search;
    const double began_s = stw_now_s();
    int64_t evaluations = search->budget.evaluations > 0 ? stw_search_evaluations_left(search) : 0;
    if (evaluations == 0 && search->budget.until_s <= 0.0) evaluations = DEFAULT_EVALUATIONS;
    stw_score best = {0};
    bool has_best = false;
    for (b->round = 0; b->round < ROUNDS; b->round++) {
        if (b->round > 0 && stw_search_is_over(search)) break;
        share_budget(b, evaluations, began_s);
        TRY(run_round(b, trial, plan, &best, &has_best, error));
        stw_search_tick(search);
    }
    return best.reason == STW_INVALID_MEMORY ? stw_search_repair(b->search, plan, &best, 0, error) : STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    if (search->objective != STW_OBJECTIVE_THROUGHPUT) {
        return stw_fail(error, STW_ERROR_NO_PLAN, "serves the objective throughput only");
    }
    if (!(search->tasks & STW_TASK_PLACEMENT)) {
        return stw_fail(error, STW_ERROR_NO_PLAN, "decides the placement, which is not among the tasks");
    }
    stw_arena arena = search->arena;
    balance b = {.search = search, .leader_us = HUGE_VAL};
    TRY(stw_balance_model_build(search->simulator, &arena, &b.model, error));
    STW_TRY_NEW(&arena, b.leader, b.model.A, error);
    for (int32_t k = 0; k < CHAINS; k++) {
        STW_TRY_NEW(&arena, b.chain[k].best, b.model.A, error);
        b.chain[k].best_us = HUGE_VAL;
    }
    b.scratch = arena;
    stw_plan *trial;
    TRY(stw_plan_create(search->simulator->graph, search->simulator->machine, &trial, error));
    const stw_status status = run_rounds(&b, trial, plan, error);
    stw_plan_destroy(trial);
    return status;
}

const stw_method stw_method_balance = {"balance", "contiguous splits, annealed, for the largest load (throughput)",
                                       STW_METHOD_CONSTRUCTIVE, run};
