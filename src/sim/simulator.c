/* The simulator and its workspaces: what is computed once per graph and machine, the tasks that a plan makes, and one evaluation:
 * is the plan valid, what does the event loop say. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "base/union_find.h"
#include "graph/units.h"
#include "plan/plan.h"
#include "sim/sim.h"

/* ---- once ---- */

static int32_t smallest_reader(const stw_graph *graph, int32_t node) {
    int32_t least = -1;
    for (int64_t r = graph->reader_start[node]; r < graph->reader_start[node + 1]; r++) {
        if (least < 0 || graph->reader[r].node < least) least = graph->reader[r].node;
    }
    return least;
}

static stw_status list_followers(stw_simulator *s, stw_error *error) {
    const stw_graph *graph = s->graph;
    STW_TRY_NEW(&s->arena, s->together, graph->N, error);
    STW_TRY_NEW(&s->arena, s->follows, graph->N, error);
    stw_arena scratch = s->arena;
    int32_t *leader, *first;
    STW_TRY_NEW(&scratch, leader, graph->N, error);
    STW_TRY_NEW(&scratch, first, graph->N, error); /* of a set: the smallest op, else the smallest member */
    stw_sets_begin(leader, graph->N);
    for (int32_t k = 0; k < s->pair_count; k++) stw_sets_join(leader, s->pair[k][0], s->pair[k][1]);
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = graph->N - 1; i >= 0; i--) {
            if (pass == 0 || graph->kind[i] == STW_NODE_OP) first[stw_sets_find(leader, i)] = i;
        }
    }
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t node = first[stw_sets_find(leader, graph->root[i])];
        s->together[i] = s->follows[i] = node;
        if (graph->kind[node] == STW_NODE_OP) continue;
        const int32_t reader = stw_node_is_resident(graph->kind[node]) ? smallest_reader(graph, node) : -1;
        s->follows[i] = reader < 0 ? -1 : first[stw_sets_find(leader, reader)];
    }
    return STW_OK;
}

/* Every op as a task of its own. */
static stw_status build_unfused(stw_simulator *s, stw_arena *scratch, stw_error *error) {
    stw_membership membership;
    stw_tasks tasks;
    stw_str reason;
    TRY(stw_membership_build(s->graph, s->machine, NULL, NULL, scratch, &membership, &reason, error));
    TRY(stw_tasks_build(s->costs, &membership, NULL, scratch, &tasks, &reason, error));
    return stw_tasks_copy(&tasks, s->graph->N, s->machine->cost_class_count, &s->arena, &s->unfused, error);
}

static stw_status fill_simulator(stw_simulator *s, stw_error *error) {
    stw_arena scratch;
    TRY(stw_graph_colocated(s->graph, &s->arena, &s->pair, &s->pair_count, error));
    TRY(list_followers(s, error));
    TRY(stw_arena_create(&scratch, error));
    const stw_status status = build_unfused(s, &scratch, error);
    stw_arena_destroy(&scratch);
    return status;
}

stw_status stw_simulator_create(const stw_costs *costs, stw_simulator **out, stw_error *error) {
    STW_NEED(costs);
    STW_NEED(out);
    *out = NULL;
    stw_arena arena;
    TRY(stw_arena_create(&arena, error));
    stw_simulator *s = STW_NEW(&arena, stw_simulator, 1);
    *s = (stw_simulator){.arena = arena, .costs = costs, .graph = costs->graph, .machine = costs->machine};
    const stw_status status = fill_simulator(s, error);
    if (status != STW_OK) {
        arena = s->arena;
        stw_arena_destroy(&arena);
        return status;
    }
    *out = s;
    return STW_OK;
}

void stw_simulator_destroy(stw_simulator *simulator) {
    if (simulator == NULL) return;
    stw_arena arena = simulator->arena;
    stw_arena_destroy(&arena);
}

