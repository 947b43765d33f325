/* The TensorFlow graph with the plan in it: a device for every node (docs/formats/graphdef.md), the priority as an attribute. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/union_find.h"
#include "export/device_numbers.h"
#include "export/tensorflow/planned_graphdef.h"
#include "import/import.h"

/* ---- nodes that must be on one device ---- */

/* Nodes that TensorFlow's placer insists to have on one device, as it finds them itself: by `_class`, by handles of resources
 * (variables, tables, iterators), and by references to variables. */

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

static stw_status find_ties(const stw_tf_graph *g, int32_t **out, stw_error *error) {
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

/* ---- the plan in the graph ---- */

/* The TensorFlow graph with the plan in it: a device for every node (docs/formats/graphdef.md), the priority as an attribute. */

typedef struct writer {
    stw_export *e;
    stw_tf_model model;
    stw_tf_graph graph;
    int32_t *id;   /* (node_count) the graph's node, by position in the file */
    int32_t *home; /* (graph->N) */
    int32_t *tie;  /* (node_count) */
    stw_str device_name[STW_MAX_DEVICES];
    int32_t hosts;
    stw_tf_given *given; /* (node_count) */
    int64_t moved;       /* ops and parameters that are tied to a node on another device */
    stw_error *error;
} writer;

/* ---- the file and the graph that was read from it ---- */

static stw_status fail_other_file(const writer *w, const char *what, stw_str name) {
    return stw_fail(w->error, STW_ERROR_INPUT,
                    "the model file is not the one that the graph was read from: %s '%.*s'; was it changed meanwhile?", what,
                    STW_STR_SHOW(name));
}

static stw_status match_nodes(writer *w) {
    const stw_graph *graph = w->e->graph;
    const int64_t count = w->model.node_count;
    STW_TRY_NEW(w->e->arena, w->id, count, w->error);
    for (int64_t k = 0; k < count; k++) w->id[k] = -1;
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t at = stw_graph_origin(graph, i);
        if (at >= 0 && at < count) {
            w->id[at] = i;
        } else if (memchr(graph->node_name[i].p, ':', (size_t)graph->node_name[i].length) == NULL) { /* no output of a node */
            return fail_other_file(w, "it lacks", graph->node_name[i]);
        }
    }
    for (int64_t k = 0; k < count; k++) {
        const stw_tf_node *n = &w->model.node[k];
        const int32_t i = w->id[k];
        const bool same = i >= 0 && stw_str_equal(graph->node_name[i], n->name) && stw_str_equal(graph->op_name[i], n->op);
        if (!same) return fail_other_file(w, "the graph lacks", n->name);
    }
    return STW_OK;
}

/* ---- devices ---- */

static stw_status name_devices(writer *w) {
    stw_device_number place[STW_MAX_DEVICES];
    w->hosts = stw_device_numbers_of(w->e->machine, place);
    const char *job = w->hosts > 1 ? "worker" : "localhost";
    for (int32_t d = 0; d < w->e->machine->device_count; d++) {
        w->device_name[d] = stw_str_format(w->e->arena, "/job:%s/replica:0/task:%d/device:%s:%d", job, place[d].host,
                                           place[d].type, place[d].local);
        if (w->device_name[d].p == NULL) return stw_fail(w->error, STW_ERROR_MEMORY, "out of memory");
    }
    return STW_OK;
}

/* Who decides among nodes that are tied together: the largest parameter, else the op that takes longest, else the first that is
 * anywhere at all. */
typedef struct vote {
    int32_t rank; /* 3: a parameter, 2: an op, 1: anything, 0: nobody */
    int32_t device;
    int64_t weight; /* bytes or picoseconds */
} vote;

static vote vote_of(const writer *w, int32_t i) {
    const stw_graph *graph = w->e->graph;
    const stw_timeline *timeline = w->e->timeline;
    const int32_t task = timeline->tasks->task_of[i];
    if (stw_node_is_resident(graph->kind[i])) return (vote){3, w->home[i], graph->bytes[i]};
    if (task >= 0) return (vote){2, w->home[i], timeline->end_ps[task] - timeline->start_ps[task]};
    return (vote){w->home[i] >= 0 ? 1 : 0, w->home[i], 0};
}

