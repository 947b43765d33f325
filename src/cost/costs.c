/* The time of every op on every kind of device in the machine. In this order: measured for the kind; measured for another
 * kind, times the ratio of the two kinds' modelled times; modelled. */
#include <math.h>
#include <string.h>

#include "base/index.h"
#include "cost/kernel_model.h"
#include "cost/remark.h"

enum { MAX_COLUMNS = 64 + 128 };

/* Measured times by kind: the graph's columns, overridden and extended by the rows of a file. */
typedef struct {
    int64_t count;
    stw_str *kind;      /* (count) */
    double **us;        /* (count)(N) NaN where not measured */
    stw_device *device; /* (count) what that kind of device is like */
    bool *known;        /* (count) `device` is filled in */
    double **model_us;  /* (count)(N) what the model says of that kind, where it is known */
} measurements;

static int64_t find_kind(const measurements *m, stw_str kind) {
    int64_t k = 0;
    while (k < m->count && !stw_str_equal(m->kind[k], kind)) k++;
    return k;
}

static stw_status add_column(measurements *m, stw_arena *arena, int32_t N, stw_str kind, const double *from, stw_error *error) {
    double *column;
    STW_TRY_NEW(arena, column, N, error);
    for (int32_t i = 0; i < N; i++) column[i] = from == NULL ? NAN : from[i];
    m->kind[m->count] = kind;
    m->us[m->count++] = column;
    return STW_OK;
}

/* Nodes by name; nodes of equal name are chained. */
typedef struct {
    const stw_graph *graph;
    stw_names first;
    int32_t *next; /* (N) -1: none */
} name_table;

static stw_status build_name_table(const stw_graph *graph, stw_arena *arena, name_table *t, stw_error *error) {
    *t = (name_table){.graph = graph};
    TRY(stw_names_create(arena, graph->N, &t->first, error));
    STW_TRY_NEW(arena, t->next, graph->N, error);
    for (int32_t i = graph->N - 1; i >= 0; i--) {
        int32_t *first;
        TRY(stw_names_enter(&t->first, 0, graph->node_name[i], &first, error));
        t->next[i] = *first;
        *first = i;
    }
    return STW_OK;
}

/* A kind that neither the machine nor the built-in kinds have: its times can serve for nothing. */
static bool is_known_kind(const stw_machine *machine, stw_str kind) {
    stw_device device;
    for (int32_t d = 0; d < machine->device_count; d++) {
        if (stw_str_equal(machine->device[d].kind, kind)) return true;
    }
    return stw_device_of_kind(kind, &device);
}

/* The first op of this name, or -1: the rest takes no time. */
static int32_t find_op(const name_table *t, stw_str name) {
    int32_t node = stw_names_find(&t->first, 0, name);
    while (node >= 0 && t->graph->kind[node] != STW_NODE_OP) node = t->next[node];
    return node;
}

/* Ops of one name share their times: what was set for the first holds for all behind it in the chain. */
static void spread_over_names(const name_table *t, double *us, const double *set) {
    for (int32_t i = 0; i < t->graph->N; i++) {
        if (isnan(set[i])) continue;
        for (int32_t node = i; node >= 0; node = t->next[node]) {
            if (t->graph->kind[node] == STW_NODE_OP) us[node] = set[i];
        }
    }
}

static stw_status apply_rows(measurements *m, const stw_graph *graph, const stw_machine *machine, const stw_cost_rows *rows,
                             stw_arena *arena, stw_row_count *n, stw_error *error) {
    enum { MAX_KINDS = 128 };
    const stw_cost_row *row = rows->row;
    name_table names;
    *n = (stw_row_count){.rows = rows->unmatched, .unmatched = rows->unmatched};
    double *set[MAX_KINDS] = {NULL}; /* times by the first op of a name, NaN where there is no row */
    TRY(build_name_table(graph, arena, &names, error));
    for (int64_t r = 0; r < rows->count; r++) {
        const int64_t k = find_kind(m, row[r].kind);
        if (k == MAX_KINDS) {
            return stw_fail(error, STW_ERROR_INPUT, "line %lld: more than %d kinds of device", (long long)row[r].line, MAX_KINDS);
        }
        if (k == m->count) TRY(add_column(m, arena, graph->N, row[r].kind, NULL, error));
        if (set[k] == NULL) {
            STW_TRY_NEW(arena, set[k], graph->N, error);
            for (int32_t i = 0; i < graph->N; i++) set[k][i] = NAN;
        }
        const int32_t op = find_op(&names, row[r].name);
        if (op >= 0) set[k][op] = row[r].us;
        n->rows += !row[r].again;
        n->unmatched += op < 0 && !row[r].again;
        if (is_known_kind(machine, row[r].kind)) continue;
        n->unknown++;
        n->unknown_kind = row[r].kind;
    }
    if (n->rows > 0 && n->unmatched == n->rows) {
        return stw_fail(error, STW_ERROR_INPUT, "none of its %lld %s names an op of graph '%.*s'; is it for another graph?",
                        (long long)n->rows, stw_cost_unit(rows), STW_STR_SHOW(graph->name));
    }
    for (int64_t k = 0; k < m->count && k < MAX_KINDS; k++) {
        if (set[k] != NULL) spread_over_names(&names, m->us[k], set[k]);
    }
    return STW_OK;
}

