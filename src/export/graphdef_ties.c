/* Nodes that TensorFlow's placer insists to have on one device, as it finds them itself: by `_class`, by handles of resources
 * (variables, tables, iterators), and by references to variables. */
#include "base/union_find.h"
#include "export/graphdef.h"

enum { RESOURCE = 20 }; /* DT_RESOURCE */

static bool is_in(stw_str op, const char *const *names) {
    for (; *names != NULL; names++) {
        if (stw_str_is(op, *names)) return true;
    }
    return false;
}

/* Its first output is a handle. Ops that only pass one on have T: DT_RESOURCE. */
static bool gives_handle(const stw_tf_model *m, const stw_tf_node *n) {
    static const char *const makers[] = {"VarHandleOp",
                                         "IteratorV2",
                                         "Iterator",
                                         "OneShotIterator",
                                         "AnonymousIterator",
                                         "AnonymousIteratorV2",
                                         "AnonymousIteratorV3",
                                         "HashTableV2",
                                         "MutableHashTableV2",
                                         "MutableHashTableOfTensorsV2",
                                         "MutableDenseHashTableV2",
                                         "TensorArrayV3",
                                         "TensorArrayGradV3",
                                         "StackV2",
                                         "FIFOQueueV2",
                                         "PaddingFIFOQueueV2",
                                         "PriorityQueueV2",
                                         "RandomShuffleQueueV2",
                                         "BoostedTreesEnsembleResourceHandleOp",
                                         "SummaryWriter",
                                         NULL};
    static const char *const inputs[] = {"Placeholder", "PlaceholderV2", "PlaceholderWithDefault", NULL};
    if (is_in(n->op, inputs)) return stw_tf_number(m, n, STW_TF_dtype, 0) == RESOURCE;
    return is_in(n->op, makers) || stw_tf_number(m, n, STW_TF_T, 0) == RESOURCE;
}

/* Calls place their bodies themselves. */
static bool takes_handles_from_anywhere(stw_str op) {
    return stw_str_is(op, "PartitionedCall") || stw_str_is(op, "StatefulPartitionedCall") || stw_str_ends(op, "Dataset");
}

/* Its first input is a reference; others read it by value, from wherever they are. */
static bool takes_reference(stw_str op) {
    static const char *const names[] = {"Assign",
                                        "AssignAdd",
                                        "AssignSub",
                                        "IsVariableInitialized",
                                        "CountUpTo",
                                        "RefIdentity",
                                        "RefEnter",
                                        "RefExit",
                                        "RefSwitch",
                                        "RefMerge",
                                        "RefNextIteration",
                                        "StridedSliceAssign",
                                        "ScatterUpdate",
                                        "ScatterAdd",
                                        "ScatterSub",
                                        "ScatterMul",
                                        "ScatterDiv",
                                        "ScatterMin",
                                        "ScatterMax",
                                        "ScatterNdUpdate",
                                        "ScatterNdAdd",
                                        "ScatterNdSub",
                                        "DestroyTemporaryVariable",
                                        NULL};
    return is_in(op, names) || stw_str_starts(op, "Apply") || stw_str_starts(op, "SparseApply");
}

/* Apply ops take their slots by reference as well, so all inputs that come from variables count. */
static bool is_variable(stw_str op) {
    return stw_str_is(op, "VariableV2") || stw_str_is(op, "Variable") || stw_str_is(op, "TemporaryVariable") ||
           stw_str_is(op, "AutoReloadVariable");
}

static void tie_inputs(const stw_tf_graph *g, int32_t i, int32_t *parent) {
    const stw_tf_model *m = g->model;
    const stw_tf_node *n = &m->node[i];
    const stw_tf_range in = g->facts[i].inputs;
    const bool by_reference = takes_reference(n->op), exempt = takes_handles_from_anywhere(n->op);
    for (int64_t k = 0; k < in.count; k++) {
        const stw_tf_edge edge = g->edge[in.start + k];
        const stw_tf_node *from = &m->node[edge.from];
        const bool passes_on = stw_tf_number(m, from, STW_TF_T, 0) == RESOURCE;
        const bool handle = !exempt && (edge.output == 0 || passes_on) && gives_handle(m, from);
        const bool reference = by_reference && (k == 0 || is_variable(from->op));
        if (handle || reference) stw_sets_join(parent, i, edge.from);
    }
}

static void tie_class(const stw_tf_graph *g, int32_t i, int32_t *parent) {
    const stw_tf_model *m = g->model;
    const stw_tf_attribute *list = stw_tf_find(m, &m->node[i], STW_TF__class);
    for (int64_t k = 0; list != NULL && k < list->texts.count; k++) {
        const stw_str text = m->text[list->texts.start + k];
        if (!stw_str_starts(text, "loc:@")) continue;
        const int64_t with = stw_tf_find_node(g, (stw_str){text.p + 5, text.length - 5});
        if (with >= 0) stw_sets_join(parent, i, (int32_t)with);
    }
}

stw_status stw_tf_ties(const stw_tf_graph *g, int32_t **out, stw_error *error) {
    const int32_t N = (int32_t)g->model->node_count;
    int32_t *parent;
    STW_TRY_NEW(g->arena, parent, N, error);
    stw_sets_begin(parent, N);
    for (int32_t i = 0; i < N; i++) {
        tie_inputs(g, i, parent);
        tie_class(g, i, parent);
    }
    for (int32_t i = 0; i < N; i++) parent[i] = stw_sets_find(parent, i);
    *out = parent;
    return STW_OK;
}
