#include "sim/fused.h"

#include <string.h>

#include "base/sort.h"
#include "base/union_find.h"

typedef struct {
    stw_fused *f;
    const stw_graph *outer;
    stw_membership membership;
    stw_tasks tasks;
    stw_graph *graph;
    stw_arena *scratch; /* for what is needed only until the problem is made */
    int32_t *leader;    /* (n) nodes that must be on one device: up to one that is its own */
    stw_error *error;
} builder;

/* ---- nodes ---- */

/* The last written member: all others of its group are read by it in the end. */
static int32_t root_of_task(const builder *b, int32_t task) {
    int32_t root = -1;
    for (int32_t k = b->membership.member_start[task]; k < b->membership.member_start[task + 1]; k++) {
        if (b->membership.task_of[b->membership.member[k]] == task) root = b->membership.member[k];
    }
    return root;
}

/* Which nodes stay: sources, the roots of groups, and the views of both. Ids keep their order, which is topological. */
static stw_status number_nodes(builder *b) {
    stw_fused *f = b->f;
    const stw_graph *outer = b->outer;
    const stw_membership *m = &b->membership;
    int32_t *root, n = 0;
    STW_TRY_NEW(&f->arena, f->node_of, outer->N, b->error);
    stw_arena scratch = *b->scratch;
    STW_TRY_NEW(&scratch, root, m->T, b->error);
    for (int32_t t = 0; t < m->T; t++) root[t] = root_of_task(b, t);
    for (int32_t i = 0; i < outer->N; i++) {
        const int32_t value = outer->root[i];
        const bool stays = stw_node_is_source(outer->kind[value]) || (m->task_of[value] >= 0 && root[m->task_of[value]] == value);
        f->node_of[i] = stays ? n++ : -1;
    }
    STW_TRY_NEW(&f->arena, f->root_of, n, b->error);
    STW_TRY_NEW(&f->arena, f->task_id, n, b->error);
    for (int32_t i = 0; i < outer->N; i++) {
        if (f->node_of[i] >= 0) f->root_of[f->node_of[i]] = i;
    }
    for (int32_t i = 0; i < outer->N; i++) {
        const int32_t value = outer->root[i];
        if (f->node_of[i] >= 0) continue;
        f->node_of[i] = f->node_of[root[m->task_of[value] >= 0 ? m->task_of[value] : m->computer[m->computer_start[value]]]];
    }
    for (int32_t t = 0; t < m->T; t++) f->task_id[f->node_of[root[t]]] = m->task_node[t];
    return stw_graph_allocate(b->graph, n, b->error);
}

/* The class that a group counts as: that of a member that leads it, else of its root. */
static uint8_t class_of(const builder *b, int32_t task, int32_t root) {
    for (int32_t k = b->membership.member_start[task]; k < b->membership.member_start[task + 1]; k++) {
        const uint8_t op_class = b->outer->op_class[b->membership.member[k]];
        if (!stw_op_class_fuses((stw_op_class)op_class)) return op_class;
    }
    return b->outer->op_class[root];
}

/* What the group reads and writes outside. */
static int64_t moved_by(const builder *b, int32_t task) {
    const stw_tasks *tasks = &b->tasks;
    int64_t sum = 0;
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++)
        sum += tasks->value_bytes[tasks->output[o]];
    for (int32_t s = tasks->input_start[task]; s < tasks->input_start[task + 1]; s++) {
        const bool again = s > tasks->input_start[task] && tasks->slot_value[s] == tasks->slot_value[s - 1];
        if (!again) sum += tasks->value_bytes[tasks->slot_value[s]];
    }
    return sum;
}

static void describe_node(builder *b, int32_t n) {
    const stw_graph *outer = b->outer;
    stw_graph *graph = b->graph;
    const int32_t i = b->f->root_of[n], task = b->membership.task_of[i];
    graph->node_name[n] = outer->node_name[i];
    graph->op_name[n] = outer->op_name[i];
    if (outer->label[i].p != NULL) graph->label[n] = outer->label[i];
    graph->kind[n] = outer->kind[i];
    graph->dtype[n] = outer->dtype[i];
    graph->known[n] = outer->known[i];
    graph->bytes[n] = outer->bytes[i];
    graph->op_class[n] = outer->op_class[i];
    graph->updates[n] = outer->updates[i] >= 0 ? b->f->node_of[outer->updates[i]] : -1;
    graph->updated_by[n] = outer->updated_by[i] >= 0 ? b->f->node_of[outer->updated_by[i]] : -1;
    if (task < 0) return;
    graph->op_count++;
    graph->op_class[n] = class_of(b, task, i);
    graph->moved[n] = moved_by(b, task);
    if (b->tasks.output_start[task] == b->tasks.output_start[task + 1]) graph->bytes[n] = 0; /* nobody reads it */
    for (int32_t k = b->membership.member_start[task]; k < b->membership.member_start[task + 1]; k++)
        graph->flops[n] += outer->flops[b->membership.member[k]];
}