/* What each measured kind is like: as in the machine, else as built in. */
static void describe_kinds(measurements *m, const stw_machine *machine) {
    for (int64_t k = 0; k < m->count; k++) {
        m->known[k] = stw_device_of_kind(m->kind[k], &m->device[k]);
        for (int32_t d = machine->device_count - 1; d >= 0; d--) {
            if (!stw_str_equal(machine->device[d].kind, m->kind[k])) continue;
            m->device[k] = machine->device[d];
            m->known[k] = true;
        }
    }
}

static stw_status gather_measurements(const stw_graph *graph, const stw_machine *machine, const stw_cost_rows *rows,
                                      stw_arena *arena, measurements *m, stw_row_count *n, stw_error *error) {
    *m = (measurements){0};
    STW_TRY_NEW(arena, m->kind, MAX_COLUMNS, error);
    STW_TRY_NEW(arena, m->us, MAX_COLUMNS, error);
    STW_TRY_NEW(arena, m->device, MAX_COLUMNS, error);
    STW_TRY_NEW(arena, m->known, MAX_COLUMNS, error);
    for (int32_t k = 0; k < graph->kind_count; k++) {
        TRY(add_column(m, arena, graph->N, graph->kind_name[k], graph->us[k], error));
    }
    if (rows != NULL) TRY(apply_rows(m, graph, machine, rows, arena, n, error));
    describe_kinds(m, machine);
    return STW_OK;
}

/* The learned model where it counts for the device, or NULL. */
static const stw_kernel_model *model_for(const stw_costs *costs, const stw_device *device) {
    return costs->kernel_model != NULL && stw_kernel_model_knows(device) ? costs->kernel_model : NULL;
}

/* What the model says of every op on a device, and its arithmetic. An op that is a fused kernel costs what a group of its parts
 * does; a loop, a branch or a call its kernels. */
static stw_status model_ops(const stw_costs *costs, const stw_device *device, stw_arena scratch, double *out_us,
                            double *out_compute_us, stw_error *error) {
    const stw_graph *graph = costs->graph;
    const stw_kernel_model *learned = model_for(costs, device);
    double *body_us, *body_compute_us;
    stw_kernel_room room;
    STW_TRY_NEW(&scratch, body_us, graph->body_count, error);
    STW_TRY_NEW(&scratch, body_compute_us, graph->body_count, error);
    TRY(stw_kernel_room_create(graph, &scratch, &room, error));
    stw_cost_bodies(device, graph, body_us, body_compute_us);
    for (int32_t i = 0; i < graph->N; i++) {
        const stw_op_class op_class = (stw_op_class)graph->op_class[i];
        if (graph->kind[i] != STW_NODE_OP) continue;
        if (graph->body_of != NULL && graph->body_of[i] >= 0) {
            out_us[i] = body_us[graph->body_of[i]];
            out_compute_us[i] = body_compute_us[graph->body_of[i]];
            continue;
        }
        stw_kernel_work work;
        const bool fused = graph->flow != NULL && graph->fused_of[i] >= 0;
        if (fused || learned != NULL) stw_kernel_find_work(graph, &(stw_members){.member = &i, .count = 1}, &room, &work);
        if (fused) {
            out_us[i] = stw_cost_kernel_us(device, &work, &out_compute_us[i]);
        } else {
            out_us[i] = stw_cost_model_us(device, op_class, graph->dtype[i], (double)graph->flops[i], (double)costs->moved[i]);
            out_compute_us[i] = stw_cost_compute_us(device, op_class, graph->dtype[i], (double)graph->flops[i]);
        }
        if (learned == NULL) continue;
        out_us[i] = stw_kernel_model_us(learned, device, &work, out_us[i]);
        out_compute_us[i] = fmin(out_compute_us[i], out_us[i]);
    }
    return STW_OK;
}

/* The time of op i on a device: `model_us` is what the model says of it there; *from is the kind that it was measured on, or
 * -1. */
