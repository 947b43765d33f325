/* Does the plan stay ahead of the default when the costs are not quite right? Every op and every transfer is a tenth off, up or
 * down, as often as chance has it; both plans see the same draw. A group is off as its first op is. */
#include <math.h>

#include "plan/plan.h"
#include "runner.h"

enum { DRAWS = 32 };
static const double SPREAD = 0.1;

typedef struct {
    stw_runner *runner;
    const stw_plan *plan[2]; /* the best, the default */
    int64_t *exact_ps[2];    /* (N) of each, by task id: what its tasks take when the costs are right */
    double value[DRAWS][2];  /* of the objective; infinite where a plan has become invalid */
    bool done[DRAWS];        /* not, if somebody cancelled or the time was up */
    stw_status status[DRAWS];
    stw_error error[DRAWS];
} noise;

/* What the tasks of a plan take. A plan whose groups are illegal has none, and stays invalid. */
static stw_status list_durations(const stw_runner *r, const stw_plan *plan, stw_arena *arena, int64_t **out, stw_error *error) {
    const stw_simulator *s = r->simulator;
    const stw_tasks *tasks;
    stw_tasks room;
    stw_str reason = STW_STR("");
    STW_TRY_NEW(arena, *out, s->graph->N, error);
    stw_arena scratch = *arena;
    TRY(stw_simulator_tasks(s, plan, &scratch, &room, &tasks, &reason, error));
    for (int32_t t = 0; t < tasks->T && reason.length == 0; t++) {
        const int32_t id = tasks->task_node[t];
        (*out)[id] = tasks->duration_ps[s->machine->device[plan->device[id]].cost_class][t];
    }
    return STW_OK;
}

static stw_status evaluate(const noise *n, int which, const double *factor, int64_t *duration_ps, int32_t worker, double *out,
                           stw_error *error) {
    const stw_simulator *s = n->runner->simulator;
    const stw_plan *plan = n->plan[which];
    for (int32_t i = 0; i < s->graph->N; i++) duration_ps[i] = stw_cost_us_to_ps((double)n->exact_ps[which][i] / 1e6 * factor[i]);
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
    for (int k = 0; k < 2; k++) TRY(evaluate(n, k, factor, duration_ps, worker, &n->value[index][k], error));
    return STW_OK;
}

static void work(void *context, int64_t index, int32_t worker) {
    noise *n = context;
    n->done[index] = !stw_runner_is_cancelled(n->runner) && !stw_runner_is_late(n->runner, 0.0);
    if (n->done[index]) n->status[index] = draw(n, (int32_t)index, worker, &n->error[index]);
}

stw_status stw_runner_try_noise(stw_runner *runner, const stw_plan *best, const stw_plan *standard, stw_result *result,
                                stw_error *error) {
    noise n = {.runner = runner, .plan = {best, standard}};
    stw_arena arena = runner->arena;
    for (int k = 0; k < 2; k++) TRY(list_durations(runner, n.plan[k], &arena, &n.exact_ps[k], error));
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
