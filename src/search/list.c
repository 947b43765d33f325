#include "search/list.h"

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
