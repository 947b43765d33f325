#include "plan/tasks.h"

#include <string.h>

#include "plan/group_cost.h"
#include "plan/kernel_rules.h"

typedef struct {
    const stw_costs *costs;
    const stw_graph *graph;
    const stw_membership *m;
    stw_tasks *tasks;
    stw_arena *arena;
    stw_error *error;
    int32_t *value_of;     /* (N) value, or -1 */
    int32_t *reading_task; /* (U) the task of each read, in task order */
    stw_use *reads;        /* (U) what tasks read from outside: (value, view), sorted within a task */
    int32_t *waiter_place; /* (T) where the next waiter of a task goes */
} builder;

static int32_t member_count(const stw_membership *m, int32_t task) { return m->member_start[task + 1] - m->member_start[task]; }

/* A written output is visible outside its task if another task reads it or it is a graph output. An op alone always writes. */
static bool is_visible(const builder *b, int32_t op) {
    const int32_t task = b->m->task_of[op];
    if (task < 0) return false;
    if (b->graph->kept[op] || member_count(b->m, task) == 1) return true;
    for (int64_t r = b->graph->reader_start[op]; r < b->graph->reader_start[op + 1]; r++) {
        const int32_t reader = b->graph->reader[r].node;
        for (int32_t k = b->m->computer_start[reader]; k < b->m->computer_start[reader + 1]; k++) {
            if (b->m->computer[k] != task) return true;
        }
    }
    return false;
}

static uint8_t flags_of(const stw_graph *graph, int32_t node) {
    int flags = 0;
    if (stw_node_is_resident(graph->kind[node])) flags |= STW_VALUE_RESIDENT;
    if (stw_node_is_everywhere(graph->kind[node])) flags |= STW_VALUE_EVERYWHERE;
    if (graph->kept[node]) flags |= STW_VALUE_KEPT;
    if (graph->kind[node] == STW_NODE_OP && graph->updates[node] >= 0) flags |= STW_VALUE_IN_PLACE;
    return (uint8_t)flags;
}

static stw_status number_values(builder *b) {
    stw_tasks *tasks = b->tasks;
    const stw_graph *graph = b->graph;
    STW_TRY_NEW(b->arena, b->value_of, graph->N, b->error);
    STW_TRY_NEW(b->arena, tasks->value_node, graph->N, b->error);
    STW_TRY_NEW(b->arena, tasks->source, graph->N, b->error);
    for (int32_t i = 0; i < graph->N; i++) {
        const bool source = stw_node_is_source(graph->kind[i]);
        b->value_of[i] = -1;
        if (!source && (graph->kind[i] != STW_NODE_OP || !is_visible(b, i))) continue;
        if (source) tasks->source[tasks->source_count++] = tasks->V;
        b->value_of[i] = tasks->V;
        tasks->value_node[tasks->V++] = i;
    }
    return STW_OK;
}

static stw_status describe_values(builder *b) {
    stw_tasks *tasks = b->tasks;
    const stw_graph *graph = b->graph;
    STW_TRY_NEW(b->arena, tasks->value_task, tasks->V, b->error);
    STW_TRY_NEW(b->arena, tasks->value_bytes, tasks->V, b->error);
    STW_TRY_NEW(b->arena, tasks->home_bytes, tasks->V, b->error);
    STW_TRY_NEW(b->arena, tasks->value_flags, tasks->V, b->error);
    STW_TRY_NEW(b->arena, tasks->value_updater, tasks->V, b->error);
    STW_TRY_NEW(b->arena, tasks->output_start, (int64_t)tasks->T + 1, b->error);
    STW_TRY_NEW(b->arena, tasks->output, tasks->V, b->error);
    for (int32_t v = 0; v < tasks->V; v++) {
        const int32_t node = tasks->value_node[v];
        tasks->value_task[v] = b->m->task_of[node];
        tasks->value_bytes[v] = graph->bytes[node];
        tasks->value_flags[v] = flags_of(graph, node);
        tasks->home_bytes[v] = tasks->value_flags[v] & STW_VALUE_IN_PLACE ? 0 : graph->bytes[node];
        tasks->value_updater[v] = graph->updated_by[node] >= 0 ? b->m->task_of[graph->updated_by[node]] : -1;
    }
    int32_t next = 0;
    for (int32_t t = 0; t < tasks->T; t++) {
        tasks->output_start[t] = next;
        for (int32_t k = b->m->member_start[t]; k < b->m->member_start[t + 1]; k++) {
            const int32_t op = b->m->member[k];
            if (b->m->task_of[op] == t && b->value_of[op] >= 0) tasks->output[next++] = b->value_of[op];
        }
    }
    tasks->output_start[tasks->T] = next;
    return STW_OK;
}

