/* The plan as a table, one row per node (docs/formats/export.md). */
#include <inttypes.h>
#include <math.h>

#include "base/escape.h"
#include "base/json.h"
#include "export/export.h"

/* Exact: six decimals of a microsecond are picoseconds. */
static void put_us(FILE *out, int64_t ps) { fprintf(out, ",%" PRId64 ".%06d", ps / 1000000, (int)(ps % 1000000)); }

/* Device, priority, group, start and end: empty where the plan has none. */
static void put_plan(const stw_export *e, int32_t i) {
    const stw_graph *graph = e->graph;
    const stw_tasks *tasks = e->timeline->tasks;
    const int32_t root = graph->root[i], task = tasks->task_of[i];
    fputc(',', e->out);
    if (!stw_node_is_everywhere(graph->kind[root])) stw_write_cell(e->out, e->machine->device[e->plan->device[root]].name);
    if (task < 0) {
        fputs(graph->kind[i] == STW_NODE_OP ? ",,-1,," : ",,,,", e->out); /* -1: recomputed */
        return;
    }
    char text[32];
    const double priority = e->plan->priority[i];
    stw_format_double(text, isfinite(priority) ? priority + 0.0 : 0.0);
    fprintf(e->out, ",%s,%d", text, tasks->task_node[task]);
    put_us(e->out, e->timeline->start_ps[task]);
    put_us(e->out, e->timeline->end_ps[task]);
}

stw_status stw_export_csv(stw_export *e, stw_error *error) {
    (void)error;
    const stw_graph *graph = e->graph;
    fputs("node,name,op,kind,device,priority,group,start_us,end_us,bytes,flops\n", e->out);
    for (int32_t i = 0; i < graph->N; i++) {
        fprintf(e->out, "%d,", i);
        stw_write_cell(e->out, graph->node_name[i]);
        fputc(',', e->out);
        stw_write_cell(e->out, graph->op_name[i]);
        fprintf(e->out, ",%s", stw_node_kind_name(graph->kind[i]));
        put_plan(e, i);
        fprintf(e->out, ",%" PRId64 ",%" PRId64 "\n", graph->bytes[i], graph->flops[i]);
    }
    return STW_OK;
}
