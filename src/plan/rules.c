#include "plan/rules.h"

#include <math.h>
#include <string.h>

#include "machine/link_mean.h"
#include "plan/plan.h"

const char *const stw_rule_name[STW_RULE_COUNT] = {"fifo", "topological", "upward-rank", "critical-path", "depth-first"};

bool stw_rule_find(stw_str name, stw_rule *out) {
    for (int k = 0; k < STW_RULE_COUNT; k++) {
        if (!stw_str_is(name, stw_rule_name[k])) continue;
        *out = (stw_rule)k;
        return true;
    }
    return false;
}

/* ---- longest paths ---- */

typedef struct {
    const stw_costs *costs;
    const stw_tasks *tasks;
    const int32_t *device; /* (N), or NULL: nothing is placed yet, and means over devices and links stand in */
    stw_link_mean mean;    /* then: times the chance that two ops are on different devices */
} paths;

static void mean_links(paths *p) {
    const stw_machine *machine = p->costs->machine;
    const int32_t D = machine->device_count;
    stw_link_mean_add_all(&p->mean, machine);
    stw_link_mean_multiply(&p->mean, p->mean.count == 0 ? 0.0 : (1.0 - 1.0 / D) / p->mean.count);
}

static double task_us(const paths *p, int32_t task) {
    const stw_machine *machine = p->costs->machine;
    const int32_t node = p->tasks->task_node[task];
    if (p->device != NULL) return p->costs->us[machine->device[p->device[node]].cost_class][node];
    double sum = 0.0;
    for (int32_t d = 0; d < machine->device_count; d++) sum += p->costs->us[machine->device[d].cost_class][node];
    return sum / machine->device_count;
}

/* From the end of a value's producer to the moment when a reader has it, with what both ends pay for it. */
static double transfer_us(const paths *p, int32_t value, const stw_task_use *use) {
    const int64_t whole = p->tasks->value_bytes[value];
    const int64_t part = use->view < 0 ? whole : p->costs->graph->bytes[use->view];
    const double bytes = (double)(part < whole ? part : whole);
    if (p->device == NULL) return stw_link_mean_us(&p->mean, bytes);
    const int32_t from = p->device[p->tasks->value_node[value]], to = p->device[p->tasks->task_node[use->task]];
    if (from == to) return 0.0;
    const stw_link *link = stw_machine_link(p->costs->machine, from, to);
    return link->bandwidth > 0.0 ? stw_link_fixed_us(link) + stw_link_bytes_us(link, bytes) : 0.0;
}

/* Longest time from the start of each task to the end of all, itself included. */
static void walk_tails(const paths *p, double *tail) {
    const stw_tasks *tasks = p->tasks;
    const stw_graph *graph = p->costs->graph;
    for (int32_t k = graph->op_count - 1; k >= 0; k--) {
        const int32_t t = tasks->task_of[graph->topological[k]];
        double after = 0.0;
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            const int32_t value = tasks->output[o];
            for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
                after = fmax(after, transfer_us(p, value, &tasks->use[u]) + tail[tasks->use[u].task]);
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) after = fmax(after, tail[tasks->waiter[w]]);
        tail[t] = after + task_us(p, t);
    }
}

/* Longest time before the start of each task. head: zeroed. */
static void walk_heads(const paths *p, double *head) {
    const stw_tasks *tasks = p->tasks;
    const stw_graph *graph = p->costs->graph;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t t = tasks->task_of[graph->topological[k]];
        const double end = head[t] + task_us(p, t);
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            const int32_t value = tasks->output[o];
            for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
                double *reader = &head[tasks->use[u].task];
                *reader = fmax(*reader, end + transfer_us(p, value, &tasks->use[u]));
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            head[tasks->waiter[w]] = fmax(head[tasks->waiter[w]], end);
        }
    }
}

void stw_rule_upward_ranks(const stw_costs *costs, const stw_tasks *tasks, const int32_t *device, double *rank) {
    paths p = {.costs = costs, .tasks = tasks, .device = device};
    if (device == NULL) mean_links(&p);
    walk_tails(&p, rank);
}

/* ---- memory: a sequence that frees early ---- */

typedef struct {
    int64_t gain; /* bytes freed minus bytes taken */
    int32_t age;  /* when it became possible or its gain rose; earlier first among equals: sums need their terms in order */
    int32_t task;
} option;

typedef struct {
    const stw_tasks *tasks;
    option *heap;
    int32_t count, age;
    int64_t *gain;    /* (T) */
    int32_t *pending; /* (T); -1: has run */
    int32_t *readers; /* (V) tasks that have not run; one that reads a value through several views counts once */
    int32_t *left_by; /* (V) the last of them that has run, plus 1 */
} sequence;

static bool is_before(const option *a, const option *b) { return a->gain != b->gain ? a->gain > b->gain : a->age < b->age; }

static void push(sequence *s, int32_t task) {
    const option entry = {s->gain[task], s->age++, task};
    int32_t k = s->count++;
    while (k > 0 && is_before(&entry, &s->heap[(k - 1) / 2])) {
        s->heap[k] = s->heap[(k - 1) / 2];
        k = (k - 1) / 2;
    }
    s->heap[k] = entry;
}

static option pop(sequence *s) {
    const option top = s->heap[0], last = s->heap[--s->count];
    int32_t k = 0;
    for (;;) {
        int32_t child = 2 * k + 1;
        if (child >= s->count) break;
        if (child + 1 < s->count && is_before(&s->heap[child + 1], &s->heap[child])) child++;
        if (!is_before(&s->heap[child], &last)) break;
        s->heap[k] = s->heap[child];
        k = child;
    }
    s->heap[k] = last;
    return top;
}

