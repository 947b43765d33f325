/* The entry in planned order: what is possible and comes first in the plan goes first. Parameters lead; constants, views and
 * parts of tuples stand before their first reader. */
#include "export/hlo.h"

typedef struct edge_list { /* from each item of the entry, less the first, to those that must come later */
    int32_t first, n;
    int64_t *start;   /* (n + 1) */
    int32_t *after;   /* (start[n]) */
    int32_t *pending; /* (n) edges that end in an item */
} edge_list;

typedef struct wait_pair { /* items */
    int32_t before, after;
} wait_pair;

typedef struct wait_list { /* pairs that no operand shows */
    wait_pair *pair;       /* (count) */
    int32_t count, room;
} wait_list;

static void count_edge(edge_list *edges, int64_t before, int32_t after, bool fill) {
    const int32_t from = (int32_t)before - edges->first, to = after - edges->first;
    if (!fill) {
        edges->start[from + 2]++;
    } else {
        edges->after[edges->start[from + 1]++] = to;
        edges->pending[to]++;
    }
}

static void walk_edges(const stw_hlo_edit *edit, const wait_list *waits, edge_list *edges, bool fill) {
    for (int32_t k = 0; k < edges->n; k++) {
        const stw_hlo_item *item = &edit->item[edges->first + k];
        for (int32_t o = 0; o < item->operand.count; o++)
            count_edge(edges, stw_hlo_number(edit, item->operand, o), edges->first + k, fill);
        for (int32_t o = 0; o < item->control.count; o++)
            count_edge(edges, stw_hlo_number(edit, item->control, o), edges->first + k, fill);
    }
    for (int32_t w = 0; w < waits->count; w++) count_edge(edges, waits->pair[w].before, waits->pair[w].after, fill);
}

/* The item that does what a task does. */
static int32_t item_of_task(const stw_hlo_edit *edit, int32_t task) {
    const int32_t group = edit->fused_of[task];
    if (group >= 0) return edit->fused[group].item;
    return edit->item_of[stw_hlo_local(edit, edit->op_at[edit->tasks.task_node[task]])];
}

/* What the plan's tasks wait for beside their operands: control edges, and readers of what they write over. */
static stw_status collect_waits(stw_hlo_edit *edit, wait_list *waits) {
    const stw_graph *graph = edit->e->graph;
    const stw_membership *m = &edit->tasks;
    for (int32_t k = 0; k < m->member_start[m->T]; k++) {
        const int32_t op = m->member[k];
        for (int64_t w = graph->wait_start[op]; w < graph->wait_start[op + 1]; w++) {
            for (int32_t a = m->computer_start[graph->wait[w]]; a < m->computer_start[graph->wait[w] + 1]; a++) {
                for (int32_t b = m->computer_start[op]; b < m->computer_start[op + 1]; b++) {
                    const int32_t before = item_of_task(edit, m->computer[a]), after = item_of_task(edit, m->computer[b]);
                    if (before < 0 || after < 0 || before == after) continue;
                    STW_HLO_RESERVE(edit->arena, waits->pair, waits->count, waits->room, edit->error);
                    waits->pair[waits->count++] = (wait_pair){before, after};
                }
            }
        }
    }
    return STW_OK;
}

static stw_status build_edges(stw_hlo_edit *edit, edge_list *edges) {
    wait_list found = {0};
    const wait_list *waits = &found;
    TRY(collect_waits(edit, &found));
    edges->first = edit->sequence[0];
    edges->n = edit->entry_count;
    STW_TRY_NEW(edit->arena, edges->start, (int64_t)edges->n + 2, edit->error);
    STW_TRY_NEW(edit->arena, edges->pending, edges->n, edit->error);
    walk_edges(edit, waits, edges, false);
    for (int32_t k = 0; k < edges->n; k++) edges->start[k + 2] += edges->start[k + 1];
    STW_TRY_NEW(edit->arena, edges->after, edges->start[edges->n + 1], edit->error);
    walk_edges(edit, waits, edges, true);
    return STW_OK;
}

/* ---- any order that is possible ---- */

/* False: there is none. */
static stw_status sort_once(const stw_hlo_edit *edit, const edge_list *edges, int32_t *order, bool *is_sorted) {
    int32_t *pending, count = 0;
    stw_arena scratch = *edit->arena;
    STW_TRY_NEW(&scratch, pending, edges->n, edit->error);
    for (int32_t k = 0; k < edges->n; k++) {
        pending[k] = edges->pending[k];
        if (pending[k] == 0) order[count++] = k;
    }
    for (int32_t done = 0; done < count; done++) {
        for (int64_t e = edges->start[order[done]]; e < edges->start[order[done] + 1]; e++) {
            if (--pending[edges->after[e]] == 0) order[count++] = edges->after[e];
        }
    }
    *is_sorted = count == edges->n;
    return STW_OK;
}