/* ---- edges ---- */

/* What node n reads: of a view its first input; of a group the values and views from outside. Returns how many. */
static int32_t list_inputs(const builder *b, int32_t n, int32_t *out) {
    const stw_graph *outer = b->outer;
    const int32_t i = b->f->root_of[n], task = b->membership.task_of[i];
    int32_t count = 0;
    if (outer->kind[i] == STW_NODE_VIEW) out[count++] = b->f->node_of[outer->input[outer->input_start[i]]];
    if (task < 0) return count;
    for (int32_t k = b->membership.member_start[task]; k < b->membership.member_start[task + 1]; k++) {
        const int32_t op = b->membership.member[k];
        for (int64_t e = outer->read_start[op]; e < outer->read_start[op + 1]; e++) {
            const stw_use use = outer->read[e];
            if (b->f->node_of[use.node] != n && b->f->root_of[b->f->node_of[use.node]] == use.node)
                out[count++] = b->f->node_of[use.view >= 0 ? use.view : use.node];
        }
    }
    return count;
}

static stw_status link_nodes(builder *b) {
    stw_graph *graph = b->graph;
    const stw_graph *outer = b->outer;
    int64_t inputs = graph->N;
    for (int32_t k = 0; k < b->membership.member_start[b->membership.T]; k++) {
        const int32_t op = b->membership.member[k];
        inputs += outer->read_start[op + 1] - outer->read_start[op];
    }
    STW_TRY_NEW(&graph->arena, graph->input, inputs, b->error);
    STW_TRY_NEW(&graph->arena, graph->output, outer->output_count, b->error);
    for (int32_t n = 0; n < graph->N; n++)
        graph->input_start[n + 1] = graph->input_start[n] + list_inputs(b, n, graph->input + graph->input_start[n]);
    graph->output_count = outer->output_count;
    for (int32_t k = 0; k < outer->output_count; k++) graph->output[k] = b->f->node_of[outer->output[k]];
    graph->loss = outer->loss >= 0 ? b->f->node_of[outer->loss] : -1;
    return STW_OK;
}

/* The waits of the groups, which stand for control edges and updates alike. */
static stw_status take_waits(builder *b) {
    stw_graph *graph = b->graph;
    const stw_tasks *tasks = &b->tasks;
    const int32_t *node_of = b->f->node_of;
    int32_t *place;
    STW_TRY_NEW(&graph->arena, graph->wait_start, (int64_t)graph->N + 1, b->error);
    STW_TRY_NEW(&graph->arena, graph->wait, tasks->waiter_start[tasks->T], b->error);
    stw_arena scratch = *b->scratch;
    STW_TRY_NEW(&scratch, place, (int64_t)graph->N + 1, b->error);
    for (int32_t w = 0; w < tasks->waiter_start[tasks->T]; w++) place[node_of[tasks->task_node[tasks->waiter[w]]] + 1]++;
    for (int32_t n = 0; n < graph->N; n++) place[n + 1] += place[n];
    memcpy(graph->wait_start, place, ((size_t)graph->N + 1) * sizeof *place);
    for (int32_t t = 0; t < tasks->T; t++) {
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++)
            graph->wait[place[node_of[tasks->task_node[tasks->waiter[w]]]]++] = node_of[tasks->task_node[t]];
    }
    int32_t next = 0;
    for (int32_t n = 0; n < graph->N; n++) { /* ascending, each once */
        const int32_t from = graph->wait_start[n], to = graph->wait_start[n + 1], first = next;
        stw_sort_ids(graph->wait + from, to - from);
        for (int32_t k = from; k < to; k++) {
            if (next == first || graph->wait[next - 1] != graph->wait[k]) graph->wait[next++] = graph->wait[k];
        }
        graph->wait_start[n] = first;
    }
    graph->wait_start[graph->N] = next;
    return STW_OK;
}

