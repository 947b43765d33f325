/* Proposals: of some moves that a chain might try, the one that the scorer expects most of. And whether that pays, and what the
 * scorer learns of it. */
#include "method/anneal/anneal.h"
#include "plan/plan.h"

enum { CANDIDATES = 32 };
static const double BLIND_SHARE = 0.125; /* of the moves that could be proposed: what proposals are judged by */

/* ---- opening ---- */

static bool are_wanted(const stw_search *search) {
    const stw_policy_settings *wish = search->policy;
    return search->objective == STW_OBJECTIVE_TIME && (wish == NULL || !wish->no_proposals);
}

stw_status stw_proposals_open(const stw_search *search, stw_arena *arena, stw_proposals *out, stw_error *error) {
    const char *file = search->policy == NULL ? NULL : search->policy->proposals;
    *out = (stw_proposals){.shuffled = search->policy != NULL && search->policy->shuffled};
    if (search->proposals != NULL) *out = *search->proposals;
    if (search->proposals != NULL || !are_wanted(search)) return STW_OK;
    stw_scorer *scorer;
    STW_TRY_NEW(arena, scorer, 1, error);
    if (file != NULL) {
        TRY(stw_scorer_read(file, scorer, error));
    } else if (!stw_scorer_shipped(scorer)) {
        return STW_OK;
    }
    out->scorer = scorer;
    if (search->policy != NULL && search->policy->scorer_rate > 0.0) out->rate = search->policy->scorer_rate;
    return STW_OK;
}

stw_status stw_proposals_check(const stw_policy_settings *wish, stw_error *error) {
    stw_scorer scorer;
    return wish->no_proposals || wish->proposals == NULL ? STW_OK : stw_scorer_read(wish->proposals, &scorer, error);
}

/* ---- one change ---- */

static bool has_shape(stw_move kind) { return kind <= STW_MOVE_WINDOW; }

static stw_move choose_shape(const stw_annealing *a, stw_chain *c) {
    const double *weight = a->weight;
    const double draw = stw_rng_uniform(&c->rng) * (weight[STW_MOVE_UNIT] + weight[STW_MOVE_BLOB] + weight[STW_MOVE_WINDOW]);
    if (draw < weight[STW_MOVE_UNIT]) return STW_MOVE_UNIT;
    return draw < weight[STW_MOVE_UNIT] + weight[STW_MOVE_BLOB] ? STW_MOVE_BLOB : STW_MOVE_WINDOW;
}

static void look_at(const stw_annealing *a, stw_chain *c, stw_move kind, float *feature) {
    static const stw_move_shape shape[] = {
        [STW_MOVE_UNIT] = STW_SHAPE_UNIT, [STW_MOVE_BLOB] = STW_SHAPE_BLOB, [STW_MOVE_WINDOW] = STW_SHAPE_WINDOW};
    const stw_proposed move = {.plan = c->plan,
                               .shape = shape[kind],
                               .count = c->moved_count,
                               .node = c->moved,
                               .old_device = c->old_device,
                               .progress = c->progress,
                               .heat = (1.0 - c->progress) * c->heat};
    stw_move_features(a->search->simulator, c->sight, &move, feature);
}

typedef struct { /* what it is drawn from again, once it is chosen */
    stw_rng from;
    stw_move kind;
    float score;
} candidate;

/* As many as come to something; the plan stays as it was. */
static stw_status draw_candidates(const stw_annealing *a, stw_chain *c, stw_move first, int32_t worker, candidate *out,
                                  int32_t *count) {
    const stw_scorer *scorer = a->learner != NULL ? &a->learner->now : a->proposals.scorer;
    *count = 0;
    for (int32_t k = 0; k < CANDIDATES; k++) {
        const stw_move kind = k == 0 ? first : choose_shape(a, c);
        out[*count] = (candidate){.from = c->rng, .kind = kind};
        TRY(stw_anneal_draw(a, c, kind, worker));
        if (c->moved_count == 0) continue;
        look_at(a, c, kind, c->feature);
        out[(*count)++].score = stw_scorer_score(scorer, c->feature, NULL);
        stw_anneal_move_back(c);
    }
    return STW_OK;
}

