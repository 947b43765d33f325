/* The entry in planned order, and what it says of devices and priorities. */
#include <stdlib.h>

#include "export/hlo/edit.h"

/* ---- the order ---- */

/* The entry in planned order: what is possible and comes first in the plan goes first. Parameters lead; constants, views and
 * parts of tuples stand before their first reader. */

typedef struct edge_list { /* from each item of the entry, less the first, to those that must come later */
    int32_t first, n;
    int64_t *start;   /* (n + 1) */
    int32_t *after;   /* (start[n]) */
    int32_t *pending; /* (n) edges that end in an item */
} edge_list;

typedef struct wait_pair { /* items */
    int32_t before, after;
} wait_pair;

typedef struct wait_list { /* pairs that no operand shows */
    wait_pair *pair;       /* (count) */
    int32_t count;
    int64_t room;
} wait_list;

static void count_edge(edge_list *edges, int64_t before, int32_t after, bool fill) {
    const int32_t from = (int32_t)before - edges->first, to = after - edges->first;
    if (!fill) {
        edges->start[from + 2]++;
    } else {
        edges->after[edges->start[from + 1]++] = to;
        edges->pending[to]++;
    }
}

static void walk_edges(const stw_hlo_edit *edit, const wait_list *waits, edge_list *edges, bool fill) {
    for (int32_t k = 0; k < edges->n; k++) {
        const stw_hlo_item *item = &edit->item[edges->first + k];
        for (int32_t o = 0; o < item->operand.count; o++)
            count_edge(edges, stw_hlo_number(edit, item->operand, o), edges->first + k, fill);
        for (int32_t o = 0; o < item->control.count; o++)
            count_edge(edges, stw_hlo_number(edit, item->control, o), edges->first + k, fill);
    }
    for (int32_t w = 0; w < waits->count; w++) count_edge(edges, waits->pair[w].before, waits->pair[w].after, fill);
}

/* The item that does what a task does. */
static int32_t item_of_task(const stw_hlo_edit *edit, int32_t task) {
    const int32_t group = edit->fused_of[task];
    if (group >= 0) return edit->fused[group].item;
    return edit->item_of[stw_hlo_local(edit, edit->op_at[edit->tasks.task_node[task]])];
}

/* What the plan's tasks wait for beside their operands: control edges, and readers of what they write over. */
static stw_status collect_waits(stw_hlo_edit *edit, wait_list *waits) {
    const stw_graph *graph = edit->e->graph;
    const stw_membership *m = &edit->tasks;
    for (int32_t k = 0; k < m->member_start[m->T]; k++) {
        const int32_t op = m->member[k];
        for (int64_t w = graph->wait_start[op]; w < graph->wait_start[op + 1]; w++) {
            for (int32_t a = m->computer_start[graph->wait[w]]; a < m->computer_start[graph->wait[w] + 1]; a++) {
                for (int32_t b = m->computer_start[op]; b < m->computer_start[op + 1]; b++) {
                    const int32_t before = item_of_task(edit, m->computer[a]), after = item_of_task(edit, m->computer[b]);
                    if (before < 0 || after < 0 || before == after) continue;
                    STW_HLO_RESERVE(edit->arena, waits->pair, waits->count, waits->room, edit->error);
                    waits->pair[waits->count++] = (wait_pair){before, after};
                }
            }
        }
    }
    return STW_OK;
}

static stw_status build_edges(stw_hlo_edit *edit, edge_list *edges) {
    wait_list found = {0};
    const wait_list *waits = &found;
    TRY(collect_waits(edit, &found));
    edges->first = edit->sequence[0];
    edges->n = edit->entry_count;
    STW_TRY_NEW(edit->arena, edges->start, (int64_t)edges->n + 2, edit->error);
    STW_TRY_NEW(edit->arena, edges->pending, edges->n, edit->error);
    walk_edges(edit, waits, edges, false);
    for (int32_t k = 0; k < edges->n; k++) edges->start[k + 2] += edges->start[k + 1];
    STW_TRY_NEW(edit->arena, edges->after, edges->start[edges->n + 1], edit->error);
    walk_edges(edit, waits, edges, true);
    return STW_OK;
}

/* ---- any order that is possible ---- */

