/* The kernels that fit_fusion fits and judges: what each does, from its module, and how long it took. */
#ifndef STW_BENCH_FIT_FUSION_H
#define STW_BENCH_FIT_FUSION_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "cost/cost.h"
#include "import/hlo/hlo.h"

enum { MAX_CASES = 32, EVENTS = 5 };

typedef struct {
    stw_group_work work;           /* class_bytes; the rest is filled in for a device */
    double flops[STW_CLASS_COUNT]; /* of members by class */
    double again[STW_CLASS_COUNT]; /* the same of what is repeated */
    int32_t dtype[STW_CLASS_COUNT];
    stw_op_class op_class; /* of the kernel; it alone counts where it is no fusion */
    bool fused;            /* made of members, one or more */
    bool matrix;           /* computes a matrix product or convolution */
    bool behind;           /* a library call ran just before */
    int case_index;
    double us;
    char name[64];
} kernel;

typedef struct {
    kernel *item;
    int64_t count, room;
} kernels;

typedef struct {
    char name[MAX_CASES][64];
    int count;
    kernels nofusion, fused; /* of all cases */
    bool plain;              /* no latencies by class */
} data_set;

static void die(const char *what) {
    fprintf(stderr, "fit_fusion: %s\n", what);
    exit(2);
}

static void check(stw_status status, const stw_error *error) {
    if (status != STW_OK) die(error->message);
}

static void add_kernel(kernels *list, const kernel *item) {
    if (STW_GROW(NULL, list->item, list->count + 1, list->room, NULL) != STW_OK) die("out of memory");
    list->item[list->count++] = *item;
}

/* ---- what a kernel does ---- */

typedef struct {
    stw_graph *graph;
    stw_kernel_room room;
    int32_t *node_of; /* (instruction_count) -1: none */
} module_view;

static bool is_matrix(stw_op_class op_class) {
    return op_class == STW_CLASS_MATMUL || op_class == STW_CLASS_CONVOLUTION || op_class == STW_CLASS_ATTENTION;
}

/* What the simulator's costs go by. */
static void add_fusion(const module_view *v, int32_t node, kernel *k) {
    stw_kernel_work work;
    stw_kernel_find_work(v->graph, &(stw_members){.member = &node, .count = 1}, &v->room, &work);
    memcpy(k->work.class_bytes, work.class_bytes, sizeof work.class_bytes);
    for (int32_t u = 0; u < work.unit_count; u++) {
        const stw_unit *unit = &work.unit[u];
        const double again = unit->passes > 1.0 ? (unit->passes - 1.0) * unit->flops * (unit->dear ? STW_DEAR_FACTOR : 1) : 0.0;
        k->flops[unit->op_class] += (unit->passes < 1.0 ? unit->passes : 1.0) * unit->flops;
        k->again[unit->op_class] += again;
        k->dtype[unit->op_class] = unit->dtype;
        k->matrix |= is_matrix((stw_op_class)unit->op_class);
    }
}

static kernel describe(const module_view *v, int32_t node) {
    const stw_graph *graph = v->graph;
    kernel k = {.op_class = (stw_op_class)graph->op_class[node], .fused = graph->fused_of[node] >= 0};
    if (k.fused) {
        add_fusion(v, node, &k);
        return k;
    }
    k.matrix = is_matrix(k.op_class);
    k.flops[k.op_class] = (double)graph->flops[node];
    k.dtype[k.op_class] = graph->dtype[node];
    k.work.class_bytes[k.op_class] = (double)stw_op_bytes_moved(graph, node);
    return k;
}

static module_view view_module(const stw_hlo_module *m, stw_arena *arena) {
    stw_error error;
    stw_graph *graph;
    int32_t *instruction_of;
    module_view v = {.node_of = STW_NEW(arena, int32_t, m->instruction_count)};
    check(stw_hlo_build(m, arena, &graph, &instruction_of, &error), &error);
    check(stw_kernel_room_create(graph, arena, &v.room, &error), &error);
    for (int32_t k = 0; k < m->instruction_count; k++) v.node_of[k] = -1;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_OP) v.node_of[instruction_of[graph->origin[i]]] = i;
    }
    v.graph = graph;
    return v;
}

