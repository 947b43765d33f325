/* What is known of times before devices are: two tasks are together, and then run one after the other, or apart, and then
 * something is sent; and every time is a multiple of one grain. */
#include "method/exact/exact.h"

/* ---- what is sent between two tasks, if they are apart ---- */

static int64_t least_transfer_ps(const stw_machine *machine, int64_t bytes) {
    int64_t least = STW_EXACT_LIMIT_PS;
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) {
        if (k / machine->device_count == k % machine->device_count || !(machine->link[k].bandwidth > 0.0)) continue;
        const int64_t ps = stw_cost_transfer_ps(&machine->link[k], bytes);
        if (ps < least) least = ps;
    }
    return least;
}

/* What one task reads of a value: a transfer carries at least that. */
static void add_edge(stw_exact *x, int32_t value, int32_t use) {
    const int32_t from = x->tasks->value_task[value], to = x->tasks->use[use].task, view = x->tasks->use[use].view;
    const int64_t whole = x->tasks->value_bytes[value], part = view < 0 ? whole : x->s->graph->bytes[view];
    const int64_t ps = least_transfer_ps(x->s->machine, part < whole ? part : whole);
    for (int32_t k = x->edge_count - 1; k >= 0 && x->edge[k].from == from; k--) {
        if (x->edge[k].to != to) continue;
        if (ps > x->edge[k].ps) x->edge[k].ps = ps;
        return;
    }
    x->edge[x->edge_count++] = (stw_exact_edge){from, to, ps};
}

/* Sorted by producer; `in` has the same by reader. */
static stw_status list_edges(stw_exact *x, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = x->tasks;
    STW_TRY_NEW(arena, x->edge, tasks->U, error);
    STW_TRY_NEW(arena, x->in, tasks->U, error);
    STW_TRY_NEW(arena, x->in_start, tasks->T + 1, error);
    STW_TRY_NEW(arena, x->out_start, tasks->T + 1, error);
    for (int32_t t = 0; t < tasks->T; t++) {
        x->out_start[t] = x->edge_count;
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            const int32_t value = tasks->output[o];
            for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) add_edge(x, value, u);
        }
    }
    x->out_start[tasks->T] = x->edge_count;
    int32_t count = 0;
    for (int32_t t = 0; t < tasks->T; t++) {
        x->in_start[t] = count;
        for (int32_t k = 0; k < x->edge_count; k++) {
            if (x->edge[k].to == t) x->in[count++] = x->edge[k];
        }
    }
    x->in_start[tasks->T] = count;
    return STW_OK;
}

/* ---- the grain ---- */

static int64_t common(int64_t a, int64_t b) {
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Everything that adds up to a step is a multiple of this; where views are sent, nothing is known. */
static int64_t find_grain(const stw_exact *x) {
    const stw_tasks *tasks = x->tasks;
    const stw_machine *machine = x->s->machine;
    int64_t grain = 0;
    for (int32_t u = 0; u < tasks->U; u++) {
        if (tasks->use[u].view >= 0) return 1;
    }
    for (int32_t c = 0; c < machine->cost_class_count; c++) {
        for (int32_t t = 0; t < tasks->T; t++) grain = common(grain, tasks->duration_ps[c][t]);
    }
    for (int32_t k = 0; k < machine->device_count * machine->device_count && grain != 1; k++) {
        const stw_link *link = &machine->link[k];
        if (!(link->bandwidth > 0.0)) continue;
        grain = common(common(grain, stw_cost_us_to_ps(link->send_us)), stw_cost_us_to_ps(link->receive_us));
        for (int32_t v = 0; v < tasks->V && grain != 1; v++)
            grain = common(grain, stw_cost_transfer_ps(link, tasks->value_bytes[v]));
    }
    return grain > 0 ? grain : 1;
}

stw_status stw_exact_look_ahead(stw_exact *x, stw_arena *arena, stw_error *error) {
    x->grain_ps = find_grain(x);
    return list_edges(x, arena, error);
}

/* ---- together or apart ---- */

/* Neighbours of a task of which one may be anywhere, those first that are latest if they are apart from it. */
typedef struct {
    int32_t count;
    int32_t task[STW_EXACT_MAX_OPS];
    int64_t apart[STW_EXACT_MAX_OPS];
} neighbours;

static void add_neighbour(neighbours *n, int32_t task, int64_t apart) {
    int32_t place = n->count++;
    for (; place > 0 && n->apart[place - 1] < apart; place--) {
        n->task[place] = n->task[place - 1];
        n->apart[place] = n->apart[place - 1];
    }
    n->task[place] = task;
    n->apart[place] = apart;
}

static bool is_open(const stw_exact_model *m, int32_t a, int32_t b) {
    return m->activity[a].resource < 0 || m->activity[b].resource < 0;
}

/* Puts a task into a list that is sorted by rising key. */
static void insert(int32_t *list, int32_t count, int32_t task, const int64_t *key) {
    for (; count > 0 && key[list[count - 1]] > key[task]; count--) list[count] = list[count - 1];
    list[count] = task;
}

/* One device runs these: by heads, or from behind by tails, which is the same. */
static int64_t run_serially(const stw_exact_model *m, const int32_t *list, int32_t count, const int64_t *key) {
    int64_t end = 0;
    for (int32_t k = 0; k < count; k++) {
        if (key[list[k]] > end) end = key[list[k]];
        end = stw_exact_add(end, m->activity[list[k]].ps);
    }
    return end;
}

/* Some of the neighbours are together with the task, and take their time one after the other; of those that are apart the latest
 * counts. If the k-th is the latest of these, all before it are together. Two that are on different devices never are. */
static int64_t best_split(const stw_exact_model *m, const neighbours *n, const int64_t *key) {
    int32_t list[STW_EXACT_MAX_OPS], device = -1;
    int64_t best = STW_EXACT_LIMIT_PS;
    for (int32_t k = 0; k <= n->count; k++) {
        const int64_t together = run_serially(m, list, k, key), apart = k < n->count ? n->apart[k] : 0;
        const int64_t least = together > apart ? together : apart;
        if (least < best) best = least;
        if (k == n->count || together >= best) break;
        const int32_t own = m->activity[n->task[k]].resource;
        if (own >= 0 && device >= 0 && own != device) break;
        if (own >= 0) device = own;
        insert(list, k, n->task[k], key);
    }
    return best;
}

int64_t stw_exact_head(const stw_exact *x, const stw_exact_model *m, const stw_exact_times *times, int32_t task) {
    neighbours n = {0};
    for (int32_t k = x->in_start[task]; k < x->in_start[task + 1]; k++) {
        const int32_t p = x->in[k].from;
        if (is_open(m, p, task))
            add_neighbour(&n, p, stw_exact_add(stw_exact_add(times->head[p], m->activity[p].ps), x->in[k].ps));
    }
    return n.count == 0 ? 0 : best_split(m, &n, times->head);
}

int64_t stw_exact_tail(const stw_exact *x, const stw_exact_model *m, const stw_exact_times *times, int32_t task) {
    neighbours n = {0};
    for (int32_t k = x->out_start[task]; k < x->out_start[task + 1]; k++) {
        const int32_t r = x->edge[k].to;
        if (is_open(m, task, r))
            add_neighbour(&n, r, stw_exact_add(stw_exact_add(times->tail[r], m->activity[r].ps), x->edge[k].ps));
    }
    return n.count == 0 ? 0 : best_split(m, &n, times->tail);
}
