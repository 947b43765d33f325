/* Stages: ranges of parcels in the order of the program, for pipelines. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/grain.h"

typedef struct { /* parcels that no stage may begin between, in the order of the program */
    double us;
    int32_t first; /* op */
    int32_t parcel;
} step;

static int compare_steps(const void *left, const void *right) {
    const step *a = left, *b = right;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : a->parcel - b->parcel;
}

/* may_begin: (count + 1) by place: false where a forward op in front of it reads what is made behind it. */
static stw_status find_begins(const stw_graph *graph, const stw_parcels *parcels, const int32_t *place, stw_arena *arena,
                              bool **out, stw_error *error) {
    bool *backward;
    int32_t *depth;
    TRY(stw_graph_backward(graph, arena, &backward, error));
    STW_TRY_NEW(arena, depth, (int64_t)parcels->count + 2, error);
    STW_TRY_NEW(arena, *out, (int64_t)parcels->count + 1, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP || backward[i]) continue;
        const int32_t at = place[parcels->of[i]];
        for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++) {
            const int32_t source = graph->read[k].node;
            if (graph->kind[source] != STW_NODE_OP || place[parcels->of[source]] <= at) continue;
            depth[at + 1]++;
            depth[place[parcels->of[source]] + 1]--;
        }
    }
    for (int32_t p = 1, open = 0; p <= parcels->count; p++) {
        open += depth[p];
        (*out)[p] = open == 0;
    }
    return STW_OK;
}

typedef struct { /* by place in the order of the program */
    int32_t count;
    const double *us;
    const uint64_t *allowed; /* devices that all of the place may be on */
    const bool *may_begin;   /* (count + 1) a stage there */
} line;

/* How many stages of at most `cap` microseconds it takes, each with a device that all of it may be on; stage: (count) of each
 * place, or NULL. */
static int32_t fill(const line *l, double cap, int32_t *stage) {
    int32_t stages = 1, p = 0;
    double taken = 0.0;
    uint64_t open = UINT64_MAX;
    while (p < l->count) {
        int32_t end = p + 1;
        double more = l->us[p];
        uint64_t also = l->allowed[p];
        for (; end < l->count && !l->may_begin[end]; end++) {
            more += l->us[end];
            also &= l->allowed[end];
        }
        if (p > 0 && ((taken > 0.0 && taken + more > cap) || (open & also) == 0)) {
            stages++;
            taken = 0.0;
            open = UINT64_MAX;
        }
        taken += more;
        open &= also;
        for (; p < end; p++)
            if (stage != NULL) stage[p] = stages - 1;
    }
    return stages;
}

static double least_cap(const line *l, int32_t most) {
    double low = 0.0, high = 1.0;
    for (int32_t p = 0; p < l->count; p++) high += l->us[p];
    for (int32_t k = 0; k < 60; k++) {
        const double middle = 0.5 * (low + high);
        *(fill(l, middle, NULL) <= most ? &high : &low) = middle;
    }
    return high;
}

/* mask: (count), what all of each place may be on. Any device where limits would take more stages than there may be. */
static void find_masks(const stw_graph *graph, const stw_parcels *parcels, const int32_t *place, const uint64_t *allowed,
                       const line *l, int32_t most, uint64_t *mask) {
    for (int32_t p = 0; p < l->count; p++) mask[p] = UINT64_MAX;
    for (int32_t i = 0; i < graph->N && allowed != NULL; i++)
        if (parcels->of[i] >= 0) mask[place[parcels->of[i]]] &= allowed[i];
    if (fill(l, INFINITY, NULL) <= most) return;
    for (int32_t p = 0; p < l->count; p++) mask[p] = UINT64_MAX;
}

stw_status stw_grain_stages(const stw_graph *graph, const double *us, const uint64_t *allowed, int32_t most, stw_arena *arena,
                            stw_parcels *parcels, stw_error *error) {
    const int32_t count = parcels->count;
    stw_arena scratch = *arena;
    step *steps;
    int32_t *place, *stage;
    double *sum;
    uint64_t *mask;
    bool *may_begin;
    if (count == 0) return STW_OK;
    STW_TRY_NEW(&scratch, steps, count, error);
    STW_TRY_NEW(&scratch, place, count, error);
    STW_TRY_NEW(&scratch, stage, count, error);
    STW_TRY_NEW(&scratch, sum, count, error);
    STW_TRY_NEW(&scratch, mask, count, error);
    for (int32_t u = 0; u < count; u++) steps[u] = (step){.first = parcels->first[u], .parcel = u};
    for (int32_t i = 0; i < graph->N; i++)
        if (graph->kind[i] == STW_NODE_OP) steps[parcels->of[i]].us += us[i];
    qsort(steps, (size_t)count, sizeof *steps, compare_steps);
    for (int32_t p = 0; p < count; p++) {
        place[steps[p].parcel] = p;
        sum[p] = steps[p].us;
    }
    TRY(find_begins(graph, parcels, place, &scratch, &may_begin, error));
    const line l = {count, sum, mask, may_begin};
    find_masks(graph, parcels, place, allowed, &l, most, mask);
    const int32_t stages = fill(&l, least_cap(&l, most), stage);
    for (int32_t i = 0; i < graph->N; i++)
        if (parcels->of[i] >= 0) parcels->of[i] = stage[place[parcels->of[i]]];
    stw_str *name;
    int32_t *modules, *first;
    STW_TRY_NEW(&scratch, name, stages, error);
    STW_TRY_NEW(&scratch, modules, stages, error);
    STW_TRY_NEW(&scratch, first, stages, error);
    for (int32_t p = count - 1; p >= 0; p--) {
        name[stage[p]] = parcels->name[steps[p].parcel];
        first[stage[p]] = steps[p].first;
        modules[stage[p]] += parcels->modules[steps[p].parcel];
    }
    memcpy(parcels->name, name, (size_t)stages * sizeof *name);
    memcpy(parcels->modules, modules, (size_t)stages * sizeof *modules);
    memcpy(parcels->first, first, (size_t)stages * sizeof *first);
    parcels->count = stages;
    return STW_OK;
}
