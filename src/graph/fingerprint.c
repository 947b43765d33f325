/* The fingerprint: tells whether a plan belongs to a graph. It covers operators, inputs, shapes, dtypes, attributes and the
 * structure (views, updates, control, colocation, outputs), not names and times. */
#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "graph/graph.h"

typedef struct {
    uint64_t a, b; /* two lanes with different multipliers */
} hash;

static void add(hash *h, uint64_t value) {
    h->a = (h->a ^ value) * 0x9fb21c651e98df25u;
    h->a ^= h->a >> 32;
    h->b = (h->b + value) * 0xd6e8feb86659fd93u;
    h->b ^= h->b >> 29;
}

static void add_text(hash *h, stw_str text) {
    add(h, (uint64_t)text.length);
    add(h, stw_str_hash(text));
}

/* A number by its value, so that 1, 1.0 and 1e0 are the same; everything else by its text. */
static void add_value(hash *h, stw_json *json) {
    stw_str raw;
    if (stw_json_peek(json) == STW_JSON_ARRAY) {
        add(h, 1);
        if (stw_json_array(json)) {
            while (stw_json_item(json)) add_value(h, json);
        }
        add(h, 2); /* so that [[1],2] is not [[1,2]] */
        return;
    }
    const bool is_number = stw_json_peek(json) == STW_JSON_NUMBER;
    int64_t whole;
    double number;
    if (!stw_json_skip(json, &raw)) return;
    if (is_number && stw_str_to_int64(raw, &whole)) {
        add(h, 3);
        add(h, (uint64_t)whole);
    } else if (is_number && stw_str_to_double(raw, &number) && number == floor(number) && fabs(number) < 9007199254740992.0) {
        add(h, 3);
        add(h, (uint64_t)(int64_t)number);
    } else if (is_number && stw_str_to_double(raw, &number)) {
        char text[32];
        add_text(h, (stw_str){text, stw_format_double(text, number)});
    } else {
        add_text(h, raw);
    }
}

/* The order of attributes plays no part: each is hashed alone and the results are added up. */
static void add_attributes(hash *h, stw_str text, stw_arena scratch) {
    if (text.length == 0) return;
    stw_json json;
    stw_str key;
    stw_error ignored; /* the reader has checked the text */
    uint64_t sum = 0;
    stw_json_init(&json, text, &scratch, &ignored);
    if (stw_json_object(&json)) {
        while (stw_json_key(&json, &key)) {
            hash one = {1, 2};
            add_text(&one, key);
            add_value(&one, &json);
            sum += one.a ^ (one.b << 1);
        }
    }
    add(h, sum);
}

static void add_node(hash *h, const stw_graph *graph, int32_t i) {
    add(h, graph->kind[i]);
    add_text(h, graph->op_name[i]);
    add_text(h, stw_str_of(stw_dtype_name(graph->dtype[i])));
    add(h, (uint64_t)graph->bytes[i]);
    add(h, (uint64_t)(int64_t)graph->updates[i]);
    add(h, (uint64_t)(int64_t)graph->colocate[i]);
    add(h, (uint64_t)(graph->shape_start[i + 1] - graph->shape_start[i]));
    for (int64_t k = graph->shape_start[i]; k < graph->shape_start[i + 1]; k++) add(h, (uint64_t)graph->shape[k]);
    add(h, (uint64_t)(graph->input_start[i + 1] - graph->input_start[i]));
    for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++) add(h, (uint64_t)graph->input[k]);
    add(h, (uint64_t)(graph->control_start[i + 1] - graph->control_start[i]));
    for (int64_t k = graph->control_start[i]; k < graph->control_start[i + 1]; k++) add(h, (uint64_t)graph->control[k]);
    add_attributes(h, graph->attributes[i], graph->arena);
}

stw_status stw_graph_build_fingerprint(stw_graph *graph, stw_error *error) {
    (void)error;
    hash h = {0x243f6a8885a308d3u, 0x13198a2e03707344u};
    add(&h, (uint64_t)graph->N);
    for (int32_t i = 0; i < graph->N; i++) add_node(&h, graph, i);
    for (int32_t o = 0; o < graph->output_count; o++) add(&h, (uint64_t)graph->output[o]);
    snprintf(graph->fingerprint, sizeof graph->fingerprint, "%016llx%016llx", (unsigned long long)h.a, (unsigned long long)h.b);
    return STW_OK;
}