/* ---- what must be on one device ---- */

/* Where groups may be: where all of them that must be together may be. What may be nowhere is anywhere, and so never valid. */
static stw_status limit_devices(builder *b) {
    const uint64_t *outer = b->outer->allowed;
    stw_graph *graph = b->graph;
    if (outer == NULL) return STW_OK;
    STW_TRY_NEW(&graph->arena, graph->allowed, graph->N, b->error);
    for (int32_t n = 0; n < graph->N; n++) graph->allowed[n] = UINT64_MAX;
    for (int32_t i = 0; i < b->outer->N; i++) graph->allowed[stw_sets_find(b->leader, b->f->node_of[i])] &= outer[i];
    for (int32_t n = 0; n < graph->N; n++) {
        graph->allowed[n] = graph->allowed[stw_sets_find(b->leader, n)];
        if (graph->allowed[n] == 0) graph->allowed[n] = UINT64_MAX;
    }
    return STW_OK;
}

static stw_status keep_together(builder *b) {
    const stw_fused *f = b->f;
    const stw_membership *m = &b->membership;
    stw_arena scratch = *b->scratch;
    STW_TRY_NEW(&scratch, b->leader, b->graph->N, b->error);
    stw_sets_begin(b->leader, b->graph->N);
    for (int32_t k = 0; k < f->outer->pair_count; k++)
        stw_sets_join(b->leader, f->node_of[f->outer->pair[k][0]], f->node_of[f->outer->pair[k][1]]);
    for (int32_t i = 0; i < b->outer->N; i++) {
        for (int32_t c = m->computer_start[i]; c + 1 < m->computer_start[i + 1]; c++)
            stw_sets_join(b->leader, f->node_of[root_of_task(b, m->computer[c])],
                          f->node_of[root_of_task(b, m->computer[c + 1])]);
    }
    for (int32_t n = 0; n < b->graph->N; n++) {
        const int32_t leader = stw_sets_find(b->leader, n);
        if (leader != n) b->graph->colocate[n] = leader;
    }
    return limit_devices(b);
}

/* ---- costs ---- */

static stw_status cost_nodes(builder *b) {
    const stw_costs *outer = b->f->outer->costs;
    const stw_membership *m = &b->membership;
    const int32_t C = outer->machine->cost_class_count, n = b->graph->N;
    stw_arena scratch = *b->scratch;
    double **us, **compute_us;
    bool **measured;
    STW_TRY_NEW(&scratch, us, C, b->error);
    STW_TRY_NEW(&scratch, compute_us, C, b->error);
    STW_TRY_NEW(&scratch, measured, C, b->error);
    for (int32_t c = 0; c < C; c++) {
        STW_TRY_NEW(&scratch, us[c], n, b->error);
        STW_TRY_NEW(&scratch, compute_us[c], n, b->error);
        STW_TRY_NEW(&scratch, measured[c], n, b->error);
        for (int32_t t = 0; t < m->T; t++) {
            const int32_t node = b->f->node_of[m->task_node[t]];
            us[c][node] = (double)b->tasks.duration_ps[c][t] / 1e6;
            measured[c][node] = true;
            for (int32_t k = m->member_start[t]; k < m->member_start[t + 1]; k++) {
                compute_us[c][node] += outer->compute_us[c][m->member[k]];
                measured[c][node] = measured[c][node] && outer->measured[c][m->member[k]];
            }
        }
    }
    const stw_given_costs given = {(const double *const *)us, (const double *const *)compute_us, (const bool *const *)measured};
    return stw_costs_create_given(b->graph, outer->machine, &given, &b->f->costs, b->error);
}

/* ---- the whole ---- */

static stw_status find_groups(builder *b, int32_t device) {
    const stw_simulator *outer = b->f->outer;
    stw_str reason;
    int32_t *on;
    STW_TRY_NEW(b->scratch, on, b->outer->N, b->error);
    for (int32_t i = 0; i < b->outer->N; i++) on[i] = device;
    TRY(stw_membership_build(b->outer, outer->machine, b->f->group, on, b->scratch, &b->membership, &reason, b->error));
    if (reason.length == 0) TRY(stw_tasks_build(outer->costs, &b->membership, NULL, b->scratch, &b->tasks, &reason, b->error));
    if (reason.length > 0) return stw_fail(b->error, STW_ERROR_INPUT, "groups: %.*s", (int)reason.length, reason.p);
    for (int32_t t = 0; t < b->tasks.T; t++) {
        const int32_t outputs = b->tasks.output_start[t + 1] - b->tasks.output_start[t];
        const bool one = outputs == 0 ||
                         (outputs == 1 && b->tasks.value_node[b->tasks.output[b->tasks.output_start[t]]] == root_of_task(b, t));
        if (!one) return stw_fail(b->error, STW_ERROR_INPUT, "the group of op %d has several outputs", b->tasks.task_node[t]);
    }
    return STW_OK;
}

