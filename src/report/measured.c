/* A trace of a real run: complete events of the Trace Event format, as the profilers of PyTorch and XLA and our own exporter
 * write them. What an event is called decides which node of the graph it is; what is called like none is shown all the same. */
#include <math.h>
#include <stdlib.h>

#include "base/index.h"
#include "report/report.h"

enum { MOST_EVENTS = 4 << 20 };
static const double FARTHEST_US = 1e18; /* clocks may count from long ago; differences of such times are still numbers */

typedef struct raw_event { /* as it is read: keys come in any order */
    char phase;
    bool has_start, has_duration, on_gpu; /* on_gpu: a kernel, or a copy or a fill that runs there */
    double start_us, duration_us;
    stw_str name, process, thread; /* ids: texts, or numbers as they are written */
    stw_str argument_name;         /* of names of processes and threads */
    stw_str op;                    /* that XLA says it belongs to */
} raw_event;

typedef struct reader {
    stw_measured *m;
    const stw_machine *machine;
    stw_arena *arena;
    stw_json json;
    stw_names nodes;     /* by name */
    stw_names names;     /* of other events */
    stw_names processes; /* by id; and their names, */
    int64_t process_count, process_room;
    stw_str *process;
    stw_names tracks;       /* by thread's id; a scope is a process */
    double first_on_gpu_us; /* INFINITY: nothing ran on a GPU */
} reader;

static stw_status find_process(reader *r, stw_str id, int32_t *out, stw_error *error) {
    int32_t *number;
    TRY(stw_names_enter(&r->processes, 0, id, &number, error));
    *out = *number >= 0 ? *number : (*number = (int32_t)r->process_count);
    if (*out == r->process_count) STW_PUSH(r->arena, r, process, id, error);
    return STW_OK;
}

static stw_status find_track(reader *r, const raw_event *event, int32_t *out, stw_error *error) {
    int32_t process, *number;
    TRY(find_process(r, event->process, &process, error));
    TRY(stw_names_enter(&r->tracks, process, event->thread, &number, error));
    *out = *number >= 0 ? *number : (*number = (int32_t)r->m->track_count);
    if (*out == r->m->track_count)
        STW_PUSH(r->arena, r->m, track, ((stw_measured_track){event->process, event->thread, -1}), error);
    return STW_OK;
}

/* "name" and "hlo_op" of the arguments. */
static void read_arguments(reader *r, raw_event *event) {
    stw_str key;
    if (stw_json_peek(&r->json) != STW_JSON_OBJECT) {
        stw_json_skip(&r->json, NULL);
        return;
    }
    if (!stw_json_object(&r->json)) return;
    while (stw_json_key(&r->json, &key)) {
        const bool is_text = stw_json_peek(&r->json) == STW_JSON_STRING;
        if (is_text && stw_str_is(key, "name")) {
            stw_json_string(&r->json, &event->argument_name);
        } else if (is_text && stw_str_is(key, "hlo_op")) {
            stw_json_string(&r->json, &event->op);
        } else {
            stw_json_skip(&r->json, NULL);
        }
    }
}

/* A number, which some writers have in quotes. */
static bool read_number(reader *r, double *out) {
    stw_str text;
    if (stw_json_peek(&r->json) != STW_JSON_STRING) return stw_json_double(&r->json, out);
    return stw_json_string(&r->json, &text) && stw_str_to_double(text, out);
}

/* An id: a text, or else what is written there. */
static void read_id(reader *r, stw_str *out) {
    if (stw_json_peek(&r->json) == STW_JSON_STRING) {
        stw_json_string(&r->json, out);
    } else {
        stw_json_skip(&r->json, out);
    }
}

/* Categories of PyTorch's profiler. */
static bool is_on_gpu(stw_str category) {
    return stw_str_is(category, "kernel") || stw_str_is(category, "gpu_memcpy") || stw_str_is(category, "gpu_memset");
}

static void read_event(reader *r, raw_event *event) {
    stw_str key, text;
    if (!stw_json_object(&r->json)) return;
    while (stw_json_key(&r->json, &key)) {
        if (stw_str_is(key, "ph")) {
            if (stw_json_string(&r->json, &text) && text.length == 1) event->phase = text.p[0];
        } else if (stw_str_is(key, "name") && stw_json_peek(&r->json) == STW_JSON_STRING) {
            stw_json_string(&r->json, &event->name);
        } else if (stw_str_is(key, "ts")) {
            event->has_start = read_number(r, &event->start_us);
        } else if (stw_str_is(key, "dur")) {
            event->has_duration = read_number(r, &event->duration_us);
        } else if (stw_str_is(key, "pid")) {
            read_id(r, &event->process);
        } else if (stw_str_is(key, "tid")) {
            read_id(r, &event->thread);
        } else if (stw_str_is(key, "cat") && stw_json_peek(&r->json) == STW_JSON_STRING) {
            if (stw_json_string(&r->json, &text)) event->on_gpu = is_on_gpu(text);
        } else if (stw_str_is(key, "args")) {
            read_arguments(r, event);
        } else {
            stw_json_skip(&r->json, NULL);
        }
    }
}

