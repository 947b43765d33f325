/* A simulated step in the Trace Event format, for chrome://tracing and Perfetto: a track per device and per link, transfers as
 * slices on the links with arrows from producer to transfer to reader, memory as counters. Times are microseconds with the
 * picoseconds behind the point. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "export/export.h"

enum { DEVICES_PID = 1, LINKS_PID = 2 };

typedef struct {
    FILE *file;
    stw_json_writer w; /* strings only: numbers are written with exact picoseconds */
    const stw_simulator *s;
    const stw_timeline *timeline;
    bool any;
} trace;

static void begin_event(trace *t) {
    fputs(t->any ? ",\n" : "\n", t->file);
    t->any = true;
}

static void put_string(trace *t, stw_str text) {
    stw_json_writer_init(&t->w, t->file);
    stw_json_write_string(&t->w, text);
}

static void put_time(trace *t, const char *key, int64_t ps) {
    fprintf(t->file, ",\"%s\":%" PRId64 ".%06" PRId64, key, ps / 1000000, ps % 1000000);
}

static void put_name(trace *t, const char *what, int pid, int32_t tid, stw_str name) {
    begin_event(t);
    fprintf(t->file, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what, pid, tid);
    put_string(t, name);
    fputs("}}", t->file);
    if (strcmp(what, "thread_name") != 0) return;
    begin_event(t);
    fprintf(t->file, "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}}", pid, tid, tid);
}