/* ---- the planned one ---- */

/* Ops: 2 * rank + 1; what stands before a reader: 2 * rank of the first; parameters lead, what nobody reads ends. */
static int64_t key_of(const stw_hlo_edit *edit, const edge_list *edges, const int64_t *key, int32_t k) {
    const stw_hlo_item *item = &edit->item[edges->first + k];
    const stw_hlo_instruction *source = stw_hlo_at(edit, item->source);
    int32_t node = -1;
    if (item->kind == STW_ITEM_FUSION) node = edit->tasks.task_node[edit->fused[item->group].task];
    if (item->kind == STW_ITEM_COPY) node = edit->op_node[stw_hlo_local(edit, item->source)];
    if (node >= 0) return 2 * (int64_t)edit->e->rank[node] + 1;
    if (item->kind == STW_ITEM_COPY && source->rule == STW_HLO_PARAMETER) return -1;
    int64_t first = INT64_MAX;
    for (int64_t e = edges->start[k]; e < edges->start[k + 1]; e++) {
        const int64_t reader = key[edges->after[e]];
        if (reader != INT64_MAX && (reader & ~(int64_t)1) < first) first = reader & ~(int64_t)1;
    }
    return first;
}

typedef struct heap {
    const int64_t *key;
    int32_t *item; /* smallest (key, number) at the top */
    int32_t count;
} heap;

static bool is_less(const heap *h, int32_t a, int32_t b) { return h->key[a] != h->key[b] ? h->key[a] < h->key[b] : a < b; }

static void push(heap *h, int32_t item) {
    int32_t k = h->count++;
    for (; k > 0 && is_less(h, item, h->item[(k - 1) / 2]); k = (k - 1) / 2) h->item[k] = h->item[(k - 1) / 2];
    h->item[k] = item;
}

static int32_t pop(heap *h) {
    const int32_t top = h->item[0], last = h->item[--h->count];
    int32_t k = 0;
    for (int32_t child; (child = 2 * k + 1) < h->count; k = child) {
        if (child + 1 < h->count && is_less(h, h->item[child + 1], h->item[child])) child++;
        if (!is_less(h, h->item[child], last)) break;
        h->item[k] = h->item[child];
    }
    if (h->count > 0) h->item[k] = last;
    return top;
}

static void sort_by_key(stw_hlo_edit *edit, const edge_list *edges, heap *h) {
    int32_t count = 0;
    for (int32_t k = 0; k < edges->n; k++) {
        if (edges->pending[k] == 0) push(h, k);
    }
    while (h->count > 0) {
        const int32_t next = pop(h);
        edit->sequence[count++] = edges->first + next;
        for (int64_t e = edges->start[next]; e < edges->start[next + 1]; e++) {
            if (--edges->pending[edges->after[e]] == 0) push(h, edges->after[e]);
        }
    }
}

stw_status stw_hlo_find_cycle(stw_hlo_edit *edit, bool *is_cyclic) {
    edge_list edges = {0};
    int32_t *order;
    bool is_sorted = false;
    TRY(build_edges(edit, &edges));
    STW_TRY_NEW(edit->arena, order, edges.n, edit->error);
    TRY(sort_once(edit, &edges, order, &is_sorted));
    *is_cyclic = !is_sorted;
    return STW_OK;
}

stw_status stw_hlo_order(stw_hlo_edit *edit) {
    edge_list edges = {0};
    int32_t *order;
    int64_t *key;
    heap h = {0};
    bool is_sorted = false;
    TRY(build_edges(edit, &edges));
    STW_TRY_NEW(edit->arena, order, edges.n, edit->error);
    STW_TRY_NEW(edit->arena, key, edges.n, edit->error);
    STW_TRY_NEW(edit->arena, h.item, edges.n, edit->error);
    TRY(sort_once(edit, &edges, order, &is_sorted));
    if (!is_sorted) {
        return stw_fail(
            edit->error, STW_ERROR_INPUT,
            "the module's control edges leave no order for the plan: one names a tuple or a barrier; let it name an op");
    }
    for (int32_t k = edges.n; k-- > 0;) key[order[k]] = key_of(edit, &edges, key, order[k]);
    h.key = key;
    sort_by_key(edit, &edges, &h);
    return STW_OK;
}
