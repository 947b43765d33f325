#include "method/list.h"

static stw_status number_atoms(const stw_simulator *s, stw_arena *arena, stw_list *out, stw_error *error) {
    const stw_graph *graph = s->graph;
    int32_t *number;
    STW_TRY_NEW(arena, out->atom, graph->N, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, number, graph->N, error); /* of the node that leads an atom, from 1 */
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t leader = s->together[i];
        out->atom[i] = -1;
        if (stw_node_is_everywhere(graph->kind[graph->root[i]])) continue;
        if (number[leader] == 0) number[leader] = ++out->atom_count;
        out->atom[i] = number[leader] - 1;
    }
    return STW_OK;
}

/* The sum of everything is more than any plan holds at once. */
static bool could_overflow(const stw_simulator *s) {
    int64_t total = 0;
    for (int32_t v = 0; v < s->unfused.V; v++) total += s->unfused.value_bytes[v];
    for (int32_t d = 0; d < s->machine->device_count; d++) {
        if (s->machine->device[d].memory_bytes < total) return true;
    }
    return false;
}

static bool talk(const stw_machine *machine, int32_t a, int32_t b) {
    return stw_machine_link(machine, a, b)->bandwidth > 0.0 && stw_machine_link(machine, b, a)->bandwidth > 0.0;
}

/* Devices that can all talk to each other, grown from `first` by number. speed: sum of 1 / time. */
static uint64_t grow_clique(const stw_machine *machine, int32_t first, const double *time, double *speed) {
    uint64_t clique = 1ull << first;
    *speed = 1.0 / time[first];
    for (int32_t d = 0; d < machine->device_count; d++) {
        bool all = d != first;
        for (int32_t e = 0; e < machine->device_count && all; e++) all = !(clique >> e & 1u) || talk(machine, d, e);
        if (!all) continue;
        clique |= 1ull << d;
        *speed += 1.0 / time[d];
    }
    return clique;
}

uint64_t stw_list_linked(const stw_simulator *s) {
    const stw_machine *machine = s->machine;
    double time[STW_MAX_DEVICES], best_speed = 0.0, speed;
    uint64_t best = 0;
    if (machine->complete) return 0;
    for (int32_t d = 0; d < machine->device_count; d++) {
        time[d] = 1e-9;
        for (int32_t k = 0; k < s->graph->op_count; k++)
            time[d] += s->costs->us[machine->device[d].cost_class][s->graph->topological[k]];
    }
    for (int32_t d = 0; d < machine->device_count; d++) {
        const uint64_t clique = grow_clique(machine, d, time, &speed);
        if (speed <= best_speed) continue;
        best_speed = speed;
        best = clique;
    }
    return best;
}

stw_status stw_list_prepare(const stw_search *search, stw_arena *arena, stw_list *out, stw_error *error) {
    const stw_simulator *s = search->simulator;
    *out = (stw_list){.memory = could_overflow(s), .linked = stw_list_linked(s)};
    TRY(number_atoms(s, arena, out, error));
    STW_TRY_NEW(arena, out->rank, s->unfused.T, error);
    stw_rule_upward_ranks(s->costs, &s->unfused, NULL, out->rank);
    TRY(stw_board_prepare(s->costs, &s->unfused, out->atom, out->atom_count, out->rank, arena, &out->base, error));
    for (int32_t t = 0; t < s->unfused.T; t++) {
        out->mean_us += s->costs->least_us[s->unfused.task_node[t]];
    }
    if (s->unfused.T > 0) out->mean_us /= s->unfused.T;
    return STW_OK;
}

stw_status stw_list_keep_placement(stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_simulator *s = search->simulator;
    if (search->start_count == 0) return stw_method_single.run(search, plan, error);
    TRY(stw_plan_copy(plan, search->start[0], error));
    if (search->rule < 0) return STW_OK;
    return stw_rule_apply((stw_rule)search->rule, s->costs, &s->unfused, plan, search->arena, error);
}

/* ---- start plans ---- */

enum { LEAST_EVALUATIONS = 16 }; /* with fewer, nothing is spent on others' plans */

static stw_status copy_starts(const stw_search *search, stw_plan **plan, int32_t room, int32_t *count, stw_error *error) {
    for (int32_t k = 0; k < search->start_count && k < room; k++) {
        TRY(stw_plan_create(search->simulator->graph, search->simulator->machine, &plan[k], error));
        *count = k + 1;
        TRY(stw_plan_copy(plan[k], search->start[k], error));
        plan[k]->method = search->start[k]->method;
    }
    return STW_OK;
}

/* Runs a method with a quarter of what is left and the starts so far; `plan` is fresh. */
static stw_status run_within(stw_search *search, const stw_method *method, stw_plan *const *start, int32_t start_count,
                             stw_plan *plan, stw_score *score, stw_error *error) {
    const stw_plan *starts[STW_LIST_STARTS];
    for (int32_t k = 0; k < start_count; k++) starts[k] = start[k];
    stw_search part = {.simulator = search->simulator,
                       .objective = search->objective,
                       .tasks = search->tasks,
                       .rule = search->rule,
                       .seed = search->seed,
                       .unit_count = search->unit_count,
                       .pool = search->pool,
                       .workspace = search->workspace,
                       .scratch = search->scratch,
                       .arena = search->arena,
                       .start = starts,
                       .start_count = start_count,
                       .cancelled = search->cancelled};
    if (search->budget.evaluations > 0) part.budget.evaluations = 1 + stw_search_evaluations_left(search) / 4;
    if (search->budget.until_s > 0.0) {
        const double now_s = stw_now_s();
        part.budget.until_s = now_s + 0.25 * (search->budget.until_s - now_s);
    }
    const stw_status status = method->run(&part, plan, error);
    atomic_fetch_add(&search->evaluations, atomic_load(&part.evaluations));
    plan->method = stw_str_of(method->name);
    return status == STW_OK ? stw_search_evaluate(search, plan, 0, score, error) : status;
}

stw_status stw_list_starts(stw_search *search, const char *const *method, int32_t method_count, stw_plan **plan, int32_t room,
                           int32_t *count, stw_error *error) {
    stw_score score[STW_LIST_STARTS];
    *count = 0;
    if (search->start_count > 0) return copy_starts(search, plan, room, count, error);
    if (stw_search_evaluations_left(search) < LEAST_EVALUATIONS) return STW_OK;
    for (int32_t k = 0; k < method_count && *count < room && *count < STW_LIST_STARTS; k++) {
        const stw_method *found = stw_method_find(method[k]);
        if (found == NULL || (*count > 0 && stw_search_is_over(search))) continue;
        stw_plan *made = NULL;
        stw_score worth = {0};
        TRY(stw_plan_create(search->simulator->graph, search->simulator->machine, &made, error));
        const stw_status status = run_within(search, found, plan, *count, made, &worth, error);
        if (status != STW_OK || worth.reason != STW_VALID) {
            stw_plan_destroy(made);
            if (status == STW_OK || status == STW_ERROR_NO_PLAN) continue;
            return status;
        }
        int32_t place = (*count)++;
        for (; place > 0 && stw_score_is_better(&worth, &score[place - 1]); place--) {
            plan[place] = plan[place - 1];
            score[place] = score[place - 1];
        }
        plan[place] = made;
        score[place] = worth;
    }
    return STW_OK;
}

void stw_list_drop_starts(stw_plan **plan, int32_t count) {
    for (int32_t k = 0; k < count; k++) stw_plan_destroy(plan[k]);
}
