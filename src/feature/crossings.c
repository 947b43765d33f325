#include "feature/crossings.h"

#include <math.h>

#include "base/sort.h"

typedef struct {
    int32_t *at;   /* (M) the crossing of the value at hand into this unit; below the value's first: none yet */
    int32_t *view; /* (M) the last view of it that was counted; uses are sorted by view */
} reading;

static void cross(const stw_features *f, int32_t value, reading *r, stw_crossings *out) {
    const stw_tasks *tasks = f->tasks;
    const double whole = (double)tasks->value_bytes[value];
    int32_t sent_view = -2;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const stw_task_use *use = &tasks->use[u];
        const int32_t to = f->units->of[tasks->task_node[use->task]];
        out->of_use[u] = -1;
        if (out->from[value] < 0 || to == out->from[value]) continue;
        if (r->at[to] < out->start[value]) {
            r->at[to] = out->E++;
            r->view[to] = -2;
            out->to[r->at[to]] = to;
        }
        const int32_t e = out->of_use[u] = r->at[to];
        if (use->view != sent_view) out->sent[value] = fmin(whole, out->sent[value] + stw_use_bytes(f, value, use));
        sent_view = use->view;
        if (use->view == r->view[to]) continue;
        r->view[to] = use->view;
        out->bytes[e] = fmin(whole, out->bytes[e] + stw_use_bytes(f, value, use));
    }
}

stw_status stw_crossings_build(stw_features *f, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = f->tasks;
    stw_crossings *out;
    reading r = {0};
    STW_TRY_NEW(arena, out, 1, error);
    STW_TRY_NEW(arena, out->from, tasks->V, error);
    STW_TRY_NEW(arena, out->sent, tasks->V, error);
    STW_TRY_NEW(arena, out->start, (int64_t)tasks->V + 1, error);
    STW_TRY_NEW(arena, out->to, tasks->U, error);
    STW_TRY_NEW(arena, out->bytes, tasks->U, error);
    STW_TRY_NEW(arena, out->of_use, tasks->U, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, r.at, f->M, error);
    STW_TRY_NEW(&scratch, r.view, f->M, error);
    for (int32_t u = 0; u < f->M; u++) r.at[u] = -1;
    for (int32_t v = 0; v < tasks->V; v++) {
        const bool everywhere = (tasks->value_flags[v] & STW_VALUE_EVERYWHERE) != 0;
        out->from[v] = everywhere ? -1 : f->units->of[tasks->value_node[v]];
        out->start[v] = out->E;
        cross(f, v, &r, out);
    }
    out->start[tasks->V] = out->E;
    out->link = stw_machine_mean_link(f->costs->machine);
    f->crossings = out;
    return STW_OK;
}

/* The distinct partners of each unit, ascending. a, b: (E) ends of the crossings. */
static stw_status list_partners(int32_t M, int32_t E, const int32_t *a, const int32_t *b, stw_arena *arena, int32_t **start,
                                int32_t **partner, stw_error *error) {
    int32_t *first, *list;
    STW_TRY_NEW(arena, first, (int64_t)M + 2, error);
    STW_TRY_NEW(arena, list, E, error);
    for (int32_t e = 0; e < E; e++) first[a[e] + 2]++;
    for (int32_t u = 0; u < M; u++) first[u + 2] += first[u + 1];
    for (int32_t e = 0; e < E; e++) list[first[a[e] + 1]++] = b[e];
    int32_t kept = 0;
    for (int32_t u = 0; u < M; u++) {
        const int32_t from = first[u], to = first[u + 1];
        stw_sort_ids(list + from, to - from);
        first[u] = kept;
        for (int32_t k = from; k < to; k++) {
            if (k == from || list[k] != list[k - 1]) list[kept++] = list[k];
        }
    }
    first[M] = kept;
    *start = first;
    *partner = list;
    return STW_OK;
}

stw_status stw_crossings_neighbours(stw_features *f, stw_arena *arena, stw_error *error) {
    const stw_crossings *c = f->crossings;
    int32_t *from;
    STW_TRY_NEW(arena, from, c->E, error);
    for (int32_t v = 0; v < f->tasks->V; v++) {
        for (int32_t e = c->start[v]; e < c->start[v + 1]; e++) from[e] = c->from[v];
    }
    TRY(list_partners(f->M, c->E, c->to, from, arena, &f->producer_start, &f->producer, error));
    return list_partners(f->M, c->E, from, c->to, arena, &f->reader_start, &f->reader, error);
}