static double time_op(const measurements *m, const stw_device *device, int32_t i, double model_us, int64_t *from) {
    const int64_t own = find_kind(m, device->kind);
    *from = own;
    if (own < m->count && !isnan(m->us[own][i])) return m->us[own][i];
    *from = -1;
    /* The kind that the model says is nearest: a GPU's time tells more about another GPU than a CPU's. */
    double nearest = HUGE_VAL, us = model_us;
    for (int64_t k = 0; k < m->count; k++) {
        if (isnan(m->us[k][i]) || !m->known[k]) continue;
        const double other_us = m->model_us[k][i];
        const double distance = fabs(log(model_us / other_us));
        if (!(other_us > 0.0 && distance < nearest)) continue;
        nearest = distance;
        *from = k;
        us = m->us[k][i] * (model_us / other_us);
    }
    return us;
}

/* What the model says of the kinds that were measured. */
static stw_status model_measured(const stw_costs *costs, measurements *m, stw_arena *scratch, stw_error *error) {
    double *unused;
    STW_TRY_NEW(scratch, unused, costs->graph->N, error);
    STW_TRY_NEW(scratch, m->model_us, m->count, error);
    for (int64_t k = 0; k < m->count; k++) {
        if (!m->known[k]) continue;
        STW_TRY_NEW(scratch, m->model_us[k], costs->graph->N, error);
        TRY(model_ops(costs, &m->device[k], *scratch, m->model_us[k], unused, error));
    }
    return STW_OK;
}

/* served[k]: a time of kind k served for an op. */
static stw_status fill_class(stw_costs *costs, const measurements *m, int32_t c, bool *served, stw_arena *scratch,
                             stw_error *error) {
    const stw_graph *graph = costs->graph;
    const stw_device *device = &costs->machine->device[costs->machine->class_device[c]];
    STW_TRY_NEW(&costs->arena, costs->us[c], graph->N, error);
    STW_TRY_NEW(&costs->arena, costs->model_us[c], graph->N, error);
    STW_TRY_NEW(&costs->arena, costs->compute_us[c], graph->N, error);
    STW_TRY_NEW(&costs->arena, costs->measured[c], graph->N, error);
    STW_TRY_NEW(&costs->arena, costs->carried[c], graph->N, error);
    TRY(model_ops(costs, device, *scratch, costs->model_us[c], costs->compute_us[c], error));
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        int64_t from = -1;
        costs->us[c][i] = time_op(m, device, i, costs->model_us[c][i], &from);
        costs->measured[c][i] = from >= 0 && stw_str_equal(m->kind[from], device->kind);
        costs->carried[c][i] = from >= 0 && !costs->measured[c][i];
        if (from >= 0) served[from] = true;
    }
    return STW_OK;
}

/* Times of a class, and a remark where a file of costs has none of its kind. */
static stw_status fill_and_tell(stw_costs *costs, const measurements *m, int32_t c, bool from_file, stw_arena *scratch,
                                stw_str *remark, stw_error *error) {
    bool served[MAX_COLUMNS] = {false};
    const stw_str kind = costs->machine->device[costs->machine->class_device[c]].kind;
    TRY(fill_class(costs, m, c, served, scratch, error));
    if (from_file) *remark = stw_remark_on_carried(*remark, kind, m->kind, served, m->count, scratch);
    return STW_OK;
}

static stw_status fail_time(const stw_costs *costs, int32_t i, int32_t c, stw_error *error) {
    const stw_device *device = &costs->machine->device[costs->machine->class_device[c]];
    return stw_fail(error, STW_ERROR_INPUT,
                    "op %d '%.*s' would take %g us on '%.*s' (%g FLOP, %g bytes); at most %g (23 days) are possible; check "
                    "flops_per_s and bandwidths of the machine, or give measured times",
                    i, STW_STR_SHOW(costs->graph->node_name[i]), costs->us[c][i], STW_STR_SHOW(device->name),
                    (double)costs->graph->flops[i], (double)costs->moved[i], STW_GRAPH_MAX_US);
}

/* Refuses times that the clock cannot hold: of one op, or of all together. */
static stw_status check_times(const stw_costs *costs, stw_error *error) {
    double sum = 0.0;
    for (int32_t i = 0; i < costs->graph->N; i++) {
        double slowest = 0.0;
        for (int32_t c = 0; c < costs->machine->cost_class_count; c++) {
            if (!(costs->us[c][i] <= STW_GRAPH_MAX_US)) return fail_time(costs, i, c, error); /* also what is not a number */
            slowest = fmax(slowest, costs->us[c][i]);
        }
        sum += slowest;
    }
    if (sum <= STW_GRAPH_MAX_US) return STW_OK;
    return stw_fail(
        error, STW_ERROR_INPUT,
        "the ops of graph '%.*s' take %g us in all where each is slowest; at most %g (23 days) are possible; check the "
        "units of the times and the figures of the machine",
        STW_STR_SHOW(costs->graph->name), sum, STW_GRAPH_MAX_US);
}

