/* Orders for little memory: the leanest that simple rules make, then better ones by minimum cuts.
 *
 * An order is kept in stages that run one after the other. What is held at their borders is fixed, so each stage can take the
 * order inside it from whichever rule is leanest there. The stage with the peak is split at the task of the peak, by the cut
 * that holds least during this task: into what runs before, the task, and what runs after. Where a task of the peak holds no
 * more than its least cut without any stages, no order is leaner. */
#include <string.h>

#include "plan/plan.h"
#include "search/lean_order.h"

enum {
    MAX_SPLITS = 400,
    PATIENCE = 12,            /* splits in a row that gain nothing */
    WORK = 300 * 1000 * 1000, /* steps in all, about 10 ns each */
    STEPS_OF_RULE = 40        /* per task and relation, to make an order */
};

typedef struct {
    const stw_sequences *s;
    const stw_search *search;
    int32_t cost_classes;
    stw_arena arena;
    int64_t work;
    int32_t *order, *stage; /* (T) stage by task */
    int64_t *held;          /* (T) by position */
    int64_t peak;           /* of held */
    int32_t *made;          /* (T) scratch: an order by one rule */
    int64_t *made_held;
    uint8_t *before;      /* (T) */
    stw_lean_order *best; /* its peak leaves parameters and buffers out until the end */
} leaning;

/* Bytes held by position; 0 for what takes no time, since nothing is held by it. */
static stw_status find_held(const leaning *l, const int32_t *order, int64_t *held, stw_error *error) {
    const stw_tasks *tasks = l->s->tasks;
    TRY(stw_sequence_held(l->s, l->s->bytes, order, held, l->arena, error));
    for (int32_t k = 0; k < l->s->T; k++) {
        bool lasts = false;
        for (int32_t c = 0; c < l->cost_classes; c++) lasts |= tasks->duration_ps[c][order[k]] > 0;
        if (!lasts) held[k] = 0;
    }
    return STW_OK;
}

static int64_t largest(const int64_t *held, int32_t from, int32_t to) {
    int64_t most = 0;
    for (int32_t k = from; k < to; k++) most = held[k] > most ? held[k] : most;
    return most;
}

static void pay_for_order(leaning *l) {
    l->work -= STEPS_OF_RULE * ((int64_t)l->s->T + l->s->reader_start[l->s->V] + l->s->after_start[l->s->T]);
}

static bool is_over(const leaning *l) { return l->work <= 0 || (l->search != NULL && stw_search_is_stopped(l->search)); }

static void keep_best(leaning *l) {
    if (l->peak >= l->best->peak) return;
    memcpy(l->best->task, l->order, (size_t)l->s->T * sizeof *l->order);
    l->best->peak = l->peak;
}

/* ---- stages ---- */

/* Puts the tasks in the order of their stages, otherwise as they are. Stages are renumbered without gaps. `stages`: how many
 * numbers are in use. */
static stw_status sort_by_stage(leaning *l, int32_t stages, stw_arena scratch, stw_error *error) {
    const int32_t T = l->s->T;
    int32_t *next, *number, count = 0;
    STW_TRY_NEW(&scratch, next, (int64_t)stages + 1, error);
    STW_TRY_NEW(&scratch, number, stages, error);
    for (int32_t t = 0; t < T; t++) next[l->stage[t] + 1]++;
    for (int32_t k = 0; k < stages; k++) {
        number[k] = next[k + 1] > 0 ? count++ : 0;
        next[k + 1] += next[k];
    }
    memcpy(l->made, l->order, (size_t)T * sizeof *l->order);
    for (int32_t k = 0; k < T; k++) l->order[next[l->stage[l->made[k]]]++] = l->made[k];
    for (int32_t t = 0; t < T; t++) l->stage[t] = number[l->stage[t]];
    return STW_OK;
}

