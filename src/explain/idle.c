/* Why devices idle. While a device idles, the task that it begins next is not ready (nothing idles while something is ready, and
 * a strict order waits for its next): what that task waited for last is the reason. */
#include <stdlib.h>

#include "explain/explain.h"

typedef struct {
    int32_t device;
    stw_idle_kind kind;
    int32_t from, to, node;
    int64_t ps;
} record;

typedef struct {
    stw_explainer *e;
    int64_t record_count, record_room;
    record *record;
} records;

static stw_status note(records *r, record one, stw_error *error) {
    if (one.ps <= 0) return STW_OK;
    STW_PUSH(r->e->scratch, r, record, one, error);
    return STW_OK;
}

/* From `from_ps` on a device waited for a transfer: until its producer had ended, then for the channel, then for the bytes. */
static stw_status note_transfer(records *r, int32_t device, const stw_transfer *x, int64_t from_ps, stw_error *error) {
    const int64_t ready = x->ready_ps > from_ps ? x->ready_ps : from_ps, start = x->start_ps > from_ps ? x->start_ps : from_ps;
    const record ops = {device, STW_IDLE_OPS, x->from, x->from, x->producer, ready - from_ps};
    const record queues = {device, STW_IDLE_CHANNEL, x->from, x->to, x->producer, start - ready};
    const record moves = {device, STW_IDLE_TRANSFER, x->from, x->to, x->producer, x->end_ps - start};
    TRY(note(r, ops, error));
    TRY(note(r, queues, error));
    return note(r, moves, error);
}

/* Of the tasks that begin on a device at one moment the first to run was not ready before, and waited for nothing that ran on the
 * device. The others follow ops that take no time. */
static stw_last_wait find_reason(const stw_explainer *e, const stw_span *span, int64_t count, int32_t device) {
    stw_last_wait found = {.task = -1, .transfer = -1};
    for (int64_t k = 0; k < count && span[k].start_ps == span[0].start_ps; k++) {
        const stw_last_wait last = stw_find_last_wait(e, span[k].id);
        if (last.ready_ps != span[0].start_ps) continue;
        if (last.task >= 0 && e->timeline->device[last.task] == device) continue;
        if (last.task < 0 && last.transfer < 0) continue;
        found = last;
        break;
    }
    return found;
}

/* The device idles from `from_ps` until the first of these begins. */
static stw_status note_gap(records *r, int32_t device, const stw_span *span, int64_t count, int64_t from_ps, stw_error *error) {
    const stw_explainer *e = r->e;
    const stw_last_wait last = find_reason(e, span, count, device);
    if (last.transfer >= 0) return note_transfer(r, device, &e->timeline->transfer[last.transfer], from_ps, error);
    const int32_t other = last.task >= 0 ? e->timeline->device[last.task] : -1;
    const record one = {
        device, STW_IDLE_OPS, other, other, last.task >= 0 ? e->tasks->task_node[last.task] : -1, span[0].start_ps - from_ps};
    return note(r, one, error);
}

static stw_status note_device(records *r, int32_t device, const stw_span *span, int64_t count, stw_error *error) {
    int64_t end = 0;
    for (int64_t k = 0; k < count; k++) {
        if (span[k].start_ps > end) TRY(note_gap(r, device, span + k, count - k, end, error));
        if (span[k].end_ps > end) end = span[k].end_ps;
    }
    return note(r, (record){device, STW_IDLE_DONE, -1, -1, -1, r->e->result.step_ps - end}, error);
}

/* ---- sums ---- */

static int compare_reasons(const record *a, const record *b) {
    if (a->device != b->device) return a->device - b->device;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    return a->from != b->from ? a->from - b->from : a->to - b->to;
}

static int compare_records(const void *left, const void *right) {
    const record *a = left, *b = right;
    const int order = compare_reasons(a, b);
    return order != 0 ? order : a->node != b->node ? a->node - b->node : (a->ps > b->ps) - (a->ps < b->ps);
}

static int compare_idle(const void *left, const void *right) {
    const stw_idle *a = left, *b = right;
    if (a->device != b->device) return a->device - b->device;
    if (a->ps != b->ps) return a->ps > b->ps ? -1 : 1;
    return a->kind != b->kind ? (a->kind < b->kind ? -1 : 1) : a->from != b->from ? a->from - b->from : a->to - b->to;
}

static void add_up(const records *r, stw_explanation *out) {
    int64_t node_ps = 0;
    for (int64_t k = 0; k < r->record_count; k++) {
        const record *one = &r->record[k], *before = k > 0 ? one - 1 : NULL;
        const bool same = before != NULL && compare_reasons(before, one) == 0;
        if (!same) out->idle[out->idle_count++] = (stw_idle){.device = one->device, .kind = one->kind, .node = -1};
        stw_idle *idle = &out->idle[out->idle_count - 1];
        node_ps = same && before->node == one->node ? node_ps + one->ps : one->ps;
        idle->from = one->from;
        idle->to = one->to;
        idle->ps += one->ps;
        idle->times++;
        if (one->node < 0 || node_ps <= idle->node_ps) continue;
        idle->node = one->node;
        idle->node_ps = node_ps;
    }
    if (out->idle_count > 0) qsort(out->idle, (size_t)out->idle_count, sizeof *out->idle, compare_idle);
}

stw_status stw_explain_idle(stw_explainer *e, stw_error *error) {
    const int32_t D = e->simulator->machine->device_count;
    stw_explanation *out = e->out;
    records r = {.e = e};
    int64_t *start;
    stw_span *span;
    STW_TRY_NEW(&out->arena, out->device, D, error);
    TRY(stw_device_spans(e, e->scratch, &start, &span, error));
    for (int32_t d = 0; d < D; d++) {
        out->device[d] = (stw_device_time){.busy_ps = e->result.busy_ps[d],
                                           .charged_ps = e->result.charged_ps[d],
                                           .idle_ps = e->result.step_ps - e->result.busy_ps[d],
                                           .peak_bytes = e->result.peak_bytes[d]};
        TRY(note_device(&r, d, span + start[d], start[d + 1] - start[d], error));
    }
    if (r.record_count > 0) qsort(r.record, (size_t)r.record_count, sizeof *r.record, compare_records);
    STW_TRY_NEW(&out->arena, out->idle, r.record_count, error);
    add_up(&r, out);
    return STW_OK;
}