stw_status stw_workspace_create(const stw_simulator *simulator, stw_workspace **out, stw_error *error) {
    STW_NEED(simulator);
    STW_NEED(out);
    *out = NULL;
    stw_arena arena;
    TRY(stw_arena_create(&arena, error));
    stw_workspace *workspace = STW_NEW(&arena, stw_workspace, 1);
    workspace->arena = arena;
    workspace->simulator = simulator;
    *out = workspace;
    return STW_OK;
}

void stw_workspace_destroy(stw_workspace *workspace) {
    if (workspace == NULL) return;
    stw_arena arena = workspace->arena;
    stw_arena_destroy(&arena);
}

void stw_workspace_trim(stw_workspace *workspace) {
    enum { WORTH_BYTES = 1 << 26 };
    workspace->timeline = (stw_timeline){0};
    stw_arena_trim(workspace->group != NULL ? &workspace->after_fused : &workspace->arena, WORTH_BYTES);
}

int32_t stw_workspace_transfers(const stw_workspace *workspace, const stw_transfer **out) {
    *out = workspace->timeline.transfer;
    return workspace->timeline.transfer_count;
}

/* ---- the tasks of a plan ---- */

stw_status stw_simulator_tasks(const stw_simulator *simulator, const stw_plan *plan, stw_arena *arena, stw_tasks *room,
                               const stw_tasks **out, stw_str *reason, stw_error *error) {
    const stw_tasks *unfused = &simulator->unfused;
    *reason = (stw_str){0};
    *out = unfused;
    int32_t t = 0;
    while (t < unfused->T && plan->group[unfused->task_node[t]] == unfused->task_node[t]) t++;
    if (t == unfused->T) return STW_OK;
    stw_membership membership;
    TRY(stw_membership_build(simulator->graph, simulator->machine, plan->group, plan->device, arena, &membership, reason, error));
    if (reason->length > 0) return STW_OK;
    *out = room;
    return stw_tasks_build(simulator->costs, &membership, NULL, arena, room, reason, error);
}

/* ---- entries ---- */

/* Values that no simulation could make sense of. */
static stw_status check_entry(const stw_simulator *s, const stw_plan *plan, int32_t node, stw_error *error) {
    const stw_str name = s->graph->node_name[node];
    const int32_t last = s->machine->device_count - 1;
    if (plan->device[node] < 0 || plan->device[node] > last) {
        return stw_fail(error, STW_ERROR_INPUT, "node %d '%.*s' is on device %d; the machine has devices 0 to %d", node,
                        STW_STR_SHOW(name), plan->device[node], last);
    }
    if (!isfinite(plan->priority[node])) {
        return stw_fail(error, STW_ERROR_INPUT, "node %d '%.*s' has a priority that is not a finite number", node,
                        STW_STR_SHOW(name));
    }
    if (s->graph->kind[node] == STW_NODE_OP && plan->group[node] < -1) {
        return stw_fail(error, STW_ERROR_INPUT, "node %d '%.*s' is in group %d; groups are 0 or more, or -1", node,
                        STW_STR_SHOW(name), plan->group[node]);
    }
    return STW_OK;
}

/* The plan is for the simulator's graph and machine. */
static stw_status check_owner(const stw_simulator *s, const stw_plan *plan, stw_error *error) {
    if (plan->graph == s->graph && (plan->machine == s->machine || stw_machine_equal(plan->machine, s->machine))) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "the plan belongs to another graph or machine than the simulator");
}

stw_status stw_simulator_check(const stw_simulator *s, const stw_plan *plan, stw_error *error) {
    TRY(check_owner(s, plan, error));
    for (int32_t value = 0; value < s->unfused.V; value++) {
        if (!(s->unfused.value_flags[value] & STW_VALUE_EVERYWHERE))
            TRY(check_entry(s, plan, s->unfused.value_node[value], error));
    }
    return STW_OK;
}

/* ---- what a method need not decide ---- */

/* What is where it may not be goes to the first device that it may be on. */
static void heed_allowed(const stw_simulator *simulator, stw_plan *plan) {
    const uint64_t *allowed = simulator->graph->allowed;
    if (allowed == NULL) return;
    for (int32_t i = 0; i < plan->graph->N; i++) {
        if (!(allowed[i] >> plan->device[i] & 1u)) plan->device[i] = __builtin_ctzll(allowed[i]);
    }
}

