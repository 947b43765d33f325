/* Traces of real runs: no input crashes the reader; events name nodes, tracks and names that are there, by track and time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "report/report.h"

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

static const char graph_text[] =
    "{\"format\":\"opgraph\",\"version\":1,\"name\":\"g\",\"family\":\"f\",\"loss\":null,\"outputs\":[],\"nodes\":[{\"id\":0,"
    "\"name\":\"a\",\"op\":\"relu\","
    "\"inputs\":[],\"dtype\":\"f32\",\"shape\":[4]},{\"id\":1,\"name\":\"b\",\"op\":\"relu\",\"inputs\":[0],\"dtype\":\"f32\","
    "\"shape\":[4]}]}";

static void check(const stw_measured *m, const stw_graph *graph, const stw_machine *machine) {
    require(m->event_count > 0 && m->track_count > 0);
    for (int64_t k = 0; k < m->event_count; k++) {
        const struct stw_measured_event *e = &m->event[k];
        require(e->track >= 0 && e->track < m->track_count && (e->node >= 0) == (e->name < 0));
        require(e->node < graph->N && e->name < m->name_count);
        require(isfinite(e->start_us) && isfinite(e->duration_us) && e->duration_us >= 0.0);
        if (k == 0) continue;
        require(e[-1].track < e->track || (e[-1].track == e->track && e[-1].start_us <= e->start_us));
    }
    for (int64_t k = 0; k < m->track_count; k++) require(m->track[k].device >= -1 && m->track[k].device < machine->device_count);
}

static int read(const uint8_t *data, size_t size) {
    stw_arena arena;
    stw_error error = {0};
    stw_measured measured = {0};
    stw_graph *graph;
    stw_machine *machine;
    const stw_str text = {size == 0 ? "" : (const char *)data, (int64_t)size};
    require(stw_arena_create(&arena, NULL) == STW_OK);
    require(stw_graph_parse(graph_text, sizeof graph_text - 1, "graph", NULL, &graph, &error) == STW_OK);
    require(stw_machine_open("h200x2", &machine, &error) == STW_OK);
    const stw_status status = stw_report_measured_parse(text, graph, machine, &arena, &measured, &error);
    if (status == STW_OK) {
        check(&measured, graph, machine);
    } else {
        require(error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
    }
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
    stw_arena_destroy(&arena);
    return status == STW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read(data, size);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) { return read(data, size); }
