/* A simulated step in the Trace Event format, for chrome://tracing and Perfetto: a track per device and per link, transfers as
 * slices on the links with arrows from producer to transfer to reader, memory as counters. docs/trace.md describes the tracks.
 *
 * Times are microseconds in whole nanoseconds, the viewers' own resolution: Perfetto rounds `ts` and `dur` to it one by one, and
 * with finer times slices that only touch would overlap there and be dropped. The exact picoseconds are in `args`. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/json.h"
#include "export/export.h"

/* Perfetto tells threads apart by tid alone, takes the tid 0 for no tid and makes a thread whose tid is the pid. So tids are
 * unique over both processes: devices count from DEVICES_PID on, links are above LINKS_PID. */
enum { DEVICES_PID = 1, LINKS_PID = 100, LANES_PER_LINK = 1000 };

typedef struct {
    FILE *file;
    stw_json_writer w; /* strings only: times are written digit by digit */
    const stw_simulator *s;
    const stw_timeline *timeline;
    bool any;
} trace;

static int32_t device_tid(int32_t device) { return DEVICES_PID + device; }

static void begin_event(trace *t) {
    fputs(t->any ? ",\n" : "\n", t->file);
    t->any = true;
}

static void put_string(trace *t, stw_str text) {
    stw_json_writer_init(&t->w, t->file);
    stw_json_write_string(&t->w, text);
}

/* ---- times ---- */

/* Rounding keeps the order, so what only touches still only touches. Chromium's developer tools take 0 for no time and would cut
 * off what happens before the first other one. */
static int64_t to_ns(int64_t ps) { return ps < 1500 ? 1 : (ps + 500) / 1000; }

static double to_us(int64_t ns) { return (double)ns / 1e3; }

