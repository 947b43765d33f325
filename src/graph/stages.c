/* Stages: ranges of parcels in the order of the program, for pipelines. */
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

/* How many stages of at most `cap` microseconds it takes; stage: (count) of each place, or NULL. */
static int32_t fill(const double *us, const bool *may_begin, int32_t count, double cap, int32_t *stage) {
    int32_t stages = 1, p = 0;
    double taken = 0.0;
    while (p < count) {
        int32_t end = p + 1;
        double more = us[p];
        while (end < count && !may_begin[end]) more += us[end++];
        if (taken > 0.0 && taken + more > cap) {
            stages++;
            taken = 0.0;
        }
        taken += more;
        for (; p < end; p++)
            if (stage != NULL) stage[p] = stages - 1;
    }
    return stages;
}

static double least_cap(const double *us, const bool *may_begin, int32_t count, int32_t most) {
    double low = 0.0, high = 0.0;
    for (int32_t p = 0; p < count; p++) high += us[p];
    high += 1.0;
    for (int32_t k = 0; k < 60; k++) {
        const double middle = 0.5 * (low + high);
        *(fill(us, may_begin, count, middle, NULL) <= most ? &high : &low) = middle;
    }
    return high;
}

stw_status stw_grain_stages(const stw_graph *graph, const double *us, int32_t most, stw_arena *arena, stw_parcels *parcels,
                            stw_error *error) {
    const int32_t count = parcels->count;
    stw_arena scratch = *arena;
    step *steps;
    int32_t *place, *stage;
    double *sum;
    bool *may_begin;
    if (count == 0) return STW_OK;
    STW_TRY_NEW(&scratch, steps, count, error);
    STW_TRY_NEW(&scratch, place, count, error);
    STW_TRY_NEW(&scratch, stage, count, error);
    STW_TRY_NEW(&scratch, sum, count, error);
    for (int32_t u = 0; u < count; u++) steps[u] = (step){.first = parcels->first[u], .parcel = u};
    for (int32_t i = 0; i < graph->N; i++)
        if (graph->kind[i] == STW_NODE_OP) steps[parcels->of[i]].us += us[i];
    qsort(steps, (size_t)count, sizeof *steps, compare_steps);
    for (int32_t p = 0; p < count; p++) {
        place[steps[p].parcel] = p;
        sum[p] = steps[p].us;
    }
    TRY(find_begins(graph, parcels, place, &scratch, &may_begin, error));
    const int32_t stages = fill(sum, may_begin, count, least_cap(sum, may_begin, count, most), stage);
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
