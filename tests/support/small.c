#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "support/small.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what, const char *why) {
    fprintf(stderr, "the test is wrong: %s: %s\n", what, why);
    exit(2);
}

/* ---- texts ---- */

char *small_quote(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    if (copy == NULL) die("quote", "out of memory");
    strcpy(copy, text);
    for (char *c = copy; *c != '\0'; c++) {
        if (*c == '\'') *c = '"';
    }
    return copy;
}

typedef struct {
    FILE *file;
    char *text;
    size_t size;
} writer;

static void begin(writer *w) {
    w->file = open_memstream(&w->text, &w->size);
    if (w->file == NULL) die("text", "out of memory");
}

static char *finish(writer *w) {
    if (fclose(w->file) != 0) die("text", "out of memory");
    char *quoted = small_quote(w->text);
    free(w->text);
    return quoted;
}

/* A list without the comma that may stand at its end. */
static void put_list(writer *w, const char *key, const char *items) {
    int length = items == NULL ? 0 : (int)strlen(items);
    if (length > 0 && items[length - 1] == ',') length--;
    fprintf(w->file, ",'%s':[%.*s]", key, length, items == NULL ? "" : items);
}

char *small_graph_text(small_text text) {
    writer w;
    begin(&w);
    fprintf(w.file, "{'format':'opgraph','version':1,'name':'small','outputs':%s", text.outputs == NULL ? "[]" : text.outputs);
    put_list(&w, "nodes", text.nodes);
    fputs("}", w.file);
    return finish(&w);
}

static void put_devices(writer *w, int32_t count) {
    fputs(",'devices':[", w->file);
    for (int32_t d = 0; d < count; d++) fprintf(w->file, "%s{'name':'d%d','kind':'h200'}", d > 0 ? "," : "", d);
    fputs("]", w->file);
}

static void put_links(writer *w, int32_t count) {
    const char *comma = "";
    fputs(",'links':[", w->file);
    for (int32_t from = 0; from < count; from++) {
        for (int32_t to = 0; to < count; to++) {
            if (from == to) continue;
            fprintf(w->file, "%s{'from':'d%d','to':'d%d','bandwidth_bytes_per_s':1e6,'latency_us':0}", comma, from, to);
            comma = ",";
        }
    }
    fputs("]", w->file);
}

char *small_machine_text(small_text text) {
    writer w;
    const int32_t count = text.device_count > 0 ? text.device_count : 1;
    begin(&w);
    fprintf(w.file, "{'format':'machine','version':1,'name':'small','contention':'%s'",
            text.contention ? text.contention : "queue");
    if (text.devices != NULL) {
        put_list(&w, "devices", text.devices);
    } else {
        put_devices(&w, count);
    }
    if (text.links != NULL) {
        put_list(&w, "links", text.links);
    } else {
        put_links(&w, count);
    }
    fputs("}", w.file);
    return finish(&w);
}

static void put_key(writer *w, const char *key, const char *value) {
    if (value != NULL) fprintf(w->file, ",'%s':%s", key, value);
}

char *small_plan_text(small_text text, int32_t node_count, const char *fingerprint) {
    writer w;
    begin(&w);
    fputs("{'format':'plan','version':1", w.file);
    if (fingerprint != NULL) fprintf(w.file, ",'graph':{'name':'small','fingerprint':'%s'}", fingerprint);
    if (text.device == NULL) {
        fputs(",'device':[", w.file);
        for (int32_t i = 0; i < node_count; i++) fputs(i == 0 ? "0" : ",0", w.file);
        fputs("]", w.file);
    }
    put_key(&w, "device", text.device);
    put_key(&w, "priority", text.priority);
    put_key(&w, "group", text.group);
    put_key(&w, "order", text.order);
    fputs("}", w.file);
    return finish(&w);
}

/* ---- problems ---- */

small *small_open(small_text text) {
    small *s = calloc(1, sizeof *s);
    stw_error error;
    if (s == NULL) die("problem", "out of memory");
    char *file = small_graph_text(text);
    if (stw_graph_parse(file, strlen(file), "graph", NULL, &s->graph, &error) != STW_OK) die(file, error.message);
    free(file);
    file = small_machine_text(text);
    if (stw_machine_parse(file, strlen(file), "machine", &s->machine, &error) != STW_OK) die(file, error.message);
    free(file);
    if (stw_costs_create(s->graph, s->machine, NULL, &s->costs, &error) != STW_OK) die("costs", error.message);
    if (stw_simulator_create(s->costs, &s->simulator, &error) != STW_OK) die("simulator", error.message);
    file = small_plan_text(text, s->graph->N, s->graph->fingerprint);
    if (stw_plan_parse(file, strlen(file), "plan", s->graph, s->machine, &s->plan, &error) != STW_OK) die(file, error.message);
    free(file);
    if (stw_workspace_create(s->simulator, &s->workspace, &error) != STW_OK) die("workspace", error.message);
    small_run(s);
    return s;
}

