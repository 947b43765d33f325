#include "train/moves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/trainer_state.h"

/* ---- another plan ---- */

enum { TRIES = 8 };

static int32_t device_of(const stw_problem *p, const stw_plan *plan, int32_t unit) {
    return plan->device[p->units.member[p->units.start[unit]]];
}

/* The device of a producer or reader of the unit that is not its own; its own if none is found. */
static int32_t across_the_border(const stw_problem *p, const stw_plan *plan, int32_t unit, stw_rng *rng) {
    const stw_features *f = &p->features;
    const int32_t own = device_of(p, plan, unit);
    const int32_t *producer = &f->producer[f->producer_start[unit]], *reader = &f->reader[f->reader_start[unit]];
    const int32_t producers = f->producer_start[unit + 1] - f->producer_start[unit];
    const int32_t readers = f->reader_start[unit + 1] - f->reader_start[unit];
    for (int32_t tries = 0; tries < TRIES && producers + readers > 0; tries++) {
        const int32_t k = (int32_t)stw_rng_below(rng, producers + readers);
        const int32_t device = device_of(p, plan, k < producers ? producer[k] : reader[k - producers]);
        if (device != own) return device;
    }
    return own;
}

/* Each group goes where one of its units that are at a border borders on, all of them being as likely. */
static stw_status draw_neighbours(const stw_problem *p, const stw_plan *plan, int32_t grouping, stw_rng *rng, int32_t *of_group,
                                  stw_arena scratch, stw_error *error) {
    int32_t *seen;
    STW_TRY_NEW(&scratch, seen, p->group_count[grouping], error);
    for (int32_t u = 0; u < p->M; u++) {
        const int32_t group = p->grouping[grouping][u], device = across_the_border(p, plan, u, rng);
        if (device != device_of(p, plan, u) && stw_rng_below(rng, ++seen[group]) == 0) of_group[group] = device;
    }
    return STW_OK;
}

stw_status stw_propose(const stw_problem *p, const stw_plan *plan, stw_rng rng, int32_t *device, int32_t *drawn_grouping,
                       stw_arena scratch, stw_error *error) {
    const int32_t grouping = (int32_t)stw_rng_below(&rng, STW_GROUPINGS), groups = p->group_count[grouping];
    const int32_t N = plan->graph->N, D = plan->machine->device_count;
    const bool anywhere = stw_rng_below(&rng, 2) == 1;
    *drawn_grouping = grouping;
    int32_t *of_group; /* -1: stays */
    STW_TRY_NEW(&scratch, of_group, groups, error);
    for (int32_t k = 0; k < groups; k++) of_group[k] = anywhere ? (int32_t)stw_rng_below(&rng, D) : -1;
    if (!anywhere) TRY(draw_neighbours(p, plan, grouping, &rng, of_group, scratch, error));
    for (int32_t i = 0; i < N; i++) {
        const int32_t unit = p->units.of[i], drawn = unit < 0 ? -1 : of_group[p->grouping[grouping][unit]];
        const bool may = drawn >= 0 && (p->list->linked == 0 || (p->list->linked >> drawn & 1) != 0);
        device[i] = may ? drawn : plan->device[i];
    }
    return STW_OK;
}

/* ---- its moves ---- */

/* A group goes where its first unit that moves goes; units that are there already come along. */
stw_status stw_moves_find(const stw_problem *p, const stw_plan *plan, const int32_t *other, int32_t grouping, stw_arena *arena,
                          stw_moves *out, stw_error *error) {
    const int32_t groups = p->group_count[grouping], *group = p->grouping[grouping];
    int32_t *target, *size, *place;
    STW_TRY_NEW(arena, target, groups, error);
    STW_TRY_NEW(arena, size, groups, error);
    STW_TRY_NEW(arena, place, groups, error);
    for (int32_t g = 0; g < groups; g++) target[g] = place[g] = -1;
    for (int32_t u = 0; u < p->M; u++) {
        const int32_t member = p->units.member[p->units.start[u]];
        size[group[u]]++;
        if (other[member] != plan->device[member] && target[group[u]] < 0) target[group[u]] = other[member];
    }
    *out = (stw_moves){0};
    STW_TRY_NEW(arena, out->start, groups + 1, error);
    STW_TRY_NEW(arena, out->device, groups, error);
    STW_TRY_NEW(arena, out->unit, p->M, error);
    for (int32_t g = 0; g < groups; g++) {
        if (target[g] < 0) continue;
        place[g] = out->start[out->count];
        out->device[out->count] = target[g];
        out->start[out->count + 1] = out->start[out->count] + size[g];
        out->count++;
    }
    for (int32_t u = 0; u < p->M; u++)
        if (place[group[u]] >= 0) out->unit[place[group[u]]++] = u;
    return STW_OK;
}

