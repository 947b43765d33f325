#include "sim/coarse.h"

#include <string.h>

#include "base/union_find.h"
#include "graph/construct.h"
#include "graph/strands.h"
#include "plan/plan.h"

typedef struct {
    stw_coarse *coarse;
    const stw_graph *fine;
    stw_strands strands;
    stw_constructor constructor;
    stw_graph *graph;
    stw_arena *scratch;
    bool *is_seen;      /* (N) of ops: read by other strands, or an output, or an update */
    int32_t *main;      /* (strands) node of each, -1: it has no ops */
    int32_t *value;     /* (N) the node that stands for what an op or a source makes */
    int32_t *strand_of; /* (nodes) of a strand's nodes; -1: a source */
    stw_error *error;
} builder;

/* ---- what other strands see ---- */

static void find_seen(builder *b) {
    const stw_graph *fine = b->fine;
    for (int32_t i = 0; i < fine->N; i++) {
        if (fine->kind[i] != STW_NODE_OP) continue;
        b->is_seen[i] |= fine->kept[i] || fine->updates[i] >= 0;
        for (int64_t k = fine->read_start[i]; k < fine->read_start[i + 1]; k++) {
            const int32_t from = fine->read[k].node;
            if (fine->kind[from] == STW_NODE_OP && b->strands.of[from] != b->strands.of[i]) b->is_seen[from] = true;
        }
    }
}

/* ---- nodes ---- */

static stw_status add(builder *b, stw_node_kind kind, int32_t like, int64_t bytes, const stw_raw_links *links) {
    const bool is_op = kind == STW_NODE_OP;
    const stw_raw_node node = {.kind = kind,
                               .name = like < 0 ? STW_STR("strand") : b->fine->node_name[like],
                               .op = is_op ? STW_STR("strand") : b->fine->op_name[like],
                               .label = STW_STR(""),
                               .module = STW_STR(""),
                               .attributes = STW_STR(""),
                               .dtype = STW_UNKNOWN,
                               .rank = STW_UNKNOWN,
                               .bytes = bytes,
                               .flops = 0,
                               .moved = 0,
                               .at = STW_UNKNOWN,
                               .op_class = is_op ? STW_CLASS_OPAQUE : STW_UNKNOWN};
    return stw_construct_node(&b->constructor, &node, links, b->error);
}

static stw_status add_sources(builder *b) {
    const stw_raw_links none = {.updates = -1, .colocate = -1};
    for (int32_t i = 0; i < b->fine->N; i++) {
        if (!stw_node_is_source(b->fine->kind[i])) continue;
        b->value[i] = b->constructor.count;
        b->strand_of[b->constructor.count] = -1;
        TRY(add(b, (stw_node_kind)b->fine->kind[i], i, b->fine->bytes[i], &none));
    }
    return STW_OK;
}

/* Its node: reads all that comes from outside, and hands over the first value that is seen. Returns that op, or -1. */
static stw_status add_main(builder *b, int32_t u, int64_t *input, int64_t *control, int32_t *first) {
    const stw_graph *fine = b->fine;
    stw_raw_links links = {.input = input, .control = control, .updates = -1, .colocate = -1};
    *first = -1;
    for (int32_t m = b->strands.start[u]; m < b->strands.start[u + 1]; m++) {
        const int32_t i = b->strands.member[m];
        if (fine->kind[i] != STW_NODE_OP) continue;
        if (*first < 0 && b->is_seen[i] && fine->updates[i] < 0) *first = i;
        for (int64_t k = fine->read_start[i]; k < fine->read_start[i + 1]; k++) {
            const int32_t from = fine->read[k].node;
            if (fine->kind[from] != STW_NODE_OP || b->strands.of[from] != u) input[links.input_count++] = b->value[from];
        }
        for (int64_t k = fine->control_start[i]; k < fine->control_start[i + 1]; k++) {
            const int32_t from = fine->root[fine->control[k]];
            if (fine->kind[from] == STW_NODE_OP && b->strands.of[from] != u)
                control[links.control_count++] = b->main[b->strands.of[from]];
        }
    }
    b->main[u] = b->constructor.count;
    return add(b, STW_NODE_OP, *first, *first < 0 ? 0 : fine->bytes[*first], &links);
}

