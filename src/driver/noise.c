/* Does the plan stay ahead of the default when the costs are not quite right? Both plans are simulated under the same draws, in
 * which times are off by what is known of them (cost/cost.h): measured ones little, modelled ones by the error of the model.
 *
 * Errors of many ops would average out if they were independent; those of a model are not. So a draw has a factor for every class
 * of operators on every kind of device, one for all fused kernels of a kind and one for every link, and beside these one for each
 * op, group and transfer by itself; both halves have the same variance. And each plan has a factor of its own, for what no
 * simulation knows: two plans whose times differ by less than that cannot be distinguished. */
#include <math.h>

#include "driver/runner.h"
#include "plan/membership.h"

enum { DRAWS = 32 };
/* Of the factor of a plan. Plans more than 5 % apart kept their order in 43 of 44 cases when they were run (docs/cost-model.md):
 * 5 % are two deviations of the difference of two plans. */
static const double PLAN_DEVIATION = 0.0177;

typedef struct {
    const stw_plan *plan;
    bool legal; /* its groups are; else it has no tasks, and stays invalid */
    stw_membership groups;
    int64_t *exact_ps; /* (N) by task id: what its tasks take when the costs are right */
} subject;

typedef struct {
    stw_runner *runner;
    subject subject[2];     /* the best, the default */
    double value[DRAWS][2]; /* of the objective; infinite where a plan has become invalid */
    bool done[DRAWS];       /* not, if somebody cancelled or the time was up */
} noise;

/* One draw. C cost classes, N nodes. The first four are standard normal: how many deviations something is off; the last three are
 * factors. */
typedef struct {
    double (*of_class)[STW_CLASS_COUNT]; /* (C) */
    double *of_groups;                   /* (C) all groups together */
    double **of_op;                      /* (C)(N) */
    double *of_group;                    /* (N) by task id */
    double *of_transfer;                 /* (N) by producer */
    double *of_channel;                  /* (channels) */
    double of_plan[2];
} factors;

/* ---- what is off by how much ---- */

/* The deviation of a logarithm whose exponential is off by `error` in the mean: 0.8 deviations is the mean distance of a normal
 * variable. */
static double deviation(double error) { return log1p(error) / 0.8; }

/* Half of the variance is common to many, half is an op's own. */
static double half(double error) { return deviation(error) * 0.70710678118654752440; }

/* Ops of a class may be known well or badly: the draw says how many deviations off the class is, each op what a deviation is. */
static void draw_factors(const stw_runner *r, stw_rng *rng, factors *f) {
    const stw_machine *machine = r->simulator->machine;
    const int32_t N = r->simulator->graph->N;
    for (int32_t c = 0; c < machine->cost_class_count; c++) {
        for (int k = 0; k < STW_CLASS_COUNT; k++) f->of_class[c][k] = stw_rng_normal(rng);
        f->of_groups[c] = stw_rng_normal(rng);
        for (int32_t i = 0; i < N; i++) f->of_op[c][i] = stw_rng_normal(rng);
    }
    for (int32_t i = 0; i < N; i++) f->of_group[i] = stw_rng_normal(rng);
    for (int32_t i = 0; i < N; i++) f->of_transfer[i] = exp(half(stw_cost_error_of_links) * stw_rng_normal(rng));
    for (int32_t k = 0; k < machine->channel_count; k++)
        f->of_channel[k] = exp(half(stw_cost_error_of_links) * stw_rng_normal(rng));
    for (int k = 0; k < 2; k++) f->of_plan[k] = exp(PLAN_DEVIATION * stw_rng_normal(rng));
}

static double factor_of_op(const stw_costs *costs, const factors *f, int32_t c, int32_t op) {
    return exp(half(stw_cost_error(costs, c, op)) * (f->of_class[c][costs->graph->op_class[op]] + f->of_op[c][op]));
}

