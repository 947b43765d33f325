/* The kernels that fit_fusion fits and judges: what each does, from its module, and how long it took. */
#ifndef STW_BENCH_FIT_FUSION_H
#define STW_BENCH_FIT_FUSION_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "cost/cost.h"
#include "import/hlo.h"

enum { MAX_CASES = 32, EVENTS = 5 };

typedef struct {
    stw_group_work work;           /* class_bytes; the rest is filled in for a device */
    double flops[STW_CLASS_COUNT]; /* of members by class */
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
    if (list->count == list->room) {
        list->room = 2 * list->room + 1024;
        list->item = realloc(list->item, (size_t)list->room * sizeof *list->item);
        if (list->item == NULL) die("out of memory");
    }
    list->item[list->count++] = *item;
}

/* ---- what a kernel does ---- */

typedef struct {
    const stw_hlo_module *m;
    const stw_hlo_costs *costs;
    const stw_op_index *ops;
} module_view;

static bool is_matrix(stw_op_class op_class) {
    return op_class == STW_CLASS_MATMUL || op_class == STW_CLASS_CONVOLUTION || op_class == STW_CLASS_ATTENTION;
}

static stw_op_class class_of(const module_view *v, int32_t index) {
    const stw_hlo_instruction *i = &v->m->instruction[index];
    const int32_t own = stw_hlo_cost_of(v->costs, index).op_class;
    if (own >= 0) return (stw_op_class)own;
    const int32_t row = stw_op_find(v->ops, STW_HLO, i->opcode);
    return row >= 0 ? stw_op_table[row].op_class : STW_CLASS_OPAQUE;
}

static bool is_view(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    switch ((stw_hlo_rule)i->rule) {
        case STW_HLO_BITCAST:
        case STW_HLO_PART:
        case STW_HLO_SAME: return true;
        case STW_HLO_RESHAPE: return stw_hlo_reshape_is_free(m, i);
        case STW_HLO_TRANSPOSE: return stw_hlo_transpose_is_free(m, i);
        default: return false;
    }
}

static int32_t behind_views(const stw_hlo_module *m, int32_t index) {
    while (is_view(m, &m->instruction[index])) index = (int32_t)m->number[m->instruction[index].operand.first];
    return index;
}

static bool is_member(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const bool moves = i->rule == STW_HLO_RESHAPE || i->rule == STW_HLO_TRANSPOSE || i->rule >= STW_HLO_ELEMENTWISE;
    return (moves || i->rule == STW_HLO_UNKNOWN) && !is_view(m, i);
}

static int32_t dtype_of(const stw_hlo_module *m, int32_t index) {
    const stw_hlo_shape *shape = stw_hlo_main_part(m, stw_hlo_shape_of(m, &m->instruction[index]));
    return shape->dtype >= 0 ? shape->dtype : STW_DTYPE_F32;
}

static void add_member(const module_view *v, int32_t index, kernel *k) {
    const stw_op_class op_class = class_of(v, index);
    k->flops[op_class] += (double)stw_hlo_fused_flops(v->costs, index);
    k->dtype[op_class] = dtype_of(v->m, index);
    k->matrix |= is_matrix(op_class);
}

/* Members, and external bytes by the class of the first member that reads or of the one that writes them. */
static void add_fusion(const module_view *v, int64_t called, kernel *k) {
    const stw_hlo_module *m = v->m;
    const stw_hlo_computation *body = &m->computation[called];
    stw_op_class first[256];
    if (body->parameter.count > 256) die("a fusion with more than 256 parameters");
    for (int32_t p = 0; p < body->parameter.count; p++) first[p] = STW_CLASS_COUNT;
    for (int32_t index = body->first; index < body->first + body->count; index++) {
        const stw_hlo_instruction *i = &m->instruction[index];
        if (!is_member(m, i)) continue;
        add_member(v, index, k);
        for (int32_t o = 0; o < i->operand.count; o++) {
            const stw_hlo_instruction *from = &m->instruction[behind_views(m, (int32_t)m->number[i->operand.first + o])];
            if (from->rule == STW_HLO_PARAMETER && first[from->number] == STW_CLASS_COUNT)
                first[from->number] = class_of(v, index);
        }
    }
    for (int32_t p = 0; p < body->parameter.count; p++) {
        const stw_op_class by = first[p] == STW_CLASS_COUNT ? STW_CLASS_ELEMENTWISE : first[p];
        k->work.class_bytes[by] += (double)stw_hlo_fusion_reads(v->costs, called, p);
    }
    const stw_hlo_instruction *root = &m->instruction[body->root];
    const int32_t outputs = root->rule == STW_HLO_TUPLE ? root->operand.count : 1;
    for (int32_t o = 0; o < outputs; o++) {
        const int32_t output = root->rule == STW_HLO_TUPLE ? (int32_t)m->number[root->operand.first + o] : body->root;
        const int32_t writer = behind_views(m, output);
        const stw_op_class by = is_member(m, &m->instruction[writer]) ? class_of(v, writer) : STW_CLASS_ELEMENTWISE;
        k->work.class_bytes[by] += (double)stw_hlo_fusion_writes(v->costs, output);
    }
}

static kernel describe(const module_view *v, int32_t index) {
    const stw_hlo_instruction *i = &v->m->instruction[index];
    const stw_hlo_cost cost = stw_hlo_cost_of(v->costs, index);
    kernel k = {.op_class = class_of(v, index), .fused = i->rule == STW_HLO_FUSION};
    if (k.fused) {
        add_fusion(v, v->m->number[i->called.first], &k);
        return k;
    }
    k.matrix = is_matrix(k.op_class);
    k.flops[k.op_class] = (double)cost.flops;
    k.dtype[k.op_class] = dtype_of(v->m, index);
    k.work.class_bytes[k.op_class] = (double)cost.moved;
    return k;
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
    stw_hlo_costs *costs;
    stw_op_index *ops;
    times t;
    check(stw_arena_create(&arena, &error), &error);
    snprintf(path, sizeof path, "%s/%s.%s.hlo.txt.gz", folder, name, mode);
    check(stw_file_read(path, &arena, &text, &error), &error);
    check(stw_hlo_text_parse(text, &arena, &m, &error), &error);
    check(stw_hlo_costs_create(m, &arena, &costs, &error), &error);
    check(stw_op_index_create(&arena, &ops, &error), &error);
    snprintf(path, sizeof path, "%s/%s.%s.kernels.json.gz", folder, name, mode);
    read_times(m, path, &arena, &t);
    const module_view view = {m, costs, ops};
    const int32_t first = m->computation[m->entry].first, count = m->computation[m->entry].count;
    bool behind = false; /* the entry stands in the order of execution */
    for (int32_t e = 0; e < count; e++) {
        const stw_hlo_instruction *i = &m->instruction[first + e];
        if (!(t.us[e] > 0.0)) continue;
        if (t.single[e]) {
            kernel k = describe(&view, first + e);
            k.us = t.us[e];
            k.case_index = case_index;
            k.behind = behind;
            snprintf(k.name, sizeof k.name, "%.*s", STW_STR_SHOW(i->name));
            add_kernel(out, &k);
        }
        behind = i->rule == STW_HLO_CUSTOM;
    }
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