/* What else it hands over, or writes in place, as nodes that take no time. */
static stw_status add_values(builder *b, int32_t u, int32_t first) {
    const stw_graph *fine = b->fine;
    for (int32_t m = b->strands.start[u]; m < b->strands.start[u + 1]; m++) {
        const int32_t i = b->strands.member[m];
        if (fine->kind[i] != STW_NODE_OP) continue;
        b->value[i] = b->main[u];
        if (!b->is_seen[i] || i == first) continue;
        const int32_t target = fine->updates[i] < 0 ? -1 : b->value[fine->updates[i]];
        const int64_t input[2] = {b->main[u], target};
        const stw_raw_links links = {.input = input, .input_count = target < 0 ? 1 : 2, .updates = target, .colocate = -1};
        b->value[i] = b->constructor.count;
        b->strand_of[b->constructor.count] = u;
        TRY(add(b, STW_NODE_OP, i, fine->bytes[i], &links));
    }
    return STW_OK;
}

static stw_status add_strands(builder *b) {
    const stw_graph *fine = b->fine;
    int64_t *input, *control, reads = 0, controls = 0;
    for (int32_t u = 0; u < b->strands.count; u++) {
        int64_t own_reads = 0, own_controls = 0;
        for (int32_t m = b->strands.start[u]; m < b->strands.start[u + 1]; m++) {
            const int32_t i = b->strands.member[m];
            own_reads += fine->read_start[i + 1] - fine->read_start[i];
            own_controls += fine->control_start[i + 1] - fine->control_start[i];
        }
        reads = own_reads > reads ? own_reads : reads;
        controls = own_controls > controls ? own_controls : controls;
    }
    STW_TRY_NEW(b->scratch, input, reads, b->error);
    STW_TRY_NEW(b->scratch, control, controls, b->error);
    for (int32_t u = 0; u < b->strands.count; u++) {
        bool has_ops = false;
        int32_t first;
        for (int32_t m = b->strands.start[u]; m < b->strands.start[u + 1]; m++)
            has_ops |= fine->kind[b->strands.member[m]] == STW_NODE_OP;
        b->main[u] = -1;
        if (!has_ops) continue;
        b->strand_of[b->constructor.count] = u;
        TRY(add_main(b, u, input, control, &first));
        TRY(add_values(b, u, first));
        b->coarse->strands++;
    }
    return STW_OK;
}

static stw_status add_nodes(builder *b) {
    const stw_graph *fine = b->fine;
    int64_t nodes = b->strands.count;
    for (int32_t i = 0; i < fine->N; i++) nodes += stw_node_is_source(fine->kind[i]) || b->is_seen[i];
    STW_TRY_NEW(b->scratch, b->strand_of, nodes, b->error);
    TRY(stw_construct_begin(&b->constructor, b->graph, nodes, b->scratch, b->error));
    TRY(add_sources(b));
    TRY(add_strands(b));
    b->graph->N = b->constructor.count; /* strands whose first value is seen, or that have no ops, took fewer */
    b->graph->loss = fine->loss >= 0 ? b->value[fine->root[fine->loss]] : -1;
    return STW_OK;
}

/* ---- what must be on one device, and where that may be ---- */

static stw_status keep_together(builder *b) {
    const stw_simulator *fine = b->coarse->fine;
    const int32_t *node_of = b->coarse->node_of;
    int32_t *leader;
    stw_graph *graph = b->graph;
    STW_TRY_NEW(b->scratch, leader, graph->N, b->error);
    stw_sets_begin(leader, graph->N);
    for (int32_t n = 0; n < graph->N; n++) {
        if (b->strand_of[n] >= 0) stw_sets_join(leader, n, b->main[b->strand_of[n]]);
    }
    for (int32_t k = 0; k < fine->pair_count; k++) stw_sets_join(leader, node_of[fine->pair[k][0]], node_of[fine->pair[k][1]]);
    for (int32_t n = 0; n < graph->N; n++) {
        const int32_t with = stw_sets_find(leader, n);
        if (with != n) graph->colocate[n] = with;
    }
    if (b->fine->allowed == NULL) return STW_OK;
    STW_TRY_NEW(&graph->arena, graph->allowed, graph->N, b->error);
    for (int32_t n = 0; n < graph->N; n++) graph->allowed[n] = UINT64_MAX;
    for (int32_t i = 0; i < b->fine->N; i++) graph->allowed[stw_sets_find(leader, node_of[i])] &= b->fine->allowed[i];
    for (int32_t n = 0; n < graph->N; n++) {
        graph->allowed[n] = graph->allowed[stw_sets_find(leader, n)];
        if (graph->allowed[n] == 0)
            return stw_fail(b->error, STW_ERROR_NO_PLAN, "some strand of ops would be allowed on no device");
    }
    return STW_OK;
}

/* ---- costs ---- */

