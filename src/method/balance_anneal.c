/* Annealing of a placement. What is made small is a p-norm of the loads, which is smooth where their maximum is not: a move that
 * unloads the second most loaded device is worth something too. */
#include <math.h>
#include <string.h>

#include "method/balance.h"

enum { CHECK_EVERY = 512, LARGEST_CLUSTER = 64 };
static const double COLD = 1e-5;          /* the last temperature, relative to the largest load */
static const double LACKS_WEIGHT = 100.0; /* moving a hundredth of all residents away is worth the whole load */

bool stw_balance_limit_is_over(const stw_balance_limit *limit) {
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

void stw_balance_anneal(stw_balance_state *s, int32_t squarings, double temperature, int64_t moves, stw_rng *rng,
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
            if (k > 0 && stw_balance_limit_is_over(limit)) break;
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