static stw_status take_name(reader *r, const raw_event *event, stw_error *error) {
    int32_t index;
    if (stw_str_is(event->name, "process_name")) {
        TRY(find_process(r, event->process, &index, error));
        r->process[index] = event->argument_name;
    } else if (stw_str_is(event->name, "thread_name")) {
        TRY(find_track(r, event, &index, error));
        r->m->track[index].name = event->argument_name;
    }
    return STW_OK;
}

static stw_status take_event(reader *r, const raw_event *event, stw_error *error) {
    struct stw_measured_event made = {.name = -1, .start_us = event->start_us, .duration_us = event->duration_us};
    if (event->phase == 'M') return take_name(r, event, error);
    if (event->phase != 'X') return STW_OK;
    if (!event->has_start || !event->has_duration || event->duration_us < 0.0) {
        r->m->left_out++;
        return STW_OK;
    }
    if (r->m->event_count >= MOST_EVENTS)
        return stw_fail(error, STW_ERROR_INPUT, "more than %d events; give a trace of one step", MOST_EVENTS);
    if (fabs(event->start_us) > FARTHEST_US || event->duration_us > FARTHEST_US)
        return stw_fail(error, STW_ERROR_INPUT, "an event at %g us that takes %g us: times beyond 1e18 us are refused",
                        event->start_us, event->duration_us);
    if (event->on_gpu) r->first_on_gpu_us = fmin(r->first_on_gpu_us, event->start_us);
    TRY(find_track(r, event, &made.track, error));
    made.node = event->op.length > 0 ? stw_names_find(&r->nodes, 0, event->op) : -1;
    if (made.node < 0) made.node = stw_names_find(&r->nodes, 0, event->name);
    if (made.node < 0) {
        int32_t *number;
        TRY(stw_names_enter(&r->names, 0, event->name, &number, error));
        if (*number < 0) {
            *number = (int32_t)r->m->name_count;
            STW_PUSH(r->arena, r->m, name, event->name, error);
        }
        made.name = *number;
    }
    STW_PUSH(r->arena, r->m, event, made, error);
    return STW_OK;
}

static stw_status read_events(reader *r, stw_error *error) {
    if (!stw_json_array(&r->json)) return stw_json_status(&r->json);
    while (stw_json_item(&r->json)) {
        raw_event event = {0};
        read_event(r, &event);
        TRY(stw_json_status(&r->json));
        TRY(take_event(r, &event, error));
    }
    return stw_json_status(&r->json);
}

/* A list of events, or an object that has one. */
static stw_status read_trace(reader *r, stw_error *error) {
    stw_str key;
    if (stw_json_peek(&r->json) == STW_JSON_ARRAY) {
        TRY(read_events(r, error));
        return stw_json_finish(&r->json);
    }
    if (!stw_json_object(&r->json)) return stw_json_status(&r->json);
    while (stw_json_key(&r->json, &key)) {
        if (stw_str_is(key, "traceEvents")) {
            TRY(read_events(r, error));
        } else {
            stw_json_skip(&r->json, NULL);
        }
    }
    return stw_json_finish(&r->json);
}

/* ---- operators of PyTorch ---- */

typedef struct operators { /* what the graph calls "mm", and PyTorch's profiler "aten::mm" */
    stw_names names;
    int32_t count;
    int32_t *nodes;   /* (count) ops of the graph that are this */
    int64_t *events;  /* (count) times that it ran */
    bool *whole;      /* (count) that is once for each of its ops, or some times, for as many steps */
    int32_t *of_name; /* (names) the operator that a name of events means, or -1 */
    int32_t *first;   /* (count + 1) into `node`, */
    int32_t *node;    /* the ops in their order */
} operators;