/* The distinct (value, view) pairs that a task reads from outside, sorted; returns their number. What a member reads is inside
 * if its task writes it, or if it is recomputed. */
static int32_t collect_reads(const builder *b, int32_t task, stw_use *out) {
    const stw_graph *graph = b->graph;
    int32_t count = 0;
    const bool alone = member_count(b->m, task) == 1;
    for (int32_t k = b->m->member_start[task]; k < b->m->member_start[task + 1]; k++) {
        const int32_t op = b->m->member[k];
        for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
            const int32_t producer = graph->read[e].node;
            const bool inside =
                graph->kind[producer] == STW_NODE_OP && (b->m->task_of[producer] == task || b->m->task_of[producer] < 0);
            if (!inside) out[count++] = (stw_use){b->value_of[producer], graph->read[e].view};
        }
    }
    if (alone || count < 2) return count; /* the graph's reads are sorted and distinct, and values keep their order */
    return stw_sort_uses(out, count);
}

/* Operands (distinct external values read) and outputs of a group; too many make it illegal. */
static bool has_too_many_tensors(const builder *b, int32_t task, int32_t reads, stw_str *reason) {
    const stw_tasks *tasks = b->tasks;
    const stw_use *read = b->reads + tasks->input_start[task];
    int32_t tensors = tasks->output_start[task + 1] - tasks->output_start[task];
    for (int32_t k = 0; k < reads; k++) tensors += k == 0 || read[k].node != read[k - 1].node;
    if (member_count(b->m, task) < 2 || tensors <= STW_MAX_GROUP_TENSORS) return false;
    const int32_t node = tasks->task_node[task];
    *reason = stw_str_format(b->arena, "the group of op %d '%.*s' has %d operands and outputs; at most %d are allowed", node,
                             STW_STR_SHOW(b->graph->node_name[node]), tensors, STW_MAX_GROUP_TENSORS);
    return true;
}

/* What the compiler behind the file wants of a group. */
static bool is_no_kernel(const builder *b, int32_t task, stw_str *reason) {
    const stw_tasks *tasks = b->tasks;
    int32_t output[STW_MAX_GROUP_MEMBERS], op = -1;
    const int32_t members = member_count(b->m, task), outputs = tasks->output_start[task + 1] - tasks->output_start[task];
    if (members < 2) return false;
    for (int32_t o = 0; o < outputs; o++) output[o] = tasks->value_node[tasks->output[tasks->output_start[task] + o]];
    const char *fault = stw_kernel_fault(b->graph, b->m->member + b->m->member_start[task], members, output, outputs, &op);
    if (fault == NULL) return false;
    const int32_t node = tasks->task_node[task];
    *reason = stw_str_format(b->arena, "the group of op %d '%.*s' cannot be one kernel: '%.*s' (%.*s) %s", node,
                             STW_STR_SHOW(b->graph->node_name[node]), STW_STR_SHOW(b->graph->node_name[op]),
                             STW_STR_SHOW(b->graph->op_name[op]), fault);
    return true;
}

