/* Annealing with loads that follow each move. */
#include <math.h>
#include <string.h>

#include "method/balance/balance.h"
#include "plan/plan.h"

/* ---- annealing ---- */

/* Annealing of a placement. What is made small is a p-norm of the loads, which is smooth where their maximum is not: a move that
 * unloads the second most loaded device is worth something too. */

enum { CHECK_EVERY = 512, LARGEST_CLUSTER = 64 };
static const double COLD = 1e-5;          /* the last temperature, relative to the largest load */
static const double LACKS_WEIGHT = 100.0; /* moving a hundredth of all residents away is worth the whole load */

static bool limit_is_over(const stw_balance_limit *limit) {
    if (limit->made >= limit->moves) return true;
    return stw_stop_is_due(&(stw_stop){limit->search->cancelled, limit->search->clock, limit->until_s});
}

typedef struct {
    stw_balance_state *s;
    stw_rng *rng;
    int32_t squarings;       /* the p of the norm is 2^squarings */
    double scale;            /* loads are taken relative to it, so that powers stay finite */
    int32_t *moved, *origin; /* (LARGEST_CLUSTER) of the move that is tried */
    int32_t moved_count;
} annealer;

/* Relative to the scale. What lacks memory is counted on top. */
static double energy(const annealer *n) {
    const stw_balance_model *m = n->s->model;
    double sum = 0.0, total = 0.0;
    for (int32_t d = 0; d < m->D; d++) {
        const double load = n->s->load[d] / n->scale;
        double power = load;
        for (int k = 0; k < n->squarings; k++) power *= power;
        sum += power;
        total += load;
    }
    for (int k = 0; k < n->squarings; k++) sum = sqrt(sum);
    return sum + 0.02 * total / m->D + LACKS_WEIGHT * stw_balance_lacks(n->s);
}

static int32_t random_neighbour(const annealer *n, int32_t atom) {
    const stw_balance_model *m = n->s->model;
    const int32_t made = m->made_start[atom + 1] - m->made_start[atom], read = m->read_start[atom + 1] - m->read_start[atom];
    if (made + read == 0) return -1;
    const int32_t k = (int32_t)stw_rng_below(n->rng, made + read);
    if (k >= made) return m->edge[m->read_edge[m->read_start[atom] + k - made]].producer;
    const stw_balance_edge *edge = &m->edge[m->made_start[atom] + k];
    return m->reader_atom[edge->reader + (int32_t)stw_rng_below(n->rng, edge->reader_count)];
}

static void move(annealer *n, int32_t atom, int32_t to) {
    if (n->s->device[atom] == to || n->moved_count == LARGEST_CLUSTER) return;
    n->moved[n->moved_count] = atom;
    n->origin[n->moved_count++] = n->s->device[atom];
    stw_balance_state_move(n->s, atom, to);
}

static void take_back(annealer *n) {
    while (n->moved_count > 0) {
        n->moved_count--;
        stw_balance_state_move(n->s, n->moved[n->moved_count], n->origin[n->moved_count]);
    }
}

/* Mostly where a neighbour is. */
static int32_t choose_device(annealer *n, int32_t atom) {
    if (stw_rng_below(n->rng, 8) != 0) {
        const int32_t neighbour = random_neighbour(n, atom);
        if (neighbour >= 0 && n->s->device[neighbour] != n->s->device[atom]) return n->s->device[neighbour];
    }
    return (int32_t)stw_rng_below(n->rng, n->s->model->D);
}

/* An atom and others of its device that hang together with it, by a walk over neighbours. */
static void move_cluster(annealer *n, int32_t atom, int32_t to) {
    const int32_t from = n->s->device[atom];
    const int32_t wanted = 2 + (int32_t)stw_rng_below(n->rng, (int64_t)2 << stw_rng_below(n->rng, 5));
    move(n, atom, to);
    for (int32_t tries = 0; tries < 3 * wanted && n->moved_count < wanted && n->moved_count > 0; tries++) {
        const int32_t next = random_neighbour(n, n->moved[stw_rng_below(n->rng, n->moved_count)]);
        if (next >= 0 && n->s->device[next] == from) move(n, next, to);
    }
}

static void propose(annealer *n) {
    const int32_t A = n->s->model->A;
    const int32_t atom = (int32_t)stw_rng_below(n->rng, A), from = n->s->device[atom], to = choose_device(n, atom);
    const int64_t which = stw_rng_below(n->rng, 16);
    n->moved_count = 0;
    if (which < 9) {
        move(n, atom, to);
    } else if (which < 12) { /* something comes back for it */
        const int32_t other = (int32_t)stw_rng_below(n->rng, A);
        move(n, atom, n->s->device[other]);
        if (n->moved_count > 0) move(n, other, from);
    } else {
        move_cluster(n, atom, to);
    }
}