static stw_status list_operators(const reader *r, const stw_graph *graph, operators *o, stw_error *error) {
    const int64_t prefix = 6; /* "aten::" */
    int32_t *of;
    TRY(stw_names_create(r->arena, 256, &o->names, error));
    STW_TRY_NEW(r->arena, of, graph->N, error);
    STW_TRY_NEW(r->arena, o->first, graph->N + 2, error);
    for (int32_t i = 0; i < graph->N; i++) {
        int32_t *number;
        if (graph->kind[i] != STW_NODE_OP) continue;
        TRY(stw_names_enter(&o->names, 0, graph->op_name[i], &number, error));
        if (*number < 0) *number = o->count++;
        of[i] = *number;
        o->first[of[i] + 1]++;
    }
    for (int32_t k = 0; k < o->count; k++) o->first[k + 1] += o->first[k];
    STW_TRY_NEW(r->arena, o->nodes, o->count, error);
    STW_TRY_NEW(r->arena, o->events, o->count, error);
    STW_TRY_NEW(r->arena, o->whole, o->count, error);
    STW_TRY_NEW(r->arena, o->node, graph->N, error);
    STW_TRY_NEW(r->arena, o->of_name, r->m->name_count, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_OP) o->node[o->first[of[i]] + o->nodes[of[i]]++] = i;
    }
    for (int64_t k = 0; k < r->m->name_count; k++) {
        const stw_str name = r->m->name[k];
        o->of_name[k] = -1;
        if (stw_str_starts(name, "aten::"))
            o->of_name[k] = stw_names_find(&o->names, 0, (stw_str){name.p + prefix, name.length - prefix});
    }
    return STW_OK;
}

/* The operator that an event is, or -1. An operator calls others, which are no ops of their own: `inside` is where the last one
 * ends. Events are sorted. */
static int32_t operator_of(const operators *o, const struct stw_measured_event *event, double *inside, int32_t *track) {
    if (event->track != *track) *inside = -INFINITY;
    *track = event->track;
    const int32_t op = event->name >= 0 ? o->of_name[event->name] : -1;
    if (op < 0 || event->start_us < *inside) return -1;
    *inside = event->start_us + event->duration_us;
    return op;
}

/* How often each operator ran. False: on several tracks, so that nobody knows in what order. */
static bool count_operators(const stw_measured *m, operators *o) {
    double inside = -INFINITY;
    int32_t track = -1, only = -1;
    for (int64_t k = 0; k < m->event_count; k++) {
        const int32_t op = operator_of(o, &m->event[k], &inside, &track);
        if (op < 0) continue;
        if (only >= 0 && track != only) return false;
        only = track;
        o->events[op]++;
    }
    for (int32_t op = 0; op < o->count; op++) {
        o->whole[op] = o->events[op] > 0 && o->events[op] % o->nodes[op] == 0;
        o->events[op] = 0;
    }
    return only >= 0;
}

/* The node of each event, or -1. False: they did not run in the order of the graph. */
static bool find_nodes(const stw_measured *m, operators *o, int32_t *node) {
    double inside = -INFINITY;
    int32_t track = -1, last = -1;
    int64_t steps = -1;
    for (int64_t k = 0; k < m->event_count; k++) {
        const int32_t op = operator_of(o, &m->event[k], &inside, &track);
        node[k] = -1;
        if (op < 0 || !o->whole[op]) continue;
        const int64_t step = o->events[op] / o->nodes[op];
        node[k] = o->node[o->first[op] + o->events[op]++ % o->nodes[op]];
        if (step < steps || (step == steps && node[k] < last)) return false;
        steps = step;
        last = node[k];
    }
    return true;
}

/* PyTorch's profiler tells operators and not nodes. PyTorch was traced in the order of the graph, so a module that runs by
 * itself, on one thread, runs the graph's k-th product as its k-th. Operators that ran another number of times are left as they
 * are; and all, where those that are left come in another order than in the graph. Beside kernels of a GPU such events are the
 * times of launching them. */
static stw_status match_operators(reader *r, const stw_graph *graph, stw_error *error) {
    stw_measured *m = r->m;
    operators o = {0};
    int32_t *node;
    if (isfinite(r->first_on_gpu_us)) return STW_OK;
    TRY(list_operators(r, graph, &o, error));
    STW_TRY_NEW(r->arena, node, m->event_count, error);
    if (!count_operators(m, &o) || !find_nodes(m, &o, node)) return STW_OK;
    for (int64_t k = 0; k < m->event_count; k++) {
        if (node[k] < 0) continue;
        m->event[k].node = node[k];
        m->event[k].name = -1;
    }
    return STW_OK;
}

/* ---- order ---- */

static int by_track_and_start(const void *left, const void *right) {
    const struct stw_measured_event *a = left, *b = right;
    if (a->track != b->track) return a->track - b->track;
    if (a->start_us != b->start_us) return a->start_us < b->start_us ? -1 : 1;
    if (a->duration_us != b->duration_us) return a->duration_us > b->duration_us ? -1 : 1; /* what lies within comes behind */
    return a->node != b->node ? a->node - b->node : a->name - b->name;
}

