/* The order of a graph's nodes: file order, but for what a node needs, which comes before it. */
#include "import/builder_state.h"

stw_status stw_builder_sort_links(const stw_builder *b, const stw_link_list *list, stw_arena *arena, stw_links *out,
                                  stw_error *error) {
    int64_t *place;
    STW_TRY_NEW(arena, out->start, b->count + 1, error);
    STW_TRY_NEW(arena, place, b->count + 1, error);
    STW_TRY_NEW(arena, out->from, list->node.count, error);
    for (int64_t e = 0; e < list->node.count; e++) {
        const int64_t from = list->from.data[e];
        if (from < 0 || from >= b->count)
            return stw_builder_fail(b, (int32_t)list->node.data[e], error, "its input %lld is not there", (long long)from);
        out->start[list->node.data[e] + 1]++;
    }
    for (int64_t i = 0; i < b->count; i++) place[i + 1] = out->start[i + 1] += out->start[i];
    for (int64_t e = 0; e < list->node.count; e++) out->from[place[list->node.data[e]]++] = (int32_t)list->from.data[e];
    return STW_OK;
}

/* What node i needs, one after the other: inputs, then what it waits for, then what it updates; -1 at the end. */
typedef struct {
    const stw_builder *b;
    const stw_links *input, *control;
    uint8_t *state;  /* (count) */
    int64_t *cursor; /* (count) how many needs were looked at */
} walk;

static int32_t next_need(const walk *w, int32_t i) {
    int64_t k = w->cursor[i]++;
    const int64_t inputs = w->input->start[i + 1] - w->input->start[i];
    const int64_t controls = w->control->start[i + 1] - w->control->start[i];
    if (k < inputs) return w->input->from[w->input->start[i] + k];
    k -= inputs;
    if (k < controls) return w->control->from[w->control->start[i] + k];
    return k == controls ? w->b->updates[i] : -1;
}

enum { UNSEEN, BEGUN, DONE };

/* A depth-first walk with a stack of its own; *stuck is on a cycle when it returns false. */
static bool sort_nodes(const walk *w, int32_t *stack, int32_t *order, int32_t *stuck) {
    int32_t done = 0;
    for (int32_t first = 0; first < (int32_t)w->b->count; first++) {
        int64_t depth = 0;
        if (w->state[first] == UNSEEN) stack[depth++] = first;
        while (depth > 0) {
            const int32_t i = stack[depth - 1];
            w->state[i] = BEGUN;
            const int32_t need = next_need(w, i);
            if (need < 0) {
                w->state[i] = DONE;
                order[done++] = i;
                depth--;
                continue;
            }
            *stuck = need;
            if (w->state[need] == BEGUN) return false;
            if (w->state[need] == UNSEEN) stack[depth++] = need;
        }
    }
    return true;
}

stw_status stw_builder_order(const stw_builder *b, const stw_links *input, const stw_links *control, stw_arena *arena,
                             int32_t **out, stw_error *error) {
    walk w = {.b = b, .input = input, .control = control};
    int32_t *stack, stuck = 0;
    STW_TRY_NEW(arena, *out, b->count, error);
    STW_TRY_NEW(arena, stack, b->count, error);
    STW_TRY_NEW(arena, w.state, b->count, error);
    STW_TRY_NEW(arena, w.cursor, b->count, error);
    if (sort_nodes(&w, stack, *out, &stuck)) return STW_OK;
    return stw_builder_fail(b, stuck, error, "depends on itself: its inputs close a cycle; remove one of them%s",
                            b->vocabulary == STW_TENSORFLOW ? ", or close the loop with NextIteration into Merge" : "");
}