/* The best; `shuffled`: each is taken for the one after it. */
static const candidate *choose(const candidate *all, int32_t count, bool shuffled) {
    int32_t best = 0;
    for (int32_t k = 1; k < count; k++) {
        if (all[k].score > all[best].score) best = k;
    }
    return &all[shuffled ? (best + 1) % count : best];
}

static stw_status draw_best(const stw_annealing *a, stw_chain *c, stw_move *kind, int32_t worker) {
    candidate all[CANDIDATES];
    int32_t count;
    TRY(draw_candidates(a, c, *kind, worker, all, &count));
    if (count == 0) return STW_OK; /* what was drawn last came to nothing, and that is the move */
    const candidate *best = choose(all, count, a->proposals.shuffled);
    const stw_rng after = c->rng;
    c->rng = best->from;
    *kind = best->kind;
    TRY(stw_anneal_draw(a, c, *kind, worker));
    c->rng = after;
    return STW_OK;
}

stw_status stw_anneal_propose(const stw_annealing *a, stw_chain *c, int32_t worker, bool *changed) {
    stw_move kind = stw_anneal_choose(a, c);
    c->has_shape = has_shape(kind);
    c->proposed = c->has_shape && a->proposals.scorer != NULL && stw_rng_uniform(&c->rng) >= BLIND_SHARE;
    TRY(c->proposed ? draw_best(a, c, &kind, worker) : stw_anneal_draw(a, c, kind, worker));
    if (c->has_shape && (a->proposals.tried != NULL || c->trial != NULL)) look_at(a, c, kind, c->feature);
    return stw_anneal_complete(a, c, worker, changed);
}

void stw_anneal_tell(const stw_annealing *a, stw_chain *c, const stw_score *score) {
    if (!c->has_shape) return;
    const bool better = score->reason == STW_VALID && score->value < c->score.value;
    const double gain = better ? 1.0 - score->value / c->score.value : 0.0;
    c->tally.tries[c->proposed]++;
    c->tally.gain[c->proposed] += gain;
    if (c->trial != NULL && c->trial_count < STW_ANNEAL_TRIALS)
        stw_trial_of(a->proposals.scorer, c->feature, gain, &c->trial[c->trial_count++]);
    if (a->proposals.tried != NULL)
        a->proposals.tried(a->proposals.context, (int32_t)(c - a->chain), c->feature, gain, c->proposed);
}

/* ---- what is learnt of it ---- */

/* By the order of the chains, so that threads do not matter. */
void stw_anneal_learn(const stw_annealing *a) {
    if (a->learner == NULL) return;
    for (int32_t k = 0; k < a->count; k++) {
        stw_learner_take(a->learner, a->chain[k].trial, a->chain[k].trial_count);
        a->chain[k].trial_count = 0;
    }
    stw_learner_settle(a->learner);
}

/* ---- whether it pays ---- */

/* What a try is worth on average; 0 before there are enough. */
static double worth(const stw_tally *t, bool proposed) {
    enum { ENOUGH = 64 };
    return t->tries[proposed] < ENOUGH ? 0.0 : t->gain[proposed] / t->tries[proposed];
}

static void forget(stw_tally *t, double share) {
    for (int k = 0; k < 2; k++) {
        t->tries[k] *= 1.0 - share;
        t->gain[k] *= 1.0 - share;
    }
}

bool stw_anneal_pays(stw_verdict *v, stw_tally *new, double share, double cost) {
    enum { PAUSE = 6 };                       /* rounds of all chains, or turns of each */
    static const double FORGOTTEN = 1.0 / 12; /* of what is known, in as long */
    forget(&v->tally, FORGOTTEN * share);
    for (int k = 0; k < 2; k++) {
        v->tally.tries[k] += new->tries[k];
        v->tally.gain[k] += new->gain[k];
    }
    *new = (stw_tally){0};
    if (v->pause > 0.0) {
        v->pause -= share;
        if (v->pause <= 0.0) v->tally = (stw_tally){0}; /* a new trial */
        return v->pause <= 0.0;
    }
    const double blind = worth(&v->tally, false), proposed = worth(&v->tally, true);
    if (v->tally.tries[true] == 0.0 || blind <= 0.0 || proposed >= cost * blind) return true;
    v->pause = PAUSE;
    return false;
}
