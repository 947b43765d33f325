/* Strict orders for chains that need them: where memory is so scarce that a plan fits only if devices wait for the next task in
 * their order. The order is that of the priorities, as far as tasks can run in it, so every change of a chain makes one. */
#include "method/anneal/anneal.h"
#include "plan/plan.h"
#include "sim/sequence.h"

stw_status stw_anneal_prepare_orders(stw_annealing *a, stw_arena *arena, stw_error *error) {
    STW_TRY_NEW(arena, a->sequences, 1, error);
    return stw_sequences_build(&a->search->simulator->unfused, arena, a->sequences, error);
}

/* ---- a heap of tasks that can run, the one with the highest priority first, then the smaller id ---- */

typedef struct {
    const double *priority; /* (N) */
    const int32_t *node;    /* (T) of each task */
    int32_t *task, count;
} heap;

static bool goes_first(const heap *h, int32_t a, int32_t b) {
    const double x = h->priority[h->node[a]], y = h->priority[h->node[b]];
    return x > y || (x == y && a < b);
}

static void push(heap *h, int32_t task) {
    int32_t at = h->count++;
    for (; at > 0 && goes_first(h, task, h->task[(at - 1) / 2]); at = (at - 1) / 2) h->task[at] = h->task[(at - 1) / 2];
    h->task[at] = task;
}

static int32_t pop(heap *h) {
    const int32_t first = h->task[0], last = h->task[--h->count];
    int32_t at = 0;
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child >= h->count) break;
        if (child + 1 < h->count && goes_first(h, h->task[child + 1], h->task[child])) child++;
        if (!goes_first(h, h->task[child], last)) break;
        h->task[at] = h->task[child];
        at = child;
    }
    h->task[at] = last;
    return first;
}

/* ---- the orders ---- */

static bool has_groups(const stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) {
        if (plan->graph->kind[i] == STW_NODE_OP && plan->group[i] != i) return true;
    }
    return false;
}

stw_status stw_anneal_order(const stw_annealing *a, stw_chain *c, int32_t worker) {
    const stw_sequences *s = a->sequences;
    if (!c->strict) return STW_OK;
    stw_arena scratch = a->search->scratch[worker];
    const int32_t D = c->plan->machine->device_count, T = s->T;
    heap h = {.priority = c->plan->priority, .node = s->tasks->task_node};
    int32_t *open, *list, *start, count[STW_MAX_DEVICES] = {0};
    stw_plan_remove_orders(c->plan);
    if (has_groups(c->plan)) return STW_OK; /* they run as they can */
    STW_TRY_NEW(&scratch, h.task, T, c->error);
    STW_TRY_NEW(&scratch, open, T, c->error);
    STW_TRY_NEW(&scratch, list, T, c->error);
    STW_TRY_NEW(&scratch, start, (int64_t)D + 1, c->error);
    for (int32_t t = 0; t < T; t++) {
        start[c->plan->device[h.node[t]] + 1]++;
        open[t] = s->before_start[t + 1] - s->before_start[t];
        if (open[t] == 0) push(&h, t);
    }
    for (int32_t d = 0; d < D; d++) start[d + 1] += start[d];
    while (h.count > 0) {
        const int32_t t = pop(&h), d = c->plan->device[h.node[t]];
        list[start[d] + count[d]++] = h.node[t];
        for (int32_t k = s->after_start[t]; k < s->after_start[t + 1]; k++) {
            if (--open[s->after[k]] == 0) push(&h, s->after[k]);
        }
    }
    for (int32_t d = 0; d < D; d++) TRY(stw_plan_set_order(c->plan, d, &list[start[d]], count[d], c->error));
    return STW_OK;
}