/* Names of processes and devices. */
static void name_tracks(reader *r) {
    stw_measured *m = r->m;
    for (int64_t k = 0; k < m->track_count; k++) {
        const int32_t process = stw_names_find(&r->processes, 0, m->track[k].process);
        m->track[k].process = process >= 0 ? r->process[process] : STW_STR("");
        for (int32_t d = 0; d < r->machine->device_count; d++) {
            if (stw_str_equal(m->track[k].name, r->machine->device[d].name)) m->track[k].device = d;
        }
    }
}

/* Times from 0: the first op of the graph; without one the first that a GPU does, since a trace begins with what the host
 * does before. */
static void set_zero(const reader *r) {
    stw_measured *m = r->m;
    double first = INFINITY, first_of_all = INFINITY;
    for (int64_t k = 0; k < m->event_count; k++) {
        first_of_all = fmin(first_of_all, m->event[k].start_us);
        if (m->event[k].node >= 0) first = fmin(first, m->event[k].start_us);
    }
    if (!isfinite(first)) first = r->first_on_gpu_us;
    if (!isfinite(first)) first = first_of_all;
    for (int64_t k = 0; k < m->event_count; k++) m->event[k].start_us -= first;
}

stw_status stw_report_measured_parse(stw_str text, const stw_graph *graph, const stw_machine *machine, stw_arena *arena,
                                     stw_measured *out, stw_error *error) {
    reader r = {.m = out, .machine = machine, .arena = arena, .first_on_gpu_us = INFINITY};
    TRY(stw_names_create(arena, graph->N, &r.nodes, error));
    TRY(stw_names_create(arena, 256, &r.names, error));
    TRY(stw_names_create(arena, 16, &r.processes, error));
    TRY(stw_names_create(arena, 64, &r.tracks, error));
    for (int32_t i = 0; i < graph->N; i++) {
        int32_t *number;
        if (graph->kind[i] == STW_NODE_VIEW) continue; /* it does not run; PyTorch has events of such names */
        TRY(stw_names_enter(&r.nodes, 0, graph->node_name[i], &number, error));
        if (*number < 0) *number = i;
    }
    stw_json_init(&r.json, text, arena, error);
    TRY(read_trace(&r, error));
    if (out->event_count == 0 && out->left_out > 0)
        return stw_fail(error, STW_ERROR_INPUT,
                        "none of %lld complete events has a number as \"ts\" and one that is not negative as \"dur\"",
                        (long long)out->left_out);
    if (out->event_count == 0)
        return stw_fail(error, STW_ERROR_INPUT, "no complete events (\"ph\": \"X\"): is it a trace in the Trace Event format?");
    name_tracks(&r);
    if (out->event_count > 1) qsort(out->event, (size_t)out->event_count, sizeof *out->event, by_track_and_start);
    TRY(match_operators(&r, graph, error));
    set_zero(&r);
    return STW_OK;
}

stw_status stw_report_measured(const char *path, const stw_options *options, const stw_graph *graph, const stw_machine *machine,
                               stw_arena *arena, stw_measured *out, stw_error *error) {
    const stw_file_limits limits = stw_options_file_limits(options);
    stw_str text;
    TRY(stw_file_read_within(path, &limits, arena, &text, error));
    const stw_status status = stw_report_measured_parse(text, graph, machine, arena, out, error);
    if (status != STW_OK) stw_error_prefix(error, stw_file_label(path));
    out->path = stw_str_of(path);
    return status;
}

stw_status stw_report_measured_add(const stw_measured *measured, stw_payload *payload, stw_error *error) {
    const int64_t count = measured->event_count;
    int32_t *track, *node, *name;
    double *start, *end;
    if (measured->path.length == 0) return STW_OK;
    STW_TRY_NEW(payload->arena, track, count, error);
    STW_TRY_NEW(payload->arena, node, count, error);
    STW_TRY_NEW(payload->arena, name, count, error);
    STW_TRY_NEW(payload->arena, start, count, error);
    STW_TRY_NEW(payload->arena, end, count, error);
    for (int64_t k = 0; k < count; k++) {
        track[k] = measured->event[k].track;
        node[k] = measured->event[k].node;
        name[k] = measured->event[k].name;
        start[k] = round(1e6 * measured->event[k].start_us); /* picoseconds, as everywhere */
        end[k] = start[k] + round(1e6 * measured->event[k].duration_us);
    }
    TRY(stw_payload_add(payload, -1, "measured_track", STW_COLUMN_I32, track, count, error));
    TRY(stw_payload_add(payload, -1, "measured_node", STW_COLUMN_I32, node, count, error));
    TRY(stw_payload_add(payload, -1, "measured_name", STW_COLUMN_I32, name, count, error));
    TRY(stw_payload_add(payload, -1, "measured_start", STW_COLUMN_F64, start, count, error));
    return stw_payload_add(payload, -1, "measured_end", STW_COLUMN_F64, end, count, error);
}
