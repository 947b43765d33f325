#include "import/insides.h"

#include <string.h>

#include "base/array.h"
#include "graph/kernel.h"

#define APPEND(in, list, item, error)                                                                     \
    do {                                                                                                  \
        if ((in)->list##_count >= INT32_MAX / 2)                                                          \
            return stw_fail((error), STW_ERROR_INPUT, "more than 2^30 ops inside of fusions and bodies"); \
        STW_PUSH((in)->arena, (in), list, *(item), (error));                                              \
    } while (0)

stw_status stw_insides_add_fused(stw_insides *in, const stw_fused_kernel *fused, stw_error *error) {
    APPEND(in, fused, fused, error);
    return STW_OK;
}

stw_status stw_insides_add_part(stw_insides *in, const stw_part *part, stw_error *error) {
    APPEND(in, part, part, error);
    return STW_OK;
}

stw_status stw_insides_add_part_read(stw_insides *in, const stw_part_read *read, stw_error *error) {
    APPEND(in, part_read, read, error);
    return STW_OK;
}

stw_status stw_insides_add_result(stw_insides *in, const stw_part_result *result, stw_error *error) {
    APPEND(in, result, result, error);
    return STW_OK;
}

static stw_status add_work(stw_insides *in, const stw_work_row *work, stw_error *error) {
    APPEND(in, work, work, error);
    return STW_OK;
}

stw_status stw_insides_add_body(stw_insides *in, const stw_body_step *step, int64_t count, bool dearest, int32_t *out,
                                stw_error *error) {
    const stw_body body = {.first = in->step_count, .count = count, .dearest = dearest};
    for (int64_t k = 0; k < count; k++) APPEND(in, step, &step[k], error);
    *out = (int32_t)in->body_count;
    APPEND(in, body, &body, error);
    return STW_OK;
}

stw_status stw_insides_make_op_step(stw_insides *in, const stw_work_row *work, stw_body_step *out, stw_error *error) {
    *out = (stw_body_step){.times = 1.0, .body = -1, .is_op = true, .work_first = in->work_count, .work_count = 1};
    return add_work(in, work, error);
}

/* ---- graphs that are bodies ---- */

typedef struct {
    stw_insides *in;
    const stw_graph *graph;
    stw_kernel_room room; /* where ops have others fused into them */
    stw_work_row *row;
    stw_error *error;
} taker;

static stw_status make_step(taker *t, int32_t i, stw_body_step *out) {
    const stw_graph *graph = t->graph;
    if (graph->body_of[i] >= 0) {
        *out = (stw_body_step){.times = 1.0, .body = graph->body_of[i]};
        return STW_OK;
    }
    if (graph->fused_of == NULL || graph->fused_of[i] < 0) {
        const stw_work_row work = {.op_class = graph->op_class[i],
                                   .dtype = graph->dtype[i],
                                   .flops = (double)graph->flops[i],
                                   .bytes = (double)stw_op_bytes_moved(graph, i)};
        return stw_insides_make_op_step(t->in, &work, out, t->error);
    }
    stw_kernel_work work;
    stw_kernel_find_work(graph, &(stw_members){.member = &i, .count = 1}, &t->room, &work);
    const int64_t count = stw_kernel_rows(&work, t->row);
    *out = (stw_body_step){.times = 1.0, .body = -1, .work_first = t->in->work_count, .work_count = count};
    for (int64_t k = 0; k < count; k++) TRY(add_work(t->in, &t->row[k], t->error));
    return STW_OK;
}

static stw_status list_steps(taker *t, const bool *counts, stw_body_step *step, int64_t *count) {
    const stw_graph *graph = t->graph;
    *count = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP || graph->op_class[i] == STW_CLASS_ALIAS) continue;
        if (counts == NULL || !counts[i]) TRY(make_step(t, i, &step[(*count)++]));
    }
    return STW_OK;
}

stw_status stw_insides_add_graph(stw_insides *in, const stw_graph *graph, const bool *counts, bool counts_alone,
                                 stw_arena scratch, int32_t *out, stw_error *error) {
    taker t = {.in = in, .graph = graph, .error = error};
    stw_body_step *step;
    int64_t count = 0;
    STW_TRY_NEW(&scratch, step, graph->op_count, error);
    if (graph->fused_of != NULL) {
        STW_TRY_NEW(&scratch, t.row, graph->kernel_units + STW_CLASS_COUNT, error);
        TRY(stw_kernel_room_create(graph, &scratch, &t.room, error));
    }
    TRY(list_steps(&t, counts, step, &count));
    if (count == 0 && counts_alone) TRY(list_steps(&t, NULL, step, &count));
    return stw_insides_add_body(in, step, count, false, out, error);
}

/* ---- into the graph ---- */

static stw_status copy(stw_arena *arena, void **list, size_t size, int64_t count, stw_error *error) {
    void *made = stw_arena_alloc(arena, size, _Alignof(max_align_t), count);
    if (made == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    if (count > 0) memcpy(made, *list, size * (size_t)count);
    *list = made;
    return STW_OK;
}

#define COPY(graph, list, count, error)                                              \
    do {                                                                             \
        void *data_ = (graph)->list;                                                 \
        TRY(copy(&(graph)->arena, &data_, sizeof *(graph)->list, (count), (error))); \
        (graph)->list = data_;                                                       \
    } while (0)

stw_status stw_insides_give(const stw_insides *in, stw_graph *graph, bool share, stw_error *error) {
    graph->fused = in->fused;
    graph->part = in->part;
    graph->part_read = in->part_read;
    graph->result = in->result;
    graph->body = in->body;
    graph->step = in->step;
    graph->work = in->work;
    graph->body_count = (int32_t)in->body_count;
    graph->open_loops = in->open_loops;
    if (share) return STW_OK;
    COPY(graph, fused, in->fused_count, error);
    COPY(graph, part, in->part_count, error);
    COPY(graph, part_read, in->part_read_count, error);
    COPY(graph, result, in->result_count, error);
    COPY(graph, body, in->body_count, error);
    COPY(graph, step, in->step_count, error);
    COPY(graph, work, in->work_count, error);
    return STW_OK;
}
