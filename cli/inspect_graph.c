/* What a graph holds, as text and as JSON: counted once into a summary, then written. */
#include <math.h>
#include <stdlib.h>

#include "cli.h"
#include "cost/cost.h"
#include "graph/graph.h"
#include "import/import.h"

/* ---- the inputs whose sizes the file leaves open, and how to set them; nothing where there are none ---- */

enum { MAX_ROWS = 20 };

/* Each name of an open dimension once, in the order of the file; at most `room`. */
static int32_t find_names(const stw_read_options *reading, stw_str *out, int32_t room) {
    int32_t count = 0, d = 0;
    int64_t at = 0;
    stw_str name;
    while (count < room && stw_next_open_name(reading, &at, &d, &name)) {
        int32_t k = 0;
        while (k < count && !stw_str_equal(out[k], name)) k++;
        if (k == count) out[count++] = name;
    }
    return count;
}

static int64_t count_open(const stw_read_options *reading) {
    int64_t count = 0;
    for (int64_t k = 0; k < reading->input_count; k++) count += reading->input[k].is_open;
    return count;
}

/* "--shape 'image=1,3,1,1'" of the first open input. */
static void print_example(const stw_read_options *reading) {
    int64_t k = 0;
    while (!reading->input[k].is_open) k++;
    const stw_model_input *input = &reading->input[k];
    char name[100];
    snprintf(name, sizeof name, "%.*s", STW_STR_SHOW(input->name));
    stw_escape_text(name, sizeof name);
    printf("  set them: --shape '%s=", name);
    if (input->rank < 0) printf("N,...");
    for (int32_t d = 0; d < input->rank; d++)
        printf("%s%lld", d > 0 ? "," : "", input->dim[d] < 0 ? 1LL : (long long)input->dim[d]);
    printf("'");
}

static void print_open_inputs(const stw_read_options *reading, stw_arena arena) {
    static const cli_column columns[] = {{"open input, its sizes count as 1", CLI_LEFT}, {"shape in the file", CLI_LEFT}};
    const int64_t open = count_open(reading);
    if (open == 0) return;
    cli_table table;
    cli_table_begin(&table, &arena, columns, 2);
    int64_t shown = 0;
    for (int64_t k = 0; k < reading->input_count && shown < MAX_ROWS; k++) {
        const stw_model_input *input = &reading->input[k];
        if (!input->is_open) continue;
        shown++;
        cli_table_add(&table, CLI_PLAIN, "%.*s", STW_STR_SHOW(input->name));
        cli_table_add(&table, CLI_PLAIN, "%s", stw_input_text(input, &arena).p);
    }
    printf("\n");
    cli_table_print(&table, stdout);
    if (open > shown) printf("  and %lld more\n", (long long)(open - shown));
    print_example(reading);
    stw_str names[MAX_ROWS];
    const int32_t count = find_names(reading, names, MAX_ROWS);
    for (int32_t k = 0; k < count; k++) {
        char name[100];
        snprintf(name, sizeof name, "%.*s", STW_STR_SHOW(names[k]));
        stw_escape_text(name, sizeof name);
        printf("%s%s=1", k == 0 ? "\n  or by dimension: --shape '" : ";", name);
    }
    printf("%s\n", count > 0 ? "'" : "");
}

static void write_shape(const stw_model_input *input, stw_json_writer *writer) {
    stw_json_write_key(writer, "shape");
    if (input->rank < 0) {
        stw_json_write_null(writer);
        return;
    }
    stw_json_begin_array(writer);
    for (int32_t d = 0; d < input->rank; d++) {
        if (input->dim[d] >= 0) {
            stw_json_write_int64(writer, input->dim[d]);
        } else if (input->dim_name[d].length > 0) {
            stw_json_write_string(writer, input->dim_name[d]);
        } else {
            stw_json_write_null(writer);
        }
    }
    stw_json_end_array(writer);
}