/* A group's time follows from those of its members (docs/cost-model.md), so it is off as they are, and as groups are. */
static double factor_of_task(const stw_costs *costs, const factors *f, const subject *s, int32_t t) {
    const int32_t id = s->groups.task_node[t], first = s->groups.member_start[t], end = s->groups.member_start[t + 1];
    const int32_t c = costs->machine->device[s->plan->device[id]].cost_class;
    if (end - first == 1) return factor_of_op(costs, f, c, s->groups.member[first]);
    double sum = 0.0, drawn = 0.0;
    for (int32_t k = first; k < end; k++) {
        const double us = costs->us[c][s->groups.member[k]];
        sum += us;
        drawn += us * factor_of_op(costs, f, c, s->groups.member[k]);
    }
    const double of_members = sum > 0.0 ? drawn / sum : 1.0;
    return of_members * exp(half(stw_cost_error_of_groups) * (f->of_groups[c] + f->of_group[id]));
}

/* ---- the trials ---- */

/* What the tasks of a plan are and take. */
static stw_status open_subject(const stw_runner *r, const stw_plan *plan, stw_arena *arena, subject *out, stw_error *error) {
    const stw_simulator *s = r->simulator;
    const stw_tasks *tasks;
    stw_tasks room;
    stw_str reason = STW_STR("");
    *out = (subject){.plan = plan};
    STW_TRY_NEW(arena, out->exact_ps, s->graph->N, error);
    TRY(stw_membership_build(s->graph, s->machine, plan->group, plan->device, arena, &out->groups, &reason, error));
    stw_arena scratch = *arena;
    if (reason.length == 0) TRY(stw_simulator_tasks(s, plan, &scratch, &room, &tasks, &reason, error));
    out->legal = reason.length == 0;
    for (int32_t t = 0; out->legal && t < tasks->T; t++) {
        const int32_t id = tasks->task_node[t];
        out->exact_ps[id] = tasks->duration_ps[s->machine->device[plan->device[id]].cost_class][t];
    }
    return STW_OK;
}

static stw_status evaluate(const noise *n, int which, const factors *f, int64_t *duration_ps, int32_t worker, double *out,
                           stw_error *error) {
    const stw_simulator *s = n->runner->simulator;
    const subject *tried = &n->subject[which];
    const stw_objective objective = n->runner->settings.objective;
    stw_evaluation evaluation;
    *out = INFINITY;
    if (!tried->legal) return STW_OK;
    for (int32_t t = 0; t < tried->groups.T; t++) {
        const int32_t id = tried->groups.task_node[t];
        duration_ps[id] = stw_cost_us_to_ps((double)tried->exact_ps[id] / 1e6 * factor_of_task(s->costs, f, tried, t));
    }
    const stw_run_options options = {
        .duration_ps = duration_ps, .transfer_factor = f->of_transfer, .channel_factor = f->of_channel};
    TRY(stw_simulator_run(s, tried->plan, &options, n->runner->workspace[worker], &evaluation, error));
    if (evaluation.reason != STW_VALID) return STW_OK;
    const double value = stw_score_of(objective, n->runner->workspace[worker], &evaluation).value;
    *out = objective == STW_OBJECTIVE_MEMORY ? value : value * f->of_plan[which]; /* of sizes nothing is uncertain */
    return STW_OK;
}

static stw_status make_factors(const stw_runner *r, stw_arena *arena, factors *f, stw_error *error) {
    const int32_t N = r->simulator->graph->N, classes = r->simulator->machine->cost_class_count;
    STW_TRY_NEW(arena, f->of_class, classes, error);
    STW_TRY_NEW(arena, f->of_groups, classes, error);
    STW_TRY_NEW(arena, f->of_op, classes, error);
    for (int32_t c = 0; c < classes; c++) STW_TRY_NEW(arena, f->of_op[c], N, error);
    STW_TRY_NEW(arena, f->of_group, N, error);
    STW_TRY_NEW(arena, f->of_transfer, N, error);
    STW_TRY_NEW(arena, f->of_channel, r->simulator->machine->channel_count, error);
    return STW_OK;
}

