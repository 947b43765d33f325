/* A group: what its members would take apart, and what merges with what it reads and what reads it would have given. */
#include <stdlib.h>

#include "explain/explain.h"

enum { MOST_NEIGHBOURS = 256 }; /* each is a simulation with other groups */

typedef struct {
    stw_explainer *e;
    stw_plan *base;   /* the plan, each group numbered by its id */
    int32_t task, id; /* of the group */
    int32_t neighbour_count;
    int32_t *neighbour; /* tasks */
    bool *reads;        /* (T) of neighbours: it reads the group */
} fusion;

/* ---- which group ---- */

static stw_status fail_recomputed(const stw_graph *graph, const stw_membership *m, int32_t op, stw_error *error) {
    const int32_t first = m->computer_start[op];
    return stw_fail(error, STW_ERROR_INPUT,
                    "--group: op %d '%.*s' is in no group of its own: %d groups recompute it, such as %d; name one of these", op,
                    STW_STR_SHOW(graph->node_name[op]), m->computer_start[op + 1] - first, m->task_node[m->computer[first]]);
}

static stw_status find_group(stw_explainer *e, const char *name, int32_t *task, stw_error *error) {
    const stw_simulator *s = e->simulator;
    stw_group_worth *worth = &e->out->group;
    stw_arena scratch = *e->scratch;
    stw_membership m;
    stw_str reason;
    int32_t op, *member;
    TRY(stw_find_named(s->graph, "group", name, false, &op, error));
    TRY(stw_membership_build(s->graph, s->machine, e->plan->group, e->plan->device, &scratch, &m, &reason, error));
    *task = m.task_of[op];
    if (*task < 0) return fail_recomputed(s->graph, &m, op, error);
    worth->member_count = m.member_start[*task + 1] - m.member_start[*task];
    STW_TRY_NEW(&e->out->arena, member, worth->member_count, error);
    for (int32_t k = 0; k < worth->member_count; k++) member[k] = m.member[m.member_start[*task] + k];
    worth->member = member;
    worth->group = m.task_node[*task];
    worth->device = e->plan->device[worth->group];
    return STW_OK;
}

/* ---- apart ---- */

static int64_t duration_of(const stw_explainer *e, const stw_tasks *tasks, int32_t node) {
    const int32_t c = e->simulator->machine->device[e->out->group.device].cost_class;
    return tasks->duration_ps[c][tasks->task_of[node]];
}

/* Each member a task of its own; what the group recomputes is then written once, for whoever else recomputes it too. */
static stw_status try_apart(fusion *f, stw_error *error) {
    stw_group_worth *worth = &f->e->out->group;
    stw_plan *changed;
    worth->kernel_ps = duration_of(f->e, f->e->tasks, worth->group);
    TRY(stw_plan_copy(f->base, &changed, error));
    for (int32_t k = 0; k < worth->member_count; k++) {
        worth->apart_ps += duration_of(f->e, &f->e->simulator->unfused, worth->member[k]);
        changed->group[worth->member[k]] = worth->member[k];
    }
    const stw_status status = stw_try_plan(f->e, changed, &worth->apart, error);
    stw_plan_destroy(changed);
    return status;
}

/* ---- merged with a neighbour ---- */

static void note_neighbour(fusion *f, int32_t task, bool reads, bool *seen) {
    if (task < 0 || task == f->task || seen[task]) return;
    seen[task] = true;
    f->reads[task] = reads;
    f->neighbour[f->neighbour_count++] = task;
}

static stw_status list_neighbours(fusion *f, stw_error *error) {
    const stw_tasks *tasks = f->e->tasks;
    bool *seen;
    STW_TRY_NEW(f->e->scratch, seen, tasks->T, error);
    STW_TRY_NEW(f->e->scratch, f->reads, tasks->T, error);
    STW_TRY_NEW(f->e->scratch, f->neighbour, tasks->T, error);
    for (int32_t o = tasks->output_start[f->task]; o < tasks->output_start[f->task + 1]; o++) {
        const int32_t value = tasks->output[o];
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++)
            note_neighbour(f, tasks->use[u].task, true, seen);
    }
    for (int32_t s = tasks->input_start[f->task]; s < tasks->input_start[f->task + 1]; s++)
        note_neighbour(f, tasks->value_task[tasks->slot_value[s]], false, seen);
    return STW_OK;
}

static stw_status try_merge(fusion *f, int32_t task, stw_merge_trial *merge, stw_error *error) {
    const stw_graph *graph = f->e->simulator->graph;
    const int32_t id = f->e->tasks->task_node[task];
    stw_plan *changed;
    *merge = (stw_merge_trial){.node = id, .reads = f->reads[task]};
    TRY(stw_plan_copy(f->base, &changed, error));
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_OP && changed->group[i] == id) changed->group[i] = f->id;
    }
    stw_status status = stw_plan_canonical_groups(changed, error);
    if (status == STW_OK) status = stw_try_plan(f->e, changed, &merge->trial, error);
    if (status == STW_OK && stw_has_step(&merge->trial)) merge->kernel_ps = duration_of(f->e, f->e->trial->timeline.tasks, f->id);
    stw_plan_destroy(changed);
    return status;
}

static int compare_merges(const void *left, const void *right) {
    const stw_merge_trial *a = left, *b = right;
    const bool x = stw_has_step(&a->trial), y = stw_has_step(&b->trial);
    if (x != y) return x ? -1 : 1;
    if (a->trial.step_ps != b->trial.step_ps) return a->trial.step_ps < b->trial.step_ps ? -1 : 1;
    return a->node - b->node;
}

static stw_status try_merges(fusion *f, stw_error *error) {
    stw_explanation *out = f->e->out;
    TRY(list_neighbours(f, error));
    const int32_t count = f->neighbour_count < MOST_NEIGHBOURS ? f->neighbour_count : MOST_NEIGHBOURS;
    out->group.left_out = f->neighbour_count - count;
    STW_TRY_NEW(&out->arena, out->merge, count, error);
    for (int32_t k = 0; k < count; k++) TRY(try_merge(f, f->neighbour[k], &out->merge[out->merge_count++], error));
    if (count > 0) qsort(out->merge, (size_t)count, sizeof *out->merge, compare_merges);
    return STW_OK;
}

stw_status stw_explain_group(stw_explainer *e, const char *name, stw_error *error) {
    fusion f = {.e = e};
    TRY(find_group(e, name, &f.task, error));
    f.id = e->out->group.group;
    TRY(stw_plan_copy(e->plan, &f.base, error));
    stw_status status = stw_plan_canonical_groups(f.base, error);
    if (status == STW_OK) status = try_apart(&f, error);
    if (status == STW_OK) status = try_merges(&f, error);
    stw_plan_destroy(f.base);
    e->out->has_group = status == STW_OK;
    return status;
}