/* Stops at the first group that is too large: recomputation could make the lists enormous. */
static stw_status collect_all_reads(builder *b, stw_str *reason) {
    stw_tasks *tasks = b->tasks;
    int64_t most = 0;
    for (int32_t k = 0; k < b->m->member_start[tasks->T]; k++) {
        const int32_t op = b->m->member[k];
        most += b->graph->read_start[op + 1] - b->graph->read_start[op];
    }
    if (most > INT32_MAX) return stw_fail(b->error, STW_ERROR_MEMORY, "more than 2^31 reads");
    STW_TRY_NEW(b->arena, tasks->input_start, (int64_t)tasks->T + 1, b->error);
    b->reads = STW_NEW_DIRTY(b->arena, stw_use, most);
    b->reading_task = STW_NEW_DIRTY(b->arena, int32_t, most);
    if (b->reading_task == NULL) return stw_fail(b->error, STW_ERROR_MEMORY, "out of memory for %lld reads", (long long)most);
    for (int32_t t = 0; t < tasks->T; t++) {
        const int32_t count = collect_reads(b, t, b->reads + tasks->U);
        tasks->input_start[t] = tasks->U;
        if (has_too_many_tensors(b, t, count, reason) || is_no_kernel(b, t, reason)) return STW_OK;
        for (int32_t k = 0; k < count; k++) b->reading_task[tasks->U + k] = t;
        tasks->U += count;
    }
    tasks->input_start[tasks->T] = tasks->U;
    return STW_OK;
}

/* Turns the reads around: by value, then view, then task. Two stable counting sorts, by view and by value. */
static stw_status sort_uses(builder *b) {
    stw_tasks *tasks = b->tasks;
    const int32_t U = tasks->U, V = tasks->V, N = b->graph->N;
    int32_t *place, *by_view;
    STW_TRY_NEW(b->arena, tasks->use_start, (int64_t)V + 1, b->error);
    STW_TRY_NEW(b->arena, tasks->use, U, b->error);
    STW_TRY_NEW(b->arena, tasks->slot_value, U, b->error);
    stw_arena scratch = *b->arena;
    STW_TRY_NEW(&scratch, place, (int64_t)N + 3, b->error);
    STW_TRY_NEW(&scratch, by_view, U, b->error);                   /* slots */
    for (int32_t s = 0; s < U; s++) place[b->reads[s].view + 2]++; /* view -1, the whole value, comes first */
    for (int32_t v = 0; v <= N; v++) place[v + 1] += place[v];
    for (int32_t s = 0; s < U; s++) by_view[place[b->reads[s].view + 1]++] = s;

    for (int32_t s = 0; s < U; s++) tasks->use_start[b->reads[s].node + 1]++;
    for (int32_t v = 0; v < V; v++) tasks->use_start[v + 1] += tasks->use_start[v];
    memcpy(place, tasks->use_start, (size_t)V * sizeof *place);
    for (int32_t k = 0; k < U; k++) {
        const int32_t s = by_view[k], value = b->reads[s].node;
        tasks->use[place[value]++] = (stw_task_use){b->reading_task[s], s, b->reads[s].view};
        tasks->slot_value[s] = value;
    }
    return STW_OK;
}

/* Calls for each pair of tasks of which the second waits for the first: for each op and each op that it waits for, all pairs of
 * tasks that compute them. */
typedef void wait_visitor(builder *b, int32_t before, int32_t task);
static void walk_waits(builder *b, wait_visitor *visit) {
    const stw_graph *graph = b->graph;
    const stw_membership *m = b->m;
    for (int32_t t = 0; t < m->T; t++) {
        for (int32_t k = m->member_start[t]; k < m->member_start[t + 1]; k++) {
            const int32_t op = m->member[k];
            for (int64_t w = graph->wait_start[op]; w < graph->wait_start[op + 1]; w++) {
                const int32_t before = graph->wait[w];
                for (int32_t c = m->computer_start[before]; c < m->computer_start[before + 1]; c++) {
                    if (m->computer[c] != t) visit(b, m->computer[c], t);
                }
            }
        }
    }
}

/* How many pairs there are at most. Where both ends of a wait are recomputed in many groups it is a product, so it is counted
 * before anything is allocated. */
static double count_waits(const builder *b) {
    const stw_graph *graph = b->graph;
    const stw_membership *m = b->m;
    double count = 0.0;
    for (int32_t i = 0; i < graph->N; i++) {
        const double waiting = m->computer_start[i + 1] - m->computer_start[i];
        for (int64_t w = graph->wait_start[i]; w < graph->wait_start[i + 1]; w++) {
            count += waiting * (m->computer_start[graph->wait[w] + 1] - m->computer_start[graph->wait[w]]);
        }
    }
    return count;
}

