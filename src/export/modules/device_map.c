/* The plan as Hugging Face's device_map: modules by name, with the fewest entries (docs/formats/export.md). */
#include "base/json.h"
#include "export/modules/modules.h"

typedef struct moved { /* what leaves the plan */
    int32_t units, parameters;
    int64_t bytes, all_bytes;
} moved;

/* (unit_count, D) picoseconds of the ops that read a unit's parameters. */
static stw_status time_units(const stw_export *e, const stw_modules *m, int64_t **out, stw_error *error) {
    const stw_graph *graph = e->graph;
    const stw_timeline *timeline = e->timeline;
    STW_TRY_NEW(e->arena, *out, (int64_t)m->unit_count * e->machine->device_count, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (m->parameter_unit[i] < 0) continue;
        int64_t *time = *out + (int64_t)m->parameter_unit[i] * e->machine->device_count;
        for (int64_t k = graph->reader_start[i]; k < graph->reader_start[i + 1]; k++) {
            const int32_t task = timeline->tasks->task_of[graph->reader[k].node];
            if (task >= 0) time[timeline->device[task]] += timeline->end_ps[task] - timeline->start_ps[task];
        }
    }
    return STW_OK;
}

static moved measure(const stw_export *e, const stw_modules *m, const int32_t *device) {
    const int32_t D = e->machine->device_count;
    moved away = {0};
    for (int32_t u = 0; u < m->unit_count; u++) {
        bool divided = false;
        for (int32_t d = 0; d < D; d++) divided |= d != device[u] && m->weight[(int64_t)u * D + d] > 0;
        away.units += divided;
    }
    for (int32_t i = 0; i < e->graph->N; i++) {
        const int32_t u = m->parameter_unit[i];
        if (u < 0) continue;
        away.all_bytes += e->graph->bytes[i];
        if (e->plan->device[i] == device[u]) continue;
        away.parameters++;
        away.bytes += e->graph->bytes[i];
    }
    return away;
}

/* A unit goes where most of its bytes are; of equals, where its ops take the most time. */
static stw_status choose_devices(const stw_export *e, const stw_modules *m, int32_t **out, stw_error *error) {
    const int32_t D = e->machine->device_count;
    int64_t *time;
    TRY(time_units(e, m, &time, error));
    STW_TRY_NEW(e->arena, *out, m->unit_count, error);
    for (int32_t u = 0; u < m->unit_count; u++) {
        const int64_t *bytes = &m->weight[(int64_t)u * D], *ps = &time[(int64_t)u * D];
        int32_t best = 0;
        for (int32_t d = 1; d < D; d++) {
            if (bytes[d] > bytes[best] || (bytes[d] == bytes[best] && ps[d] > ps[best])) best = d;
        }
        (*out)[u] = best;
    }
    return STW_OK;
}

/* Keys are names of any kind, so they are written as strings are. Adds to `entries`. */
static stw_status write_map(const stw_export *e, const stw_modules *m, const int32_t *device, int32_t *entries,
                            stw_error *error) {
    int32_t *agreed;
    STW_TRY_NEW(e->arena, agreed, m->count, error);
    stw_modules_agree(m, device, agreed);
    fputc('{', e->out);
    for (int32_t k = 0; k < m->count; k++) {
        if (!stw_modules_tells(m, agreed, k)) continue;
        stw_json_writer name, value;
        stw_json_writer_init(&name, e->out);
        stw_json_writer_init(&value, e->out);
        fputs(*entries > 0 ? ",\n  " : "\n  ", e->out);
        stw_json_write_string(&name, m->name[k]);
        fputs(": ", e->out);
        stw_modules_put_device(&value, m, agreed[k]);
        ++*entries;
    }
    fputs("\n}\n", e->out);
    return STW_OK;
}

static const char tied_words[] =
    "a module whose weight is that of another, such as a head tied to its embedding, has no name here: add it with the device of "
    "the "
    "other, or accelerate's check_device_map refuses the map\n";

static stw_status make_note(stw_export *e, const stw_modules *m, const int32_t *device, int32_t entries, stw_error *error) {
    const moved away = measure(e, m, device);
    const int32_t used = __builtin_popcountll(stw_modules_devices(e));
    const stw_str remarks = stw_modules_remarks(e, m);
    stw_str divided = STW_STR(""), lost = STW_STR("");
    if (away.units > 0) {
        divided = stw_str_format(
            e->arena,
            "the plan divides %d of %d blocks and layers; each goes to where most of it is: %d of %d parameters "
            "and buffers, %lld bytes of %lld, leave their device\n",
            away.units, m->unit_count, away.parameters, m->labelled, (long long)away.bytes, (long long)away.all_bytes);
    }
    if (entries == 1 && used > 1) {
        lost = stw_str_format(e->arena, "the plan uses %d devices, but nothing of that is left: the map has one device\n", used);
    }
    e->note =
        stw_str_format(e->arena, "%s%s%s%s%suse it as AutoModel.from_pretrained(NAME, device_map=json.load(open(FILE)))",
                       m->hosts > 1 ? "devices count over all hosts, but a device_map serves one process on one host\n" : "",
                       divided.p == NULL ? "" : divided.p, lost.p == NULL ? "" : lost.p, remarks.p == NULL ? "" : remarks.p,
                       entries > 1 ? tied_words : "");
    return e->note.p != NULL ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}

/* Every parcel is on one device, ops and parameters, so that nothing need be brought together. */
static stw_status is_at_grain(const stw_export *e, bool *out, stw_error *error) {
    const stw_graph *graph = e->graph;
    stw_parcels parcels;
    int32_t *device; /* from 1 */
    TRY(stw_grain_parcels(graph, STW_GRAIN_MODULE, e->arena, &parcels, error));
    STW_TRY_NEW(e->arena, device, parcels.count, error);
    *out = true;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP && !stw_node_is_resident(graph->kind[i])) continue;
        int32_t *at = &device[parcels.of[i]];
        if (*at == 0) *at = e->plan->device[i] + 1;
        *out &= *at == e->plan->device[i] + 1;
    }
    return STW_OK;
}

/* Where parameters are by the map; of what it leaves out nothing is said, so that it goes where its readers put it. */
static stw_status tell_homes(stw_export *e, const stw_modules *m, const int32_t *device, stw_error *error) {
    int32_t *home;
    STW_TRY_NEW(e->arena, home, e->graph->N, error);
    for (int32_t i = 0; i < e->graph->N; i++) home[i] = m->parameter_unit[i] >= 0 ? device[m->parameter_unit[i]] : -1;
    e->home = home;
    e->home_grain = STW_GRAIN_MODULE;
    return STW_OK;
}

stw_status stw_export_device_map(stw_export *e, stw_error *error) {
    stw_modules m;
    int32_t *device, entries = 0;
    bool fine = false;
    TRY(stw_modules_of(e, true, &m, error));
    TRY(is_at_grain(e, &fine, error));
    if (fine) TRY(stw_modules_of(e, false, &m, error));
    TRY(choose_devices(e, &m, &device, error));
    TRY(tell_homes(e, &m, device, error));
    TRY(write_map(e, &m, device, &entries, error));
    return make_note(e, &m, device, entries, error);
}