static void put_tasks(trace *t) {
    const stw_tasks *tasks = t->timeline->tasks;
    const stw_graph *graph = t->s->graph;
    for (int32_t k = 0; k < tasks->T; k++) {
        const int32_t node = tasks->task_node[k];
        begin_event(t);
        fputs("{\"ph\":\"X\",\"name\":", t->file);
        put_string(t, graph->node_name[node]);
        fprintf(t->file, ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d", stw_op_class_name((stw_op_class)graph->class[node]), DEVICES_PID, t->timeline->device[k]);
        put_time(t, "ts", t->timeline->start_ps[k]);
        put_time(t, "dur", t->timeline->end_ps[k] - t->timeline->start_ps[k]);
        fputs(",\"args\":{\"op\":", t->file);
        put_string(t, graph->op_name[node]);
        fprintf(t->file, ",\"id\":%d,\"bytes\":%" PRId64 ",\"flops\":%" PRId64 "}}", node, graph->bytes[node], graph->flops[node]);
    }
}

/* ---- links ---- */

/* Without contention, transfers of one link overlap; each goes to the first lane of its link that is free. */
typedef struct {
    int32_t from, to, lane, tid;
    int64_t free_ps;
} lane;

static int by_start(const void *left, const void *right) {
    const stw_transfer *a = *(const stw_transfer *const *)left, *b = *(const stw_transfer *const *)right;
    if (a->start_ps != b->start_ps) return a->start_ps < b->start_ps ? -1 : 1;
    if (a->producer != b->producer) return a->producer < b->producer ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

/* The lane of a transfer; a new one is announced. `lanes` has room for one per transfer. */
static const lane *take_lane(trace *t, const stw_transfer *transfer, lane *lanes, int32_t *count, stw_arena scratch) {
    int32_t number = 0;
    for (int32_t k = 0; k < *count; k++) {
        if (lanes[k].from != transfer->from || lanes[k].to != transfer->to) continue;
        number++;
        if (lanes[k].free_ps > transfer->start_ps) continue;
        lanes[k].free_ps = transfer->end_ps;
        return &lanes[k];
    }
    lane *new_lane = &lanes[(*count)++];
    const int32_t D = t->s->machine->device_count;
    const int32_t tid = number < 1000 ? (transfer->from * D + transfer->to) * 1000 + number : 1000000000 + *count;
    *new_lane = (lane){transfer->from, transfer->to, number, tid, transfer->end_ps};
    const stw_device *device = t->s->machine->device;
    const char *suffix = number == 0 ? "" : " (more)";
    put_name(t, "thread_name", LINKS_PID, tid,
             stw_str_format(&scratch, "%.*s to %.*s%s", STW_STR_SHOW(device[transfer->from].name), STW_STR_SHOW(device[transfer->to].name), suffix));
    return new_lane;
}

static void put_arrow_end(trace *t, char phase, int64_t id, int pid, int32_t tid, int64_t ps) {
    begin_event(t);
    fprintf(t->file, "{\"ph\":\"%c\",\"name\":\"transfer\",\"cat\":\"transfer\",\"id\":%" PRId64 ",\"pid\":%d,\"tid\":%d", phase, id, pid, tid);
    put_time(t, "ts", ps);
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
static int64_t middle_of(int64_t start, int64_t end) { return start + (end - start) / 2; }

static void put_transfer(trace *t, const stw_transfer *transfer, int32_t tid, int64_t number) {
    const stw_timeline *timeline = t->timeline;
    const int32_t value = value_of_node(timeline->tasks, transfer->producer);
    const int32_t producer = timeline->tasks->value_task[value], reader = first_reader(timeline, transfer, value);
    const int64_t middle = middle_of(transfer->start_ps, transfer->end_ps);
    begin_event(t);
    fputs("{\"ph\":\"X\",\"name\":", t->file);
    put_string(t, t->s->graph->node_name[transfer->producer]);
    fprintf(t->file, ",\"cat\":\"transfer\",\"pid\":%d,\"tid\":%d", LINKS_PID, tid);
    put_time(t, "ts", transfer->start_ps);
    put_time(t, "dur", transfer->end_ps - transfer->start_ps);
    fprintf(t->file, ",\"args\":{\"bytes\":%" PRId64 ",\"waited_us\":%.6f}}", transfer->bytes, (double)(transfer->start_ps - transfer->ready_ps) / 1e6);
    if (producer >= 0) {
        put_arrow_end(t, 's', 2 * number, DEVICES_PID, transfer->from, middle_of(timeline->start_ps[producer], timeline->end_ps[producer]));
        put_arrow_end(t, 'f', 2 * number, LINKS_PID, tid, middle);
    }
    if (reader < 0) return;
    put_arrow_end(t, 's', 2 * number + 1, LINKS_PID, tid, middle);
    put_arrow_end(t, 'f', 2 * number + 1, DEVICES_PID, transfer->to, middle_of(timeline->start_ps[reader], timeline->end_ps[reader]));
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
        put_transfer(t, sorted[k], take_lane(t, sorted[k], lanes, &lane_count, scratch)->tid, k);
    }
    return STW_OK;
}

/* ---- memory ---- */

/* Changes are in order of time; only the last of a device at an instant is what is held from then on. */
static void put_memory(trace *t) {
    int64_t held[STW_MAX_DEVICES] = {0};
    const stw_timeline *timeline = t->timeline;
    for (int64_t k = 0; k < timeline->change_count;) {
        const int64_t now = timeline->change[k].time_ps;
        uint64_t changed = 0;
        for (; k < timeline->change_count && timeline->change[k].time_ps == now; k++) {
            held[timeline->change[k].device] += timeline->change[k].bytes;
            changed |= 1ULL << timeline->change[k].device;
        }
        for (; changed != 0; changed &= changed - 1) {
            const int d = __builtin_ctzll(changed);
            begin_event(t);
            fputs("{\"ph\":\"C\",\"name\":", t->file);
            stw_str name = t->s->machine->device[d].name;
            char text[128];
            snprintf(text, sizeof text, "memory of %.*s", STW_STR_SHOW(name));
            put_string(t, stw_str_of(text));
            fprintf(t->file, ",\"pid\":%d", DEVICES_PID);
            put_time(t, "ts", now);
            fprintf(t->file, ",\"args\":{\"bytes\":%" PRId64 "}}", held[d]);
        }
    }
}

static stw_status put_all(trace *t, stw_arena scratch, stw_error *error) {
    fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"graph\":", t->file);
    put_string(t, t->s->graph->name);
    fputs(",\"machine\":", t->file);
    put_string(t, t->s->machine->name);
    fputs("},\"traceEvents\":[", t->file);
    put_name(t, "process_name", DEVICES_PID, 0, STW_STR("devices"));
    put_name(t, "process_name", LINKS_PID, 0, STW_STR("links"));
    for (int32_t d = 0; d < t->s->machine->device_count; d++) put_name(t, "thread_name", DEVICES_PID, d, t->s->machine->device[d].name);
    put_tasks(t);
    TRY(put_transfers(t, scratch, error));
    put_memory(t);
    fputs("\n]}\n", t->file);
    return STW_OK;
}

static stw_status write_run(const stw_simulator *s, stw_workspace *workspace, const char *path, stw_error *error) {
    stw_output output;
    stw_arena scratch;
    TRY(stw_output_open(&output, path, error));
    stw_status status = stw_arena_create(&scratch, error);
    if (status == STW_OK) {
        trace t = {.file = output.file, .s = s, .timeline = &workspace->timeline};
        status = put_all(&t, scratch, error);
        stw_arena_destroy(&scratch);
    }
    if (status == STW_OK) return stw_output_commit(&output, error);
    stw_output_discard(&output);
    return status;
}

stw_status stw_trace_write(const stw_simulator *simulator, const stw_plan *plan, const char *path, stw_error *error) {
    stw_workspace *workspace;
    stw_evaluation result;
    const stw_run_options options = {.record_memory = true};
    TRY(stw_workspace_create(simulator, &workspace, error));
    stw_status status = stw_simulate_with(simulator, plan, &options, workspace, &result, error);
    if (status == STW_OK && result.peak_bytes == NULL) {
        status = stw_fail(error, STW_ERROR_NO_PLAN, "there is no step to trace: %s", result.message);
    }
    if (status == STW_OK) status = write_run(simulator, workspace, path, error);
    stw_workspace_destroy(workspace);
    return status;
}
