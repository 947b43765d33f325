/* `sct` (m-SCT): a linear program names for each op a favourite child, the one reader that should follow on the same device; then
 * ETF, in which a device that has run an op keeps itself free for its favourite child unless another op is urgent.
 *
 * The program is over units, since it grows with the square of what it is about: minimise w with s_i + p_i + c_ij x_ij <= s_j,
 * s_i + p_i <= w, and at most one x near 0 among the children of a unit, and among its parents. x_ij < 1/2: j is i's favourite.
 */
#include <stdio.h>
#include <string.h>

#include "machine/link_mean.h"
#include "method/constructive/clp.h"
#include "method/method.h"
#include "search/list.h"

enum { LARGEST_PROGRAM = 600, MAX_ITERATIONS = 40000 }; /* units; of the simplex method: no clock decides */

#ifndef STW_HAVE_CLP

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    (void)search, (void)plan;
    return stw_fail(error, STW_ERROR_NO_PLAN, "built without Clp (Debian: coinor-libclp-dev); build again with it to use sct");
}

#else

static const double UNBOUNDED = 1e30; /* Clp's infinity */

typedef struct {
    int32_t from, to; /* units */
    double us;        /* of sending what passes between them */
} edge;

typedef struct {
    stw_search *search;
    stw_list list;
    stw_unit_levels levels;
    const stw_units *units;
    double *unit_us; /* (M) */
    edge *edge;      /* by `from`, then in the order of the values */
    int32_t edge_count;
    int32_t *favourite;      /* (M) unit, or -1 */
    int32_t *task_favourite; /* (T) */
    bool finished;           /* the program was solved to its end */
} sct;

/* ---- the graph of units ---- */

/* Adds what one task sends to other units. last: (M) the newest edge to a unit; bytes: what each edge carries. Edges that lead
 * back (colocation can make them) are left out: the program would have no solution. */
static void add_edges(sct *s, int32_t task, int32_t first, int32_t *last, double *bytes) {
    const stw_tasks *tasks = s->list.base.tasks;
    const int32_t from = s->units->of[tasks->task_node[task]];
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++) {
        const int32_t v = tasks->output[o];
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            const int32_t to = s->units->of[tasks->task_node[tasks->use[u].task]];
            if (to <= from) continue;
            if (last[to] < first) {
                last[to] = s->edge_count;
                s->edge[s->edge_count] = (edge){from, to, 0.0};
                bytes[s->edge_count++] = 0.0;
            }
            bytes[last[to]] += s->list.base.sent_bytes[v];
        }
    }
}

static stw_status build_edges(sct *s, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = s->list.base.tasks;
    const stw_units *units = s->units;
    double *bytes;
    int32_t *last;
    const stw_link_mean link = stw_machine_mean_link(s->search->simulator->machine);
    STW_TRY_NEW(arena, s->unit_us, units->count, error);
    STW_TRY_NEW(arena, s->edge, tasks->U, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, bytes, tasks->U, error);
    STW_TRY_NEW(&scratch, last, units->count, error);
    memset(last, -1, (size_t)units->count * sizeof *last);
    for (int32_t m = 0; m < units->count; m++) {
        const int32_t first = s->edge_count;
        for (int32_t k = units->start[m]; k < units->start[m + 1]; k++) {
            const int32_t task = tasks->task_of[units->member[k]];
            if (task < 0) continue; /* a parameter */
            s->unit_us[m] += s->search->simulator->costs->least_us[units->member[k]];
            add_edges(s, task, first, last, bytes);
        }
    }
    for (int32_t e = 0; e < s->edge_count; e++) s->edge[e].us = stw_link_mean_us(&link, bytes[e]);
    return STW_OK;
}

/* ---- the program ---- */

typedef struct {  /* by columns: x of each edge, s of each unit, w */
    int32_t E, M; /* rows: E edges, M lists of children, M of parents, M ends */
    int *start, *row, count;
    double *value;
    double *column_low, *column_high, *cost, *row_low, *row_high;
} program;

static void put(program *p, int32_t row, double value) {
    p->row[p->count] = row;
    p->value[p->count++] = value;
}