static stw_status make_room(stw_costs *costs, stw_error *error) {
    const int32_t N = costs->graph->N, classes = costs->machine->cost_class_count;
    STW_TRY_NEW(&costs->arena, costs->us, classes, error);
    STW_TRY_NEW(&costs->arena, costs->model_us, classes, error);
    STW_TRY_NEW(&costs->arena, costs->compute_us, classes, error);
    STW_TRY_NEW(&costs->arena, costs->measured, classes, error);
    STW_TRY_NEW(&costs->arena, costs->carried, classes, error);
    STW_TRY_NEW(&costs->arena, costs->learned, classes, error);
    STW_TRY_NEW(&costs->arena, costs->moved, N, error);
    if (classes > 1) STW_TRY_NEW(&costs->arena, costs->least_us, N, error);
    return STW_OK;
}

static void find_least(stw_costs *costs) {
    if (costs->machine->cost_class_count == 1) {
        costs->least_us = costs->us[0];
        return;
    }
    for (int32_t i = 0; i < costs->graph->N; i++) {
        costs->least_us[i] = costs->us[0][i];
        for (int32_t c = 1; c < costs->machine->cost_class_count; c++)
            costs->least_us[i] = fmin(costs->least_us[i], costs->us[c][i]);
    }
}

/* Which classes the learned model counts for; it stays with the costs only if there is one. */
static stw_status take_model(stw_costs *costs, stw_error *error) {
    bool counts = false;
    TRY(stw_kernel_model_shipped(&costs->arena, &costs->kernel_model, error));
    for (int32_t c = 0; c < costs->machine->cost_class_count; c++) {
        costs->learned[c] = model_for(costs, &costs->machine->device[costs->machine->class_device[c]]) != NULL;
        counts |= costs->learned[c];
    }
    if (!counts) costs->kernel_model = NULL;
    return STW_OK;
}

static stw_status fill(stw_costs *costs, const stw_cost_rows *rows, bool learned, stw_arena *scratch, stw_error *error) {
    const stw_graph *graph = costs->graph;
    const int32_t classes = costs->machine->cost_class_count;
    measurements m;
    stw_row_count n = {0};
    TRY(gather_measurements(graph, costs->machine, rows, scratch, &m, &n, error));
    stw_str remark = rows != NULL ? stw_remark_on_rows(rows, &n, scratch) : (stw_str){0};
    TRY(make_room(costs, error));
    if (learned && graph->flow != NULL) TRY(take_model(costs, error));
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_OP) costs->moved[i] = stw_op_bytes_moved(graph, i);
    }
    TRY(model_measured(costs, &m, scratch, error));
    for (int32_t c = 0; c < classes; c++) TRY(fill_and_tell(costs, &m, c, rows != NULL, scratch, &remark, error));
    TRY(check_times(costs, error));
    costs->remark = stw_str_copy(&costs->arena, remark);
    TRY(stw_costs_find_warnings(costs, error));
    find_least(costs);
    return STW_OK;
}

stw_status stw_costs_from_rows(const stw_graph *graph, const stw_machine *machine, const stw_cost_rows *rows, bool learned,
                               stw_costs **out, stw_error *error) {
    *out = NULL;
    stw_arena arena, scratch;
    TRY(stw_arena_create(&arena, error));
    stw_status status = stw_arena_create(&scratch, error);
    stw_costs *costs = STW_NEW(&arena, stw_costs, 1);
    if (status == STW_OK) {
        *costs = (stw_costs){.arena = arena, .graph = graph, .machine = machine};
        status = fill(costs, rows, learned, &scratch, error);
        arena = costs->arena;
        stw_arena_destroy(&scratch);
    }
    if (status != STW_OK) {
        stw_arena_destroy(&arena);
        return status;
    }
    *out = costs;
    return STW_OK;
}

/* ---- costs that somebody has worked out already, such as those of fused groups ---- */

