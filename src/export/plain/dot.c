/* A small graph as a drawing for Graphviz: nodes coloured by device, fused groups in boxes, transfers dashed. */
#include <math.h>

#include "base/escape.h"
#include "export/export.h"

enum { MOST_NODES = 2000 }; /* beyond it Graphviz takes minutes, and nobody can read the result */

/* Between the quotes of a DOT string. */
static void put_text(FILE *out, stw_str text) {
    const char *const end = text.p + text.length;
    for (const char *at = text.p; at < end;) {
        char shown[8];
        int taken;
        const int wide = stw_show_character(at, end, shown, &taken);
        for (int k = 0; k < wide; k++) {
            if (shown[k] == '"' || shown[k] == '\\') fputc('\\', out);
            fputc(shown[k], out);
        }
        at += taken;
    }
}

/* Hues a golden section apart differ well, however many there are. */
static void put_colour(FILE *out, int32_t device) {
    const int hue = (int)(1000.0 * fmod(0.58 + 0.618034 * device, 1.0));
    fprintf(out, ",fillcolor=\"0.%03d 0.35 1.0\"", hue);
}

/* -1: everywhere */
static int32_t device_of(const stw_export *e, int32_t node) {
    const int32_t root = e->graph->root[node];
    return stw_node_is_everywhere(e->graph->kind[root]) ? -1 : e->plan->device[root];
}

static void put_node(const stw_export *e, int32_t i, const char *indent) {
    const stw_graph *graph = e->graph;
    const uint8_t kind = graph->kind[i];
    const stw_str name = graph->label[i].length > 0 ? graph->label[i] : graph->node_name[i];
    fprintf(e->out, "%sn%d [label=\"", indent, i);
    put_text(e->out, name);
    if (!stw_str_equal(name, graph->op_name[i])) {
        fputs("\\n", e->out);
        put_text(e->out, graph->op_name[i]);
    }
    fputc('"', e->out);
    if (device_of(e, i) >= 0) put_colour(e->out, device_of(e, i));
    if (stw_node_is_source(kind)) fputs(",shape=ellipse", e->out);
    if (kind == STW_NODE_VIEW) fputs(",style=\"filled,rounded\"", e->out);
    if (kind == STW_NODE_OP && e->rank[i] < 0) fputs(",style=\"filled,dotted\"", e->out); /* recomputed where it is read */
    fputs("];\n", e->out);
}

/* Nodes, those of a group within its box. A task is listed at its smallest member. */
static stw_status put_nodes(const stw_export *e, stw_arena scratch, stw_error *error) {
    const stw_tasks *tasks = e->timeline->tasks;
    const int32_t N = e->graph->N;
    int32_t *first, *next, *last;
    STW_TRY_NEW(&scratch, first, tasks->T, error);
    STW_TRY_NEW(&scratch, last, tasks->T, error);
    STW_TRY_NEW(&scratch, next, N, error);
    for (int32_t t = 0; t < tasks->T; t++) first[t] = -1;
    for (int32_t i = 0; i < N; i++) {
        const int32_t t = tasks->task_of[i];
        next[i] = -1;
        if (t < 0) continue;
        if (first[t] < 0) {
            first[t] = i;
        } else {
            next[last[t]] = i;
        }
        last[t] = i;
    }
    for (int32_t i = 0; i < N; i++) {
        const int32_t t = tasks->task_of[i];
        if (t < 0 || first[t] == last[t]) {
            put_node(e, i, "  ");
        } else if (first[t] == i) {
            fprintf(e->out, "  subgraph cluster_%d {\n    label=\"group %d\";\n", i, i);
            for (int32_t member = i; member >= 0; member = next[member]) put_node(e, member, "    ");
            fputs("  }\n", e->out);
        }
    }
    return STW_OK;
}

/* What moves between devices is dashed; so are reads of a copy that another reader brought there. */
static void put_edges(const stw_export *e) {
    const stw_graph *graph = e->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++) {
            const int32_t from = graph->input[k];
            const bool sent = device_of(e, from) >= 0 && device_of(e, from) != device_of(e, i);
            fprintf(e->out, "  n%d -> n%d%s;\n", from, i, sent ? " [style=dashed,color=red]" : "");
        }
        for (int64_t k = graph->control_start[i]; k < graph->control_start[i + 1]; k++) {
            fprintf(e->out, "  n%d -> n%d [style=dotted,color=gray50,arrowhead=open];\n", graph->control[k], i);
        }
    }
}

static void put_legend(const stw_export *e) {
    fputs("  subgraph cluster_devices {\n    label=\"devices\";\n", e->out);
    for (int32_t d = 0; d < e->machine->device_count; d++) {
        fprintf(e->out, "    d%d [label=\"", d);
        put_text(e->out, e->machine->device[d].name);
        fputc('"', e->out);
        put_colour(e->out, d);
        fputs("];\n", e->out);
    }
    fputs("  }\n", e->out);
}

stw_status stw_export_dot(stw_export *e, stw_error *error) {
    if (e->graph->N > MOST_NODES) {
        return stw_fail(error, STW_ERROR_INPUT,
                        "the graph has %d nodes, and a drawing of more than %d cannot be read; use --to trace or --to csv",
                        e->graph->N, MOST_NODES);
    }
    fputs("digraph \"", e->out);
    put_text(e->out, e->graph->name);
    fputs("\" {\n  label=\"", e->out);
    put_text(e->out, e->graph->name);
    fputs(" on ", e->out);
    put_text(e->out, e->machine->name);
    fputs("\";\n  node [shape=box,style=filled,fillcolor=white,fontname=\"sans-serif\",fontsize=10];\n", e->out);
    put_legend(e);
    TRY(put_nodes(e, *e->arena, error));
    put_edges(e);
    fputs("}\n", e->out);
    e->note = STW_STR("draw it with: dot -Tsvg FILE -o FILE.svg");
    return STW_OK;
}
