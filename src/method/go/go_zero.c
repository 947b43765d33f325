/* `go-zero`: a policy that was trained on other graphs, applied to this one. Nothing is learnt: the plan without noise and some
 * samples about it, relative to the initial plan, then relative to the best plan so far; and then moves that the policy
 * finds promising. */
#include <math.h>
#include <stdio.h>

#include "method/go/go.h"

enum { DECODES = 60, ROUND_DECODES = 10, PROPOSALS = 8, POLISH = 6, EMPTY_ROUNDS = 3 };
static const double MOVES_SHARE = 0.5;            /* of the decodes: moves that look promising; before them, samples */
static const double SIGMA = 0.8;                  /* of the samples: wide, since only the best of them counts */
static const double EVALUATIONS_PER_DECODE = 6.0; /* the time that making and evaluating a plan takes, about */

/* ---- settings ---- */

static stw_status choose_settings(stw_go *g, const stw_pretrained *policy, int32_t samples, stw_error *error) {
    stw_train_settings *s = &g->settings;
    if (!stw_train_preset("transfer", s)) return stw_fail(error, STW_ERROR_INPUT, "there is no preset 'transfer'");
    s->seed = g->search->seed;
    s->samples = samples;
    s->moves = samples; /* so that there are plans to try them with */
    s->patience = 1;    /* every update is a round */
    s->rate = 0.0;
    s->shuffled = stw_go_wish(g->search)->shuffled;
    s->sigma = s->sigma_end = SIGMA;
    s->hedge = policy->reinforced ? 0.5 : 1.0;
    return STW_OK;
}

/* Better priorities for the start, where that leaves enough for plans. */
static bool polishes(const stw_go *g) {
    return g->search->budget.evaluations <= 0 || stw_search_evaluations_left(g->search) >= POLISH + 2 * ROUND_DECODES;
}

/* A round that the budget does not suffice for would be lost: then it is a smaller one. */
static int32_t fit_round(const stw_go *g, int32_t decodes) {
    const double decode_s = EVALUATIONS_PER_DECODE * g->evaluation_s / stw_pool_threads(g->search->pool);
    double most = decodes;
    if (decode_s > 0.0) most = fmin(most, stw_budget_seconds_left(&g->search->budget, stw_search_now_s(g->search)) / decode_s);
    if (g->search->budget.evaluations > 0)
        most = fmin(most, (double)stw_search_evaluations_left(g->search) - 1.0 - (polishes(g) ? POLISH : 0));
    return (int32_t)fmax(most, 1.0);
}

/* ---- rounds ---- */

static bool can_move(const stw_go *g) { return g->problem.places && g->search->simulator->machine->device_count > 1; }

static stw_status take_best(stw_go *g, stw_plan *plan, stw_zero *out, stw_error *error) {
    const stw_plan *best = stw_trainer_best(g->trainer, &out->best);
    if (best == NULL) return stw_fail(error, STW_ERROR_NO_PLAN, "no plan was made before the budget ended");
    return stw_plan_assign(plan, best, error);
}

/* The plan without noise alone, or, of a policy that does not steer, the move that it finds most promising: one decode. */
static stw_status decode_one(stw_go *g, bool steers, stw_plan *plan, stw_zero *out, stw_error *error) {
    stw_score score = {0};
    int32_t tried = 0;
    if (!steers) {
        TRY(stw_trainer_screen(g->trainer, PROPOSALS, 1, &tried, error));
        out->rounds = tried > 0;
        return take_best(g, plan, out, error);
    }
    const stw_status status = stw_trainer_greedy(g->trainer, plan, &score, error);
    if (status == STW_ERROR_CANCELLED) return take_best(g, plan, out, error); /* the time is up */
    if (status != STW_OK) return status;
    out->rounds = 1;
    if (stw_trainer_best(g->trainer, &out->best) != NULL && !stw_score_is_better(&score, &out->best))
        return take_best(g, plan, out, error);
    out->best = score;
    return STW_OK;
}

static stw_status sample(stw_go *g, int32_t rounds, stw_zero *out, bool *over, stw_error *error) {
    while (out->rounds < rounds) {
        TRY(stw_trainer_step(g->trainer, over, error));
        stw_search_tick(g->search);
        if (*over) break;
        out->rounds++;
    }
    return STW_OK;
}

/* `left` plans, in rounds: the moves that the policy finds most promising, and all that helped at once. */
static stw_status move(stw_go *g, int32_t left, stw_zero *out, stw_error *error) {
    const int64_t round = g->settings.samples;
    int32_t empty = 0; /* rounds in which all that was proposed has failed before */
    while (left > 1 && !stw_search_is_stopped(g->search)) {
        int64_t tries = left - 1 < round ? left - 1 : round;
        const int64_t room = stw_search_evaluations_left(g->search) - 2; /* for the initial plan, and for all at once */
        int32_t tried = 0;
        if (room < tries) tries = room;
        if (tries < 1) break;
        TRY(stw_trainer_screen(g->trainer, PROPOSALS, (int32_t)tries, &tried, error));
        stw_search_tick(g->search);
        empty = tried > 0 ? 0 : empty + 1;
        if (empty == EMPTY_ROUNDS) break;
        out->rounds += tried > 0;
        left -= tried;
    }
    return STW_OK;
}