static stw_status copy_given(stw_costs *costs, const stw_given_costs *given, stw_error *error) {
    const stw_graph *graph = costs->graph;
    const size_t size = (size_t)graph->N * sizeof(double);
    TRY(make_room(costs, error));
    for (int32_t c = 0; c < costs->machine->cost_class_count; c++) {
        STW_TRY_NEW(&costs->arena, costs->us[c], graph->N, error);
        STW_TRY_NEW(&costs->arena, costs->compute_us[c], graph->N, error);
        STW_TRY_NEW(&costs->arena, costs->measured[c], graph->N, error);
        STW_TRY_NEW(&costs->arena, costs->carried[c], graph->N, error);
        costs->model_us[c] = costs->us[c];
        memcpy(costs->us[c], given->us[c], size);
        for (int32_t i = 0; i < graph->N; i++) costs->compute_us[c][i] = fmin(given->compute_us[c][i], costs->us[c][i]);
        memcpy(costs->measured[c], given->measured[c], (size_t)graph->N * sizeof(bool));
    }
    for (int32_t i = 0; i < graph->N; i++) costs->moved[i] = graph->kind[i] == STW_NODE_OP ? stw_graph_moved(graph, i) : 0;
    find_least(costs);
    return STW_OK;
}

stw_status stw_costs_create_given(const stw_graph *graph, const stw_machine *machine, const stw_given_costs *given,
                                  stw_costs **out, stw_error *error) {
    stw_arena arena;
    *out = NULL;
    TRY(stw_arena_create(&arena, error));
    stw_costs *costs = STW_NEW(&arena, stw_costs, 1);
    *costs = (stw_costs){.arena = arena, .graph = graph, .machine = machine};
    const stw_status status = copy_given(costs, given, error);
    if (status != STW_OK) {
        stw_costs_destroy(costs);
        return status;
    }
    *out = costs;
    return STW_OK;
}

/* ---- the same on another machine, or slower ---- */

static stw_status copy_class(stw_costs *costs, int32_t c, const stw_costs *from, int32_t k, double factor, stw_error *error) {
    const int64_t N = costs->graph->N;
    const size_t size = (size_t)N * sizeof(double);
    STW_TRY_NEW(&costs->arena, costs->us[c], N, error);
    STW_TRY_NEW(&costs->arena, costs->model_us[c], N, error);
    STW_TRY_NEW(&costs->arena, costs->compute_us[c], N, error);
    STW_TRY_NEW(&costs->arena, costs->measured[c], N, error);
    STW_TRY_NEW(&costs->arena, costs->carried[c], N, error);
    for (int64_t i = 0; i < N; i++) costs->us[c][i] = from->us[k][i] * factor;
    memcpy(costs->model_us[c], from->model_us[k], size);
    memcpy(costs->compute_us[c], from->compute_us[k], size);
    memcpy(costs->measured[c], from->measured[k], (size_t)N * sizeof(bool));
    memcpy(costs->carried[c], from->carried[k], (size_t)N * sizeof(bool));
    return STW_OK;
}

static stw_status copy_scaled(stw_costs *costs, const stw_costs *from, const int32_t *class_of, double factor, stw_error *error) {
    TRY(make_room(costs, error));
    costs->kernel_model = from->kernel_model;
    for (int32_t c = 0; c < costs->machine->cost_class_count; c++) {
        costs->learned[c] = from->learned[class_of[c]];
        TRY(copy_class(costs, c, from, class_of[c], factor, error));
    }
    memcpy(costs->moved, from->moved, (size_t)costs->graph->N * sizeof *costs->moved);
    find_least(costs);
    return check_times(costs, error);
}

stw_status stw_costs_scale(const stw_costs *from, const stw_machine *machine, const int32_t *class_of, double factor,
                           stw_costs **out, stw_error *error) {
    stw_arena arena;
    *out = NULL;
    TRY(stw_arena_create(&arena, error));
    stw_costs *costs = STW_NEW(&arena, stw_costs, 1);
    *costs = (stw_costs){.arena = arena, .graph = from->graph, .machine = machine};
    const stw_status status = copy_scaled(costs, from, class_of, factor, error);
    if (status != STW_OK) {
        stw_costs_destroy(costs);
        return status;
    }
    *out = costs;
    return STW_OK;
}

/* ---- what they say ---- */

void stw_costs_destroy(stw_costs *costs) {
    if (costs == NULL) return;
    stw_arena arena = costs->arena;
    stw_arena_destroy(&arena);
}

double stw_costs_op_us(const stw_costs *costs, int32_t node, int32_t device) {
    STW_NEED(costs);
    if (node < 0 || node >= costs->graph->N || device < 0 || device >= costs->machine->device_count) return 0.0;
    return costs->us[costs->machine->device[device].cost_class][node];
}

const char *stw_costs_warning(const stw_costs *costs, int32_t index) {
    STW_NEED(costs);
    return index < 0 || index >= costs->warning_count ? NULL : costs->warning[index].p;
}
