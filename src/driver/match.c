/* Names of users: which nodes and devices they mean, and what to say where they mean none. */
#include <string.h>

#include "driver/limits.h"

/* '*' is any text, '?' any character. */
static bool matches(stw_str pattern, stw_str text) {
    int64_t p = 0, t = 0, star = -1, back = 0;
    while (t < text.length) {
        if (p < pattern.length && pattern.p[p] == '*') {
            star = p++;
            back = t;
        } else if (p < pattern.length && (pattern.p[p] == '?' || pattern.p[p] == text.p[t])) {
            p++;
            t++;
        } else if (star >= 0) {
            p = star + 1;
            t = ++back;
        } else {
            return false;
        }
    }
    while (p < pattern.length && pattern.p[p] == '*') p++;
    return p == pattern.length;
}

/* The path, or the module around it, and so on. */
static bool matches_path(stw_str pattern, stw_str path) {
    for (int64_t end = path.length; end > 0; end--) {
        const bool whole = end == path.length || path.p[end] == '.';
        if (whole && matches(pattern, (stw_str){path.p, end})) return true;
    }
    return false;
}

static bool is_named(const stw_graph *graph, const stw_str *path, stw_str pattern, int32_t i) {
    return matches(pattern, graph->node_name[i]) || (graph->label[i].length > 0 && matches(pattern, graph->label[i])) ||
           matches_path(pattern, path[i]);
}

enum { NEAR = 3 };
typedef struct {
    stw_str name[NEAR];
    int32_t distance[NEAR];
    int32_t count;
} nearest;

static void consider(nearest *n, stw_str pattern, stw_str name) {
    if (name.length == 0) return;
    for (int32_t k = 0; k < n->count; k++)
        if (stw_str_equal(n->name[k], name)) return;
    int32_t at = n->count, distance = stw_str_distance(pattern, name);
    while (at > 0 && n->distance[at - 1] > distance) at--;
    if (at == NEAR) return;
    if (n->count < NEAR) n->count++;
    for (int32_t k = n->count - 1; k > at; k--) {
        n->name[k] = n->name[k - 1];
        n->distance[k] = n->distance[k - 1];
    }
    n->name[at] = name;
    n->distance[at] = distance;
}

static stw_status fail_unmatched(const stw_graph *graph, const stw_str *path, const char *option, stw_str pattern,
                                 stw_error *error) {
    nearest n = {0};
    char list[320];
    size_t used = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP && !stw_node_is_resident(graph->kind[i])) continue;
        for (int64_t end = path[i].length; end > 0; end--)
            if (end == path[i].length || path[i].p[end] == '.') consider(&n, pattern, (stw_str){path[i].p, end});
        consider(&n, pattern, graph->label[i]);
        consider(&n, pattern, graph->node_name[i]);
    }
    list[0] = '\0';
    for (int32_t k = 0; k < n.count && used < sizeof list; k++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s'%.*s'", k == 0 ? "" : ", ", STW_STR_SHOW(n.name[k]));
    return stw_fail(error, STW_ERROR_INPUT, "--%s: '%.*s' is no module, parameter or op of the graph%s%s", option,
                    STW_STR_SHOW(pattern), n.count > 0 ? "; the nearest are " : "", list);
}

stw_status stw_match_nodes(const stw_graph *graph, const stw_str *path, const char *option, stw_str pattern, bool *matched,
                           stw_error *error) {
    int32_t count = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP && !stw_node_is_resident(graph->kind[i])) continue;
        matched[i] = is_named(graph, path, pattern, i);
        count += matched[i];
    }
    return count > 0 ? STW_OK : fail_unmatched(graph, path, option, pattern, error);
}

stw_status stw_match_device(const stw_machine *machine, const char *option, stw_str text, int32_t *out, stw_error *error) {
    int64_t number;
    const bool is_number = stw_str_to_int64(text, &number);
    for (int32_t d = 0; d < machine->device_count; d++) {
        if (!stw_str_equal(text, machine->device[d].name) && !(is_number && number == d)) continue;
        *out = d;
        return STW_OK;
    }
    return stw_fail(error, STW_ERROR_INPUT, "--%s: '%.*s' is no device of the machine; it has '%.*s' to '%.*s', or 0 to %d",
                    option, STW_STR_SHOW(text), STW_STR_SHOW(machine->device[0].name),
                    STW_STR_SHOW(machine->device[machine->device_count - 1].name), machine->device_count - 1);
}