static void count_waiter(builder *b, int32_t before, int32_t task) {
    b->tasks->waiter_start[before + 1]++;
    b->tasks->pending[task]++;
}

static void place_waiter(builder *b, int32_t before, int32_t task) { b->tasks->waiter[b->waiter_place[before]++] = task; }

static stw_status build_waits(builder *b) {
    enum { MOST_WAITS = 1 << 28 };
    stw_tasks *tasks = b->tasks;
    const int32_t T = tasks->T;
    if (count_waits(b) > MOST_WAITS) {
        return stw_fail(b->error, STW_ERROR_INPUT,
                        "the groups make more than 2^28 waits between tasks; recompute fewer ops that wait");
    }
    STW_TRY_NEW(b->arena, tasks->waiter_start, (int64_t)T + 1, b->error);
    STW_TRY_NEW(b->arena, tasks->pending, T, b->error);
    walk_waits(b, count_waiter);
    for (int32_t t = 0; t < T; t++) tasks->waiter_start[t + 1] += tasks->waiter_start[t];
    STW_TRY_NEW(b->arena, tasks->waiter, tasks->waiter_start[T], b->error);
    stw_arena scratch = *b->arena;
    STW_TRY_NEW(&scratch, b->waiter_place, T, b->error);
    if (T > 0) memcpy(b->waiter_place, tasks->waiter_start, (size_t)T * sizeof *b->waiter_place);
    walk_waits(b, place_waiter);
    for (int32_t s = 0; s < tasks->U; s++) {
        const bool everywhere = tasks->value_flags[tasks->slot_value[s]] & STW_VALUE_EVERYWHERE;
        if (!everywhere) tasks->pending[b->reading_task[s]]++;
    }
    return STW_OK;
}

/* Runs through the tasks as execution could; what is never reached is on a cycle or behind one. */
static stw_status check_cycles(builder *b, stw_str *reason) {
    stw_tasks *tasks = b->tasks;
    STW_TRY_NEW(b->arena, tasks->order, tasks->T, b->error);
    stw_arena scratch = *b->arena;
    int32_t *pending, *queue = tasks->order;
    STW_TRY_NEW(&scratch, pending, tasks->T, b->error);
    int32_t count = 0;
    for (int32_t t = 0; t < tasks->T; t++) pending[t] = tasks->pending[t];
    for (int32_t k = 0; k < tasks->source_count; k++) {
        const int32_t v = tasks->source[k];
        if (tasks->value_flags[v] & STW_VALUE_EVERYWHERE) continue; /* not counted in `pending` */
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) pending[tasks->use[u].task]--;
    }
    for (int32_t t = 0; t < tasks->T; t++) {
        if (pending[t] == 0) queue[count++] = t;
    }
    for (int32_t k = 0; k < count; k++) {
        const int32_t t = queue[k];
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            const int32_t v = tasks->output[o];
            for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
                if (--pending[tasks->use[u].task] == 0) queue[count++] = tasks->use[u].task;
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            if (--pending[tasks->waiter[w]] == 0) queue[count++] = tasks->waiter[w];
        }
    }
    int32_t stuck = 0;
    while (stuck < tasks->T && pending[stuck] == 0) stuck++;
    if (stuck == tasks->T) return STW_OK;
    const int32_t node = tasks->task_node[stuck]; /* from here on the scratch memory is not used any more */
    *reason = stw_str_format(b->arena, "the groups form a cycle through or before op %d '%.*s'", node,
                             STW_STR_SHOW(b->graph->node_name[node]));
    return STW_OK;
}

static bool is_written(const builder *b, int32_t task, int32_t op) {
    return b->m->task_of[op] == task && (b->value_of[op] >= 0 || b->graph->updates[op] >= 0);
}

