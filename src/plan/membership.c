#include "plan/membership.h"

#include <string.h>

#include "base/index.h"
#include "base/sort.h"

/* Numbers the groups 0, 1, ... in the order of their smallest written op. */
stw_status stw_membership_number(const stw_graph *graph, const int32_t *group, stw_arena *arena, stw_membership *m,
                                 stw_error *error) {
    *m = (stw_membership){0};
    STW_TRY_NEW(arena, m->task_of, graph->N, error);
    STW_TRY_NEW(arena, m->task_node, graph->op_count, error);
    stw_arena scratch = *arena;
    stw_index index; /* tasks by group number */
    TRY(stw_index_create(&scratch, group == NULL ? 0 : graph->op_count, &index, error));
    for (int32_t i = 0; i < graph->N; i++) {
        m->task_of[i] = -1;
        if (graph->kind[i] != STW_NODE_OP || (group != NULL && group[i] < 0)) continue;
        if (group == NULL) {
            m->task_of[i] = m->T;
            m->task_node[m->T++] = i;
            continue;
        }
        const uint64_t hash = (uint32_t)group[i];
        int32_t task;
        for (uint32_t step = 0; (task = stw_index_next(&index, hash, &step)) >= 0 && group[m->task_node[task]] != group[i];) {
        }
        if (task < 0) {
            task = m->T++;
            m->task_node[task] = i;
            TRY(stw_index_add(&index, hash, task, error));
        }
        m->task_of[i] = task;
    }
    return STW_OK;
}

/* A text that names an op. */
static stw_str illegal(stw_arena *arena, const stw_graph *graph, int32_t op, const char *why) {
    return stw_str_format(arena, "op %d '%.*s' %s", op, STW_STR_SHOW(graph->node_name[op]), why);
}

/* The rules for a recomputed op, and that a group is on one device. */
static stw_str check_ops(const stw_graph *graph, const int32_t *group, const int32_t *device, const stw_membership *m,
                         stw_arena *arena) {
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        if (group[i] >= 0) {
            const int32_t first = m->task_node[m->task_of[i]];
            if (device[i] != device[first]) return illegal(arena, graph, i, "is fused with an op on another device");
            continue;
        }
        const int64_t begin = graph->reader_start[i], end = graph->reader_start[i + 1];
        if (graph->updates[i] >= 0) return illegal(arena, graph, i, "updates a parameter and cannot be recomputed");
        if (graph->kept[i]) return illegal(arena, graph, i, "is a graph output and cannot be recomputed");
        if (begin == end) return illegal(arena, graph, i, "is marked as recomputed but nothing reads it");
        for (int64_t r = begin; r < end; r++) {
            if (device[graph->reader[r].node] != device[i]) {
                return illegal(arena, graph, i, "is recomputed but read on another device");
            }
        }
    }
    return (stw_str){0};
}

typedef struct {
    const stw_graph *graph;
    const stw_membership *m;
    const int32_t *written_start, *written; /* (T + 1), written members by task */
    int32_t *last_task;                     /* (N) the last task that a recomputed op was added to */
} collector;

/* The members of a task, ascending: the written ones, the recomputed ops that they read, those that these read, and so on.
 * Returns their number, or -1 when they are too many. */
static int32_t collect_members(const collector *c, int32_t task, int32_t list[STW_MAX_GROUP_MEMBERS]) {
    const stw_graph *graph = c->graph;
    int32_t count = c->written_start[task + 1] - c->written_start[task];
    if (count > STW_MAX_GROUP_MEMBERS) return -1;
    const int32_t written = count;
    memcpy(list, c->written + c->written_start[task], (size_t)count * sizeof *list);
    for (int32_t k = 0; k < count; k++) { /* the list grows while it is walked */
        for (int64_t e = graph->read_start[list[k]]; e < graph->read_start[list[k] + 1]; e++) {
            const int32_t producer = graph->read[e].node;
            if (graph->kind[producer] != STW_NODE_OP || c->m->task_of[producer] >= 0 || c->last_task[producer] == task) continue;
            if (count == STW_MAX_GROUP_MEMBERS) return -1;
            c->last_task[producer] = task;
            list[count++] = producer;
        }
    }
    if (count > written) stw_sort_ids(list, count); /* at most 64 */
    return count;
}

/* Written ops by task: a counting sort. */
static stw_status sort_written(const stw_graph *graph, const stw_membership *m, stw_arena *arena, collector *c,
                               stw_error *error) {
    int32_t *start, *written;
    STW_TRY_NEW(arena, start, (int64_t)m->T + 2, error);
    STW_TRY_NEW(arena, written, graph->op_count, error);
    STW_TRY_NEW(arena, c->last_task, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (m->task_of[i] >= 0) start[m->task_of[i] + 2]++;
    }
    for (int32_t t = 0; t < m->T; t++) start[t + 2] += start[t + 1];
    for (int32_t i = 0; i < graph->N; i++) {
        if (m->task_of[i] >= 0) written[start[m->task_of[i] + 1]++] = i;
    }
    c->graph = graph;
    c->m = m;
    c->written_start = start;
    c->written = written;
    return STW_OK;
}