static stw_status allocate(program *p, stw_arena *arena, stw_error *error) {
    const int64_t columns = (int64_t)p->E + p->M + 1, rows = (int64_t)p->E + 3 * (int64_t)p->M;
    const int64_t entries = 5 * (int64_t)p->E + 2 * (int64_t)p->M;
    STW_TRY_NEW(arena, p->start, columns + 1, error);
    STW_TRY_NEW(arena, p->row, entries, error);
    STW_TRY_NEW(arena, p->value, entries, error);
    STW_TRY_NEW(arena, p->column_low, columns, error);
    STW_TRY_NEW(arena, p->column_high, columns, error);
    STW_TRY_NEW(arena, p->cost, columns, error);
    STW_TRY_NEW(arena, p->row_low, rows, error);
    STW_TRY_NEW(arena, p->row_high, rows, error);
    return STW_OK;
}

/* The columns of s need the edges of each unit in both directions; edges lie by `from`, so those into a unit are listed first. */
static stw_status write_columns(const sct *s, program *p, stw_arena scratch, stw_error *error) {
    int32_t *next, *head, e = 0;
    STW_TRY_NEW(&scratch, next, p->E, error);
    STW_TRY_NEW(&scratch, head, p->M, error);
    memset(head, -1, (size_t)p->M * sizeof *head);
    for (int32_t k = 0; k < p->E; k++) {
        p->start[k] = p->count;
        put(p, k, s->edge[k].us);
        put(p, p->E + s->edge[k].from, 1.0);
        put(p, p->E + p->M + s->edge[k].to, 1.0);
        p->column_high[k] = 1.0;
        next[k] = head[s->edge[k].to];
        head[s->edge[k].to] = k;
    }
    for (int32_t m = 0; m < p->M; m++) {
        p->start[p->E + m] = p->count;
        for (; e < p->E && s->edge[e].from == m; e++) put(p, e, 1.0);
        for (int32_t k = head[m]; k >= 0; k = next[k]) put(p, k, -1.0);
        put(p, p->E + 2 * p->M + m, 1.0);
        p->column_high[p->E + m] = UNBOUNDED;
    }
    p->start[p->E + p->M] = p->count;
    for (int32_t m = 0; m < p->M; m++) put(p, p->E + 2 * p->M + m, -1.0);
    p->column_high[p->E + p->M] = UNBOUNDED;
    p->cost[p->E + p->M] = 1.0;
    p->start[p->E + p->M + 1] = p->count;
    return STW_OK;
}

static void write_rows(const sct *s, program *p) {
    for (int32_t k = 0; k < 2 * p->M; k++) { /* number of children and parents, minus 1 */
        p->row_low[p->E + k] = -1.0;
        p->row_high[p->E + k] = UNBOUNDED;
    }
    for (int32_t k = 0; k < p->E; k++) {
        p->row_low[k] = -UNBOUNDED;
        p->row_high[k] = -s->unit_us[s->edge[k].from];
        p->row_low[p->E + s->edge[k].from] += 1.0;
        p->row_low[p->E + p->M + s->edge[k].to] += 1.0;
    }
    for (int32_t m = 0; m < p->M; m++) {
        p->row_low[p->E + 2 * p->M + m] = -UNBOUNDED;
        p->row_high[p->E + 2 * p->M + m] = -s->unit_us[m];
    }
}

/* scratch: for the solution */
static stw_status solve(sct *s, const program *p, stw_arena scratch, stw_error *error) {
    stw_linear_program linear = {.columns = p->E + p->M + 1,
                                 .rows = p->E + 3 * p->M,
                                 .start = p->start,
                                 .row = p->row,
                                 .value = p->value,
                                 .column_low = p->column_low,
                                 .column_high = p->column_high,
                                 .cost = p->cost,
                                 .row_low = p->row_low,
                                 .row_high = p->row_high,
                                 .most_iterations = MAX_ITERATIONS,
                                 .most_s = -1.0};
    double *x;
    STW_TRY_NEW(&scratch, x, linear.columns, error);
    if (s->search->budget.until_s > 0.0) /* half of what is left: ETF comes after it */
        linear.most_s = 0.5 * stw_budget_seconds_left(&s->search->budget, stw_search_now_s(s->search));
    switch (stw_clp_solve(&linear, x, &s->finished)) {
        case STW_CLP_DONE: break;
        case STW_CLP_MEMORY: return stw_fail(error, STW_ERROR_MEMORY, "Clp ran out of memory (%d columns)", linear.columns);
        case STW_CLP_FAILED: return stw_fail(error, STW_ERROR_NO_PLAN, "Clp failed on the linear program");
    }
    memset(s->favourite, -1, (size_t)p->M * sizeof *s->favourite);
    for (int32_t k = 0; k < p->E; k++) {
        if (x[k] < 0.5 && s->favourite[s->edge[k].from] < 0) s->favourite[s->edge[k].from] = s->edge[k].to;
    }
    return STW_OK;
}