/* Anneals the state for `moves` moves from a relative temperature, making the p-norm of the loads small (p = 2^squarings), and
 * leaves the best devices found in `best`, with its largest load in *best_us, if that is better than what they hold. */
static void anneal_loads(stw_balance_state *s, int32_t squarings, double temperature, int64_t moves, stw_rng *rng,
                         stw_balance_limit *limit, int32_t *room, int32_t *best, double *best_us) {
    const size_t bytes = (size_t)s->model->A * sizeof *best;
    annealer n = {.s = s,
                  .rng = rng,
                  .squarings = squarings,
                  .scale = stw_balance_largest(s),
                  .moved = room,
                  .origin = room + LARGEST_CLUSTER};
    if (s->model->A == 0 || s->model->D < 2 || !(n.scale > 0.0)) return;
    double now = energy(&n);
    double heat = temperature;
    const double cooling = moves > CHECK_EVERY ? pow(COLD / temperature, (double)CHECK_EVERY / (double)moves) : 1.0;
    for (int64_t k = 0; k < moves; k++) {
        if (k % CHECK_EVERY == 0) {
            if (k > 0 && limit_is_over(limit)) break;
            limit->made += CHECK_EVERY;
            if (k > 0) heat *= cooling;
        }
        propose(&n);
        if (n.moved_count == 0) continue;
        const double next = energy(&n), worse = next - now;
        if (worse > 0.0 && !(stw_rng_uniform(rng) < exp(-worse / heat))) {
            take_back(&n);
            continue;
        }
        now = next;
        const double largest = stw_balance_largest(s);
        if (largest >= *best_us * (1.0 - 1e-12) || stw_balance_lacks(s) > 0.0) continue;
        *best_us = largest;
        memcpy(best, s->device, bytes);
    }
}

/* ---- a chain in one round ---- */

/* What one chain does in one round: it anneals, again and again, from starts of several kinds. */

enum {
    MOVES_PER_SPLIT = 10000, /* a split takes about as long */
    CLUSTER_ROOM = 128
};
static const double FRESH_HEAT = 0.1; /* the first temperature of a run from a new split, relative to the largest load */

/* Devices in random order: where slow ones stand matters, and equal ones lose nothing. */
static void shuffle_devices(int32_t *sequence, int32_t D, stw_rng *rng, bool shuffled) {
    for (int32_t d = 0; d < D; d++) sequence[d] = d;
    for (int32_t d = D - 1; d > 0 && shuffled; d--) {
        const int32_t other = (int32_t)stw_rng_below(rng, d + 1), swap = sequence[d];
        sequence[d] = sequence[other];
        sequence[other] = swap;
    }
}

static stw_status make_split(const stw_balance *b, int32_t kind, bool shuffled, stw_rng *rng, int32_t *device, stw_arena scratch,
                             stw_error *error) {
    int32_t sequence[STW_MAX_DEVICES], *order;
    STW_TRY_NEW(&scratch, order, b->model->A, error);
    shuffle_devices(sequence, b->model->D, rng, shuffled);
    TRY(stw_balance_order(b->model, kind, rng, order, scratch, error));
    return stw_balance_split(b->model, order, sequence, device, scratch, error);
}

static void keep_if_better(stw_balance_chain *c, const stw_balance_state *state) {
    if (stw_balance_lacks(state) > 0.0 || stw_balance_largest(state) >= c->best_us) return;
    c->best_us = stw_balance_largest(state);
    memcpy(c->best, state->device, (size_t)state->model->A * sizeof *c->best);
}

/* How long the next annealing is: longer each time, and no longer than what is left. */
static int64_t length_of_run(const stw_balance *b, const stw_balance_limit *limit, int32_t run, double began_s) {
    int64_t moves = ((int64_t)b->model->A * b->model->D * 160 + 4096) << (run < 12 ? run / 2 : 6);
    if (limit->moves - limit->made < moves) moves = limit->moves - limit->made;
    if (limit->until_s > 0.0 && limit->made > 0) {
        const double now_s = stw_search_now_s(b->search), rate = (double)limit->made / (now_s - began_s + 1e-9);
        const double left = (limit->until_s - now_s) * rate * 1.02;
        if (left < (double)moves) moves = left > 1.0 ? (int64_t)left : 1;
    }
    return moves;
}