void stw_plan_join(const stw_simulator *simulator, stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) plan->device[i] = plan->device[simulator->together[i]];
    heed_allowed(simulator, plan);
}

void stw_plan_complete(const stw_simulator *simulator, stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) {
        plan->device[i] = simulator->follows[i] < 0 ? 0 : plan->device[simulator->follows[i]];
    }
    heed_allowed(simulator, plan);
}

/* ---- validity ---- */

/* Reasons are checked in the order colocation, groups, links, order, overflow, memory; the first is reported. */

static const char *const reason_names[] = {
    [STW_INVALID_COLOCATION] = "colocation", [STW_INVALID_GROUPS] = "groups",     [STW_INVALID_LINKS] = "links",
    [STW_INVALID_ORDER] = "order",           [STW_INVALID_OVERFLOW] = "overflow", [STW_INVALID_MEMORY] = "memory",
};

const char *stw_reason_name(stw_reason reason) {
    const size_t count = sizeof reason_names / sizeof reason_names[0];
    return (size_t)reason < count ? reason_names[reason] : NULL;
}

typedef struct {
    const stw_simulator *s;
    const stw_plan *plan;
    stw_workspace *w;
    stw_arena arena;
    const stw_tasks *tasks;
    int32_t *device;       /* (T) */
    double *priority;      /* (T) */
    const int32_t **order; /* (D) task indices, or NULL */
    stw_error *error;
} evaluation;

static const char *device_name(const evaluation *v, int32_t d) { return v->s->machine->device[d].name.p; }

#define SAY(v, ...) snprintf((v)->w->message, sizeof(v)->w->message, __VA_ARGS__)

static bool check_colocation(const evaluation *v) {
    const stw_graph *graph = v->s->graph;
    for (int32_t k = 0; k < v->s->pair_count; k++) {
        const int32_t a = v->s->pair[k][0], b = v->s->pair[k][1];
        if (v->plan->device[a] == v->plan->device[b]) continue;
        SAY(v, "colocation: node %d '%.*s' is on %s, but must be with node %d '%.*s' on %s", a, STW_STR_SHOW(graph->node_name[a]),
            device_name(v, v->plan->device[a]), b, STW_STR_SHOW(graph->node_name[b]), device_name(v, v->plan->device[b]));
        return false;
    }
    for (int32_t i = 0; i < graph->N && graph->allowed != NULL; i++) {
        const bool placed = graph->kind[i] == STW_NODE_OP || stw_node_is_resident(graph->kind[i]);
        if (!placed || graph->allowed[i] >> v->plan->device[i] & 1u) continue;
        SAY(v, "colocation: node %d '%.*s' is on %s, which it may not be on", i, STW_STR_SHOW(graph->node_name[i]),
            device_name(v, v->plan->device[i]));
        return false;
    }
    return true;
}

/* Only machines that lack a link need this look at every use. */
static bool check_links(const evaluation *v) {
    const stw_tasks *tasks = v->tasks;
    if (v->s->machine->complete) return true;
    for (int32_t value = 0; value < tasks->V; value++) {
        if (tasks->value_flags[value] & STW_VALUE_EVERYWHERE) continue;
        const int32_t node = tasks->value_node[value], from = v->plan->device[node];
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
            const int32_t to = v->device[tasks->use[u].task];
            if (from == to || stw_machine_link(v->s->machine, from, to)->bandwidth > 0.0) continue;
            SAY(v, "links: node %d '%.*s' must go from %s to %s, but there is no link", node,
                STW_STR_SHOW(v->s->graph->node_name[node]), device_name(v, from), device_name(v, to));
            return false;
        }
    }
    return true;
}

