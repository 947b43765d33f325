/* What the plan says of each task and parameter, beside the order of the entry: the device, the priority and, where the device
 * has a strict order, the place in it. With these a module that is read back has its plan. */
#include <stdlib.h>

#include "export/hlo.h"

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