/* Puts units on a device; views and parameters follow when the plan is joined (sim/sim.h). */
static void put_units(const stw_problem *p, const int32_t *unit, int32_t count, int32_t device, stw_plan *plan) {
    for (int32_t k = 0; k < count; k++) {
        for (int32_t m = p->units.start[unit[k]]; m < p->units.start[unit[k] + 1]; m++) plan->device[p->units.member[m]] = device;
    }
}

void stw_moves_apply(const stw_problem *p, const stw_moves *moves, int32_t move, stw_plan *plan) {
    const int32_t first = moves->start[move];
    put_units(p, &moves->unit[first], moves->start[move + 1] - first, moves->device[move], plan);
}

double stw_moves_score(const stw_moves *moves, int32_t move, const double *means, int32_t width) {
    double sum = 0.0;
    for (int32_t k = moves->start[move]; k < moves->start[move + 1]; k++)
        sum += means[(int64_t)moves->unit[k] * width + STW_MOVE_KNOB];
    return sum / (moves->start[move + 1] - moves->start[move]);
}

/* ---- trials that are learnt from ---- */

/* A logistic regression of "is the plan better with it?". Worth more the more it matters; what helps is rarer than what does not,
 * and counts more. */

static const uint64_t TRIALS = UINT64_C(3) << 60; /* of the generator's parts */
static const double ALONE = 0.7;                  /* share of the trials of one move; else some at once */
enum { MOST_AT_ONCE = 4 };
static const double WORTH = 0.001;                                      /* a gain: of the logarithm of the value */
static const double PER_GAIN = 200.0, LEAST_WEIGHT = 0.02, HELPS = 3.0; /* weights: what is off by 0.5 % or more counts in full */

/* The round's plan with units on other devices: views and parameters follow. */
static stw_status evaluate_moved(stw_trainer *t, stw_plan *plan, int32_t worker, stw_score *score, stw_error *error) {
    stw_plan_join(t->problem->simulator, plan);
    return stw_trainer_evaluate(t, plan, worker, score, error);
}

static stw_status try_one(void *context, int64_t k, int32_t worker, stw_error *error) {
    stw_trainer *t = context;
    stw_plan *plan = t->plan[k];
    TRY(stw_plan_assign(plan, t->origin, error));
    for (int32_t m = 0; m < t->trial[k].count; m++) stw_moves_apply(t->problem, &t->moves, t->trial[k].move[m], plan);
    return evaluate_moved(t, plan, worker, &t->trial[k].score, error);
}

static void draw_trial(stw_trainer *t, int32_t k, const stw_rng *rngs) {
    stw_rng rng = stw_rng_split(rngs, (uint64_t)k);
    stw_trial *trial = &t->trial[k];
    const bool alone = stw_rng_uniform(&rng) < ALONE;
    trial->count = alone ? 1 : 2 + (int32_t)stw_rng_below(&rng, MOST_AT_ONCE - 1);
    for (int32_t m = 0; m < trial->count; m++) trial->move[m] = (int32_t)stw_rng_below(&rng, t->moves.count);
}

/* The plan that holds the best of them, whatever becomes of the others. */
static int32_t held_of(const stw_trainer *t) { return t->settings.samples + 1; }

stw_status stw_trainer_try_moves(stw_trainer *t, stw_error *error) {
    const int32_t count = t->settings.moves;
    const stw_rng rngs = stw_rng_split(&t->rng, TRIALS + (uint64_t)t->update);
    t->tried = 0;
    if (count == 0 || t->moves.count == 0 || t->settings.rate <= 0.0) return STW_OK; /* nothing to try, or to learn */
    for (int32_t k = 0; k < count; k++) draw_trial(t, k, &rngs);
    TRY(stw_pool_try(t->search->pool, count, try_one, t, error));
    int32_t best = 0;
    for (int32_t k = 0; k < count; k++) {
        if (stw_score_is_better(&t->trial[k].score, &t->trial[best].score)) best = k;
    }
    t->evaluations += count;
    t->tried = count;
    t->held_score = t->trial[best].score;
    if (t->problem->fuses)
        memcpy(t->plan_fusion[held_of(t)], t->plan_fusion[best], (size_t)t->plan[best]->graph->N * sizeof(double));
    return stw_plan_assign(t->plan[held_of(t)], t->plan[best], error);
}