static void write_open_inputs(const stw_read_options *reading, stw_json_writer *writer, stw_arena arena) {
    enum { MAX_NAMES = 1000 };
    stw_json_write_key(writer, "open_inputs");
    stw_json_begin_array(writer);
    for (int64_t k = 0; k < reading->input_count; k++) {
        if (!reading->input[k].is_open) continue;
        stw_json_begin_object(writer);
        stw_json_field_text(writer, "name", reading->input[k].name);
        write_shape(&reading->input[k], writer);
        stw_json_end_object(writer);
    }
    stw_json_end_array(writer);
    stw_str *names = STW_NEW(&arena, stw_str, MAX_NAMES);
    const int32_t count = names != NULL ? find_names(reading, names, MAX_NAMES) : 0;
    stw_json_write_key(writer, "open_dimensions");
    stw_json_begin_array(writer);
    for (int32_t k = 0; k < count; k++) stw_json_write_string(writer, names[k]);
    stw_json_end_array(writer);
}

/* ---- the summary ---- */

enum { NODE_KINDS = STW_NODE_CONSTANT + 1, MAX_UNKNOWN_ROWS = 20 };

static const char *const kind_name[NODE_KINDS] = {"ops", "views", "parameters", "buffers", "inputs", "constants"};

typedef struct measured_kind { /* a kind of device with measured times */
    stw_str name;
    double total_s;
    int32_t unmeasured; /* ops without a time */
} measured_kind;

typedef struct class_work {
    int32_t ops;
    double flops;
    double time_s; /* measured on the first kind */
} class_work;

typedef struct unknown_op {
    stw_str name;
    int32_t count;
} unknown_op;

typedef struct summary {
    const stw_graph *graph;
    const stw_read_options *reading; /* what the file says of its inputs */
    int32_t nodes[NODE_KINDS];
    int64_t bytes[NODE_KINDS];
    double flops; /* the sum may leave int64 */
    int32_t updates;
    int32_t unsized;         /* ops of which neither shape nor cost is known */
    int32_t empty;           /* ops that give out nothing */
    measured_kind *measured; /* (graph->kind_count) */
    class_work op_class[STW_CLASS_COUNT];
    unknown_op *unknown; /* most frequent first */
    int32_t unknown_count;
} summary;

static int by_name(const void *a, const void *b) {
    const stw_str x = ((const unknown_op *)a)->name, y = ((const unknown_op *)b)->name;
    for (int64_t i = 0; i < x.length && i < y.length; i++) {
        if (x.p[i] != y.p[i]) return (unsigned char)x.p[i] < (unsigned char)y.p[i] ? -1 : 1;
    }
    return (x.length > y.length) - (x.length < y.length);
}

static int by_count(const void *a, const void *b) {
    const int32_t x = ((const unknown_op *)a)->count, y = ((const unknown_op *)b)->count;
    return x != y ? (x < y) - (x > y) : by_name(a, b);
}

static stw_status count_unknown(summary *s, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = s->graph;
    STW_TRY_NEW(arena, s->unknown, graph->N, error);
    int32_t found = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_OP && !graph->known[i]) s->unknown[found++] = (unknown_op){graph->op_name[i], 1};
    }
    if (found > 0) qsort(s->unknown, (size_t)found, sizeof *s->unknown, by_name);
    for (int32_t i = 0; i < found; i++) { /* equal names stand together now: merge them */
        if (s->unknown_count > 0 && stw_str_equal(s->unknown[s->unknown_count - 1].name, s->unknown[i].name)) {
            s->unknown[s->unknown_count - 1].count++;
        } else {
            s->unknown[s->unknown_count++] = s->unknown[i];
        }
    }
    if (found > 0) qsort(s->unknown, (size_t)s->unknown_count, sizeof *s->unknown, by_count);
    return STW_OK;
}