static stw_status decode_rounds(stw_go *g, int32_t decodes, stw_plan *plan, stw_zero *out, stw_error *error) {
    const bool moves = can_move(g);
    const int32_t round = g->settings.samples + 1, samples = moves ? (int32_t)ceil((1.0 - MOVES_SHARE) * decodes) : decodes;
    const int32_t rounds = (samples + round - 1) / round;
    bool over = false;
    TRY(sample(g, rounds, out, &over, error));
    if (moves && !over) TRY(move(g, decodes - rounds * round, out, error));
    return take_best(g, plan, out, error);
}

static stw_status decode(stw_go *g, const stw_pretrained *policy, stw_net *net, const stw_plan *start, stw_plan *plan,
                         stw_zero *out, stw_error *error) {
    const int32_t wanted = stw_go_wish(g->search)->decodes, decodes = wanted > 0 ? wanted : DECODES;
    const int32_t samples = fit_round(g, decodes < ROUND_DECODES ? decodes : ROUND_DECODES) - 1;
    const bool moves = can_move(g) && start != NULL;
    if (start != NULL && (stw_search_is_stopped(g->search) || stw_search_evaluations_left(g->search) < 2)) {
        out->best = g->first;
        return stw_plan_assign(plan, start, error);
    }
    TRY(choose_settings(g, policy, samples > 0 ? samples : 1, error));
    TRY(stw_trainer_create(&g->problem, g->search, net, &policy->config, &g->settings, start, &g->first, &g->trainer, error));
    if (polishes(g)) TRY(stw_trainer_polish(g->trainer, error));
    return samples == 0 ? decode_one(g, policy->reinforced || !moves, plan, out, error)
                        : decode_rounds(g, decodes, plan, out, error);
}

/* ---- a policy that chooses devices itself ---- */

/* As published: the plan without noise first; if more are asked for, samples of what is most probable. Nothing of other methods.
 */
static stw_status choose(stw_go *g, const stw_pretrained *policy, stw_net *net, stw_plan *plan, stw_zero *out, stw_error *error) {
    const int32_t wanted = stw_go_wish(g->search)->decodes, decodes = wanted > 0 ? wanted : DECODES;
    const int32_t each = decodes < ROUND_DECODES ? decodes : ROUND_DECODES;
    bool over = false;
    TRY(stw_go_published(g, policy, each > 1 ? each - 1 : 1, error));
    g->settings.rate = g->settings.rate_end = 0.0;
    TRY(stw_trainer_create(&g->problem, g->search, net, &policy->config, &g->settings, NULL, NULL, &g->trainer, error));
    if (decodes == 1) {
        TRY(stw_trainer_greedy(g->trainer, plan, &out->best, error));
        out->rounds = 1;
        return STW_OK;
    }
    TRY(sample(g, (decodes + each - 1) / each, out, &over, error));
    return take_best(g, plan, out, error);
}

/* ---- plans without learning ---- */

stw_status stw_zero_decode(stw_go *g, const stw_pretrained *policy, const stw_plan *start, stw_plan *plan, stw_zero *out,
                           stw_error *error) {
    stw_backend *backend = NULL;
    stw_net *net = NULL;
    *out = (stw_zero){0};
    TRY(stw_backend_cpu(g->search->pool, &backend, error));
    stw_status status = stw_pretrained_net(policy, backend, g->search->arena, &net, error);
    if (status == STW_OK)
        status = stw_go_chooses(&policy->config) ? choose(g, policy, net, plan, out, error)
                                                 : decode(g, policy, net, start, plan, out, error);
    if (g->trainer != NULL) out->decodes = stw_trainer_decodes(g->trainer);
    stw_trainer_destroy(g->trainer);
    g->trainer = NULL;
    stw_net_destroy(net);
    stw_backend_destroy(backend);
    return status;
}

/* ---- the method ---- */

static void write_note(const stw_go *g, const stw_zero *z) {
    char *note = g->search->outcome.note;
    const size_t size = sizeof g->search->outcome.note;
    const bool compares = g->has_first && g->first.reason == STW_VALID && g->first.value > 0.0;
    const char *plural = z->decodes == 1 ? "" : "s";
    if (z->rounds == 0) {
        snprintf(note, size, "the budget ended before the policy had made a plan; give it more");
    } else if (compares) { /* bench/transfer_rows.py reads this */
        snprintf(note, size, "the policy made %lld plan%s; %.2f %% better than the initial plan", (long long)z->decodes, plural,
                 100.0 * (1.0 - z->best.value / g->first.value));
    } else {
        snprintf(note, size, "the policy made %lld plan%s", (long long)z->decodes, plural);
    }
}

static stw_status run_policy(stw_go *g, const stw_pretrained *policy, stw_plan *plan, stw_error *error) {
    stw_zero zero;
    if (stw_go_chooses(&policy->config)) {
        TRY(stw_zero_decode(g, policy, NULL, plan, &zero, error));
        write_note(g, &zero);
        return STW_OK;
    }
    TRY(stw_go_open_starts(g, error));
    if (!g->problem.places && g->starts.count == 0) return stw_starts_keep_placement(g->search, plan, error);
    TRY(stw_go_measure_start(g, error));
    TRY(stw_zero_decode(g, policy, g->has_first ? g->starts.plan[0] : NULL, plan, &zero, error));
    write_note(g, &zero);
    return zero.best.reason == STW_INVALID_MEMORY ? stw_search_repair(g->search, plan, &zero.best, 0, error) : STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    return stw_go_run_pretrained(search, "go-zero", run_policy, plan, error);
}

const stw_method stw_method_go_zero = {
    .name = "go-zero",
    .description = "the policy network as it was trained on other graphs: some plans, and it is done",
    .kind = STW_METHOD_POLICY,
    .run = run};