static stw_status choose_devices(writer *w) {
    const int64_t count = w->model.node_count;
    vote *winner;   /* at the smallest node of each tie */
    int32_t *place; /* (N) */
    STW_TRY_NEW(w->e->arena, place, w->e->graph->N, w->error);
    for (int32_t i = 0; i < w->e->graph->N; i++) place[i] = w->e->plan->device[i];
    w->e->place = place;
    STW_TRY_NEW(w->e->arena, winner, count, w->error);
    for (int64_t k = 0; k < count; k++) {
        const vote v = vote_of(w, w->id[k]);
        vote *best = &winner[w->tie[k]];
        if (v.rank > best->rank || (v.rank == best->rank && v.weight > best->weight)) *best = v;
    }
    for (int64_t k = 0; k < count; k++) {
        const vote *best = &winner[w->tie[k]];
        if (best->rank == 0) continue;
        w->given[k].device = w->device_name[best->device];
        place[w->id[k]] = best->device;
        w->moved += vote_of(w, w->id[k]).rank >= 2 && w->home[w->id[k]] != best->device;
    }
    return STW_OK;
}

static void choose_priorities(writer *w) {
    const stw_tasks *tasks = w->e->timeline->tasks;
    for (int64_t k = 0; k < w->model.node_count; k++) {
        const int32_t i = w->id[k];
        const double priority = fmin(fmax(w->e->plan->priority[i], -(double)FLT_MAX), (double)FLT_MAX);
        w->given[k].priority = tasks->task_of[i] >= 0 ? (float)priority + 0.0f : NAN; /* no -0 */
    }
}

/* ---- the whole ---- */

static stw_status make_note(writer *w) {
    const stw_str cluster = w->hosts < 2 ? STW_STR("")
                                         : STW_STR(
                                               "the machine has several hosts: host k is task k of the job 'worker', which "
                                               "is how the cluster must be set up\n");
    stw_str moved = STW_STR("");
    if (w->moved > 0) {
        moved = stw_str_format(w->e->arena,
                               "of %lld nodes %lld are not where the plan has them: TensorFlow ties them to a node on another "
                               "device (_class, a variable)\n",
                               (long long)w->model.node_count, (long long)w->moved);
    }
    w->e->note = stw_str_format(w->e->arena,
                                "%s%stf.config.set_soft_device_placement(True) lets TensorFlow move ops that have no kernel for "
                                "their device",
                                cluster.p, moved.p == NULL ? "" : moved.p);
    return w->e->note.p != NULL ? STW_OK : stw_fail(w->error, STW_ERROR_MEMORY, "out of memory");
}

static stw_status write_planned(writer *w, bool is_text) {
    stw_export *e = w->e;
    w->model.arena = e->arena;
    TRY(is_text ? stw_tf_read_text(e->model, &w->model, w->error) : stw_tf_read_wire(e->model, &w->model, w->error));
    TRY(stw_tf_link(&w->model, &w->graph, w->error));
    TRY(match_nodes(w));
    TRY(stw_homes_of(e, &w->home, w->error));
    TRY(find_ties(&w->graph, &w->tie, w->error));
    TRY(name_devices(w));
    STW_TRY_NEW(e->arena, w->given, w->model.node_count, w->error);
    TRY(choose_devices(w));
    choose_priorities(w);
    if (is_text) {
        stw_tf_put_text(e->model, &w->model, w->given, e->out);
    } else {
        TRY(stw_tf_put_bytes(e->model, w->given, e->out, w->error));
    }
    return make_note(w);
}

stw_status stw_export_graphdef(stw_export *e, stw_error *error) {
    const bool is_text = stw_pbtxt_is(e->model);
    if (!is_text && !stw_graphdef_is(e->model)) {
        return stw_fail(
            error, STW_ERROR_INPUT,
            "the model file is not a TensorFlow GraphDef (.pb or .pbtxt); a model is exported to its own format only");
    }
    writer w = {.e = e, .error = error};
    return write_planned(&w, is_text);
}