static stw_status build(builder *b, const int32_t *group, int32_t device) {
    stw_fused *f = b->f;
    stw_arena arena;
    STW_TRY_NEW(&f->arena, f->group, b->outer->N, b->error);
    memcpy(f->group, group, (size_t)b->outer->N * sizeof *group);
    TRY(find_groups(b, device));
    TRY(stw_arena_create(&arena, b->error));
    b->graph = STW_NEW(&arena, stw_graph, 1);
    *b->graph = (stw_graph){.arena = arena, .name = b->outer->name, .family = b->outer->family};
    f->graph = b->graph;
    TRY(number_nodes(b));
    STW_TRY_NEW(&b->graph->arena, b->graph->moved, b->graph->N, b->error);
    for (int32_t n = 0; n < b->graph->N; n++) b->graph->moved[n] = -1;
    for (int32_t n = 0; n < b->graph->N; n++) describe_node(b, n);
    TRY(link_nodes(b));
    TRY(keep_together(b));
    TRY(stw_graph_build_edges(b->graph, b->error));
    TRY(take_waits(b));
    TRY(stw_graph_build_topological(b->graph, b->error));
    TRY(stw_graph_build_fingerprint(b->graph, b->error));
    return cost_nodes(b);
}

stw_status stw_fused_create(const stw_simulator *outer, const int32_t *group, int32_t device, stw_fused **out, stw_error *error) {
    stw_arena arena, scratch;
    *out = NULL;
    TRY(stw_arena_create(&arena, error));
    stw_fused *f = STW_NEW(&arena, stw_fused, 1);
    *f = (stw_fused){.outer = outer, .arena = arena};
    builder b = {.f = f, .outer = outer->graph, .scratch = &scratch, .error = error};
    stw_status status = stw_arena_create(&scratch, error);
    if (status == STW_OK) {
        status = build(&b, group, device);
        stw_arena_destroy(&scratch);
    }
    if (status == STW_OK) status = stw_simulator_create(f->costs, &f->simulator, error);
    if (status != STW_OK) {
        stw_fused_destroy(f);
        return status;
    }
    *out = f;
    return STW_OK;
}

void stw_fused_destroy(stw_fused *f) {
    if (f == NULL) return;
    stw_simulator_destroy(f->simulator);
    stw_costs_destroy(f->costs);
    stw_graph_destroy(f->graph);
    stw_arena arena = f->arena;
    stw_arena_destroy(&arena);
}

/* ---- plans ---- */

stw_status stw_fused_expand(const stw_fused *f, const stw_plan *of_groups, stw_plan *of_ops, stw_error *error) {
    const int32_t N = f->outer->graph->N;
    for (int32_t i = 0; i < N; i++) {
        of_ops->device[i] = of_groups->device[f->node_of[i]];
        of_ops->priority[i] = of_groups->priority[f->node_of[i]];
    }
    memcpy(of_ops->group, f->group, (size_t)N * sizeof *f->group);
    for (int32_t d = 0; d < f->outer->machine->device_count; d++) {
        const int32_t count = of_groups->order[d] == NULL ? -1 : of_groups->order_count[d];
        int32_t *order = NULL;
        stw_arena scratch = f->arena;
        if (count > 0) STW_TRY_NEW(&scratch, order, count, error);
        for (int32_t k = 0; k < count; k++) order[k] = f->task_id[of_groups->order[d][k]];
        TRY(stw_plan_set_order(of_ops, d, order, count, error));
    }
    return STW_OK;
}

void stw_fused_reduce(const stw_fused *f, const stw_plan *of_ops, stw_plan *of_groups) {
    for (int32_t n = 0; n < f->graph->N; n++) {
        of_groups->device[n] = of_ops->device[f->root_of[n]];
        of_groups->priority[n] = of_ops->priority[f->root_of[n]];
    }
    stw_plan_remove_orders(of_groups);
}