stw_status stw_trainer_keep_tried(stw_trainer *t, stw_error *error) {
    return t->tried > 0 ? stw_trainer_keep(t, held_of(t), &t->held_score, error) : STW_OK;
}

/* d_out: (M, width), added to. Returns the loss. */
double stw_trainer_learn_moves(const stw_trainer *t, double *d_out) {
    double loss = 0.0;
    for (int32_t k = 0; k < t->tried; k++) {
        const stw_trial *trial = &t->trial[k];
        const bool valid = trial->score.reason == STW_VALID && t->reference > 0.0;
        const double gain = valid ? log(t->reference / trial->score.value) : -1.0;
        const double weight = (fmin(1.0, PER_GAIN * fabs(gain - WORTH)) + LEAST_WEIGHT) * (gain > WORTH ? HELPS : 1.0) / t->tried;
        double z = 0.0;
        for (int32_t m = 0; m < trial->count; m++)
            z += stw_moves_score(&t->moves, trial->move[m], t->now->means, t->P) / trial->count;
        const double p = 1.0 / (1.0 + exp(-z)), wanted = gain > WORTH ? 1.0 : 0.0;
        loss -= weight * log(fmax(1e-12, gain > WORTH ? p : 1.0 - p));
        for (int32_t m = 0; m < trial->count; m++) {
            const int32_t first = t->moves.start[trial->move[m]], end = t->moves.start[trial->move[m] + 1];
            const double slope = weight * (p - wanted) / trial->count / (end - first);
            for (int32_t i = first; i < end; i++) d_out[(int64_t)t->moves.unit[i] * t->P + STW_MOVE_KNOB] += slope;
        }
    }
    return loss;
}

/* ---- the promising ones ---- */

/* The network looks at many proposals, which costs no evaluation; those moves that it likes best are tried one by one, and what
 * helped is done all at once. */

typedef struct {
    double score;
    int32_t order; /* among equals the first drawn */
    int32_t count, *unit, device;
    uint64_t hash; /* of units and device */
    stw_score tried;
} candidate;

typedef struct {
    stw_trainer *t;
    candidate *candidate; /* (count) best first */
    int32_t count;
} screening;

static int by_score(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->order - y->order;
}

static uint64_t hash_of(const candidate *c) {
    const stw_str units = {(const char *)c->unit, c->count * (int64_t)sizeof *c->unit};
    return stw_str_hash(units) + (uint64_t)c->device;
}

/* It was tried in an earlier round and did not help: it will hardly do so now. */
static bool has_failed(const stw_trainer *t, const candidate *c) {
    for (int32_t k = 0; k < STW_FAILED_MOVES && k < t->failed_count; k++)
        if (t->failed_move[k] == c->hash) return true;
    return false;
}

static void remember_failures(stw_trainer *t, const candidate *tried, int32_t count) {
    for (int32_t k = 0; k < count; k++)
        if (!stw_score_is_better(&tried[k].tried, &t->origin_score))
            t->failed_move[t->failed_count++ % STW_FAILED_MOVES] = tried[k].hash;
}

/* Adds the moves of the proposal that the network sees now. */
static stw_status collect(stw_trainer *t, candidate *list, int32_t *count, stw_error *error) {
    TRY(stw_trainer_run_placement(t, 1, error));
    for (int32_t m = 0; m < t->moves.count; m++) {
        candidate *c = &list[*count];
        *c = (candidate){
            .score = stw_moves_score(&t->moves, m, t->now->means, t->P), .order = *count, .device = t->moves.device[m]};
        c->unit = &t->moves.unit[t->moves.start[m]];
        c->count = t->moves.start[m + 1] - t->moves.start[m];
        c->hash = hash_of(c);
        (*count)++;
    }
    return STW_OK;
}

static bool is_same(const candidate *a, const candidate *b) {
    return a->hash == b->hash && a->device == b->device && a->count == b->count &&
           memcmp(a->unit, b->unit, (size_t)a->count * sizeof *a->unit) == 0;
}