/* False: there is none. */
static stw_status sort_once(const stw_hlo_edit *edit, const edge_list *edges, int32_t *order, bool *is_sorted) {
    int32_t *pending, count = 0;
    stw_arena scratch = *edit->arena;
    STW_TRY_NEW(&scratch, pending, edges->n, edit->error);
    for (int32_t k = 0; k < edges->n; k++) {
        pending[k] = edges->pending[k];
        if (pending[k] == 0) order[count++] = k;
    }
    for (int32_t done = 0; done < count; done++) {
        for (int64_t e = edges->start[order[done]]; e < edges->start[order[done] + 1]; e++) {
            if (--pending[edges->after[e]] == 0) order[count++] = edges->after[e];
        }
    }
    *is_sorted = count == edges->n;
    return STW_OK;
}

/* ---- the planned one ---- */

/* Ops: 2 * rank + 1; what stands before a reader: 2 * rank of the first; parameters lead, what nobody reads ends. */
static int64_t key_of(const stw_hlo_edit *edit, const edge_list *edges, const int64_t *key, int32_t k) {
    const stw_hlo_item *item = &edit->item[edges->first + k];
    const stw_hlo_instruction *source = stw_hlo_at(edit, item->source);
    int32_t node = -1;
    if (item->kind == STW_ITEM_FUSION) node = edit->tasks.task_node[edit->fused[item->group].task];
    if (item->kind == STW_ITEM_COPY) node = edit->op_node[stw_hlo_local(edit, item->source)];
    if (node >= 0) return 2 * (int64_t)edit->e->rank[node] + 1;
    if (item->kind == STW_ITEM_COPY && source->rule == STW_HLO_PARAMETER) return -1;
    int64_t first = INT64_MAX;
    for (int64_t e = edges->start[k]; e < edges->start[k + 1]; e++) {
        const int64_t reader = key[edges->after[e]];
        if (reader != INT64_MAX && (reader & ~(int64_t)1) < first) first = reader & ~(int64_t)1;
    }
    return first;
}

typedef struct heap {
    const int64_t *key;
    int32_t *item; /* smallest (key, number) at the top */
    int32_t count;
} heap;

static bool is_less(const heap *h, int32_t a, int32_t b) { return h->key[a] != h->key[b] ? h->key[a] < h->key[b] : a < b; }

static void push(heap *h, int32_t item) {
    int32_t k = h->count++;
    for (; k > 0 && is_less(h, item, h->item[(k - 1) / 2]); k = (k - 1) / 2) h->item[k] = h->item[(k - 1) / 2];
    h->item[k] = item;
}

static int32_t pop(heap *h) {
    const int32_t top = h->item[0], last = h->item[--h->count];
    int32_t k = 0;
    for (int32_t child; (child = 2 * k + 1) < h->count; k = child) {
        if (child + 1 < h->count && is_less(h, h->item[child + 1], h->item[child])) child++;
        if (!is_less(h, h->item[child], last)) break;
        h->item[k] = h->item[child];
    }
    if (h->count > 0) h->item[k] = last;
    return top;
}

static void sort_by_key(stw_hlo_edit *edit, const edge_list *edges, heap *h) {
    int32_t count = 0;
    for (int32_t k = 0; k < edges->n; k++) {
        if (edges->pending[k] == 0) push(h, k);
    }
    while (h->count > 0) {
        const int32_t next = pop(h);
        edit->sequence[count++] = edges->first + next;
        for (int64_t e = edges->start[next]; e < edges->start[next + 1]; e++) {
            if (--edges->pending[edges->after[e]] == 0) push(h, edges->after[e]);
        }
    }
}

stw_status stw_hlo_find_cycle(stw_hlo_edit *edit, bool *is_cyclic) {
    edge_list edges = {0};
    int32_t *order;
    bool is_sorted = false;
    TRY(build_edges(edit, &edges));
    STW_TRY_NEW(edit->arena, order, edges.n, edit->error);
    TRY(sort_once(edit, &edges, order, &is_sorted));
    *is_cyclic = !is_sorted;
    return STW_OK;
}

stw_status stw_hlo_order(stw_hlo_edit *edit) {
    edge_list edges = {0};
    int32_t *order;
    int64_t *key;
    heap h = {0};
    bool is_sorted = false;
    TRY(build_edges(edit, &edges));
    STW_TRY_NEW(edit->arena, order, edges.n, edit->error);
    STW_TRY_NEW(edit->arena, key, edges.n, edit->error);
    STW_TRY_NEW(edit->arena, h.item, edges.n, edit->error);
    TRY(sort_once(edit, &edges, order, &is_sorted));
    if (!is_sorted) {
        return stw_fail(
            edit->error, STW_ERROR_INPUT,
            "the module's control edges leave no order for the plan: one names a tuple or a barrier; let it name an op");
    }
    for (int32_t k = edges.n; k-- > 0;) key[order[k]] = key_of(edit, &edges, key, order[k]);
    h.key = key;
    sort_by_key(edit, &edges, &h);
    return STW_OK;
}