static void put_time(trace *t, int64_t ns) { fprintf(t->file, ",\"ts\":%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000)); }

/* They also add `ts` and `dur` as doubles and leave out the next slice if the sum comes out above its `ts`. Then `dur` is written
 * a few femtoseconds shorter: more than the error of the sum, less than any viewer shows. */
static void put_duration(trace *t, int64_t start, int64_t end) {
    const int64_t ns = end - start;
    if (to_us(start) + to_us(ns) <= to_us(end)) {
        fprintf(t->file, ",\"dur\":%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
        return;
    }
    const double error_fs = to_us(end) * 0x1p-51 * 1e9; /* two units in the last place */
    const int less_fs = error_fs < 1e5 ? 1 + (int)error_fs : 100000;
    fprintf(t->file, ",\"dur\":%" PRId64 ".%03d%06d", (ns - 1) / 1000, (int)((ns - 1) % 1000), 1000000 - less_fs);
}

static void put_span(trace *t, int64_t start_ps, int64_t end_ps) {
    put_time(t, to_ns(start_ps));
    put_duration(t, to_ns(start_ps), to_ns(end_ps));
}

/* ---- tracks ---- */

static void put_sort_index(trace *t, const char *what, int pid, int32_t tid, int32_t index) {
    begin_event(t);
    fprintf(t->file, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}}", what, pid, tid, index);
}

static void put_name(trace *t, const char *what, int pid, int32_t tid, stw_str name) {
    begin_event(t);
    fprintf(t->file, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what, pid, tid);
    put_string(t, name);
    fputs("}}", t->file);
}

static void put_process(trace *t, int pid, stw_str name) {
    put_name(t, "process_name", pid, pid, name);
    put_sort_index(t, "process_sort_index", pid, pid, pid);
}

static void put_track(trace *t, int pid, int32_t tid, stw_str name) {
    put_name(t, "thread_name", pid, tid, name);
    put_sort_index(t, "thread_sort_index", pid, tid, tid);
}

/* ---- tasks ---- */

typedef struct {
    int32_t ops; /* written members; tasks do not distinguish recomputed ones */
    int64_t flops;
} task_work;

static int64_t add_up(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* What transfers take of a task's time: a slice within the task's own, at its end. */
static void put_charge(trace *t, int32_t k, int64_t charge) {
    const int64_t end = t->timeline->end_ps[k];
    begin_event(t);
    fprintf(t->file, "{\"ph\":\"X\",\"name\":\"charges\",\"cat\":\"charge\",\"pid\":%d,\"tid\":%d", DEVICES_PID,
            device_tid(t->timeline->device[k]));
    const int64_t from_ns = to_ns(end - charge),
                  to = to_ns(end) - 1; /* a nanosecond short: within the task's in any arithmetic */
    put_time(t, from_ns);
    put_duration(t, from_ns, to > from_ns ? to : from_ns);
    fprintf(t->file, ",\"args\":{\"of\":%d,\"start_ps\":%" PRId64 ",\"end_ps\":%" PRId64 "}}", t->timeline->tasks->task_node[k],
            end - charge, end);
}

static void put_task(trace *t, int32_t k, task_work work) {
    const stw_tasks *tasks = t->timeline->tasks;
    const stw_graph *graph = t->s->graph;
    const int64_t start = t->timeline->start_ps[k], end = t->timeline->end_ps[k];
    const int32_t node = tasks->task_node[k];
    int64_t bytes = 0;
    for (int32_t o = tasks->output_start[k]; o < tasks->output_start[k + 1]; o++) {
        bytes = add_up(bytes, tasks->value_bytes[tasks->output[o]]);
    }
    begin_event(t);
    fputs("{\"ph\":\"X\",\"name\":", t->file);
    put_string(t, graph->node_name[node]);
    fprintf(t->file, ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d", stw_op_class_name((stw_op_class)graph->op_class[node]), DEVICES_PID,
            device_tid(t->timeline->device[k]));
    put_span(t, start, end);
    fputs(",\"args\":{\"op\":", t->file);
    put_string(t, graph->op_name[node]);
    if (work.ops > 1) fprintf(t->file, ",\"fused_ops\":%d", work.ops);
    fprintf(t->file, ",\"id\":%d,\"bytes\":%" PRId64 ",\"flops\":%" PRId64, node, bytes, work.flops);
    fprintf(t->file, ",\"start_ps\":%" PRId64 ",\"end_ps\":%" PRId64 "}}", start, end);
}

static stw_status put_tasks(trace *t, stw_arena scratch, stw_error *error) {
    const stw_tasks *tasks = t->timeline->tasks;
    const stw_graph *graph = t->s->graph;
    task_work *work;
    STW_TRY_NEW(&scratch, work, tasks->T, error);
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t k = tasks->task_of[i];
        if (k < 0) continue;
        work[k].ops++;
        work[k].flops = add_up(work[k].flops, graph->flops[i]);
    }
    for (int32_t k = 0; k < tasks->T; k++) {
        const int64_t charge = t->timeline->charge_ps == NULL ? 0 : t->timeline->charge_ps[k];
        put_task(t, k, work[k]);
        if (charge > 0) put_charge(t, k, charge);
    }
    return STW_OK;
}

/* ---- links ---- */

/* Without contention, transfers of one link overlap; each goes to the first lane of its link that is free. */
typedef struct {
    int32_t from, to, tid;
    int64_t free_ps;
} lane;

static int by_start(const void *left, const void *right) {
    const stw_transfer *a = *(const stw_transfer *const *)left, *b = *(const stw_transfer *const *)right;
    if (a->start_ps != b->start_ps) return a->start_ps < b->start_ps ? -1 : 1;
    if (a->producer != b->producer) return a->producer < b->producer ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

/* The tid of the lane of a transfer; a new lane is announced. `lanes` has room for one per transfer. */
static stw_status take_lane(trace *t, const stw_transfer *transfer, lane *lanes, int32_t *count, stw_arena scratch, int32_t *tid,
                            stw_error *error) {
    int32_t number = 0;
    for (int32_t k = 0; k < *count; k++) {
        if (lanes[k].from != transfer->from || lanes[k].to != transfer->to) continue;
        number++;
        if (lanes[k].free_ps > transfer->start_ps) continue;
        lanes[k].free_ps = transfer->end_ps;
        *tid = lanes[k].tid;
        return STW_OK;
    }
    const int32_t link = transfer->from * t->s->machine->device_count + transfer->to; /* not 0: that would be from 0 to 0 */
    *tid = number < LANES_PER_LINK ? link * LANES_PER_LINK + number : 1000000000 + *count;
    lanes[(*count)++] = (lane){transfer->from, transfer->to, *tid, transfer->end_ps};
    const stw_str from = t->s->machine->device[transfer->from].name, to = t->s->machine->device[transfer->to].name;
    const stw_str name =
        stw_str_format(&scratch, "%.*s to %.*s%s", (int)from.length, from.p, (int)to.length, to.p, number == 0 ? "" : " (more)");
    if (name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    put_track(t, LINKS_PID, *tid, name);
    return STW_OK;
}

static void put_arrow_end(trace *t, char phase, int64_t id, int pid, int32_t tid, int64_t ns) {
    begin_event(t);
    fprintf(t->file, "{\"ph\":\"%c\",\"name\":\"transfer\",\"cat\":\"transfer\",\"id\":%" PRId64 ",\"pid\":%d,\"tid\":%d", phase,
            id, pid, tid);
    put_time(t, ns);
    fputs(phase == 'f' ? ",\"bp\":\"e\"}" : "}", t->file);
}

/* The first task on the destination that reads the value. */
static int32_t first_reader(const stw_timeline *timeline, const stw_transfer *transfer, int32_t value) {
    const stw_tasks *tasks = timeline->tasks;
    int32_t first = -1;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const int32_t task = tasks->use[u].task;
        if (timeline->device[task] != transfer->to) continue;
        if (first < 0 || timeline->start_ps[task] < timeline->start_ps[first]) first = task;
    }
    return first;
}

static int32_t value_of_node(const stw_tasks *tasks, int32_t node) { /* values ascend by node */
    int32_t low = 0, high = tasks->V - 1;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (tasks->value_node[middle] < node) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Arrow ends lie in the middle of their slices, so that viewers bind them to the right one. */
static int64_t middle_of(int64_t start_ps, int64_t end_ps) { return to_ns(start_ps) + (to_ns(end_ps) - to_ns(start_ps)) / 2; }

static void put_transfer_slice(trace *t, const stw_transfer *transfer, int32_t tid) {
    const stw_str label = t->s->graph->label[transfer->producer];
    begin_event(t);
    fputs("{\"ph\":\"X\",\"name\":", t->file);
    put_string(t, t->s->graph->node_name[transfer->producer]);
    fprintf(t->file, ",\"cat\":\"transfer\",\"pid\":%d,\"tid\":%d", LINKS_PID, tid);
    put_span(t, transfer->start_ps, transfer->end_ps);
    fputs(",\"args\":{", t->file);
    if (label.length > 0) {
        fputs("\"label\":", t->file);
        put_string(t, label);
        fputc(',', t->file);
    }
    fprintf(t->file, "\"id\":%d,\"bytes\":%" PRId64 ",\"ready_ps\":%" PRId64, transfer->producer, transfer->bytes,
            transfer->ready_ps);
    fprintf(t->file, ",\"start_ps\":%" PRId64 ",\"end_ps\":%" PRId64 "}}", transfer->start_ps, transfer->end_ps);
}

static void put_transfer(trace *t, const stw_transfer *transfer, int32_t tid, int64_t number) {
    const stw_timeline *timeline = t->timeline;
    const int32_t value = value_of_node(timeline->tasks, transfer->producer);
    const int32_t producer = timeline->tasks->value_task[value], reader = first_reader(timeline, transfer, value);
    const int64_t middle = middle_of(transfer->start_ps, transfer->end_ps);
    put_transfer_slice(t, transfer, tid);
    if (producer >= 0) {
        const int64_t made = middle_of(timeline->start_ps[producer], timeline->end_ps[producer]);
        put_arrow_end(t, 's', 2 * number, DEVICES_PID, device_tid(transfer->from), made);
        put_arrow_end(t, 'f', 2 * number, LINKS_PID, tid, middle);
    }
    if (reader < 0) return;
    put_arrow_end(t, 's', 2 * number + 1, LINKS_PID, tid, middle);
    put_arrow_end(t, 'f', 2 * number + 1, DEVICES_PID, device_tid(transfer->to),
                  middle_of(timeline->start_ps[reader], timeline->end_ps[reader]));
}

static stw_status put_transfers(trace *t, stw_arena scratch, stw_error *error) {
    const int32_t count = t->timeline->transfer_count;
    const stw_transfer **sorted;
    lane *lanes;
    int32_t lane_count = 0;
    STW_TRY_NEW(&scratch, sorted, count, error);
    STW_TRY_NEW(&scratch, lanes, count, error);
    for (int32_t k = 0; k < count; k++) sorted[k] = &t->timeline->transfer[k];
    if (count > 1) qsort(sorted, (size_t)count, sizeof *sorted, by_start);
    for (int32_t k = 0; k < count; k++) {
        int32_t tid;
        TRY(take_lane(t, sorted[k], lanes, &lane_count, scratch, &tid, error));
        put_transfer(t, sorted[k], tid, k);
    }
    return STW_OK;
}

/* ---- memory ---- */

static void put_held(trace *t, stw_str name, int64_t now_ps, int64_t bytes) {
    begin_event(t);
    fputs("{\"ph\":\"C\",\"name\":", t->file);
    put_string(t, name);
    fprintf(t->file, ",\"pid\":%d,\"tid\":%d", DEVICES_PID, DEVICES_PID);
    put_time(t, to_ns(now_ps));
    fprintf(t->file, ",\"args\":{\"bytes\":%" PRId64 "}}", bytes);
}

/* Changes are in order of time; only the last of a device at an instant is what is held from then on. */
static stw_status put_memory(trace *t, stw_arena scratch, stw_error *error) {
    int64_t held[STW_MAX_DEVICES] = {0};
    stw_str name[STW_MAX_DEVICES];
    const stw_timeline *timeline = t->timeline;
    for (int32_t d = 0; d < t->s->machine->device_count; d++) {
        const stw_str device = t->s->machine->device[d].name;
        name[d] = stw_str_format(&scratch, "memory of %.*s", (int)device.length, device.p);
        if (name[d].p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    }
    for (int64_t k = 0; k < timeline->change_count;) {
        const int64_t now = timeline->change[k].time_ps;
        uint64_t changed = 0;
        for (; k < timeline->change_count && timeline->change[k].time_ps == now; k++) {
            held[timeline->change[k].device] += timeline->change[k].bytes;
            changed |= 1ULL << timeline->change[k].device;
        }
        for (; changed != 0; changed &= changed - 1) {
            const int d = __builtin_ctzll(changed);
            put_held(t, name[d], now, held[d]);
        }
    }
    return STW_OK;
}

static stw_status put_all(trace *t, stw_arena scratch, stw_error *error) {
    fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"graph\":", t->file);
    put_string(t, t->s->graph->name);
    fputs(",\"machine\":", t->file);
    put_string(t, t->s->machine->name);
    fputs("},\"traceEvents\":[", t->file);
    put_process(t, DEVICES_PID, STW_STR("devices"));
    put_process(t, LINKS_PID, STW_STR("links"));
    for (int32_t d = 0; d < t->s->machine->device_count; d++) {
        put_track(t, DEVICES_PID, device_tid(d), t->s->machine->device[d].name);
    }
    TRY(put_tasks(t, scratch, error));
    TRY(put_transfers(t, scratch, error));
    TRY(put_memory(t, scratch, error));
    fputs("\n]}\n", t->file);
    return STW_OK;
}

stw_status stw_export_trace(stw_export *e, stw_error *error) {
    trace t = {.file = e->out, .s = e->simulator, .timeline = e->timeline};
    return put_all(&t, *e->arena, error);
}