static stw_status find_favourites(sct *s, stw_arena *arena, stw_error *error) {
    program p = {.E = s->edge_count, .M = s->units->count};
    STW_TRY_NEW(arena, s->favourite, p.M, error);
    stw_arena scratch = *arena;
    TRY(allocate(&p, &scratch, error));
    TRY(write_columns(s, &p, scratch, error));
    write_rows(s, &p);
    return solve(s, &p, scratch, error);
}

/* A task's favourite: of its readers in its own unit that of highest rank, else of those in the favourite of its unit. */
static stw_status choose_readers(sct *s, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = s->list.base.tasks;
    STW_TRY_NEW(arena, s->task_favourite, tasks->T, error);
    for (int32_t t = 0; t < tasks->T; t++) {
        const int32_t own = s->units->of[tasks->task_node[t]];
        int32_t best = -1, best_class = 2;
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            const int32_t v = tasks->output[o];
            for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
                const int32_t reader = tasks->use[u].task, unit = s->units->of[tasks->task_node[reader]];
                const int32_t nearness = unit == own ? 0 : unit == s->favourite[own] ? 1 : 2;
                if (nearness > best_class || nearness == 2) continue;
                if (nearness == best_class && best >= 0 && s->list.rank[reader] <= s->list.rank[best]) continue;
                best = reader;
                best_class = nearness;
            }
        }
        s->task_favourite[t] = best;
    }
    return STW_OK;
}

/* ---- the method ---- */

static const struct {
    stw_home home;
    bool queues;
} variant[] = {{STW_HOME_FIRST, true}, {STW_HOME_UPDATE, true}, {STW_HOME_FIRST, false}, {STW_HOME_UPDATE, false}};
enum { VARIANTS = sizeof variant / sizeof variant[0] };

static stw_status build(void *context, int32_t index, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const sct *s = context;
    const stw_etf_input input = {.list = &s->list,
                                 .favourite = s->task_favourite,
                                 .home = variant[index].home,
                                 .queues = variant[index].queues,
                                 .allowed = s->list.linked,
                                 .stop = stw_search_stop(s->search, index)};
    return stw_etf(&input, plan->device, scratch, error);
}

static stw_status prepare(sct *s, stw_arena *arena, stw_error *error) {
    const stw_simulator *simulator = s->search->simulator;
    const int32_t wanted = LARGEST_PROGRAM;
    double *us;
    TRY(stw_list_prepare(s->search, arena, &s->list, error));
    STW_TRY_NEW(arena, us, simulator->graph->N, error);
    for (int32_t t = 0; t < simulator->unfused.T; t++)
        us[simulator->unfused.task_node[t]] = s->list.base.us[(int64_t)t * s->list.base.C];
    TRY(stw_units_build(simulator->graph, us, &wanted, 1, arena, &s->levels, error));
    s->units = &s->levels.level[s->levels.count - 1];
    TRY(build_edges(s, arena, error));
    TRY(find_favourites(s, arena, error));
    return choose_readers(s, arena, error);
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_arena arena = search->arena;
    sct *s;
    STW_TRY_NEW(&arena, s, 1, error);
    s->search = search;
    TRY(prepare(s, &arena, error));
    const stw_variants variants = {.count = VARIANTS, .build = build, .context = s, .own_rule = STW_RULE_UPWARD_RANK};
    TRY(stw_search_variants(search, &variants, plan, NULL, error));
    snprintf(search->outcome.note, sizeof search->outcome.note, "a linear program chose what stays together, over %d units%s",
             s->units->count, s->finished ? "" : "; the budget ended before it was solved");
    return STW_OK;
}

#endif

const stw_method stw_method_sct = {.name = "sct",
                                   .description = "etf in which devices wait for favourite children, found by a linear program",
                                   .kind = STW_METHOD_CONSTRUCTIVE,
                                   .traits = STW_METHOD_PLACES,
                                   .pair_s = 2.5e-7,
                                   .op_s = 4e-5,
                                   .run = run};