/* Splits the stage of a task: what is to run before it, the task, the rest. */
static stw_status split_stage(leaning *l, int32_t task, stw_error *error) {
    const int32_t split = l->stage[task];
    int32_t last = 0;
    for (int32_t t = 0; t < l->s->T; t++) {
        if (l->stage[t] > split) {
            l->stage[t] += 2;
        } else if (l->stage[t] == split) {
            l->stage[t] += t == task ? 1 : l->before[t] ? 0 : 2;
        }
        last = l->stage[t] > last ? l->stage[t] : last;
    }
    TRY(sort_by_stage(l, last + 1, l->arena, error));
    return find_held(l, l->order, l->held, error);
}

/* Takes the order inside each stage from the rule that is leanest there. */
static stw_status improve_stages(leaning *l, stw_error *error) {
    const int32_t T = l->s->T;
    for (int rule = 0; rule < STW_SEQUENCE_RULE_COUNT && !is_over(l); rule++) {
        TRY(stw_sequence_make(l->s, (stw_sequence_rule)rule, l->stage, l->made, l->arena, error));
        TRY(find_held(l, l->made, l->made_held, error));
        pay_for_order(l);
        for (int32_t from = 0, to; from < T; from = to) {
            const int32_t stage = l->stage[l->order[from]];
            for (to = from + 1; to < T && l->stage[l->order[to]] == stage; to++) {
            }
            if (largest(l->made_held, from, to) >= largest(l->held, from, to)) continue;
            memcpy(&l->order[from], &l->made[from], (size_t)(to - from) * sizeof *l->order);
            memcpy(&l->held[from], &l->made_held[from], (size_t)(to - from) * sizeof *l->held);
        }
    }
    l->peak = largest(l->held, 0, T);
    keep_best(l);
    return STW_OK;
}

/* ---- splitting at the peak ---- */

static stw_status cut_at(leaning *l, int32_t task, const int32_t *stage, bool late, stw_cut *cut, stw_error *error) {
    *cut = (stw_cut){.bytes = l->s->bytes, .stage = stage, .late = late, .work = &l->work, .before = l->before};
    return stw_cut_find(l->s, task, cut, l->arena, error);
}

/* One split; `done` if there is none to make. */
static stw_status split(leaning *l, bool late, bool *done, stw_error *error) {
    int32_t at = 0;
    stw_cut cut;
    *done = true;
    if (l->peak == 0) return STW_OK;
    while (l->held[at] < l->peak) at++;
    const int32_t task = l->order[at];
    TRY(cut_at(l, task, l->stage, late, &cut, error));
    if (!cut.complete) return STW_OK;
    if (cut.held >= l->peak) { /* as lean as can be, within these stages; and without them? */
        TRY(cut_at(l, task, NULL, late, &cut, error));
        if (cut.complete && cut.held >= l->best->peak) l->best->is_least = true;
        return STW_OK;
    }
    *done = false;
    TRY(split_stage(l, task, error));
    return improve_stages(l, error);
}

/* From one order, by splits, until they gain nothing more. */
static stw_status descend(leaning *l, const int32_t *order, bool late, stw_error *error) {
    memcpy(l->order, order, (size_t)l->s->T * sizeof *order);
    memset(l->stage, 0, (size_t)l->s->T * sizeof *l->stage);
    TRY(find_held(l, l->order, l->held, error));
    l->peak = largest(l->held, 0, l->s->T);
    keep_best(l);
    bool done = false;
    for (int32_t splits = 0, vain = 0; splits < MAX_SPLITS && vain < PATIENCE && !done && !l->best->is_least; splits++) {
        const int64_t known = l->best->peak;
        if (is_over(l)) break;
        TRY(split(l, late, &done, error));
        vain = l->best->peak < known ? 0 : vain + 1;
        if (vain == 0) l->best->splits = splits + 1;
    }
    return STW_OK;
}

/* ---- the whole ---- */

static stw_status prepare(leaning *l, stw_error *error) {
    const int32_t T = l->s->T;
    STW_TRY_NEW(&l->arena, l->order, T, error);
    STW_TRY_NEW(&l->arena, l->stage, T, error);
    STW_TRY_NEW(&l->arena, l->held, T, error);
    STW_TRY_NEW(&l->arena, l->made, T, error);
    STW_TRY_NEW(&l->arena, l->made_held, T, error);
    STW_TRY_NEW(&l->arena, l->before, T, error);
    return STW_OK;
}

