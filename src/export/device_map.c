/* The plan as Hugging Face's device_map: modules by name, with the fewest entries (docs/formats/export.md). */
#include "base/json.h"
#include "export/modules.h"

typedef struct moved {
    int32_t parameters;
    int64_t bytes;
} moved;

/* A unit goes where most of its bytes are. */
static stw_status choose_devices(const stw_export *e, const stw_modules *m, int32_t **out, moved *away, stw_error *error) {
    const int32_t D = e->machine->device_count;
    STW_TRY_NEW(e->arena, *out, m->unit_count, error);
    for (int32_t u = 0; u < m->unit_count; u++) {
        const int64_t *weight = &m->weight[(int64_t)u * D];
        for (int32_t d = 1; d < D; d++) {
            if (weight[d] > weight[(*out)[u]]) (*out)[u] = d;
        }
    }
    for (int32_t i = 0; i < e->graph->N; i++) {
        const int32_t u = m->parameter_unit[i];
        if (u < 0 || e->plan->device[i] == (*out)[u]) continue;
        away->parameters++;
        away->bytes += e->graph->bytes[i];
    }
    return STW_OK;
}

/* Keys are names of any kind, so they are written as strings are. */
static stw_status write_map(const stw_export *e, const stw_modules *m, const int32_t *device, stw_error *error) {
    int32_t *agreed;
    bool any = false;
    STW_TRY_NEW(e->arena, agreed, m->count, error);
    stw_modules_agree(m, device, agreed);
    fputc('{', e->out);
    for (int32_t k = 0; k < m->count; k++) {
        if (!stw_modules_tells(m, agreed, k)) continue;
        stw_json_writer name, value;
        stw_json_writer_init(&name, e->out);
        stw_json_writer_init(&value, e->out);
        fputs(any ? ",\n  " : "\n  ", e->out);
        stw_json_write_string(&name, m->name[k]);
        fputs(": ", e->out);
        stw_modules_put_device(&value, m, agreed[k]);
        any = true;
    }
    fputs("\n}\n", e->out);
    return STW_OK;
}

static stw_status make_note(stw_export *e, const stw_modules *m, moved away, stw_error *error) {
    stw_str split = STW_STR(""), unnamed = STW_STR("");
    if (away.parameters > 0) {
        split = stw_str_format(e->arena,
                               "%d of %d parameters and buffers (%lld bytes) go to where most of their module is: a module has "
                               "one device here\n",
                               away.parameters, m->labelled, (long long)away.bytes);
    }
    if (m->unlabelled > 0) {
        unnamed = stw_str_format(e->arena, "%d parameters and buffers have no label and are left out\n", m->unlabelled);
    }
    e->note =
        stw_str_format(e->arena, "%s%s%suse it as AutoModel.from_pretrained(NAME, device_map=json.load(open(FILE)))",
                       m->hosts > 1 ? "devices count over all hosts, but a device_map serves one process on one host\n" : "",
                       split.p == NULL ? "" : split.p, unnamed.p == NULL ? "" : unnamed.p);
    return e->note.p != NULL ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}

stw_status stw_export_device_map(stw_export *e, stw_error *error) {
    stw_modules m;
    int32_t *device;
    moved away = {0};
    TRY(stw_modules_of(e, &m, error));
    TRY(choose_devices(e, &m, &device, &away, error));
    TRY(write_map(e, &m, device, error));
    return make_note(e, &m, away, error);
}