static stw_status draw(noise *n, int32_t index, int32_t worker, stw_error *error) {
    stw_arena scratch = n->runner->scratch[worker];
    const stw_rng seeded = stw_rng_create(n->runner->settings.seed);
    const stw_rng mine = stw_rng_split(&seeded, 0x6e6f697365); /* "noise" */
    stw_rng rng = stw_rng_split(&mine, (uint64_t)index);
    factors f;
    int64_t *duration_ps;
    TRY(make_factors(n->runner, &scratch, &f, error));
    STW_TRY_NEW(&scratch, duration_ps, n->runner->simulator->graph->N, error);
    draw_factors(n->runner, &rng, &f);
    for (int k = 0; k < 2; k++) TRY(evaluate(n, k, &f, duration_ps, worker, &n->value[index][k], error));
    return STW_OK;
}

static stw_status work(void *context, int64_t index, int32_t worker, stw_error *error) {
    noise *n = context;
    n->done[index] = !stw_runner_is_cancelled(n->runner) && !stw_runner_is_late(n->runner, 0.0);
    return n->done[index] ? draw(n, (int32_t)index, worker, error) : STW_OK;
}

/* ---- the report ---- */

typedef struct { /* weighted by time */
    double error, us;
} mean;

static void add_to(mean *m, double error, double us) {
    m->error += error * us;
    m->us += us;
}

static double value_of(const mean *m) { return m->us > 0.0 ? m->error / m->us : NAN; }

/* To a hundredth of a per cent: sums of equal errors are equal, whatever their rounding. */
static double told(const mean *m) { return round(1e4 * value_of(m)) / 1e4; }

/* How far the times of a plan were off, in the mean, by what is known of them. */
static void tell_errors(const stw_costs *costs, const subject *s, stw_noise *out) {
    mean measured = {0}, carried = {0}, modelled = {0}, fused = {0};
    for (int32_t t = 0; s->legal && t < s->groups.T; t++) {
        const int32_t first = s->groups.member_start[t], end = s->groups.member_start[t + 1];
        const int32_t c = costs->machine->device[s->plan->device[s->groups.task_node[t]]].cost_class;
        mean members = {0};
        for (int32_t k = first; k < end; k++)
            add_to(&members, stw_cost_error(costs, c, s->groups.member[k]), costs->us[c][s->groups.member[k]]);
        if (members.us <= 0.0) continue;
        const int32_t op = s->groups.member[first];
        const double us = (double)s->exact_ps[s->groups.task_node[t]] / 1e6;
        mean *kind = end - first > 1 ? &fused : costs->measured[c][op] ? &measured : costs->carried[c][op] ? &carried : &modelled;
        add_to(kind, end - first > 1 ? hypot(value_of(&members), stw_cost_error_of_groups) : value_of(&members), us);
    }
    out->measured_error = told(&measured);
    out->carried_error = told(&carried);
    out->modelled_error = told(&modelled);
    out->fused_error = told(&fused);
}

stw_status stw_runner_try_noise(stw_runner *runner, const stw_plan *best, const stw_plan *standard, stw_result *result,
                                stw_error *error) {
    noise n = {.runner = runner};
    stw_arena arena = runner->arena;
    const stw_plan *const plan[2] = {best, standard};
    for (int k = 0; k < 2; k++) TRY(open_subject(runner, plan[k], &arena, &n.subject[k], error));
    tell_errors(runner->simulator->costs, &n.subject[0], &result->noise);
    TRY(stw_pool_try(runner->pool, DRAWS, work, &n, error));
    for (int32_t k = 0; k < DRAWS; k++) {
        if (!n.done[k]) continue;
        const bool level = best == standard; /* with itself, however the plan's own factors fell */
        result->noise.draws++;
        result->noise.ahead += isfinite(n.value[k][0]) && (level || n.value[k][0] < n.value[k][1]);
    }
    return STW_OK;
}
