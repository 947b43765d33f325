/* Does the plan stay ahead of the default when the costs are not quite right? Every op and every transfer is a tenth off, up or
 * down, as often as chance has it; both plans see the same draw. */
#include <math.h>

#include "plan/plan.h"
#include "runner.h"

enum { DRAWS = 32 };
static const double SPREAD = 0.1;

typedef struct {
    stw_runner *runner;
    const stw_plan *plan[2]; /* the best, the default */
    double value[DRAWS][2];  /* of the objective; infinite where a plan has become invalid */
    bool done[DRAWS];        /* not, if somebody cancelled */
    stw_status status[DRAWS];
    stw_error error[DRAWS];
} noise;

static stw_status evaluate(const noise *n, const stw_plan *plan, const double *factor, int64_t *duration_ps, int32_t worker,
                           double *out, stw_error *error) {
    const stw_simulator *s = n->runner->simulator;
    for (int32_t k = 0; k < s->graph->op_count; k++) {
        const int32_t op = s->graph->topological[k];
        duration_ps[op] = stw_cost_us_to_ps(s->costs->us[s->machine->device[plan->device[op]].cost_class][op] * factor[op]);
    }
    const stw_run_options options = {.duration_ps = duration_ps, .transfer_factor = factor + s->graph->N};
    stw_evaluation evaluation;
    TRY(stw_simulate_with(s, plan, &options, n->runner->workspace[worker], &evaluation, error));
    *out = evaluation.reason == STW_VALID
               ? stw_score_of(n->runner->settings.objective, n->runner->workspace[worker], &evaluation).value
               : INFINITY;
    return STW_OK;
}

static stw_status draw(noise *n, int32_t index, int32_t worker, stw_error *error) {
    stw_arena scratch = n->runner->scratch[worker];
    const int64_t N = n->runner->simulator->graph->N;
    const stw_rng seeded = stw_rng_create(n->runner->settings.seed);
    const stw_rng mine = stw_rng_split(&seeded, 0x6e6f697365); /* "noise" */
    stw_rng rng = stw_rng_split(&mine, (uint64_t)index);
    double *factor;
    int64_t *duration_ps;
    STW_TRY_NEW(&scratch, factor, 2 * N, error);
    STW_TRY_NEW(&scratch, duration_ps, N, error);
    for (int64_t i = 0; i < 2 * N; i++) factor[i] = exp(SPREAD * stw_rng_normal(&rng));
    for (int k = 0; k < 2; k++) TRY(evaluate(n, n->plan[k], factor, duration_ps, worker, &n->value[index][k], error));
    return STW_OK;
}

static void work(void *context, int64_t index, int32_t worker) {
    noise *n = context;
    n->done[index] = !stw_runner_is_cancelled(n->runner);
    if (n->done[index]) n->status[index] = draw(n, (int32_t)index, worker, &n->error[index]);
}

stw_status stw_runner_try_noise(stw_runner *runner, const stw_plan *best, const stw_plan *standard, stw_result *result,
                                stw_error *error) {
    noise n = {.runner = runner, .plan = {best, standard}};
    stw_pool_run(runner->pool, DRAWS, work, &n);
    for (int32_t k = 0; k < DRAWS; k++) {
        if (n.status[k] != STW_OK) {
            if (error != NULL) *error = n.error[k];
            return n.status[k];
        }
        if (n.done[k]) {
            result->draws++;
            result->ahead += isfinite(n.value[k][0]) && n.value[k][0] <= n.value[k][1];
        }
    }
    return STW_OK;
}
