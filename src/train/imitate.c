/* The warm start of the head `device`. With like devices, naming one at random is a stationary point: by symmetry the expected
 * reward is the same whichever name one unit gets, so no gradient leads away from it. Imitating a plan does. */
#include <math.h>

#include "train/trainer_state.h"

static const double GOOD_ENOUGH = 0.1; /* mean cross-entropy in nats: almost always the plan's device, still able to explore */

/* Like devices are interchangeable: names go by where in the graph a device works (mean top level, weighted by time), so that
 * names mean the same from plan to plan. */
static void find_names(const stw_trainer *t, const int32_t *device, int32_t *name) {
    const stw_simulator *s = t->problem->simulator;
    const int32_t D = s->machine->device_count;
    double position[STW_MAX_DEVICES], weight[STW_MAX_DEVICES];
    for (int32_t d = 0; d < D; d++) position[d] = weight[d] = 0.0;
    for (int32_t k = 0; k < s->graph->op_count; k++) {
        const int32_t op = s->graph->topological[k];
        position[device[op]] += s->costs->least_us[op] * k;
        weight[device[op]] += s->costs->least_us[op];
    }
    for (int32_t d = 0; d < D; d++) position[d] = weight[d] > 0.0 ? position[d] / weight[d] : INFINITY;
    for (int32_t d = 0; d < D; d++) {
        int32_t before = 0, slots = 0; /* like devices with an earlier position; the before-th like device is the name */
        for (int32_t e = 0; e < D; e++) {
            if (s->machine->device[e].cost_class != s->machine->device[d].cost_class) continue;
            before += position[e] < position[d] || (position[e] == position[d] && e < d);
        }
        for (int32_t e = 0; e < D; e++) {
            if (s->machine->device[e].cost_class != s->machine->device[d].cost_class) continue;
            if (slots++ == before) name[d] = e;
        }
    }
}

/* The device on which the plan has most of a unit's time. label: (M). */
static stw_status find_labels(const stw_trainer *t, double *label, stw_arena scratch, stw_error *error) {
    const stw_problem *p = t->problem;
    const stw_simulator *s = p->simulator;
    const int32_t D = s->machine->device_count;
    int32_t name[STW_MAX_DEVICES];
    double *time;
    STW_TRY_NEW(&scratch, time, (int64_t)p->M * D, error);
    find_names(t, t->origin->device, name);
    for (int32_t i = 0; i < s->graph->N; i++) {
        const int32_t unit = p->units.of[i];
        if (unit >= 0 && s->graph->root[i] == i)
            time[(int64_t)unit * D + name[t->origin->device[i]]] += s->costs->least_us[i] + 1e-6;
    }
    for (int32_t u = 0; u < p->M; u++) {
        int32_t best = 0;
        for (int32_t d = 1; d < D; d++)
            if (time[(int64_t)u * D + d] > time[(int64_t)u * D + best]) best = d;
        label[u] = best;
    }
    return STW_OK;
}

stw_status stw_trainer_imitate(stw_trainer *t, bool *over, stw_error *error) {
    const int32_t M = t->problem->M;
    stw_arena scratch = t->round_arena;
    stw_parameters *parameters = stw_net_parameters(t->net);
    double *label, *weight, *logp;
    STW_TRY_NEW(&scratch, label, M, error);
    STW_TRY_NEW(&scratch, weight, M, error);
    STW_TRY_NEW(&scratch, logp, M, error);
    TRY(find_labels(t, label, scratch, error));
    for (int32_t u = 0; u < M; u++) weight[u] = -1.0 / M; /* the loss is the mean of -log p */
    for (int32_t step = 0; step < t->settings.imitations; step++) {
        *over = stw_trainer_is_stopped(t);
        if (*over) break;
        stw_net_gradient of_draft[STW_MOST_DRAFTS] = {{NULL, NULL, NULL}};
        double loss = 0.0;
        TRY(stw_trainer_decide(t, error));
        for (int32_t draft = 0; draft < t->drafts; draft++) {
            double *d_placement = t->draft[draft].d_placement;
            const stw_distribution d = {.categorical = true, .rows = M, .dims = t->P, .out = t->draft[draft].means};
            stw_distribution_log_density(&d, label, logp);
            for (int32_t u = 0; u < M; u++) loss -= logp[u] / M / t->drafts;
            for (int64_t k = 0; k < (int64_t)M * t->P; k++) d_placement[k] = 0.0;
            stw_distribution_log_density_back(&d, label, weight, d_placement);
            of_draft[draft].placement = d_placement;
        }
        if (loss < GOOD_ENOUGH) break;
        stw_parameters_zero_gradient(parameters);
        TRY(stw_pass_backward(t->pass, of_draft, error));
        stw_parameters_update(parameters, t->settings.imitation_rate, t->settings.gradient_norm);
    }
    return STW_OK;
}