static stw_status summarize(const stw_graph *graph, stw_arena *arena, summary *s, stw_error *error) {
    *s = (summary){.graph = graph, .empty = stw_count_empty_ops(graph)};
    STW_TRY_NEW(arena, s->measured, graph->kind_count, error);
    for (int32_t i = 0; i < graph->N; i++) {
        s->nodes[graph->kind[i]]++;
        int64_t *bytes = &s->bytes[graph->kind[i]];
        if (__builtin_add_overflow(*bytes, graph->bytes[i], bytes)) *bytes = INT64_MAX;
        if (graph->kind[i] != STW_NODE_OP) continue;
        class_work *op_class = &s->op_class[graph->op_class[i]];
        op_class->ops++;
        op_class->flops += (double)graph->flops[i];
        s->flops += (double)graph->flops[i];
        s->updates += graph->updates[i] >= 0;
        /* A scalar has bytes; without them and without dimensions the shape is not known, whatever the dtype. */
        const bool has_dimensions = graph->shape_start[i + 1] > graph->shape_start[i];
        s->unsized += !has_dimensions && graph->bytes[i] == 0 && graph->flops[i] == 0 && stw_graph_moved(graph, i) < 0;
        for (int32_t k = 0; k < graph->kind_count; k++) {
            const double us = graph->us[k][i];
            if (isnan(us)) {
                s->measured[k].unmeasured++;
                continue;
            }
            s->measured[k].total_s += us * 1e-6;
            if (k == 0) op_class->time_s += us * 1e-6;
        }
    }
    for (int32_t k = 0; k < graph->kind_count; k++) s->measured[k].name = graph->kind_name[k];
    return count_unknown(s, arena, error);
}

/* ---- as text ---- */

static void print_facts(const summary *s, stw_arena arena) {
    static const cli_column columns[] = {{NULL, CLI_LEFT}, {NULL, CLI_RIGHT}, {NULL, CLI_LEFT}};
    const stw_graph *graph = s->graph;
    cli_table table;
    cli_table_begin(&table, &arena, columns, 3);
    const struct {
        const char *name;
        int64_t count;
        const char *remark;
    } rows[] = {{"nodes", graph->N, ""},
                {"edges", graph->input_start[graph->N], "inputs of all nodes"},
                {"control edges", graph->control_start[graph->N], ""},
                {"updates", s->updates, "ops that write a parameter or buffer"},
                {"outputs", graph->output_count, ""}};
    cli_table_add(&table, CLI_PLAIN, "%s", rows[0].name);
    cli_table_add(&table, CLI_PLAIN, "%s", cli_count(rows[0].count).text);
    cli_table_add(&table, CLI_PLAIN, "%s", rows[0].remark);
    for (int32_t k = 0; k < NODE_KINDS; k++) {
        const bool has_bytes = stw_node_is_source((uint8_t)k) && s->nodes[k] > 0;
        cli_table_add(&table, CLI_PLAIN, "  %s", kind_name[k]);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_count(s->nodes[k]).text);
        if (k == STW_NODE_OP && s->unsized > 0) {
            cli_table_add(&table, CLI_PLAIN, "%s without shape and cost", cli_count(s->unsized).text);
        } else {
            cli_table_add(&table, CLI_PLAIN, "%s", has_bytes ? cli_bytes((double)stw_graph_size(graph, s->bytes[k])).text : "");
        }
    }
    for (size_t i = 1; i < sizeof rows / sizeof rows[0]; i++) {
        cli_table_add(&table, CLI_PLAIN, "%s", rows[i].name);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_count(rows[i].count).text);
        cli_table_add(&table, CLI_PLAIN, "%s", rows[i].remark);
    }
    cli_table_print(&table, stdout);
}

static void print_measured(const summary *s, stw_arena arena) {
    static const cli_column columns[] = {{"measured on", CLI_LEFT}, {"all ops", CLI_RIGHT}, {"ops without a time", CLI_RIGHT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, 3);
    for (int32_t k = 0; k < s->graph->kind_count; k++) {
        cli_table_add(&table, CLI_PLAIN, "%.*s", STW_STR_SHOW(s->measured[k].name));
        cli_table_add(&table, CLI_PLAIN, "%s", cli_time(s->measured[k].total_s, 4).text);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_count(s->measured[k].unmeasured).text);
    }
    if (s->graph->kind_count == 0) {
        printf("  no measured times\n");
    } else {
        cli_table_print(&table, stdout);
    }
}

