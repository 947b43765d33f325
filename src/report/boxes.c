/* What each device held, when: the rules of docs/simulator.md (Memory), tensor by tensor. */
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

typedef struct holds { /* the boxes while they are found */
    const stw_timeline *timeline;
    const stw_plan *plan;
    int64_t step_ps;
    stw_box *box;
    int64_t count;
} holds;

static void add(holds *h, stw_box box) {
    if (box.bytes > 0 && box.to_ps > box.from_ps) h->box[h->count++] = box;
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* When the last task of a device that reads the value ends; `otherwise` if there is none. */
static int64_t last_read_ps(const holds *h, int32_t value, int32_t device, int64_t otherwise) {
    const stw_tasks *tasks = h->timeline->tasks;
    int64_t last = otherwise;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const int32_t task = tasks->use[u].task;
        if (h->timeline->device[task] == device) last = later(last, h->timeline->end_ps[task]);
    }
    return last;
}

/* Inputs and constants are on each device that reads them. */
static void add_everywhere(holds *h, int32_t value, int32_t device_count) {
    const stw_tasks *tasks = h->timeline->tasks;
    for (int32_t d = 0; d < device_count; d++) {
        add(h, (stw_box){.node = tasks->value_node[value],
                         .device = d,
                         .kind = STW_BOX_EVERYWHERE,
                         .to_ps = last_read_ps(h, value, d, 0),
                         .bytes = tasks->value_bytes[value]});
    }
}

static void add_home(holds *h, int32_t value, int64_t last_sent_ps) {
    const stw_tasks *tasks = h->timeline->tasks;
    const int32_t node = tasks->value_node[value], task = tasks->value_task[value];
    if (task < 0) {
        add(h, (stw_box){.node = node,
                         .device = h->plan->device[node],
                         .kind = STW_BOX_RESIDENT,
                         .to_ps = h->step_ps,
                         .bytes = tasks->home_bytes[value]});
        return;
    }
    const int32_t device = h->timeline->device[task];
    const bool kept = (tasks->value_flags[value] & STW_VALUE_KEPT) != 0;
    const int64_t read_ps = last_read_ps(h, value, device, h->timeline->end_ps[task]);
    add(h, (stw_box){.node = node,
                     .device = device,
                     .kind = STW_BOX_MADE,
                     .from_ps = h->timeline->start_ps[task],
                     .to_ps = kept ? h->step_ps : later(read_ps, last_sent_ps),
                     .bytes = tasks->home_bytes[value]});
}

/* Values by node, and when each was sent for the last time. */
static stw_status find_sent(const holds *h, int32_t N, stw_arena *arena, int32_t **value_of, int64_t **sent_ps,
                            stw_error *error) {
    const stw_tasks *tasks = h->timeline->tasks;
    STW_TRY_NEW(arena, *value_of, N, error);
    STW_TRY_NEW(arena, *sent_ps, tasks->V, error);
    for (int32_t v = 0; v < tasks->V; v++) (*value_of)[tasks->value_node[v]] = v;
    for (int32_t k = 0; k < h->timeline->transfer_count; k++) {
        const stw_transfer *transfer = &h->timeline->transfer[k];
        int64_t *sent = &(*sent_ps)[(*value_of)[transfer->producer]];
        *sent = later(*sent, transfer->end_ps);
    }
    return STW_OK;
}

static int by_device_and_time(const void *left, const void *right) {
    const stw_box *a = left, *b = right;
    if (a->device != b->device) return a->device - b->device;
    if (a->from_ps != b->from_ps) return a->from_ps < b->from_ps ? -1 : 1;
    if (a->to_ps != b->to_ps) return a->to_ps > b->to_ps ? -1 : 1; /* what stays longest lies at the bottom */
    if (a->node != b->node) return a->node - b->node;
    return (int)a->kind - (int)b->kind;
}

/* ---- where they stand: first fit, one after the other as they come ---- */

typedef struct gap { /* free from begin to end */
    int64_t begin, end;
} gap;

typedef struct shelf {
    gap *gap; /* (count) by place; the last one has no end */
    int64_t count;
    const stw_box *box;
    int64_t *heap; /* (held) boxes that are there, the first to go on top */
    int64_t held;
} shelf;

static void swap(int64_t *a, int64_t *b) {
    const int64_t kept = *a;
    *a = *b;
    *b = kept;
}

static void push_held(shelf *s, int64_t index) {
    int64_t at = s->held++;
    s->heap[at] = index;
    for (; at > 0 && s->box[s->heap[at]].to_ps < s->box[s->heap[(at - 1) / 2]].to_ps; at = (at - 1) / 2)
        swap(&s->heap[at], &s->heap[(at - 1) / 2]);
}