/* ---- the files ---- */

typedef struct {
    double *us;   /* (entry->count) 0: did not run */
    bool *single; /* (entry->count) ran once a step */
} times;

static void read_times(const stw_hlo_module *m, const char *path, stw_arena *arena, times *t) {
    stw_error error;
    stw_str text, key, name;
    stw_json json;
    const stw_hlo_computation *entry = &m->computation[m->entry];
    check(stw_file_read(path, arena, &text, &error), &error);
    t->us = STW_NEW(arena, double, entry->count);
    t->single = STW_NEW(arena, bool, entry->count);
    stw_json_init(&json, text, arena, &error);
    stw_json_object(&json);
    while (stw_json_key(&json, &key)) {
        if (!stw_str_is(key, "kernel_us")) {
            stw_json_skip(&json, NULL);
            continue;
        }
        stw_json_object(&json);
        while (stw_json_key(&json, &name)) {
            double pair[2] = {0.0};
            stw_json_array(&json);
            for (int n = 0; stw_json_item(&json); n++) stw_json_double(&json, &pair[n > 0]);
            const int32_t found = stw_hlo_find_name(m, m->entry, name) - entry->first;
            if (found < 0 || found >= entry->count) continue;
            t->us[found] = pair[0];
            t->single[found] = pair[1] == EVENTS;
        }
    }
    check(stw_json_finish(&json), &error);
}

static void collect_module(const char *folder, const char *name, const char *mode, int case_index, kernels *out) {
    char path[1024];
    stw_error error;
    stw_arena arena;
    stw_str text;
    stw_hlo_module *m;
    times t;
    check(stw_arena_create(&arena, &error), &error);
    snprintf(path, sizeof path, "%s/%s.%s.hlo.txt.gz", folder, name, mode);
    check(stw_file_read(path, &arena, &text, &error), &error);
    check(stw_hlo_text_parse(text, &arena, &m, &error), &error);
    snprintf(path, sizeof path, "%s/%s.%s.kernels.json.gz", folder, name, mode);
    read_times(m, path, &arena, &t);
    const module_view view = view_module(m, &arena);
    const int32_t first = m->computation[m->entry].first, count = m->computation[m->entry].count;
    bool behind = false; /* the entry stands in the order of execution */
    for (int32_t e = 0; e < count; e++) {
        const stw_hlo_instruction *i = &m->instruction[first + e];
        if (!(t.us[e] > 0.0)) continue;
        if (t.single[e] && view.node_of[first + e] >= 0) {
            kernel k = describe(&view, view.node_of[first + e]);
            k.us = t.us[e];
            k.case_index = case_index;
            k.behind = behind;
            snprintf(k.name, sizeof k.name, "%.*s", STW_STR_SHOW(i->name));
            add_kernel(out, &k);
        }
        behind = i->rule == STW_HLO_CUSTOM;
    }
    stw_graph_destroy(view.graph);
    stw_arena_destroy(&arena);
}

static void collect(const char *folder, data_set *data) {
    static const char ending[] = ".default.hlo.txt.gz";
    struct dirent **entry;
    const int files = scandir(folder, &entry, NULL, alphasort);
    if (files < 0) die("the folder cannot be read");
    for (int f = 0; f < files; f++) {
        const char *at = strstr(entry[f]->d_name, ending);
        if (at != NULL && data->count < MAX_CASES) {
            snprintf(data->name[data->count], sizeof data->name[0], "%.*s", (int)(at - entry[f]->d_name), entry[f]->d_name);
            collect_module(folder, data->name[data->count], "nofusion", data->count, &data->nofusion);
            collect_module(folder, data->name[data->count], "default", data->count, &data->fused);
            data->count++;
        }
        free(entry[f]);
    }
    free(entry);
    if (data->count < 2) die("at least two modules with their kernel times are needed: CASE.default.hlo.txt.gz and its like");
}

#endif
