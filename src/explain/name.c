/* Ops by name or id; where there is none, the names that are near. */
#include <stdio.h>

#include "explain/explain.h"

enum { NEAR_COUNT = 3, NEAR_EDITS = 3, CONTAINED = NEAR_EDITS + 1, FAR };

typedef struct {
    int32_t node[NEAR_COUNT], score[NEAR_COUNT]; /* best first; FAR: none */
} near_names;

static bool contains(stw_str text, stw_str part) {
    for (int64_t i = 0; i + part.length <= text.length; i++) {
        if (stw_str_equal((stw_str){text.p + i, part.length}, part)) return true;
    }
    return false;
}

static int32_t score_of(stw_str name, stw_str wanted) {
    const int64_t longer = name.length > wanted.length ? name.length - wanted.length : wanted.length - name.length;
    const int32_t edits = longer <= NEAR_EDITS ? stw_str_distance(name, wanted) : FAR;
    const int64_t shorter = name.length < wanted.length ? name.length : wanted.length;
    if (edits <= NEAR_EDITS && 2 * (int64_t)edits <= shorter) return edits; /* else short words resemble everything */
    return wanted.length >= 2 && contains(name, wanted) ? CONTAINED : FAR;
}

static void insert(near_names *near, int32_t node, int32_t score) {
    for (int k = 0; k < NEAR_COUNT; k++) {
        if (score >= near->score[k]) continue;
        const int32_t other = near->node[k], other_score = near->score[k];
        near->node[k] = node;
        near->score[k] = score;
        node = other;
        score = other_score;
    }
}

static bool may_be(const stw_graph *graph, int32_t node, bool resident) {
    return graph->kind[node] == STW_NODE_OP || (resident && stw_node_is_resident(graph->kind[node]));
}

static stw_status fail_unknown(const stw_graph *graph, const char *option, const char *name, bool resident, stw_error *error) {
    near_names near = {.score = {FAR, FAR, FAR}};
    char list[300] = "";
    size_t length = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (may_be(graph, i, resident)) insert(&near, i, score_of(graph->node_name[i], stw_str_of(name)));
    }
    for (int k = 0; k < NEAR_COUNT && near.score[k] < FAR && length < sizeof list; k++) {
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%.*s (%d)", k == 0 ? "" : ", ",
                                   STW_STR_SHOW(graph->node_name[near.node[k]]), near.node[k]);
    }
    if (length > 0)
        return stw_fail(error, STW_ERROR_INPUT, "--%s: graph '%.*s' has no op '%.80s'; near are %s", option,
                        STW_STR_SHOW(graph->name), name, list);
    return stw_fail(
        error, STW_ERROR_INPUT,
        "--%s: graph '%.*s' has no op '%.80s'; give a name or an id from 0 to %d ('stowage export --to csv' lists them)", option,
        STW_STR_SHOW(graph->name), name, graph->N - 1);
}

static stw_status fail_several(const stw_graph *graph, const char *option, const char *name, int32_t first, int32_t second,
                               stw_error *error) {
    return stw_fail(error, STW_ERROR_INPUT,
                    "--%s: several ops of graph '%.*s' are called '%.80s', such as %d and %d; give the id", option,
                    STW_STR_SHOW(graph->name), name, first, second);
}

stw_status stw_find_named(const stw_graph *graph, const char *option, const char *name, bool resident, int32_t *out,
                          stw_error *error) {
    const stw_str wanted = stw_str_of(name);
    int32_t found = -1, other = -1;
    int64_t id;
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_str_equal(graph->node_name[i], wanted)) continue;
        if (!may_be(graph, i, resident))
            other = i;
        else if (found >= 0)
            return fail_several(graph, option, name, found, i, error);
        else
            found = i;
    }
    if (found < 0 && other < 0 && stw_str_to_int64(wanted, &id) && id >= 0 && id < graph->N) {
        if (may_be(graph, (int32_t)id, resident))
            found = (int32_t)id;
        else
            other = (int32_t)id;
    }
    if (found < 0 && other >= 0)
        return stw_fail(error, STW_ERROR_INPUT, "--%s: '%.80s' is node %d, %s, which no device runs; name an op%s", option, name,
                        other,
                        graph->kind[other] == STW_NODE_VIEW        ? "a view"
                        : stw_node_is_resident(graph->kind[other]) ? "a parameter or buffer"
                                                                   : "an input or constant",
                        resident ? ", a parameter or a buffer" : "");
    if (found < 0) return fail_unknown(graph, option, name, resident, error);
    *out = found;
    return STW_OK;
}