void small_close(small *s) {
    stw_workspace_destroy(s->workspace);
    stw_plan_destroy(s->plan);
    stw_simulator_destroy(s->simulator);
    stw_costs_destroy(s->costs);
    stw_machine_destroy(s->machine);
    stw_graph_destroy(s->graph);
    free(s->timeline);
    free(s);
}

/* ---- timelines ---- */

typedef struct {
    int64_t start_ps, end_ps;
    int32_t node;
} span;

static int compare_spans(const void *left, const void *right) {
    const span *a = left, *b = right;
    if (a->start_ps != b->start_ps) return a->start_ps < b->start_ps ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

/* What runs on a device (`to` < 0), or what goes from one device to another. */
static size_t list_spans(const small *s, int32_t from, int32_t to, span *out) {
    const stw_timeline *timeline = &s->workspace->timeline;
    size_t count = 0;
    for (int32_t t = 0; to < 0 && t < timeline->tasks->T; t++) {
        if (timeline->device[t] == from)
            out[count++] = (span){timeline->start_ps[t], timeline->end_ps[t], timeline->tasks->task_node[t]};
    }
    for (int32_t k = 0; to >= 0 && k < timeline->transfer_count; k++) {
        const stw_transfer *transfer = &timeline->transfer[k];
        if (transfer->from == from && transfer->to == to)
            out[count++] = (span){transfer->start_ps, transfer->end_ps, transfer->producer};
    }
    if (count > 1) qsort(out, count, sizeof *out, compare_spans);
    return count;
}

static void put_line(FILE *file, const small *s, int32_t from, int32_t to, span *room) {
    const size_t count = list_spans(s, from, to, room);
    if (count == 0) return;
    fputs(s->machine->device[from].name.p, file);
    if (to >= 0) fprintf(file, ">%s", s->machine->device[to].name.p);
    fputs(":", file);
    for (size_t k = 0; k < count; k++) {
        fprintf(file, " %s[%g,%g)", s->graph->node_name[room[k].node].p, (double)room[k].start_ps / 1e6,
                (double)room[k].end_ps / 1e6);
    }
    fputs("\n", file);
}

static void write_timeline(small *s) {
    const stw_timeline *timeline = &s->workspace->timeline;
    const bool has_step = s->result.reason == STW_VALID || s->result.reason == STW_INVALID_MEMORY;
    const int32_t D = has_step ? s->machine->device_count : 0;
    const size_t most = has_step ? (size_t)(timeline->tasks->T + timeline->transfer_count) : 0;
    size_t size;
    free(s->timeline);
    FILE *file = open_memstream(&s->timeline, &size);
    span *room = calloc(most + 1, sizeof *room);
    if (room == NULL || file == NULL) die("timeline", "out of memory");
    for (int32_t d = 0; d < D; d++) put_line(file, s, d, -1, room);
    for (int32_t from = 0; from < D; from++) {
        for (int32_t to = 0; to < D; to++) put_line(file, s, from, to, room);
    }
    if (fclose(file) != 0) die("timeline", "out of memory");
    free(room);
}

void small_run(small *s) {
    stw_error error;
    const stw_run_options options = {.duration_ps = s->duration_ps, .record_memory = true};
    if (stw_simulator_run(s->simulator, s->plan, &options, s->workspace, &s->result, &error) != STW_OK)
        die("simulate", error.message);
    write_timeline(s);
}

void small_set_memory(small *s, int64_t bytes) {
    for (int32_t d = 0; d < s->machine->device_count; d++) s->machine->device[d].memory_bytes = bytes;
}

int32_t small_node(const small *s, const char *name) {
    for (int32_t i = 0; i < s->graph->N; i++) {
        if (stw_str_is(s->graph->node_name[i], name)) return i;
    }
    die("no node is called", name);
    return -1;
}

double small_start_us(const small *s, const char *name) {
    const int32_t task = s->workspace->timeline.tasks->task_of[small_node(s, name)];
    return task < 0 ? -1.0 : (double)s->workspace->timeline.start_ps[task] / 1e6;
}

double small_end_us(const small *s, const char *name) {
    const int32_t task = s->workspace->timeline.tasks->task_of[small_node(s, name)];
    return task < 0 ? -1.0 : (double)s->workspace->timeline.end_ps[task] / 1e6;
}

int64_t small_copy_bytes(const small *s, const char *name, int32_t device) {
    const stw_timeline *timeline = &s->workspace->timeline;
    const int32_t node = small_node(s, name);
    for (int32_t k = 0; k < timeline->transfer_count; k++) {
        if (timeline->transfer[k].producer == node && timeline->transfer[k].to == device) return timeline->transfer[k].bytes;
    }
    return -1;
}

int64_t small_held(const small *s, int32_t device, double us) {
    const stw_timeline *timeline = &s->workspace->timeline;
    int64_t held = 0;
    for (int64_t k = 0; k < timeline->change_count; k++) {
        const stw_memory_change *change = &timeline->change[k];
        if (change->device == device && (double)change->time_ps / 1e6 <= us) held += change->bytes;
    }
    return held;
}