/* The best of several splits into `start`. They take a tenth of the chain's slice, and there is at least one. */
static stw_status start_from_splits(const stw_balance *b, stw_balance_chain *c, int32_t index, stw_rng *rng,
                                    stw_balance_state *state, stw_balance_limit *limit, int32_t *start, stw_arena scratch,
                                    stw_error *error) {
    int32_t *device;
    double best_us = HUGE_VAL;
    const double began_s = stw_search_now_s(b->search);
    STW_TRY_NEW(&scratch, device, b->model->A, error);
    for (int32_t k = 0; k == 0 || !limit_is_over(limit); k++) {
        if (k > 0 && (limit->moves < INT64_MAX ? limit->made >= limit->moves / 10
                                               : stw_search_now_s(b->search) - began_s >= b->slice_s / 10.0))
            break;
        TRY(make_split(b, (index + k) % STW_BALANCE_ORDERS, k > 0 || index > 0, rng, device, scratch, error));
        stw_balance_state_set(state, device);
        keep_if_better(c, state);
        limit->made += MOVES_PER_SPLIT;
        const double value_us = stw_balance_largest(state) * (1.0 + stw_balance_lacks(state));
        if (value_us >= best_us) continue;
        best_us = value_us;
        memcpy(start, device, (size_t)b->model->A * sizeof *start);
    }
    return STW_OK;
}

/* The devices of a plan; units that it divides go where their first node is. */
static void start_from_plan(const stw_balance *b, const stw_plan *plan, int32_t *start) {
    for (int32_t a = 0; a < b->model->A; a++) start[a] = plan->device[b->model->node[a]];
}

/* Chains begin with splits, every other one with a plan that others made. Later they start from another split, from what they
 * found best, or from the best of all. */
static stw_status choose_start(const stw_balance *b, stw_balance_chain *c, int32_t index, int32_t run, stw_rng *rng,
                               stw_balance_state *state, stw_balance_limit *limit, int32_t *start, bool *fresh, stw_arena scratch,
                               stw_error *error) {
    const stw_search *search = b->search;
    *fresh = b->round == 0 ? run < 4 || run % 2 == 0 : run % 4 == 3;
    if (b->new_level && run == 0 && index % 2 == 1 && search->start_count > 0) {
        *fresh = false;
        start_from_plan(b, search->start[index / 2 % search->start_count], start);
    } else if (b->round == 0 && run == 0) {
        TRY(start_from_splits(b, c, index, rng, state, limit, start, scratch, error));
    } else if (*fresh) {
        TRY(make_split(b, (index + run) % STW_BALANCE_ORDERS, true, rng, start, scratch, error));
        limit->made += MOVES_PER_SPLIT;
    } else {
        const bool from_leader = b->round > 0 && (index + run) % 2 == 0;
        memcpy(start, from_leader ? b->leader : c->best, (size_t)b->model->A * sizeof *start);
    }
    stw_balance_state_set(state, start);
    keep_if_better(c, state);
    return STW_OK;
}

stw_status stw_balance_work_on_chain(void *context, int64_t chain, int32_t worker, stw_error *error) {
    stw_balance *b = context;
    const int32_t index = (int32_t)chain;
    stw_balance_chain *c = &b->chain[index];
    stw_arena scratch = b->search->scratch[worker];
    const stw_rng seeded = stw_rng_create(b->search->seed), mine = stw_rng_split(&seeded, 0x62616c616e6365); /* "balance" */
    stw_rng rng = stw_rng_split(&mine, (uint64_t)b->round * STW_BALANCE_CHAINS + (uint64_t)index);
    const double began_s = stw_search_now_s(b->search);
    stw_balance_limit limit = {.search = b->search, .moves = b->moves, .until_s = b->slice_s > 0.0 ? began_s + b->slice_s : 0.0};
    stw_balance_state state;
    int32_t *start, *room;
    TRY(stw_balance_state_create(b->model, &scratch, &state, error));
    STW_TRY_NEW(&scratch, start, b->model->A, error);
    STW_TRY_NEW(&scratch, room, CLUSTER_ROOM, error);
    for (int32_t run = 0; run == 0 || !limit_is_over(&limit); run++) {
        bool fresh = false;
        TRY(choose_start(b, c, index, run, &rng, &state, &limit, start, &fresh, scratch, error));
        const double temperature = fresh ? FRESH_HEAT : 0.003 * pow(10.0, stw_rng_uniform(&rng));
        const int64_t moves = length_of_run(b, &limit, run, began_s);
        const int32_t squarings = 2 + (index + run) % 3; /* soft and sharp norms find different things */
        anneal_loads(&state, squarings, temperature, moves, &rng, &limit, room, c->best, &c->best_us);
    }
    c->made = limit.made;
    return STW_OK;
}
