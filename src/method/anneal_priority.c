#include <math.h>
#include <string.h>

#include "method/anneal.h"
#include "plan/plan.h"

void stw_anneal_keep_priorities(stw_chain *c) {
    memcpy(c->old_priority, c->plan->priority, (size_t)c->plan->graph->N * sizeof(double));
    c->priorities_changed = true;
}

void stw_anneal_nudge(const stw_annealing *a, stw_chain *c) {
    const int32_t op = stw_anneal_choose_op(a, c);
    const stw_units *units = stw_anneal_choose_level(a, c, &a->units);
    const int32_t unit = units->of[op];
    const double scale = ldexp(1.0, -2 - (int)stw_rng_below(&c->rng, 7));
    const double by = stw_rng_normal(&c->rng) * a->largest_rank * scale;
    stw_anneal_keep_priorities(c);
    for (int32_t m = units->start[unit]; m < units->start[unit + 1]; m++) c->plan->priority[units->member[m]] += by;
}
