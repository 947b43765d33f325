/* Runs cases for the differential test: one JSON object per line on standard input, {"case", "graph", "machine", "plan",
 * "duration_ps"}, one JSON line of results each on standard output. tests/reference/test_against_reference.py compares them
 * with the second simulator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "sim/sim.h"

typedef struct {
    int64_t number;
    stw_str graph, machine, plan;
    int64_t *duration; /* (N) */
} test_case;

static void die(const char *what, const stw_error *error) {
    fprintf(stderr, "replay: %s: %s\n", what, error->message);
    exit(2);
}

static void read_durations(stw_json *json, stw_arena *arena, test_case *c, int64_t bytes) {
    c->duration = STW_NEW(arena, int64_t, bytes / 2 + 1);
    if (!stw_json_array(json)) return;
    for (int64_t i = 0; stw_json_item(json); i++) {
        if (stw_json_peek(json) == STW_JSON_NULL) {
            stw_json_null(json);
        } else {
            stw_json_int64(json, &c->duration[i]);
        }
    }
}

static void read_case(stw_str line, stw_arena *arena, test_case *c) {
    stw_error error;
    stw_json json;
    stw_str key;
    stw_json_init(&json, line, arena, &error);
    if (stw_json_object(&json)) {
        while (stw_json_key(&json, &key)) {
            if (stw_str_is(key, "case")) {
                stw_json_int64(&json, &c->number);
            } else if (stw_str_is(key, "graph")) {
                stw_json_skip(&json, &c->graph);
            } else if (stw_str_is(key, "machine")) {
                stw_json_skip(&json, &c->machine);
            } else if (stw_str_is(key, "plan")) {
                stw_json_skip(&json, &c->plan);
            } else if (stw_str_is(key, "duration_ps")) {
                read_durations(&json, arena, c, line.length);
            } else {
                stw_json_skip(&json, NULL);
            }
        }
    }
    if (stw_json_finish(&json) != STW_OK) die("case", &error);
}

static int compare_transfers(const void *left, const void *right) {
    const stw_transfer *a = left, *b = right;
    if (a->producer != b->producer) return a->producer < b->producer ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

static void write_list(stw_json_writer *w, const int64_t *numbers, int count) {
    stw_json_begin_array(w);
    for (int k = 0; k < count; k++) stw_json_write_int64(w, numbers[k]);
    stw_json_end_array(w);
}

static void write_timeline(stw_json_writer *w, const stw_timeline *timeline, int32_t devices) {
    stw_json_write_key(w, "ops");
    stw_json_begin_array(w);
    for (int32_t t = 0; t < timeline->tasks->T; t++) {
        write_list(w, (int64_t[]){timeline->tasks->task_node[t], timeline->start_ps[t], timeline->end_ps[t]}, 3);
    }
    stw_json_end_array(w);
    stw_json_write_key(w, "transfers");
    stw_json_begin_array(w);
    qsort(timeline->transfer, (size_t)timeline->transfer_count, sizeof *timeline->transfer, compare_transfers);
    for (int32_t k = 0; k < timeline->transfer_count; k++) {
        const stw_transfer *t = &timeline->transfer[k];
        write_list(w, (int64_t[]){t->producer, t->to, t->bytes, t->start_ps, t->end_ps}, 5);
    }
    stw_json_end_array(w);
    stw_json_write_key(w, "peak_bytes");
    write_list(w, timeline->peak_bytes, devices);
    stw_json_write_key(w, "busy_ps");
    write_list(w, timeline->busy_ps, devices);
    stw_json_write_key(w, "charged_ps");
    write_list(w, timeline->charged_ps, devices);
}

static void write_result(const test_case *c, const stw_evaluation *result, const stw_workspace *workspace, int32_t devices) {
    stw_json_writer w;
    stw_json_writer_init(&w, stdout);
    stw_json_begin_object(&w);
    stw_json_write_key(&w, "case");
    stw_json_write_int64(&w, c->number);
    stw_json_write_key(&w, "valid");
    stw_json_write_bool(&w, result->reason == STW_VALID);
    stw_json_write_key(&w, "reason");
    if (result->reason == STW_VALID) {
        stw_json_write_null(&w);
    } else {
        stw_json_write_string(&w, stw_str_of(stw_reason_name(result->reason)));
    }
    if (result->reason == STW_VALID || result->reason == STW_INVALID_MEMORY) {
        stw_json_write_key(&w, "step_ps");
        stw_json_write_int64(&w, result->step_ps);
        write_timeline(&w, &workspace->timeline, devices);
    }
    stw_json_end_object(&w);
    puts("");
}

static void run_case(stw_str line, stw_arena arena) {
    test_case c = {0};
    stw_error error;
    read_case(line, &arena, &c);
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
    stw_workspace *workspace;
    stw_evaluation result;
    char label[32];
    snprintf(label, sizeof label, "case %lld", (long long)c.number);
    if (stw_graph_parse(c.graph.p, (size_t)c.graph.length, label, NULL, &graph, &error) != STW_OK) die("graph", &error);
    if (stw_machine_parse(c.machine.p, (size_t)c.machine.length, label, &machine, &error) != STW_OK) die("machine", &error);
    if (stw_costs_create(graph, machine, NULL, &costs, &error) != STW_OK) die("costs", &error);
    if (stw_simulator_create(costs, &simulator, &error) != STW_OK) die("simulator", &error);
    if (stw_plan_parse(c.plan.p, (size_t)c.plan.length, label, graph, machine, &plan, &error) != STW_OK) die("plan", &error);
    if (stw_workspace_create(simulator, &workspace, &error) != STW_OK) die("workspace", &error);
    const stw_run_options options = {.duration_ps = c.duration};
    if (stw_simulator_run(simulator, plan, &options, workspace, &result, &error) != STW_OK) die("simulate", &error);
    write_result(&c, &result, workspace, stw_machine_device_count(machine));
    stw_workspace_destroy(workspace);
    stw_plan_destroy(plan);
    stw_simulator_destroy(simulator);
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
}

int main(void) {
    stw_error error;
    stw_arena arena;
    stw_str text;
    if (stw_arena_create(&arena, &error) != STW_OK || stw_file_read("-", &arena, &text, &error) != STW_OK) die("input", &error);
    const char *end = text.p + text.length;
    for (const char *line = text.p; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL) stop = end;
        if (stop > line) run_case((stw_str){line, (int64_t)(stop - line)}, arena);
        line = stop + 1;
    }
    stw_arena_destroy(&arena);
    return 0;
}
