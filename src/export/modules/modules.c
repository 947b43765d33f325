/* The tree of modules, found in the labels. */
#include "export/modules/modules.h"

#include <string.h>

#include "base/index.h"

typedef struct grower { /* the tree while it grows */
    stw_modules *m;
    stw_names part; /* nodes by the last part of their path; a scope is a parent */
} grower;

static int64_t count_parts(stw_str label) {
    int64_t parts = 1;
    for (int64_t i = 0; i < label.length; i++) parts += label.p[i] == '.';
    return parts;
}

static bool is_labelled(const stw_graph *graph, int32_t i) {
    return stw_node_is_resident(graph->kind[i]) && graph->label[i].length > 0;
}

/* Modules of PyTorch never have these characters in their names. */
static bool is_path(stw_str label) {
    return memchr(label.p, '/', (size_t)label.length) == NULL && memchr(label.p, ':', (size_t)label.length) == NULL;
}

static bool has_path(const stw_graph *graph, int32_t i) { return is_labelled(graph, i) && is_path(graph->label[i]); }

/* The label within the module that --strip names; empty: outside of it, or none. */
static stw_str label_of(const stw_export *e, int32_t i) {
    if (!has_path(e->graph, i)) return STW_STR("");
    const stw_str label = e->graph->label[i];
    const int64_t skip = e->strip.length > 0 ? e->strip.length + 1 : 0;
    if (skip == 0) return label;
    const bool inside = label.length > skip && label.p[skip - 1] == '.' && memcmp(label.p, e->strip.p, (size_t)skip - 1) == 0;
    return inside ? (stw_str){label.p + skip, label.length - skip} : STW_STR("");
}

/* The last part of a path. */
static stw_str part_of(const stw_modules *m, int32_t node) {
    const int64_t skip = m->parent[node] > 0 ? m->name[m->parent[node]].length + 1 : 0;
    return (stw_str){m->name[node].p + skip, m->name[node].length - skip};
}

static stw_status enter(grower *g, int32_t parent, stw_str path, stw_str part, int32_t *out, stw_error *error) {
    stw_modules *m = g->m;
    int32_t *node;
    TRY(stw_names_enter(&g->part, parent, part, &node, error));
    if (*node < 0) {
        *node = m->count++;
        m->parent[*node] = parent;
        m->name[*node] = path;
        m->has_children[parent] = true;
    }
    *out = *node;
    return STW_OK;
}

/* The node of a label, with all that it lies in. */
static stw_status enter_label(grower *g, stw_str label, int32_t *out, stw_error *error) {
    int32_t node = 0;
    for (int64_t begin = 0; begin <= label.length;) {
        const char *dot = memchr(label.p + begin, '.', (size_t)(label.length - begin));
        const int64_t end = dot != NULL ? dot - label.p : label.length;
        TRY(enter(g, node, (stw_str){label.p, end}, (stw_str){label.p + begin, end - begin}, &node, error));
        begin = end + 1;
    }
    *out = node;
    return STW_OK;
}

static stw_status make_room(const stw_export *e, stw_modules *m, grower *g, stw_error *error) {
    const stw_graph *graph = e->graph;
    int64_t most = 1;
    for (int32_t i = 0; i < graph->N; i++) {
        if (is_labelled(graph, i)) most += count_parts(graph->label[i]);
    }
    if (most > INT32_MAX) return stw_fail(error, STW_ERROR_INPUT, "the labels of the parameters have more than 2^31 parts");
    *g = (grower){.m = m};
    TRY(stw_names_create(e->arena, most, &g->part, error));
    STW_TRY_NEW(e->arena, m->name, most, error);
    STW_TRY_NEW(e->arena, m->parent, most, error);
    STW_TRY_NEW(e->arena, m->has_children, most, error);
    STW_TRY_NEW(e->arena, m->has_deep, most, error);
    STW_TRY_NEW(e->arena, m->has_modules, most, error);
    STW_TRY_NEW(e->arena, m->has_parameters, most, error);
    STW_TRY_NEW(e->arena, m->is_block, most, error);
    STW_TRY_NEW(e->arena, m->numbered, most, error);
    STW_TRY_NEW(e->arena, m->unit_of, most, error);
    STW_TRY_NEW(e->arena, m->unit_node, most, error);
    STW_TRY_NEW(e->arena, m->parameter_unit, graph->N, error);
    return STW_OK;
}

static int32_t first_reader(const stw_graph *graph, int32_t i) {
    int32_t first = graph->N;
    for (int64_t k = graph->reader_start[i]; k < graph->reader_start[i + 1]; k++) {
        if (graph->reader[k].node < first) first = graph->reader[k].node;
    }
    return first;
}