/* External bytes of a group: each value read once, what is visible outside written once; an update writes in any case. */
static void add_external_bytes(const builder *b, int32_t task, const stw_group_members *group, stw_group_work *work) {
    const stw_tasks *tasks = b->tasks;
    for (int32_t s = tasks->input_start[task]; s < tasks->input_start[task + 1];) {
        int32_t end = s + 1;
        while (end < tasks->input_start[task + 1] && b->reads[end].node == b->reads[s].node) end++;
        stw_group_work_read(work, group, tasks->value_node[b->reads[s].node], b->reads + s, end - s);
        s = end;
    }
    for (int32_t k = 0; k < group->count; k++) {
        const int32_t op = group->member[k];
        if (is_written(b, task, op)) stw_group_work_write(work, group, op);
    }
}

typedef struct {
    const stw_membership *m;
    int32_t task;
} task_view;

/* Some other task computes this reader too, or alone. */
static bool reads_outside(const void *context, int32_t reader) {
    const task_view *view = context;
    for (int32_t k = view->m->computer_start[reader]; k < view->m->computer_start[reader + 1]; k++) {
        if (view->m->computer[k] != view->task) return true;
    }
    return false;
}

static double kernel_us(const builder *b, int32_t task, const stw_kernel_room *room, int32_t cost_class) {
    const task_view view = {b->m, task};
    bool written[STW_MAX_GROUP_MEMBERS];
    const stw_members members = {.member = b->m->member + b->m->member_start[task],
                                 .written = written,
                                 .count = member_count(b->m, task),
                                 .reads_outside = reads_outside,
                                 .context = &view};
    for (int32_t k = 0; k < members.count; k++) written[k] = is_written(b, task, members.member[k]);
    return stw_group_kernel_us(b->costs, cost_class, &members, room);
}

/* One kernel: two members or more. */
static double group_us(const builder *b, int32_t task, const stw_kernel_room *room, int32_t cost_class) {
    const stw_machine *machine = b->costs->machine;
    const stw_group_members group = {b->graph, b->m->member + b->m->member_start[task], member_count(b->m, task)};
    stw_group_work work = {0};
    if (b->graph->flow != NULL) return kernel_us(b, task, room, cost_class);
    stw_group_work_members(&work, &group, b->costs, cost_class);
    add_external_bytes(b, task, &group, &work);
    return stw_cost_group_us(&machine->device[machine->class_device[cost_class]], &work);
}

/* A group takes its time from `times`, if it was there before. */
static void time_group(const builder *b, int32_t task, const stw_kernel_room *room, stw_group_times *times) {
    const stw_membership *m = b->m;
    const int32_t *member = m->member + m->member_start[task], count = member_count(m, task), id = m->task_node[task];
    const int32_t C = b->costs->machine->cost_class_count;
    uint64_t written = 0;
    for (int32_t k = 0; k < count; k++) written |= (uint64_t)is_written(b, task, member[k]) << k;
    const int64_t *known = times != NULL ? stw_group_times_find(times, id, member, count, written) : NULL;
    for (int32_t c = 0; c < C; c++)
        b->tasks->duration_ps[c][task] = known != NULL ? known[c] : stw_cost_us_to_ps(group_us(b, task, room, c));
    if (known != NULL || times == NULL) return;
    int64_t *noted = stw_group_times_note(times, id, member, count, written);
    for (int32_t c = 0; c < C; c++) noted[c] = b->tasks->duration_ps[c][task];
}

static stw_status time_tasks(builder *b, stw_group_times *times) {
    stw_tasks *tasks = b->tasks;
    const int32_t C = b->costs->machine->cost_class_count;
    STW_TRY_NEW(b->arena, tasks->duration_ps, C, b->error);
    for (int32_t c = 0; c < C; c++) STW_TRY_NEW(b->arena, tasks->duration_ps[c], tasks->T, b->error);
    stw_arena scratch = *b->arena;
    stw_kernel_room room;
    TRY(stw_kernel_room_create(b->graph, &scratch, &room, b->error));
    for (int32_t t = 0; t < tasks->T; t++) {
        if (member_count(b->m, t) > 1) {
            time_group(b, t, &room, b->graph->flow == NULL ? times : NULL);
            continue;
        }
        for (int32_t c = 0; c < C; c++) tasks->duration_ps[c][t] = stw_cost_us_to_ps(b->costs->us[c][tasks->task_node[t]]);
    }
    return STW_OK;
}