static stw_status cost_strands(builder *b) {
    const stw_costs *fine = b->coarse->fine->costs;
    const int32_t C = fine->machine->cost_class_count, n = b->graph->N;
    double **us, **compute_us;
    bool **measured;
    STW_TRY_NEW(b->scratch, us, C, b->error);
    STW_TRY_NEW(b->scratch, compute_us, C, b->error);
    STW_TRY_NEW(b->scratch, measured, C, b->error);
    for (int32_t c = 0; c < C; c++) {
        STW_TRY_NEW(b->scratch, us[c], n, b->error);
        STW_TRY_NEW(b->scratch, compute_us[c], n, b->error);
        STW_TRY_NEW(b->scratch, measured[c], n, b->error);
        for (int32_t i = 0; i < b->fine->N; i++) {
            if (b->fine->kind[i] != STW_NODE_OP) continue;
            us[c][b->coarse->node_of[i]] += fine->us[c][i];
            compute_us[c][b->coarse->node_of[i]] += fine->compute_us[c][i];
        }
    }
    const stw_given_costs given = {(const double *const *)us, (const double *const *)compute_us, (const bool *const *)measured};
    return stw_costs_create_given(b->graph, fine->machine, &given, &b->coarse->costs, b->error);
}

/* ---- the whole ---- */

static stw_status find_strands(builder *b, int32_t most) {
    TRY(stw_strands_build(b->fine, b->coarse->fine->costs->least_us, most, b->scratch, &b->strands, b->error));
    STW_TRY_NEW(b->scratch, b->is_seen, b->fine->N, b->error);
    STW_TRY_NEW(b->scratch, b->value, b->fine->N, b->error);
    STW_TRY_NEW(b->scratch, b->main, b->strands.count, b->error);
    find_seen(b);
    return STW_OK;
}

static stw_status build(builder *b, int32_t most) {
    stw_coarse *coarse = b->coarse;
    int64_t *output;
    TRY(find_strands(b, most));
    TRY(stw_graph_create(&coarse->graph, b->error));
    b->graph = coarse->graph;
    b->graph->name = b->fine->name;
    TRY(add_nodes(b));
    STW_TRY_NEW(&coarse->arena, coarse->node_of, b->fine->N, b->error);
    for (int32_t i = 0; i < b->fine->N; i++) {
        const int32_t root = b->fine->root[i];
        coarse->node_of[i] = b->fine->kind[root] == STW_NODE_OP ? b->main[b->strands.of[root]] : b->value[root];
    }
    TRY(keep_together(b));
    STW_TRY_NEW(b->scratch, output, b->fine->output_count, b->error);
    for (int32_t k = 0; k < b->fine->output_count; k++) output[k] = b->value[b->fine->root[b->fine->output[k]]];
    TRY(stw_construct_finish(&b->constructor, output, b->fine->output_count, b->error));
    TRY(cost_strands(b));
    return stw_simulator_create(coarse->costs, &coarse->simulator, b->error);
}

stw_status stw_coarse_create(const stw_simulator *fine, int32_t most, stw_coarse **out, stw_error *error) {
    stw_arena arena, scratch;
    *out = NULL;
    TRY(stw_arena_create(&arena, error));
    stw_coarse *coarse = STW_NEW(&arena, stw_coarse, 1);
    *coarse = (stw_coarse){.fine = fine, .arena = arena};
    builder b = {.coarse = coarse, .fine = fine->graph, .scratch = &scratch, .error = error};
    stw_status status = stw_arena_create(&scratch, error);
    if (status == STW_OK) {
        status = build(&b, most);
        stw_arena_destroy(&scratch);
    }
    if (status != STW_OK) {
        stw_coarse_destroy(coarse);
        return status;
    }
    *out = coarse;
    return STW_OK;
}

void stw_coarse_destroy(stw_coarse *coarse) {
    if (coarse == NULL) return;
    stw_simulator_destroy(coarse->simulator);
    stw_costs_destroy(coarse->costs);
    stw_graph_destroy(coarse->graph);
    stw_arena arena = coarse->arena;
    stw_arena_destroy(&arena);
}

void stw_coarse_expand(const stw_coarse *coarse, const stw_plan *of_strands, stw_plan *of_ops) {
    for (int32_t i = 0; i < coarse->fine->graph->N; i++) {
        of_ops->device[i] = of_strands->device[coarse->node_of[i]];
        of_ops->priority[i] = of_strands->priority[coarse->node_of[i]];
    }
    stw_plan_remove_orders(of_ops);
    stw_plan_join(coarse->fine, of_ops);
}
