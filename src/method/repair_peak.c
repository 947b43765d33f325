#include "method/repair.h"

typedef struct {
    const stw_tasks *tasks;
    const stw_timeline *timeline;
    const int32_t *device;
    int32_t of;
    int64_t at_ps;
    int64_t *copy_bytes; /* (V) of the copy that the device has then; -1: none */
    bool *leaving;       /* (V) not yet sent everywhere */
    stw_link fastest;    /* to another device */
    stw_peak *out;
    int32_t needs;
} look;

static void find_fastest(look *l, const stw_machine *machine) {
    for (int32_t d = 0; d < machine->device_count; d++) {
        const stw_link *link = stw_machine_link(machine, l->of, d);
        if (d != l->of && link->bandwidth > l->fastest.bandwidth) l->fastest = *link;
    }
}

/* Whether a value that was there at `end_ps` could be elsewhere by then. */
static bool could_be_sent(const look *l, int64_t end_ps, int64_t bytes) {
    return l->fastest.bandwidth > 0.0 && stw_cost_transfer_ps(&l->fastest, bytes) <= l->at_ps - end_ps;
}

/* Which copies have come by then, and which values are still to go out. */
static stw_status look_at_transfers(look *l, stw_arena *arena, stw_error *error) {
    int32_t *value_of;
    const int32_t V = l->tasks->V;
    STW_TRY_NEW(arena, l->copy_bytes, V, error);
    STW_TRY_NEW(arena, l->leaving, V, error);
    STW_TRY_NEW(arena, value_of, V > 0 ? (int64_t)l->tasks->value_node[V - 1] + 1 : 0, error);
    for (int32_t v = 0; v < V; v++) {
        l->copy_bytes[v] = -1;
        value_of[l->tasks->value_node[v]] = v;
    }
    for (int32_t k = 0; k < l->timeline->transfer_count; k++) {
        const stw_transfer *transfer = &l->timeline->transfer[k];
        const int32_t v = value_of[transfer->producer];
        if (transfer->from == l->of && transfer->end_ps > l->at_ps) l->leaving[v] = true;
        if (transfer->to == l->of && transfer->start_ps <= l->at_ps) l->copy_bytes[v] = transfer->bytes;
    }
    return STW_OK;
}

static void add_need(look *l, int32_t node) { l->out->need[l->needs++] = node; }

/* Readers on the device that have not ended by then. */
static void add_late_readers(look *l, int32_t value) {
    for (int32_t u = l->tasks->use_start[value]; u < l->tasks->use_start[value + 1]; u++) {
        const int32_t task = l->tasks->use[u].task;
        if (l->timeline->device[task] == l->of && l->timeline->end_ps[task] > l->at_ps) add_need(l, l->tasks->task_node[task]);
    }
}

/* Notes the needs of what the device holds of a value and returns its bytes; 0 if it holds nothing. */
static int64_t look_at_value(look *l, int32_t value) {
    const int32_t node = l->tasks->value_node[value], task = l->tasks->value_task[value];
    const uint8_t flags = l->tasks->value_flags[value];
    if (flags & STW_VALUE_EVERYWHERE) {
        add_late_readers(l, value);
        return l->tasks->value_bytes[value];
    }
    if (l->device[node] != l->of) {
        if (l->copy_bytes[value] >= 0) add_late_readers(l, value);
        return l->copy_bytes[value];
    }
    if (task >= 0 && l->timeline->start_ps[task] > l->at_ps) return 0;
    const bool running = task >= 0 && l->timeline->end_ps[task] > l->at_ps;
    const int32_t before = l->needs;
    add_late_readers(l, value);
    /* Held for its own sake; or it would still be there, on its way to those readers. */
    const bool own = task < 0 || running || (flags & STW_VALUE_KEPT) || l->leaving[value];
    if (own || (l->needs > before && !could_be_sent(l, l->timeline->end_ps[task], l->tasks->value_bytes[value])))
        add_need(l, node);
    return l->tasks->home_bytes[value];
}

stw_status stw_peak_find(const stw_machine *machine, const stw_timeline *timeline, const int32_t *device, int32_t of,
                         stw_arena *arena, stw_peak *out, stw_error *error) {
    const stw_tasks *tasks = timeline->tasks;
    look l = {.tasks = tasks, .timeline = timeline, .device = device, .of = of, .at_ps = timeline->peak_ps[of], .out = out};
    *out = (stw_peak){.device = of};
    find_fastest(&l, machine);
    STW_TRY_NEW(arena, out->bytes, tasks->V, error);
    STW_TRY_NEW(arena, out->need_start, (int64_t)tasks->V + 1, error);
    STW_TRY_NEW(arena, out->need, (int64_t)tasks->U + tasks->V, error);
    TRY(look_at_transfers(&l, arena, error));
    for (int32_t value = 0; value < tasks->V; value++) {
        const int64_t bytes = look_at_value(&l, value);
        const int32_t first = out->need_start[out->count];
        if (bytes <= 0) l.needs = first;
        if (l.needs == first) continue; /* nothing is held, or nothing that holds it can be moved */
        out->bytes[out->count++] = bytes;
        out->need_start[out->count] = l.needs;
    }
    return STW_OK;
}