/* ---- what is written beside it ---- */

/* What the plan says of each task and parameter, beside the order of the entry: the device, the priority and, where the device
 * has a strict order, the place in it. With these a module that is read back has its plan. */

/* A text that is read as the same number, short if there is a short one. */
static void put_priority(stw_pb_writer *w, double priority) {
    char text[32];
    double again = 0.0;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, priority);
        if (stw_str_to_double(stw_str_of(text), &again) && again == priority) break;
    }
    stw_pb_write_raw(w, stw_str_of(text));
}

/* 0 goes without. */
static stw_status write_priority(const stw_hlo_edit *edit, double priority, stw_str *out) {
    stw_pb_writer w = {.arena = edit->arena};
    if (priority == 0.0) return STW_OK;
    put_priority(&w, priority);
    return stw_pb_written(&w, out, edit->error);
}

/* ---- parameters ---- */

/* Nodes of one parameter: one, or the arrays of a tuple in order. Where these are alike, once is enough. */
static stw_status name_home(stw_hlo_edit *edit, const int32_t *node, int32_t count, stw_hlo_note *out) {
    const stw_export *e = edit->e;
    const stw_plan *plan = e->plan;
    stw_pb_writer devices = {.arena = edit->arena}, priorities = {.arena = edit->arena};
    bool same_device = true, same_priority = true;
    for (int32_t k = 1; k < count; k++) {
        same_device &= plan->device[node[k]] == plan->device[node[0]];
        same_priority &= plan->priority[node[k]] == plan->priority[node[0]];
    }
    for (int32_t k = 0; k < (same_device ? 1 : count); k++) {
        if (k > 0) stw_pb_write_raw(&devices, STW_STR(","));
        stw_pb_write_raw(&devices, e->machine->device[plan->device[node[k]]].name);
    }
    TRY(stw_pb_written(&devices, &out->value[STW_HLO_NOTE_DEVICE], edit->error));
    if (same_priority) return write_priority(edit, plan->priority[node[0]], &out->value[STW_HLO_NOTE_PRIORITY]);
    for (int32_t k = 0; k < count; k++) {
        if (k > 0) stw_pb_write_raw(&priorities, STW_STR(","));
        put_priority(&priorities, plan->priority[node[k]]);
    }
    return stw_pb_written(&priorities, &out->value[STW_HLO_NOTE_PRIORITY], edit->error);
}

stw_status stw_hlo_name_homes(stw_hlo_edit *edit, const stw_graph *graph, const int32_t *instruction_of) {
    int32_t *node; /* (N) as the file has them, so that arrays of a tuple stand together */
    STW_TRY_NEW(edit->arena, edit->home, edit->entry->count, edit->error);
    STW_TRY_NEW(edit->arena, node, graph->N, edit->error);
    for (int32_t i = 0; i < graph->N; i++) node[graph->origin[i]] = i;
    for (int32_t k = 0, count = 1; k < graph->N; k += count, count = 1) {
        while (k + count < graph->N && instruction_of[k + count] == instruction_of[k]) count++;
        if (!stw_node_is_resident(graph->kind[node[k]])) continue;
        TRY(name_home(edit, &node[k], count, &edit->home[stw_hlo_local(edit, instruction_of[k])]));
    }
    return STW_OK;
}

/* ---- tasks ---- */

/* As the simulator has it: the largest of what the task writes. */
static double priority_of(const stw_hlo_edit *edit, int32_t task) {
    const stw_membership *m = &edit->tasks;
    const double *priority = edit->e->plan->priority;
    double most = priority[m->task_node[task]];
    for (int32_t k = m->member_start[task]; k < m->member_start[task + 1]; k++) {
        const int32_t op = m->member[k];
        if (m->task_of[op] == task && priority[op] > most) most = priority[op];
    }
    return most;
}

/* ---- orders ---- */

/* The task that an item of the entry does, or -1. */
static int32_t task_of(const stw_hlo_edit *edit, const stw_hlo_item *item) {
    if (item->kind == STW_ITEM_FUSION) return edit->fused[item->group].task;
    const int32_t node = item->kind == STW_ITEM_COPY ? edit->op_node[stw_hlo_local(edit, item->source)] : -1;
    return node < 0 ? -1 : edit->tasks.task_of[node];
}