/* Translates the order of a device into task indices: each of its tasks exactly once. False if it is something else. */
static stw_status translate_order(evaluation *v, int32_t d, int32_t *task_count, bool *seen, bool *ok) {
    const stw_tasks *tasks = v->tasks;
    int32_t *order;
    STW_TRY_NEW(&v->arena, order, v->plan->order_count[d], v->error);
    *ok = false;
    for (int32_t k = 0; k < v->plan->order_count[d]; k++) {
        const int32_t node = v->plan->order[d][k];
        const int32_t task = node >= 0 && node < v->s->graph->N ? tasks->task_of[node] : -1;
        if (task < 0 || tasks->task_node[task] != node || v->device[task] != d || seen[task]) {
            SAY(v, "order: entry %d of the order of %s is %d, which is %s", k, device_name(v, d), node,
                task >= 0 && tasks->task_node[task] == node && v->device[task] == d ? "there twice" : "no task of that device");
            return STW_OK;
        }
        seen[task] = true;
        order[k] = task;
    }
    if (v->plan->order_count[d] != task_count[d]) {
        SAY(v, "order: the order of %s has %d entries; the device has %d tasks", device_name(v, d), v->plan->order_count[d],
            task_count[d]);
        return STW_OK;
    }
    v->order[d] = order;
    *ok = true;
    return STW_OK;
}

static stw_status check_orders(evaluation *v, bool *ok) {
    const int32_t D = v->s->machine->device_count;
    STW_TRY_NEW(&v->arena, v->order, D, v->error);
    *ok = true;
    bool any = false;
    for (int32_t d = 0; d < D; d++) any |= v->plan->order[d] != NULL;
    if (!any) return STW_OK;
    bool *seen;
    int32_t count[STW_MAX_DEVICES] = {0};
    STW_TRY_NEW(&v->arena, seen, v->tasks->T, v->error);
    for (int32_t t = 0; t < v->tasks->T; t++) count[v->device[t]]++;
    for (int32_t d = 0; d < D && *ok; d++) {
        if (v->plan->order[d] != NULL) TRY(translate_order(v, d, count, seen, ok));
    }
    return STW_OK;
}

static stw_status allocate_tasks(evaluation *v, int32_t T) {
    v->device = STW_NEW_DIRTY(&v->arena, int32_t, T);
    v->priority = STW_NEW_DIRTY(&v->arena, double, T);
    if (v->priority == NULL) return stw_fail(v->error, STW_ERROR_MEMORY, "out of memory for %d tasks", T);
    return STW_OK;
}

/* One pass over the plan: its entries are loaded as if nothing were fused, checked, and `fused` tells whether something is. A
 * fault is only noticed here; stw_simulator_check then looks for it. */
static stw_status load_plan(evaluation *v, bool *fused) {
    const stw_tasks *unfused = &v->s->unfused;
    const stw_plan *plan = v->plan;
    const uint32_t devices = (uint32_t)v->s->machine->device_count;
    TRY(check_owner(v->s, plan, v->error));
    TRY(allocate_tasks(v, unfused->T));
    bool bad = false, differs = false;
    for (int32_t t = 0; t < unfused->T; t++) {
        const int32_t node = unfused->task_node[t], device = plan->device[node], group = plan->group[node];
        const double priority = plan->priority[node];
        v->device[t] = device;
        v->priority[t] = priority;
        bad |= ((uint32_t)device >= devices) | !(priority - priority == 0.0) | (group < -1);
        differs |= group != node;
    }
    for (int32_t k = 0; k < unfused->source_count; k++) {
        const int32_t value = unfused->source[k], node = unfused->value_node[value];
        if (!(unfused->value_flags[value] & STW_VALUE_RESIDENT)) continue;
        bad |= ((uint32_t)plan->device[node] >= devices) | !(plan->priority[node] - plan->priority[node] == 0.0);
    }
    *fused = differs;
    return bad ? stw_simulator_check(v->s, plan, v->error) : STW_OK;
}