/* The given order (rule -1), or that of a rule. */
static stw_status begin_with(leaning *l, const int32_t *first, int rule, stw_error *error) {
    if (rule < 0) {
        memcpy(l->order, first, (size_t)l->s->T * sizeof *first);
    } else {
        TRY(stw_sequence_make(l->s, (stw_sequence_rule)rule, NULL, l->order, l->arena, error));
    }
    TRY(find_held(l, l->order, l->held, error));
    pay_for_order(l);
    l->peak = largest(l->held, 0, l->s->T);
    keep_best(l);
    return STW_OK;
}

stw_status stw_lean_find(const stw_sequences *s, int32_t cost_classes, const int32_t *first, const stw_search *search,
                         stw_arena *arena, stw_lean_order *out, stw_error *error) {
    *out = (stw_lean_order){.peak = INT64_MAX};
    STW_TRY_NEW(arena, out->task, s->T, error);
    leaning l = {.s = s, .search = search, .cost_classes = cost_classes, .arena = *arena, .work = WORK, .best = out};
    int32_t *start;
    TRY(prepare(&l, error));
    STW_TRY_NEW(&l.arena, start, s->T, error);
    for (int rule = first == NULL ? 0 : -1; rule < STW_SEQUENCE_RULE_COUNT; rule++) TRY(begin_with(&l, first, rule, error));
    memcpy(start, out->task, (size_t)s->T * sizeof *start);
    for (int late = 0; late < 2 && !out->is_least; late++) TRY(descend(&l, start, late == 1, error));
    for (int rule = 0; rule < STW_SEQUENCE_RULE_COUNT && !out->is_least && !is_over(&l); rule++) {
        TRY(begin_with(&l, NULL, rule, error));
        memcpy(start, l.order, (size_t)s->T * sizeof *start);
        TRY(descend(&l, start, rule % 2 == 0, error));
    }
    out->peak += s->resident_bytes;
    return STW_OK;
}

void stw_lean_apply(const stw_tasks *tasks, const stw_lean_order *order, stw_plan *plan) {
    for (int32_t k = 0; k < tasks->T; k++) plan->priority[tasks->task_node[order->task[k]]] = -(double)k;
    for (int32_t i = 0; i < plan->graph->N; i++) { /* a group has the largest priority of its members */
        if (tasks->task_of[i] >= 0) plan->priority[i] = plan->priority[tasks->task_node[tasks->task_of[i]]];
    }
    for (int32_t k = 0; k < tasks->source_count; k++) { /* a parameter is sent in the order of its first reader */
        const int32_t value = tasks->source[k], node = tasks->value_node[value];
        plan->priority[node] = -(double)tasks->T;
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
            const double reader = plan->priority[tasks->task_node[tasks->use[u].task]];
            if (reader > plan->priority[node]) plan->priority[node] = reader;
        }
    }
}

stw_status stw_lean_reorder(const stw_search *search, const stw_lean_order *unfused, stw_plan *plan, stw_arena scratch,
                            stw_lean_order *out, stw_error *error) {
    const stw_simulator *s = search->simulator;
    stw_tasks room;
    const stw_tasks *tasks;
    stw_str illegal;
    stw_sequences sequences;
    *out = (stw_lean_order){0};
    TRY(stw_simulator_tasks(s, plan, &scratch, &room, &tasks, &illegal, error));
    if (illegal.length > 0) return STW_OK; /* no order helps */
    if (unfused != NULL && tasks == &s->unfused) {
        *out = *unfused;
    } else {
        TRY(stw_sequences_build(tasks, &scratch, &sequences, error));
        TRY(stw_lean_find(&sequences, s->machine->cost_class_count, NULL, search, &scratch, out, error));
    }
    stw_plan_remove_orders(plan);
    stw_lean_apply(tasks, out, plan);
    out->task = NULL; /* it may have been scratch */
    return STW_OK;
}
