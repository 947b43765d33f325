/* What there is to tell the user of a file of measured times; see remark.h. */
#include "cost/remark.h"

#include <stdio.h>
#include <string.h>

const char *stw_cost_unit(const stw_cost_rows *rows) { return rows->unit != NULL ? rows->unit : "rows"; }

static stw_str join(stw_str first, stw_str second, stw_arena *arena) {
    if (first.length == 0 || second.length == 0) return first.length == 0 ? second : first;
    return stw_str_format(arena, "%s; %s", first.p, second.p);
}

static stw_str remark_on_count(const stw_cost_rows *rows, const stw_row_count *n, stw_arena *arena) {
    const char *unit = stw_cost_unit(rows);
    if (n->rows == 0) return stw_str_format(arena, "the file of costs has no %s", unit);
    if (n->unknown > 0) {
        return stw_str_format(arena, "%lld of %lld %s of the costs are for kinds of device that are not known ('%.*s')",
                              (long long)n->unknown, (long long)n->rows, unit, STW_STR_SHOW(n->unknown_kind));
    }
    if (n->unmatched == 0) return (stw_str){0};
    return stw_str_format(arena, "%lld of %lld %s of the costs name no op of the graph%s%s", (long long)n->unmatched,
                          (long long)n->rows, unit, rows->remedy != NULL ? ": " : "", rows->remedy != NULL ? rows->remedy : "");
}

stw_str stw_remark_on_rows(const stw_cost_rows *rows, const stw_row_count *n, stw_arena *arena) {
    if (rows->note.length > 0 && n->rows == 0) return rows->note;
    return join(rows->note, remark_on_count(rows, n, arena), arena);
}

stw_str stw_remark_on_carried(stw_str remark, stw_str kind, const stw_str *other, const bool *served, int64_t count,
                              stw_arena *arena) {
    char list[200] = "";
    size_t length = 0;
    for (int64_t k = 0; k < count; k++) {
        if (!served[k]) continue;
        if (stw_str_equal(other[k], kind)) return remark;
        if (length < sizeof list - 100)
            length +=
                (size_t)snprintf(list + length, sizeof list - length, "%s%.*s", length > 0 ? ", " : "", STW_STR_SHOW(other[k]));
    }
    if (length == 0) return remark;
    const stw_str carried = stw_str_format(
        arena, "no time is of kind %.*s: its times are those of %s times the ratio of the models", STW_STR_SHOW(kind), list);
    /* Classes of one kind need no second line. */
    if (carried.p == NULL || (remark.length > 0 && strstr(remark.p, carried.p) != NULL)) return remark;
    return join(remark, carried, arena);
}

stw_str stw_tell_open_loops(const stw_graph *graph, stw_arena *arena) {
    const int32_t loops = graph->open_loops;
    if (loops == 0) return (stw_str){0};
    return stw_str_format(
        arena,
        "%d loop%s not say how often %s: the limit in the condition counts, else one turn; give the time%s with "
        "--costs",
        loops, loops == 1 ? " does" : "s do", loops == 1 ? "it runs" : "they run", loops == 1 ? "" : "s");
}

stw_str stw_remark_on_loops(stw_str remark, const stw_costs *costs, stw_arena *arena) {
    const stw_graph *graph = costs->graph;
    bool is_modelled = false;
    for (int32_t i = 0; graph->open_loops > 0 && i < graph->N && !is_modelled; i++) {
        for (int32_t c = 0; c < costs->machine->cost_class_count; c++)
            is_modelled |= graph->body_of[i] >= 0 && costs->us[c][i] == costs->model_us[c][i];
    }
    return is_modelled ? join(remark, stw_tell_open_loops(graph, arena), arena) : remark;
}
