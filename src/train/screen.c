/* A round of moves that the network finds promising. It looks at many proposals, which costs no evaluation; those that it likes
 * best are tried one by one, and what helped is done all at once. */
#include <stdlib.h>
#include <string.h>

#include "train/trainer_state.h"

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
    stw_status *status;
    stw_error *error;
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
        *c = (candidate){.score = stw_moves_score(&t->moves, m, t->means, t->P), .order = *count, .device = t->moves.device[m]};
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

static void apply(const stw_problem *p, const candidate *c, stw_plan *plan) {
    stw_moves_put(p, c->unit, c->count, c->device, plan);
}

static stw_status try_alone(screening *s, int32_t k, int32_t worker, stw_error *error) {
    TRY(stw_plan_copy(s->t->plan[k], s->t->origin, error));
    apply(s->t->problem, &s->candidate[k], s->t->plan[k]);
    return stw_trainer_evaluate_moved(s->t, s->t->plan[k], worker, &s->candidate[k].tried, error);
}

static void work(void *context, int64_t k, int32_t worker) {
    screening *s = context;
    s->status[k] = try_alone(s, (int32_t)k, worker, &s->error[k]);
}

/* All that helped, the best first; a unit moves once. */
static stw_status try_together(screening *s, int32_t tried, int32_t *helped, stw_error *error) {
    stw_trainer *t = s->t;
    stw_arena scratch = t->round_arena;
    bool *moved, *used;
    stw_score score;
    STW_TRY_NEW(&scratch, moved, t->problem->M, error);
    STW_TRY_NEW(&scratch, used, tried, error);
    TRY(stw_plan_copy(t->plan[tried], t->origin, error));
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
    TRY(stw_trainer_evaluate_moved(t, t->plan[tried], 0, &score, error));
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
    STW_TRY_NEW(&t->round_arena, s.status, count, error);
    STW_TRY_NEW(&t->round_arena, s.error, count, error);
    stw_pool_run(t->environment.pool, count, work, &s);
    int32_t best = 0;
    for (int32_t k = 0; k < count; k++) {
        if (s.status[k] != STW_OK) {
            if (error != NULL) *error = s.error[k];
            return s.status[k];
        }
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