/* The same for groups: each has the largest priority of its written members. */
static stw_status load_groups(evaluation *v) {
    const stw_tasks *tasks = v->tasks;
    const stw_plan *plan = v->plan;
    TRY(allocate_tasks(v, tasks->T));
    for (int32_t t = 0; t < tasks->T; t++) {
        v->device[t] = plan->device[tasks->task_node[t]];
        v->priority[t] = plan->priority[tasks->task_node[t]];
    }
    for (int32_t i = 0; i < v->s->graph->N; i++) {
        const int32_t t = tasks->task_of[i];
        if (t >= 0 && plan->priority[i] > v->priority[t]) v->priority[t] = plan->priority[i];
    }
    return STW_OK;
}

/* From the first groups on, their times stand at the very beginning of the arena. */
static stw_status keep_times(evaluation *v) {
    stw_group_times times;
    TRY(stw_group_times_create(v->s->costs, &v->arena, &times, v->error));
    v->w->times = times;
    v->w->arena = v->arena;
    return STW_OK;
}

/* The tasks of a plan with groups: those of the last one, if its groups are the same, else built at the beginning of the arena.
 */
static stw_status find_fused_tasks(evaluation *v, stw_str *illegal) {
    const stw_simulator *s = v->s;
    stw_workspace *w = v->w;
    const size_t size = (size_t)s->graph->N * sizeof *v->plan->group;
    v->tasks = &w->fused;
    if (w->group != NULL && memcmp(w->group, v->plan->group, size) == 0) {
        *illegal = stw_membership_fault(s->graph, s->machine, v->plan->group, v->plan->device, &w->membership, &v->arena);
        return STW_OK;
    }
    w->group = NULL;
    v->arena = w->arena;
    if (w->times.count == NULL) TRY(keep_times(v));
    int32_t *group;
    STW_TRY_NEW(&v->arena, group, s->graph->N, v->error);
    memcpy(group, v->plan->group, size);
    TRY(stw_membership_build(s->graph, s->machine, group, v->plan->device, &v->arena, &w->membership, illegal, v->error));
    if (illegal->length == 0) TRY(stw_tasks_build(s->costs, &w->membership, &w->times, &v->arena, &w->fused, illegal, v->error));
    if (illegal->length > 0) return STW_OK;
    w->group = group;
    w->after_fused = v->arena;
    return STW_OK;
}

/* ---- results ---- */

static void say_stuck(const evaluation *v, int32_t stuck, int32_t missing) {
    const stw_graph *graph = v->s->graph;
    const int32_t node = v->tasks->task_node[stuck];
    const int32_t needed = missing >= 0 ? v->tasks->task_node[missing] : node;
    SAY(v, "order: %s waits for ever for op %d '%.*s', the next in its order, which needs op %d '%.*s' on %s",
        device_name(v, v->device[stuck]), node, STW_STR_SHOW(graph->node_name[node]), needed,
        STW_STR_SHOW(graph->node_name[needed]), device_name(v, v->plan->device[needed]));
}

static stw_reason check_memory(const evaluation *v, const stw_timeline *timeline) {
    const stw_machine *machine = v->s->machine;
    int32_t worst = -1;
    int64_t most = 0;
    for (int32_t d = 0; d < machine->device_count; d++) {
        const int64_t excess = timeline->peak_bytes[d] - machine->device[d].memory_bytes;
        if (excess <= most) continue;
        most = excess;
        worst = d;
    }
    if (worst < 0) return STW_VALID;
    const stw_graph *graph = v->s->graph;
    SAY(v, "memory: %s lacks %" PRId64 " bytes: it holds %" PRId64 " at %.6g ms and has %" PRId64, device_name(v, worst),
        stw_graph_size(graph, most), stw_graph_size(graph, timeline->peak_bytes[worst]), (double)timeline->peak_ps[worst] / 1e9,
        stw_graph_size(graph, machine->device[worst].memory_bytes));
    return STW_INVALID_MEMORY;
}