/* "3" or "layer_3". */
static bool is_numbered(stw_str part) {
    int64_t rest = part.length;
    while (rest > 0 && part.p[rest - 1] >= '0' && part.p[rest - 1] <= '9') rest--;
    return rest < part.length && (rest == 0 || part.p[rest - 1] == '_');
}

static void find_blocks(stw_modules *m) {
    for (int32_t k = 1; k < m->count; k++) {
        m->is_block[k] = m->has_children[k] && is_numbered(part_of(m, k));
        m->numbered[m->parent[k]] += m->is_block[k];
    }
    for (int32_t k = 1; k < m->count; k++) m->is_block[k] = m->is_block[k] && m->numbered[m->parent[k]] > 1;
}

static void find_kinds(stw_modules *m) {
    for (int32_t k = 1; k < m->count; k++) {
        m->has_modules[m->parent[k]] |= m->has_children[k];
        m->has_parameters[m->parent[k]] |= !m->has_children[k];
    }
    for (int32_t k = 1; k < m->count; k++) m->has_deep[m->parent[k]] |= m->has_modules[k];
}

static int32_t find_unit(const stw_modules *m, int32_t parameter) {
    const int32_t module = m->parent[parameter];
    if (module <= 0 || m->has_deep[module]) return parameter;
    const int32_t around = m->parent[module];
    return !m->has_modules[module] && around > 0 && m->has_parameters[around] && !m->has_deep[around] ? around : module;
}

static int32_t outermost_block(const stw_modules *m, int32_t node) {
    int32_t found = node;
    for (int32_t k = node; k > 0; k = m->parent[k]) found = m->is_block[k] ? k : found;
    return found;
}

/* Numbers the units in the order of the parameters; parameter_unit holds nodes of the tree until then. */
static void number_units(const stw_graph *graph, bool whole_blocks, stw_modules *m) {
    for (int32_t k = 0; k < m->count; k++) m->unit_of[k] = -1;
    for (int32_t i = 0; i < graph->N; i++) {
        if (m->parameter_unit[i] < 0) continue;
        const int32_t layer = find_unit(m, m->parameter_unit[i]);
        const int32_t node = whole_blocks ? outermost_block(m, layer) : layer;
        if (m->unit_of[node] < 0) {
            m->unit_of[node] = m->unit_count;
            m->unit_node[m->unit_count++] = node;
        }
        m->parameter_unit[i] = m->unit_of[node];
    }
}

static stw_status weigh(const stw_export *e, stw_modules *m, stw_error *error) {
    const stw_graph *graph = e->graph;
    const int32_t D = e->machine->device_count;
    STW_TRY_NEW(e->arena, m->weight, (int64_t)m->unit_count * D, error);
    STW_TRY_NEW(e->arena, m->first_use, m->unit_count, error);
    for (int32_t u = 0; u < m->unit_count; u++) m->first_use[u] = graph->N;
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t u = m->parameter_unit[i];
        if (u < 0) continue;
        const int32_t first = first_reader(graph, i);
        m->weight[(int64_t)u * D + e->plan->device[i]] += graph->bytes[i] + 1;
        if (first < m->first_use[u]) m->first_use[u] = first;
    }
    return STW_OK;
}

/* ---- names that are no modules ---- */

/* ONNX takes names of any kind; those that came from modules have dots. */
static bool is_strange(const stw_graph *graph, stw_str label) {
    if (stw_str_equal(graph->family, STW_STR("hlo")) || stw_str_equal(graph->family, STW_STR("tensorflow"))) return true;
    if (!is_path(label)) return true;
    return stw_str_equal(graph->family, STW_STR("onnx")) && memchr(label.p, '.', (size_t)label.length) == NULL;
}

static stw_status check_names(const stw_graph *graph, stw_error *error) {
    int32_t labelled = 0, strange = 0, example = -1;
    for (int32_t i = 0; i < graph->N; i++) {
        if (!is_labelled(graph, i)) continue;
        labelled++;
        if (!is_strange(graph, graph->label[i])) continue;
        strange++;
        if (example < 0) example = i;
    }
    if (labelled == 0) {
        return stw_fail(error, STW_ERROR_INPUT,
                        "the graph has no parameter with a label, so modules have no names; give 'label' in the graph file "
                        "(\"encoder.0.weight\"), or use --to csv");
    }
    if (strange <= labelled / 2) return STW_OK;
    const stw_str name = graph->label[example];
    return stw_fail(error, STW_ERROR_INPUT,
                    "the names of the parameters ('%.*s') are no paths of PyTorch modules ('encoder.0.weight'); trace the module "
                    "itself with stowage.torch.trace in Python, or use --to csv",
                    (int)(name.length < 60 ? name.length : 60), name.p);
}