typedef struct entry_task { /* in the order of the entry */
    int32_t device, position, rank;
    double priority;
} entry_task;

static int compare_entry_tasks(const void *left, const void *right) {
    const entry_task *a = left, *b = right;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    if (a->priority != b->priority) return a->priority < b->priority ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

/* Where one of two tasks with the same priority has a tuple in front that holds it back, they stand the other way round than they
 * begin, and so have the ids that would decide between them: their device needs an order of its own. */
static stw_status find_displaced(const stw_hlo_edit *edit, bool displaced[STW_MAX_DEVICES]) {
    stw_arena scratch = *edit->arena;
    entry_task *list;
    int32_t count = 0;
    STW_TRY_NEW(&scratch, list, edit->entry_count, edit->error);
    for (int32_t k = 0; k < edit->entry_count; k++) {
        const int32_t task = task_of(edit, &edit->item[edit->sequence[k]]);
        if (task < 0) continue;
        const int32_t node = edit->tasks.task_node[task];
        list[count++] = (entry_task){edit->e->plan->device[node], k, edit->e->rank[node], priority_of(edit, task)};
    }
    if (count > 1) qsort(list, (size_t)count, sizeof *list, compare_entry_tasks);
    for (int32_t k = 1; k < count; k++) {
        const bool alike = list[k].device == list[k - 1].device && list[k].priority == list[k - 1].priority;
        if (alike && list[k].rank < list[k - 1].rank) displaced[list[k].device] = true;
    }
    return STW_OK;
}

/* (T) the place of a task in the strict order of its device, or -1. */
static stw_status find_places(const stw_hlo_edit *edit, int32_t **out) {
    const stw_plan *plan = edit->e->plan;
    const stw_membership *m = &edit->tasks;
    bool displaced[STW_MAX_DEVICES] = {false};
    int32_t *place, *begun, count[STW_MAX_DEVICES] = {0};
    STW_TRY_NEW(edit->arena, place, m->T, edit->error);
    STW_TRY_NEW(edit->arena, begun, m->T, edit->error);
    TRY(find_displaced(edit, displaced));
    for (int32_t t = 0; t < m->T; t++) {
        place[t] = -1;
        begun[edit->e->rank[m->task_node[t]]] = t;
    }
    for (int32_t k = 0; k < m->T; k++) {
        const int32_t d = plan->device[m->task_node[begun[k]]];
        if (displaced[d]) place[begun[k]] = count[d]++;
    }
    for (int32_t d = 0; d < edit->e->machine->device_count; d++) {
        for (int32_t k = 0; plan->order[d] != NULL && k < plan->order_count[d]; k++) place[m->task_of[plan->order[d][k]]] = k;
    }
    *out = place;
    return STW_OK;
}

/* ---- the entry ---- */

static stw_status mark_task(const stw_hlo_edit *edit, int32_t task, int32_t place, stw_hlo_mark *out) {
    const stw_export *e = edit->e;
    out->device = e->plan->device[edit->tasks.task_node[task]];
    out->note.value[STW_HLO_NOTE_DEVICE] = e->machine->device[out->device].name;
    TRY(write_priority(edit, priority_of(edit, task), &out->note.value[STW_HLO_NOTE_PRIORITY]));
    if (place < 0) return STW_OK;
    out->note.value[STW_HLO_NOTE_ORDER] = stw_str_format(edit->arena, "%d", place);
    return out->note.value[STW_HLO_NOTE_ORDER].p != NULL ? STW_OK : stw_fail(edit->error, STW_ERROR_MEMORY, "out of memory");
}

stw_status stw_hlo_mark_entry(stw_hlo_edit *edit) {
    int32_t *place = NULL;
    STW_TRY_NEW(edit->arena, edit->mark, edit->item_count, edit->error);
    for (int32_t k = 0; k < edit->item_count; k++) edit->mark[k].device = -1;
    if (edit->e->machine->device_count < 2) return STW_OK;
    TRY(find_places(edit, &place));
    for (int32_t k = 0; k < edit->entry_count; k++) {
        const stw_hlo_item *item = &edit->item[edit->sequence[k]];
        stw_hlo_mark *mark = &edit->mark[edit->sequence[k]];
        const int32_t task = task_of(edit, item);
        if (task >= 0) {
            TRY(mark_task(edit, task, place[task], mark));
        } else if (item->kind == STW_ITEM_COPY) {
            mark->note = edit->home[stw_hlo_local(edit, item->source)];
        }
    }
    return STW_OK;
}