static void fill_numbers(const evaluation *v, const stw_timeline *timeline, int64_t step_ps, stw_evaluation *out) {
    out->step_ps = step_ps;
    out->step_s = (double)step_ps / 1e12;
    out->transfer_count = timeline->transfer_count;
    out->peak_bytes = timeline->peak_bytes;
    out->busy_ps = timeline->busy_ps;
    out->charged_ps = timeline->charged_ps;
    for (int32_t k = 0; k < timeline->transfer_count; k++) out->transfer_bytes += timeline->transfer[k].bytes;
    for (int32_t d = 0; d < v->s->machine->device_count; d++) {
        if (timeline->peak_bytes[d] > out->worst_peak_bytes) out->worst_peak_bytes = timeline->peak_bytes[d];
    }
}

static stw_status run_engine(evaluation *v, const stw_run_options *options, stw_evaluation *out) {
    stw_timeline *timeline = &v->w->timeline;
    const stw_engine_input input = {
        .machine = v->s->machine,
        .tasks = v->tasks,
        .plan = v->plan,
        .task_priority = v->priority,
        .task_device = v->device,
        .order = v->order,
        .options = options,
        .tails = &v->w->tails,
    };
    stw_engine_result result;
    TRY(stw_engine_run(&input, &v->arena, timeline, &result, v->error));
    timeline->device = v->device;
    if (result.stopped) {
        out->reason = STW_INVALID_OVERFLOW;
        SAY(v, "overflow: the step takes more than the %" PRId64 " ps that it may take", options->stop_ps);
        return STW_OK;
    }
    if (result.unfinished > 0) {
        out->reason = STW_INVALID_ORDER;
        say_stuck(v, result.stuck_task, result.missing_task);
    } else if (result.overflow) {
        out->reason = STW_INVALID_OVERFLOW;
        SAY(v, "overflow: the step takes more than 2^62 ps (53 days); check the times and bandwidths");
    } else {
        fill_numbers(v, timeline, result.step_ps, out);
        out->reason = check_memory(v, timeline);
    }
    return STW_OK;
}

/* The reasons in their order; the first that applies is left in out->reason. */
static stw_status judge(evaluation *v, bool fused, const stw_run_options *options, stw_evaluation *out) {
    if (!check_colocation(v)) {
        out->reason = STW_INVALID_COLOCATION;
        return STW_OK;
    }
    v->tasks = &v->s->unfused;
    if (fused) {
        stw_str illegal;
        TRY(find_fused_tasks(v, &illegal));
        if (illegal.length > 0) {
            out->reason = STW_INVALID_GROUPS;
            SAY(v, "groups: %.*s", (int)illegal.length, illegal.p);
            return STW_OK;
        }
        TRY(load_groups(v));
    }
    if (!check_links(v)) {
        out->reason = STW_INVALID_LINKS;
        return STW_OK;
    }
    bool ok = false;
    TRY(check_orders(v, &ok));
    if (!ok) {
        out->reason = STW_INVALID_ORDER;
        return STW_OK;
    }
    return run_engine(v, options, out);
}

stw_status stw_simulator_run(const stw_simulator *simulator, const stw_plan *plan, const stw_run_options *options,
                             stw_workspace *workspace, stw_evaluation *out, stw_error *error) {
    evaluation v = {.s = simulator, .plan = plan, .w = workspace, .error = error};
    v.arena = workspace->group != NULL ? workspace->after_fused : workspace->arena;
    *out = (stw_evaluation){.message = workspace->message};
    workspace->message[0] = '\0';
    workspace->timeline = (stw_timeline){0};
    bool fused = false;
    TRY(load_plan(&v, &fused));
    const stw_status status = judge(&v, fused, options, out);
    stw_escape_text(workspace->message, sizeof workspace->message);
    return status;
}

stw_status stw_simulate(const stw_simulator *simulator, const stw_plan *plan, stw_workspace *workspace, stw_evaluation *out,
                        stw_error *error) {
    STW_NEED(simulator);
    STW_NEED(plan);
    STW_NEED(workspace);
    STW_NEED(out);
    const stw_run_options options = {0};
    return stw_simulator_run(simulator, plan, &options, workspace, out, error);
}