static void print_classes(const summary *s, stw_arena arena) {
    const bool timed = s->graph->kind_count > 0 && s->measured[0].total_s > 0.0;
    char title[100] = "";
    if (timed) snprintf(title, sizeof title, "time (%.*s)", STW_STR_SHOW(s->measured[0].name));
    stw_escape_text(title, sizeof title);
    const cli_column columns[] = {{"class", CLI_LEFT}, {"ops", CLI_RIGHT}, {"FLOPs", CLI_RIGHT}, {title, CLI_RIGHT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, timed ? 4 : 3);
    for (int32_t c = 0; c < STW_CLASS_COUNT; c++) {
        const class_work *op_class = &s->op_class[c];
        if (op_class->ops == 0) continue;
        cli_table_add(&table, CLI_PLAIN, "%s", stw_op_class_name((stw_op_class)c));
        cli_table_add(&table, CLI_PLAIN, "%s", cli_count(op_class->ops).text);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_amount(op_class->flops, "FLOP").text);
        if (timed) cli_table_add(&table, CLI_PLAIN, "%s", cli_percent(op_class->time_s / s->measured[0].total_s).text);
    }
    cli_table_print(&table, stdout);
}

static void print_unknown(const summary *s, stw_arena arena) {
    static const cli_column columns[] = {{"unknown operator", CLI_LEFT}, {"ops", CLI_RIGHT}};
    if (s->unknown_count == 0) return;
    cli_table table;
    cli_table_begin(&table, &arena, columns, 2);
    for (int32_t i = 0; i < s->unknown_count && i < MAX_UNKNOWN_ROWS; i++) {
        cli_table_add(&table, CLI_PLAIN, "%.*s", STW_STR_SHOW(s->unknown[i].name));
        cli_table_add(&table, CLI_PLAIN, "%s", cli_count(s->unknown[i].count).text);
    }
    printf("\n");
    cli_table_print(&table, stdout);
    if (s->unknown_count > MAX_UNKNOWN_ROWS) printf("  and %d more\n", s->unknown_count - MAX_UNKNOWN_ROWS);
}

static void print_open_loops(const stw_graph *graph, stw_arena arena) {
    const stw_str told = stw_tell_open_loops(graph, &arena);
    if (told.length == 0) return;
    printf("\n");
    cli_paragraph(told.p);
}

static void print_text(const summary *s, stw_arena arena) {
    const stw_graph *graph = s->graph;
    cli_heading("graph %.*s (family %.*s)", STW_STR_SHOW(graph->name), STW_STR_SHOW(graph->family));
    printf("  fingerprint %s, %s\n\n", graph->fingerprint, cli_amount(s->flops, "FLOP").text);
    print_facts(s, arena);
    printf("\n");
    print_measured(s, arena);
    printf("\n");
    print_classes(s, arena);
    print_unknown(s, arena);
    print_open_loops(graph, arena);
    print_open_inputs(s->reading, arena);
    if (s->empty == 0 || graph->open_sizes.length == 0) return; /* the open ones were listed */
    char line[500];
    snprintf(line, sizeof line, "%.*s", (int)graph->open_sizes.length, graph->open_sizes.p);
    stw_escape_text(line, sizeof line);
    printf("\n");
    cli_paragraph(line);
}

/* ---- as JSON ---- */