static stw_status check_strip(const stw_export *e, const stw_modules *m, stw_error *error) {
    if (m->labelled > 0) return STW_OK;
    int32_t first = 0;
    while (!has_path(e->graph, first)) first++;
    const stw_str name = e->graph->label[first];
    return stw_fail(error, STW_ERROR_INPUT, "--strip: no parameter lies in '%.*s'; the first is '%.*s'",
                    (int)(e->strip.length < 60 ? e->strip.length : 60), e->strip.p, (int)(name.length < 60 ? name.length : 60),
                    name.p);
}

stw_status stw_modules_of(const stw_export *e, bool whole_blocks, stw_modules *m, stw_error *error) {
    const stw_graph *graph = e->graph;
    grower g = {0};
    *m = (stw_modules){.count = 1};
    TRY(check_names(graph, error));
    TRY(make_room(e, m, &g, error));
    m->name[0] = STW_STR("");
    m->parent[0] = -1;
    for (int32_t i = 0; i < graph->N; i++) {
        const stw_str label = label_of(e, i);
        const bool inside = label.length > 0;
        m->parameter_unit[i] = -1;
        if (inside) TRY(enter_label(&g, label, &m->parameter_unit[i], error));
        m->labelled += inside;
        m->outside += !inside && has_path(graph, i);
        m->unlabelled += stw_node_is_resident(graph->kind[i]) && !has_path(graph, i);
    }
    TRY(check_strip(e, m, error));
    find_kinds(m);
    find_blocks(m);
    number_units(graph, whole_blocks, m);
    m->hosts = stw_device_numbers_of(e->machine, m->place);
    return weigh(e, m, error);
}

void stw_modules_agree(const stw_modules *m, const int32_t *value, int32_t *out) {
    for (int32_t k = 0; k < m->count; k++) out[k] = m->unit_of[k] >= 0 ? value[m->unit_of[k]] : -1;
    for (int32_t k = m->count - 1; k > 0; k--) {
        int32_t *parent = &out[m->parent[k]];
        if (out[k] == -1) continue; /* a parameter within a unit */
        *parent = *parent == -1 || *parent == out[k] ? out[k] : STW_MODULES_MIXED;
    }
}

void stw_modules_put_device(stw_json_writer *w, const stw_modules *m, int32_t device) {
    if (m->place[device].index < 0) {
        stw_json_write_string(w, STW_STR("cpu"));
    } else {
        stw_json_write_int64(w, m->place[device].index);
    }
}

/* ---- what users should know ---- */

uint64_t stw_modules_devices(const stw_export *e) {
    const stw_graph *graph = e->graph;
    uint64_t used = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (stw_node_is_resident(graph->kind[i])) used |= 1ULL << e->plan->device[i];
    }
    for (int32_t t = 0; t < e->timeline->tasks->T; t++) used |= 1ULL << e->timeline->device[t];
    return used;
}

/* The module that holds everything, where there is one: it may be a wrapper. */
static int32_t find_wrapper(const stw_modules *m) {
    int32_t found = -1;
    for (int32_t k = 1; k < m->count; k++) {
        if (m->parent[k] != 0) continue;
        if (found >= 0) return -1;
        found = k;
    }
    return m->has_modules[found] ? found : -1;
}

stw_str stw_modules_remarks(const stw_export *e, const stw_modules *m) {
    stw_str unnamed = STW_STR(""), outside = STW_STR(""), wrapped = STW_STR("");
    const int32_t wrapper = e->strip.length == 0 ? find_wrapper(m) : -1;
    if (m->unlabelled > 0) {
        unnamed = stw_str_format(
            e->arena, "%d parameters and buffers have no label that is a path of modules, and are left out\n", m->unlabelled);
    }
    if (m->outside > 0) {
        outside = stw_str_format(e->arena, "%d parameters and buffers lie outside of '%.*s', and are left out\n", m->outside,
                                 (int)e->strip.length, e->strip.p);
    }
    if (wrapper >= 0) {
        const stw_str name = m->name[wrapper];
        wrapped = stw_str_format(
            e->arena, "all names begin with '%.*s.'; if that is a wrapper around the model, --strip %.*s takes it off\n",
            (int)name.length, name.p, (int)name.length, name.p);
    }
    return stw_str_format(e->arena, "%s%s%s", unnamed.p == NULL ? "" : unnamed.p, outside.p == NULL ? "" : outside.p,
                          wrapped.p == NULL ? "" : wrapped.p);
}