static bool is_freed(const stw_tasks *tasks, int32_t value) {
    return tasks->value_task[value] >= 0 && !(tasks->value_flags[value] & (STW_VALUE_KEPT | STW_VALUE_IN_PLACE));
}

/* One reader of a value is left: it frees the value. */
static void credit_last(sequence *s, int32_t value) {
    const stw_tasks *tasks = s->tasks;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const int32_t task = tasks->use[u].task;
        if (s->pending[task] < 0) continue;
        s->gain[task] += tasks->value_bytes[value];
        if (s->pending[task] == 0) push(s, task); /* once more, in a better place; the old entry is skipped */
        return;
    }
}

static void release(sequence *s, int32_t task) {
    if (--s->pending[task] == 0) push(s, task);
}

static void run_task(sequence *s, int32_t task) {
    const stw_tasks *tasks = s->tasks;
    s->pending[task] = -1;
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++) {
        const int32_t value = tasks->output[o];
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) release(s, tasks->use[u].task);
    }
    for (int32_t w = tasks->waiter_start[task]; w < tasks->waiter_start[task + 1]; w++) release(s, tasks->waiter[w]);
    for (int32_t slot = tasks->input_start[task]; slot < tasks->input_start[task + 1]; slot++) {
        const int32_t value = tasks->slot_value[slot];
        if (s->left_by[value] == task + 1) continue;
        s->left_by[value] = task + 1;
        if (--s->readers[value] == 1 && is_freed(tasks, value)) credit_last(s, value);
    }
}

/* counted: (T) zeroed scratch. */
static void count_readers(sequence *s, int32_t *counted) {
    const stw_tasks *tasks = s->tasks;
    for (int32_t value = 0; value < tasks->V; value++) {
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
            const int32_t task = tasks->use[u].task;
            if (tasks->value_task[value] >= 0) s->pending[task]++;
            if (counted[task] == value + 1) continue;
            counted[task] = value + 1;
            s->readers[value]++;
        }
    }
    for (int32_t w = 0; w < tasks->waiter_start[tasks->T]; w++) s->pending[tasks->waiter[w]]++;
}

static void begin_sequence(sequence *s) {
    const stw_tasks *tasks = s->tasks;
    for (int32_t value = 0; value < tasks->V; value++) {
        if (tasks->value_task[value] < 0) continue;
        s->gain[tasks->value_task[value]] -= tasks->home_bytes[value];
        if (s->readers[value] == 1 && is_freed(tasks, value))
            s->gain[tasks->use[tasks->use_start[value]].task] += tasks->value_bytes[value];
    }
    for (int32_t t = 0; t < tasks->T; t++) {
        if (s->pending[t] == 0) push(s, t);
    }
}

static stw_status run_sequence(const stw_tasks *tasks, double *priority, stw_arena scratch, stw_error *error) {
    sequence s = {.tasks = tasks};
    int32_t *counted;
    STW_TRY_NEW(&scratch, s.heap, (int64_t)tasks->T + tasks->V + 1, error);
    STW_TRY_NEW(&scratch, s.gain, tasks->T, error);
    STW_TRY_NEW(&scratch, s.pending, tasks->T, error);
    STW_TRY_NEW(&scratch, s.readers, tasks->V, error);
    STW_TRY_NEW(&scratch, s.left_by, tasks->V, error);
    STW_TRY_NEW(&scratch, counted, tasks->T, error);
    count_readers(&s, counted);
    begin_sequence(&s);
    for (int32_t position = 0; s.count > 0;) {
        const option next = pop(&s);
        if (s.pending[next.task] < 0) continue;
        priority[next.task] = -(double)position++;
        run_task(&s, next.task);
    }
    return STW_OK;
}

/* ---- the rules ---- */

static stw_status task_priorities(stw_rule rule, const paths *p, double *priority, stw_arena scratch, stw_error *error) {
    const stw_graph *graph = p->costs->graph;
    switch (rule) {
        case STW_RULE_TOPOLOGICAL:
            for (int32_t k = 0; k < graph->op_count; k++) priority[p->tasks->task_of[graph->topological[k]]] = -(double)k;
            return STW_OK;
        case STW_RULE_UPWARD_RANK: walk_tails(p, priority); return STW_OK;
        case STW_RULE_CRITICAL_PATH: {
            double *head;
            STW_TRY_NEW(&scratch, head, p->tasks->T, error);
            walk_tails(p, priority);
            walk_heads(p, head);
            /* Among paths of equal length, what comes first. */
            for (int32_t t = 0; t < p->tasks->T; t++) priority[t] = (head[t] + priority[t]) * (1.0 + 1e-9) - 1e-6 * head[t];
            return STW_OK;
        }
        case STW_RULE_DEPTH_FIRST: return run_sequence(p->tasks, priority, scratch, error);
        case STW_RULE_FIFO:
        case STW_RULE_COUNT: break;
    }
    return STW_OK;
}

stw_status stw_rule_apply(stw_rule rule, const stw_costs *costs, const stw_tasks *tasks, stw_plan *plan, stw_arena scratch,
                          stw_error *error) {
    const paths p = {.costs = costs, .tasks = tasks, .device = plan->device};
    double *priority;
    STW_TRY_NEW(&scratch, priority, tasks->T, error);
    TRY(task_priorities(rule, &p, priority, scratch, error));
    for (int32_t t = 0; t < tasks->T; t++) plan->priority[tasks->task_node[t]] = priority[t];
    for (int32_t k = 0; k < tasks->source_count; k++) { /* a parameter is sent in the order of its first reader */
        const int32_t value = tasks->source[k], node = tasks->value_node[value];
        plan->priority[node] = 0.0;
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
            const double reader = priority[tasks->use[u].task];
            if (u == tasks->use_start[value] || reader > plan->priority[node]) plan->priority[node] = reader;
        }
    }
    return STW_OK;
}