static void forget_tasks(const collector *c) {
    for (int32_t i = 0; i < c->graph->N; i++) c->last_task[i] = -1;
}

static stw_status list_members(const stw_graph *graph, stw_arena *arena, stw_membership *m, stw_str *reason, stw_error *error) {
    collector c = {0};
    int32_t list[STW_MAX_GROUP_MEMBERS];
    STW_TRY_NEW(arena, m->member_start, (int64_t)m->T + 1, error);
    TRY(sort_written(graph, m, arena, &c, error));
    forget_tasks(&c);
    int64_t total = 0;
    for (int32_t t = 0; t < m->T; t++) { /* first only count, so that the list is made to measure */
        const int32_t count = collect_members(&c, t, list);
        if (count < 0) {
            *reason = stw_str_format(arena, "the group of op %d '%.*s' has more than %d members", m->task_node[t],
                                     STW_STR_SHOW(graph->node_name[m->task_node[t]]), STW_MAX_GROUP_MEMBERS);
            return STW_OK;
        }
        total += count;
        if (total > INT32_MAX) return stw_fail(error, STW_ERROR_MEMORY, "too many recomputed ops");
        m->member_start[t + 1] = (int32_t)total;
    }
    STW_TRY_NEW(arena, m->member, total, error);
    forget_tasks(&c);
    for (int32_t t = 0; t < m->T; t++) {
        const int32_t count = collect_members(&c, t, list);
        memcpy(m->member + m->member_start[t], list, (size_t)count * sizeof *list);
    }
    return STW_OK;
}

/* Tasks by the op that they compute: the members turned around. */
static stw_status list_computers(const stw_graph *graph, stw_arena *arena, stw_membership *m, stw_error *error) {
    const int32_t total = m->member_start[m->T];
    int32_t *start;
    STW_TRY_NEW(arena, start, (int64_t)graph->N + 2, error);
    STW_TRY_NEW(arena, m->computer, total, error);
    for (int32_t k = 0; k < total; k++) start[m->member[k] + 2]++;
    for (int32_t i = 0; i < graph->N; i++) start[i + 2] += start[i + 1];
    for (int32_t t = 0; t < m->T; t++) {
        for (int32_t k = m->member_start[t]; k < m->member_start[t + 1]; k++) m->computer[start[m->member[k] + 1]++] = t;
    }
    m->computer_start = start;
    return STW_OK;
}

/* True if a member of the task produces something that `op` reads. */
static bool reads_inside(const stw_graph *graph, const stw_membership *m, int32_t task, int32_t op) {
    for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
        for (int32_t k = m->member_start[task]; k < m->member_start[task + 1]; k++) {
            if (m->member[k] == graph->read[e].node) return true;
        }
    }
    return false;
}

/* The operator classes: only some fuse; one op of a class that the device takes an epilogue on may lead a group. */
static stw_str check_classes(const stw_graph *graph, const stw_machine *machine, const int32_t *device, const stw_membership *m,
                             stw_arena *arena) {
    for (int32_t t = 0; t < m->T; t++) {
        if (m->member_start[t + 1] - m->member_start[t] < 2) continue;
        const stw_device *on = &machine->device[device[m->task_node[t]]];
        int32_t leaders = 0;
        for (int32_t k = m->member_start[t]; k < m->member_start[t + 1]; k++) {
            const int32_t op = m->member[k];
            const stw_op_class op_class = (stw_op_class)graph->op_class[op];
            if (stw_op_class_fuses(op_class)) continue;
            if (!on->fuses_epilogue[op_class]) return illegal(arena, graph, op, "is of a class that does not fuse on its device");
            if (++leaders > 1) return illegal(arena, graph, op, "is the second op of its group that takes an epilogue");
            if (reads_inside(graph, m, t, op)) return illegal(arena, graph, op, "takes an epilogue but reads from its own group");
        }
    }
    return (stw_str){0};
}

stw_str stw_membership_fault(const stw_graph *graph, const stw_machine *machine, const int32_t *group, const int32_t *device,
                             const stw_membership *m, stw_arena *arena) {
    const stw_str fault = check_ops(graph, group, device, m, arena);
    return fault.length > 0 ? fault : check_classes(graph, machine, device, m, arena);
}

stw_status stw_membership_build(const stw_graph *graph, const stw_machine *machine, const int32_t *group, const int32_t *device,
                                stw_arena *arena, stw_membership *out, stw_str *reason, stw_error *error) {
    *reason = (stw_str){0};
    TRY(stw_membership_number(graph, group, arena, out, error));
    if (group != NULL) *reason = check_ops(graph, group, device, out, arena);
    if (reason->length > 0) return STW_OK;
    TRY(list_members(graph, arena, out, reason, error));
    if (reason->length > 0) return STW_OK;
    TRY(list_computers(graph, arena, out, error));
    if (group != NULL) *reason = check_classes(graph, machine, device, out, arena);
    return STW_OK;
}