static int64_t pop_held(shelf *s) {
    const int64_t top = s->heap[0];
    s->heap[0] = s->heap[--s->held];
    for (int64_t at = 0, next; (next = 2 * at + 1) < s->held; at = next) {
        if (next + 1 < s->held && s->box[s->heap[next + 1]].to_ps < s->box[s->heap[next]].to_ps) next++;
        if (s->box[s->heap[at]].to_ps <= s->box[s->heap[next]].to_ps) break;
        swap(&s->heap[at], &s->heap[next]);
    }
    return top;
}

static int64_t take_place(shelf *s, int64_t bytes) {
    int64_t k = 0;
    while (s->gap[k].end - s->gap[k].begin < bytes) k++;
    const int64_t base = s->gap[k].begin;
    s->gap[k].begin += bytes;
    if (s->gap[k].begin == s->gap[k].end) memmove(&s->gap[k], &s->gap[k + 1], (size_t)(--s->count - k) * sizeof *s->gap);
    return base;
}

static void free_place(shelf *s, int64_t begin, int64_t end) {
    int64_t low = 0, high = s->count; /* the first gap behind it */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (s->gap[middle].begin < end) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const bool joins_next = s->gap[low].begin == end, joins_last = low > 0 && s->gap[low - 1].end == begin;
    if (joins_next && joins_last) {
        s->gap[low - 1].end = s->gap[low].end;
        memmove(&s->gap[low], &s->gap[low + 1], (size_t)(--s->count - low) * sizeof *s->gap);
    } else if (joins_next) {
        s->gap[low].begin = begin;
    } else if (joins_last) {
        s->gap[low - 1].end = end;
    } else {
        memmove(&s->gap[low + 1], &s->gap[low], (size_t)(s->count++ - low) * sizeof *s->gap);
        s->gap[low] = (gap){begin, end};
    }
}

/* Boxes of one device, in order of time. */
static stw_status place_boxes(stw_box *box, int64_t count, stw_arena scratch, stw_error *error) {
    shelf s = {.box = box, .count = 1};
    STW_TRY_NEW(&scratch, s.gap, count + 2, error);
    STW_TRY_NEW(&scratch, s.heap, count + 1, error);
    s.gap[0] = (gap){0, INT64_MAX};
    for (int64_t k = 0; k < count; k++) {
        while (s.held > 0 && box[s.heap[0]].to_ps <= box[k].from_ps) {
            const stw_box *gone = &box[pop_held(&s)];
            free_place(&s, gone->base, gone->base + gone->bytes);
        }
        box[k].base = take_place(&s, box[k].bytes);
        push_held(&s, k);
    }
    return STW_OK;
}

stw_status stw_report_boxes(const stw_report_run *run, stw_arena *arena, stw_box **out, int64_t *count, stw_error *error) {
    const stw_machine *machine = run->plan->machine;
    holds h = {.timeline = &run->workspace->timeline, .plan = run->plan, .step_ps = run->result.step_ps};
    const stw_tasks *tasks = h.timeline->tasks;
    int32_t *value_of;
    int64_t *sent_ps, most = h.timeline->transfer_count;
    for (int32_t v = 0; v < tasks->V; v++) most += (tasks->value_flags[v] & STW_VALUE_EVERYWHERE) ? machine->device_count : 1;
    STW_TRY_NEW(arena, h.box, most, error);
    stw_arena scratch = *arena;
    TRY(find_sent(&h, run->plan->graph->N, &scratch, &value_of, &sent_ps, error));
    for (int32_t v = 0; v < tasks->V; v++) {
        if (tasks->value_flags[v] & STW_VALUE_EVERYWHERE) {
            add_everywhere(&h, v, machine->device_count);
        } else {
            add_home(&h, v, sent_ps[v]);
        }
    }
    for (int32_t k = 0; k < h.timeline->transfer_count; k++) {
        const stw_transfer *transfer = &h.timeline->transfer[k];
        add(&h, (stw_box){.node = transfer->producer,
                          .device = transfer->to,
                          .kind = STW_BOX_COPY,
                          .from_ps = transfer->start_ps,
                          .to_ps = last_read_ps(&h, value_of[transfer->producer], transfer->to, transfer->end_ps),
                          .bytes = transfer->bytes});
    }
    if (h.count > 1) qsort(h.box, (size_t)h.count, sizeof *h.box, by_device_and_time);
    for (int64_t first = 0, next; first < h.count; first = next) {
        for (next = first; next < h.count && h.box[next].device == h.box[first].device;) next++;
        TRY(place_boxes(&h.box[first], next - first, scratch, error));
    }
    *out = h.box;
    *count = h.count;
    return STW_OK;
}