stw_status stw_tasks_build(const stw_costs *costs, const stw_membership *membership, stw_group_times *times, stw_arena *arena,
                           stw_tasks *out, stw_str *reason, stw_error *error) {
    builder b = {.costs = costs, .graph = costs->graph, .m = membership, .tasks = out, .arena = arena, .error = error};
    *out = (stw_tasks){.T = membership->T, .task_node = membership->task_node, .task_of = membership->task_of};
    *reason = (stw_str){0};
    TRY(number_values(&b));
    TRY(describe_values(&b));
    TRY(collect_all_reads(&b, reason));
    if (reason->length > 0) return STW_OK;
    TRY(sort_uses(&b));
    TRY(build_waits(&b));
    TRY(check_cycles(&b, reason));
    if (reason->length > 0) return STW_OK;
    return time_tasks(&b, times);
}

/* ---- copies ---- */

static stw_status copy_ids(const int32_t *from, int64_t count, stw_arena *arena, int32_t **out, stw_error *error) {
    STW_TRY_NEW(arena, *out, count, error);
    if (count > 0) memcpy(*out, from, (size_t)count * sizeof **out);
    return STW_OK;
}

static stw_status copy_sizes(const int64_t *from, int64_t count, stw_arena *arena, int64_t **out, stw_error *error) {
    STW_TRY_NEW(arena, *out, count, error);
    if (count > 0) memcpy(*out, from, (size_t)count * sizeof **out);
    return STW_OK;
}

static stw_status copy_values(const stw_tasks *tasks, stw_arena *arena, stw_tasks *out, stw_error *error) {
    const int64_t V = tasks->V;
    TRY(copy_ids(tasks->value_node, V, arena, &out->value_node, error));
    TRY(copy_ids(tasks->value_task, V, arena, &out->value_task, error));
    TRY(copy_sizes(tasks->value_bytes, V, arena, &out->value_bytes, error));
    TRY(copy_sizes(tasks->home_bytes, V, arena, &out->home_bytes, error));
    TRY(copy_ids(tasks->value_updater, V, arena, &out->value_updater, error));
    TRY(copy_ids(tasks->use_start, V + 1, arena, &out->use_start, error));
    TRY(copy_ids(tasks->slot_value, tasks->U, arena, &out->slot_value, error));
    TRY(copy_ids(tasks->source, tasks->source_count, arena, &out->source, error));
    STW_TRY_NEW(arena, out->value_flags, V, error);
    STW_TRY_NEW(arena, out->use, tasks->U, error);
    if (V > 0) memcpy(out->value_flags, tasks->value_flags, (size_t)V * sizeof *out->value_flags);
    if (tasks->U > 0) memcpy(out->use, tasks->use, (size_t)tasks->U * sizeof *out->use);
    return STW_OK;
}

stw_status stw_tasks_copy(const stw_tasks *tasks, int32_t N, int32_t classes, stw_arena *arena, stw_tasks *out,
                          stw_error *error) {
    const int64_t T = tasks->T;
    *out = (stw_tasks){.T = tasks->T, .V = tasks->V, .U = tasks->U, .source_count = tasks->source_count};
    TRY(copy_ids(tasks->task_node, T, arena, &out->task_node, error));
    TRY(copy_ids(tasks->task_of, N, arena, &out->task_of, error));
    TRY(copy_ids(tasks->output_start, T + 1, arena, &out->output_start, error));
    TRY(copy_ids(tasks->output, tasks->output_start[T], arena, &out->output, error));
    TRY(copy_ids(tasks->input_start, T + 1, arena, &out->input_start, error));
    TRY(copy_ids(tasks->waiter_start, T + 1, arena, &out->waiter_start, error));
    TRY(copy_ids(tasks->waiter, tasks->waiter_start[T], arena, &out->waiter, error));
    TRY(copy_ids(tasks->pending, T, arena, &out->pending, error));
    TRY(copy_ids(tasks->order, T, arena, &out->order, error));
    TRY(copy_values(tasks, arena, out, error));
    STW_TRY_NEW(arena, out->duration_ps, classes, error);
    for (int32_t c = 0; c < classes; c++) TRY(copy_sizes(tasks->duration_ps[c], T, arena, &out->duration_ps[c], error));
    return STW_OK;
}
