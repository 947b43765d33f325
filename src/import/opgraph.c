/* Reads opgraph JSON, the project's own graph format (docs/formats/opgraph.md): one node after the other into flat arrays. */
#include "import/opgraph.h"

#include <string.h>

#include "import/import.h"

static bool read_nodes(stw_opgraph_reader *r) {
    const int64_t count = stw_json_count_items(&r->json, r->scratch);
    if (count >= INT32_MAX) return stw_json_fail(&r->json, "more than 2^31 - 2 nodes");
    if (stw_graph_allocate(r->graph, count, NULL) != STW_OK) return stw_opgraph_out_of_memory(r);
    if (!stw_json_array(&r->json)) return false;
    int32_t i = 0;
    while (stw_json_item(&r->json)) {
        if (i == count) { /* the first pass failed within this node; so does this one, with a message */
            stw_json_skip(&r->json, NULL);
            return stw_opgraph_name_node(r, i) || stw_json_fail(&r->json, "node %d cannot be read", i);
        }
        if (!stw_opgraph_read_node(r, i++)) return false;
    }
    r->graph->shape_start[count] = r->shape.count;
    r->graph->input_start[count] = r->input.count;
    r->graph->control_start[count] = r->control.count;
    return !r->json.failed;
}

static bool read_format(stw_opgraph_reader *r) {
    stw_str format;
    if (!stw_json_string(&r->json, &format)) return false;
    return stw_str_is(format, "opgraph") ||
           stw_json_fail(&r->json, "format '%.*s' is not a graph; \"opgraph\" is expected", STW_STR_SHOW(format));
}

static bool read_version(stw_opgraph_reader *r) {
    int64_t version;
    if (!stw_json_int64(&r->json, &version)) return false;
    return version == 1 || stw_json_fail(&r->json, "opgraph version %lld; this program reads version 1", (long long)version);
}

static bool read_head_value(stw_opgraph_reader *r, stw_str key, int *seen) {
    static const char *const keys[] = {"format", "version", "name", "family", "loss", "outputs", "nodes"};
    int which = 0;
    while (which < 7 && !stw_str_is(key, keys[which])) which++;
    if (which == 7) return stw_json_skip(&r->json, NULL);
    if (*seen & (1 << which)) return stw_json_fail(&r->json, "\"%s\" stands twice", keys[which]);
    *seen |= 1 << which;
    switch (which) {
        case 0: return read_format(r);
        case 1: return read_version(r);
        case 2: return stw_opgraph_read_string(r, &r->graph->name);
        case 3: return stw_opgraph_read_string(r, &r->graph->family);
        case 4: return stw_json_peek(&r->json) == STW_JSON_NULL ? stw_json_null(&r->json) : stw_json_int64(&r->json, &r->loss);
        case 5: return stw_opgraph_read_ints(r, &r->output);
        default: return read_nodes(r);
    }
}

static bool check_head(stw_opgraph_reader *r, int seen) {
    stw_graph *graph = r->graph;
    if (!(seen & 1)) return stw_json_fail(&r->json, "\"format\":\"opgraph\" is missing; is this a graph file?");
    if (!(seen & 2)) return stw_json_fail(&r->json, "\"version\" is missing; write \"version\":1");
    if (!(seen & 64)) return stw_json_fail(&r->json, "\"nodes\" is missing");
    if (r->loss < -1 || r->loss >= graph->N)
        return stw_json_fail(&r->json, "loss %lld is no node; ids run from 0 to %d", (long long)r->loss, graph->N - 1);
    graph->loss = (int32_t)r->loss;
    if (r->output.count > INT32_MAX) return stw_json_fail(&r->json, "more than 2^31 - 1 outputs");
    for (int64_t k = 0; k < r->output.count; k++) {
        const int64_t id = r->output.data[k];
        if (id < 0 || id >= graph->N)
            return stw_json_fail(&r->json, "output %lld is no node; ids run from 0 to %d", (long long)id, graph->N - 1);
    }
    return true;
}

static stw_status copy_int32(stw_arena *arena, const stw_vector *from, int32_t **out, stw_error *error) {
    STW_TRY_NEW(arena, *out, from->count, error);
    for (int64_t k = 0; k < from->count; k++) (*out)[k] = (int32_t)from->data[k];
    return STW_OK;
}

/* Moves what was collected aside into the graph. */
static stw_status keep_lists(stw_opgraph_reader *r, stw_error *error) {
    stw_graph *graph = r->graph;
    stw_arena *arena = &graph->arena;
    TRY(copy_int32(arena, &r->input, &graph->input, error));
    TRY(copy_int32(arena, &r->control, &graph->control, error));
    TRY(copy_int32(arena, &r->output, &graph->output, error));
    graph->output_count = (int32_t)r->output.count;
    STW_TRY_NEW(arena, graph->shape, r->shape.count, error);
    if (r->shape.count > 0) memcpy(graph->shape, r->shape.data, (size_t)r->shape.count * sizeof *graph->shape);
    STW_TRY_NEW(arena, graph->kind_name, graph->kind_count, error);
    STW_TRY_NEW(arena, graph->us, graph->kind_count, error);
    for (int32_t k = 0; k < graph->kind_count; k++) {
        graph->kind_name[k] = r->kind_name[k];
        graph->us[k] = r->kind_us[k];
    }
    if (graph->name.p == NULL) graph->name = STW_STR("");
    if (graph->family.p == NULL) graph->family = STW_STR("");
    return STW_OK;
}

static stw_status read_graph(stw_opgraph_reader *r, stw_error *error) {
    stw_str key;
    int seen = 0;
    TRY(stw_op_index_create(&r->scratch, &r->ops, error));
    /* The vectors and decoded strings grow in scratch memory of their own. */
    stw_vector *vectors[] = {&r->shape, &r->input, &r->control, &r->output};
    for (int k = 0; k < 4; k++) vectors[k]->arena = &r->scratch;
    if (stw_json_object(&r->json)) {
        while (stw_json_key(&r->json, &key)) {
            if (!read_head_value(r, key, &seen)) break;
        }
    }
    if (!r->json.failed) check_head(r, seen);
    TRY(stw_json_finish(&r->json));
    TRY(keep_lists(r, error));
    return stw_graph_finish(r->graph, error);
}

stw_status stw_opgraph_read(stw_str text, stw_graph **out, stw_error *error) {
    *out = NULL;
    stw_opgraph_reader r = {.loss = -1};
    stw_arena arena;
    TRY(stw_arena_create_for_file(&arena, error));
    stw_status status = stw_arena_create_for_file(&r.scratch, error);
    r.graph = STW_NEW(&arena, stw_graph, 1);
    if (status == STW_OK) {
        r.graph->arena = arena;
        stw_json_init(&r.json, text, &r.scratch, error);
        status = read_graph(&r, error);
        arena = r.graph->arena;
    }
    stw_arena_destroy(&r.scratch);
    if (status == STW_OK) {
        *out = r.graph;
    } else {
        stw_arena_destroy(&arena);
    }
    return status;
}