static void write_lists(const summary *s, stw_json_writer *writer) {
    stw_json_write_key(writer, "measured");
    stw_json_begin_array(writer);
    for (int32_t k = 0; k < s->graph->kind_count; k++) {
        stw_json_begin_object(writer);
        stw_json_field_text(writer, "kind", s->measured[k].name);
        stw_json_field_double(writer, "total_s", s->measured[k].total_s);
        stw_json_field_int64(writer, "unmeasured_ops", s->measured[k].unmeasured);
        stw_json_end_object(writer);
    }
    stw_json_end_array(writer);
    stw_json_write_key(writer, "classes");
    stw_json_begin_array(writer);
    for (int32_t c = 0; c < STW_CLASS_COUNT; c++) {
        if (s->op_class[c].ops == 0) continue;
        stw_json_begin_object(writer);
        stw_json_field_text(writer, "class", stw_str_of(stw_op_class_name((stw_op_class)c)));
        stw_json_field_int64(writer, "ops", s->op_class[c].ops);
        stw_json_field_double(writer, "flops", s->op_class[c].flops);
        stw_json_field_double(writer, "time_s", s->op_class[c].time_s);
        stw_json_end_object(writer);
    }
    stw_json_end_array(writer);
    stw_json_write_key(writer, "unknown_operators");
    stw_json_begin_array(writer);
    for (int32_t i = 0; i < s->unknown_count; i++) {
        stw_json_begin_object(writer);
        stw_json_field_text(writer, "op", s->unknown[i].name);
        stw_json_field_int64(writer, "ops", s->unknown[i].count);
        stw_json_end_object(writer);
    }
    stw_json_end_array(writer);
}

static void print_json(const summary *s, stw_arena arena) {
    const stw_graph *graph = s->graph;
    stw_json_writer writer;
    stw_json_writer_init(&writer, stdout);
    stw_json_begin_object(&writer);
    stw_json_field_text(&writer, "format", STW_STR("opgraph"));
    stw_json_field_text(&writer, "name", graph->name);
    stw_json_field_text(&writer, "family", graph->family);
    stw_json_field_text(&writer, "fingerprint", stw_str_of(graph->fingerprint));
    stw_json_field_int64(&writer, "nodes", graph->N);
    for (int32_t k = 0; k < NODE_KINDS; k++) stw_json_field_int64(&writer, kind_name[k], s->nodes[k]);
    stw_json_field_int64(&writer, "ops_without_shape", s->unsized);
    stw_json_field_int64(&writer, "ops_empty", s->empty);
    stw_json_field_int64(&writer, "loops_without_count", graph->open_loops);
    stw_json_field_int64(&writer, "edges", graph->input_start[graph->N]);
    stw_json_field_int64(&writer, "control_edges", graph->control_start[graph->N]);
    stw_json_field_int64(&writer, "updates", s->updates);
    stw_json_field_int64(&writer, "outputs", graph->output_count);
    stw_json_field_int64(&writer, "parameter_bytes", s->bytes[STW_NODE_PARAMETER]);
    stw_json_field_int64(&writer, "buffer_bytes", s->bytes[STW_NODE_BUFFER]);
    stw_json_field_int64(&writer, "input_bytes", s->bytes[STW_NODE_INPUT]);
    stw_json_field_double(&writer, "flops", s->flops);
    write_lists(s, &writer);
    write_open_inputs(s->reading, &writer, arena);
    stw_json_end_object(&writer);
    printf("\n");
}

stw_status cli_show_graph(const cli_call *call, stw_str text, const char *label, stw_error *error) {
    stw_graph *graph;
    stw_arena arena = call->arena;
    stw_read_options reading;
    TRY(stw_read_options_parse(stw_options_get(call->options, "shape"), &arena, &reading, error));
    TRY(stw_graph_read(&(stw_graph_source){.bytes = text, .label = label}, &reading, &graph, error));
    summary s;
    const stw_status status = summarize(graph, &arena, &s, error);
    s.reading = &reading;
    if (status == STW_OK && cli_wants_json(call)) {
        print_json(&s, arena);
    } else if (status == STW_OK) {
        print_text(&s, arena);
    }
    stw_graph_destroy(graph);
    return status;
}