/* Proposals repeat each other: of equal moves the first stays, up to `most` in all. */
static int32_t choose(const stw_trainer *t, candidate *list, int32_t count, int32_t most) {
    int32_t chosen = 0;
    for (int32_t k = 0; k < count && chosen < most; k++) {
        bool known = has_failed(t, &list[k]);
        for (int32_t other = 0; other < chosen; other++) known = known || is_same(&list[other], &list[k]);
        if (!known) list[chosen++] = list[k];
    }
    return chosen;
}

static stw_status gather(stw_trainer *t, int32_t proposals, candidate **out, int32_t *count, stw_error *error) {
    STW_TRY_NEW(&t->round_arena, *out, (int64_t)proposals * t->problem->M, error);
    *count = 0;
    for (int32_t k = 0; k < proposals; k++) {
        t->draw = t->update * proposals + k;
        TRY(stw_trainer_show(t, error));
        TRY(collect(t, *out, count, error));
    }
    qsort(*out, (size_t)*count, sizeof **out, by_score);
    return STW_OK;
}

static void apply(const stw_problem *p, const candidate *c, stw_plan *plan) { put_units(p, c->unit, c->count, c->device, plan); }

static stw_status try_alone(void *context, int64_t k, int32_t worker, stw_error *error) {
    screening *s = context;
    TRY(stw_plan_assign(s->t->plan[k], s->t->origin, error));
    apply(s->t->problem, &s->candidate[k], s->t->plan[k]);
    return evaluate_moved(s->t, s->t->plan[k], worker, &s->candidate[k].tried, error);
}

/* All that helped, the best first; a unit moves once. */
static stw_status try_together(screening *s, int32_t tried, int32_t *helped, stw_error *error) {
    stw_trainer *t = s->t;
    stw_arena scratch = t->round_arena;
    bool *moved, *used;
    stw_score score;
    STW_TRY_NEW(&scratch, moved, t->problem->M, error);
    STW_TRY_NEW(&scratch, used, tried, error);
    TRY(stw_plan_assign(t->plan[tried], t->origin, error));
    *helped = 0;
    while (true) {
        int32_t best = -1;
        for (int32_t k = 0; k < tried; k++) {
            const stw_score *than = best >= 0 ? &s->candidate[best].tried : &t->origin_score;
            if (!used[k] && stw_score_is_better(&s->candidate[k].tried, than)) best = k;
        }
        if (best < 0) break;
        used[best] = true;
        bool clashes = false;
        for (int32_t k = 0; k < s->candidate[best].count; k++) clashes |= moved[s->candidate[best].unit[k]];
        if (clashes) continue;
        for (int32_t k = 0; k < s->candidate[best].count; k++) moved[s->candidate[best].unit[k]] = true;
        apply(t->problem, &s->candidate[best], t->plan[tried]);
        (*helped)++;
    }
    if (*helped < 2) return STW_OK;
    TRY(evaluate_moved(t, t->plan[tried], 0, &score, error));
    t->evaluations++;
    return stw_trainer_keep(t, tried, &score, error);
}

stw_status stw_trainer_screen(stw_trainer *t, int32_t proposals, int32_t tries, int32_t *tried, stw_error *error) {
    screening s = {.t = t};
    bool over = false;
    int32_t helped = 0;
    *tried = 0;
    TRY(stw_trainer_begin_round(t, &over, error));
    if (over) return STW_OK;
    t->origin_score = t->best_score;
    TRY(gather(t, proposals, &s.candidate, &s.count, error));
    const int32_t count = choose(t, s.candidate, s.count, tries < t->settings.samples ? tries : t->settings.samples);
    TRY(stw_pool_try(t->search->pool, count, try_alone, &s, error));
    int32_t best = 0;
    for (int32_t k = 0; k < count; k++) {
        if (stw_score_is_better(&s.candidate[k].tried, &s.candidate[best].tried)) best = k;
    }
    t->evaluations += count;
    *tried = count;
    t->update++;
    if (count == 0) return STW_OK;
    remember_failures(t, s.candidate, count);
    TRY(stw_trainer_keep(t, best, &s.candidate[best].tried, error)); /* first: keeping writes to the first of the plans */
    TRY(try_together(&s, count, &helped, error));
    *tried += helped >= 2;
    return STW_OK;
}
