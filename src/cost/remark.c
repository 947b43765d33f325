/* What there is to tell the user of a file of measured times, and of what is not known; see remark.h. */
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

/* ---- warnings ---- */

static stw_str warn_of_costs(const stw_costs *costs, stw_arena *arena) {
    (void)arena;
    return costs->remark;
}

static stw_str warn_of_open_sizes(const stw_costs *costs, stw_arena *arena) {
    (void)arena;
    return costs->graph->open_sizes;
}

/* Its time is the model's on some device: a measured one needs no operator that is known. */
static bool is_modelled(const stw_costs *costs, int32_t op) {
    for (int32_t c = 0; c < costs->machine->cost_class_count; c++) {
        if (!costs->measured[c][op] && !costs->carried[c][op]) return true;
    }
    return false;
}

/* Neither shape nor work: what a reader knows nothing of. (A scalar has bytes.) */
static bool is_unsized(const stw_graph *graph, int32_t op) {
    const bool has_dimensions = graph->shape_start[op + 1] > graph->shape_start[op];
    return !has_dimensions && graph->bytes[op] == 0 && graph->flops[op] == 0 && stw_graph_moved(graph, op) < 0;
}

static stw_str warn_of_unknown(const stw_costs *costs, stw_arena *arena) {
    enum { SHOWN = 3 };
    const stw_graph *graph = costs->graph;
    stw_str name[SHOWN];
    int32_t ops = 0, unsized = 0, names = 0;
    bool more = false;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP || graph->known[i] || !is_modelled(costs, i)) continue;
        ops++;
        unsized += is_unsized(graph, i);
        int32_t k = 0;
        while (k < names && !stw_str_equal(name[k], graph->op_name[i])) k++;
        if (k == names && names < SHOWN) name[names++] = graph->op_name[i];
        more |= k == SHOWN;
    }
    if (ops == 0) return (stw_str){0};
    stw_str list = STW_STR("");
    for (int32_t k = 0; k < names && list.p != NULL; k++)
        list = stw_str_format(arena, "%s%s'%.*s'", list.p, k > 0 ? ", " : "", (int)(name[k].length < 60 ? name[k].length : 60),
                              name[k].p);
    const char *most = unsized == ops ? "count as empty kernels" : "count by the bytes that they move, without arithmetic";
    stw_str part = STW_STR("");
    if (unsized > 0 && unsized < ops)
        part = stw_str_format(arena, "; %d of them, whose shape is not known, as empty kernels", unsized);
    if (list.p == NULL || part.p == NULL) return (stw_str){0};
    return stw_str_format(arena, "%d of %d ops are unknown operators (%s%s) and %s%s; give their times with --costs", ops,
                          graph->op_count, list.p, more ? ", ..." : "", most, part.p);
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

/* Loops that are one op, and those whose ops stand in the graph between such that order them. */
static stw_str warn_of_loops(const stw_costs *costs, stw_arena *arena) {
    const stw_graph *graph = costs->graph;
    bool any = false;
    for (int32_t i = 0; graph->open_loops > 0 && i < graph->N; i++) {
        const bool is_control = graph->body_of[i] >= 0 || graph->op_class[i] == STW_CLASS_CONTROL;
        any |= graph->kind[i] == STW_NODE_OP && is_control && is_modelled(costs, i);
    }
    return any ? stw_tell_open_loops(graph, arena) : (stw_str){0};
}

static bool contains(stw_str text, const char *part) {
    const int64_t length = (int64_t)strlen(part);
    for (int64_t at = 0; at + length <= text.length; at++) {
        if (memcmp(text.p + at, part, (size_t)length) == 0) return true;
    }
    return false;
}

/* What passes between devices, each once: not the second half of a pair, nor copies between memories. */
static bool is_collective(const stw_graph *graph, int32_t op) {
    static const char *const parts[] = {"educe", "ather", "catter", "o-all",    "o_all",
                                        "toall", "ToAll", "ermute", "roadcast", "Bcast"};
    const stw_str name = graph->op_name[op];
    if (graph->kind[op] != STW_NODE_OP || graph->op_class[op] != STW_CLASS_COLLECTIVE || contains(name, "-done")) return false;
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        if (contains(name, parts[k])) return true;
    }
    return false;
}

static stw_str warn_of_partitions(const stw_costs *costs, stw_arena *arena) {
    const stw_graph *graph = costs->graph;
    int32_t collectives = 0;
    for (int32_t i = 0; i < graph->N; i++) collectives += is_collective(graph, i);
    stw_str parts = STW_STR("");
    if (graph->partitions > 1) parts = stw_str_format(arena, "num_partitions=%lld", (long long)graph->partitions);
    if (parts.p == NULL || (collectives == 0 && parts.length == 0)) return (stw_str){0};
    if (collectives == 0) {
        return stw_str_format(arena, "the module says %s and has no collectives: it is planned as the one program that it states",
                              parts.p);
    }
    return stw_str_format(
        arena,
        "the program is already partitioned (%s%s%d collective%s): it is planned as what it is, one device's share; "
        "a collective counts as a copy on its device, not as a wait for the other shares",
        parts.p, parts.length > 0 ? ", " : "", collectives, collectives == 1 ? "" : "s");
}

static stw_str warn_of_machine(const stw_costs *costs, stw_arena *arena) {
    return costs->machine->remark.length == 0 ? (stw_str){0} : stw_str_copy(arena, costs->machine->remark);
}

/* All that there may be to warn of; to add something, add a row. A row gives one line, or nothing. */
static stw_str (*const warnings[])(const stw_costs *costs, stw_arena *arena) = {
    warn_of_costs, warn_of_machine, warn_of_open_sizes, warn_of_unknown, warn_of_loops, warn_of_partitions,
};
enum { WARNINGS = sizeof warnings / sizeof warnings[0] };

stw_status stw_costs_find_warnings(stw_costs *costs, stw_error *error) {
    STW_TRY_NEW(&costs->arena, costs->warning, WARNINGS, error);
    for (int k = 0; k < WARNINGS; k++) {
        const stw_str text = warnings[k](costs, &costs->arena);
        if (text.length > 0) costs->warning[costs->warning_count++] = text;
    }
    return STW_OK;
}
