#include "method/device_set.h"

#include <string.h>

/* Share of the graph's work that each device does per microsecond; all equal when nothing takes time. */
static void find_speeds(const stw_costs *costs, double *speed) {
    const stw_graph *graph = costs->graph;
    for (int32_t d = 0; d < costs->machine->device_count; d++) {
        const double *us = costs->us[costs->machine->device[d].cost_class];
        double total = 0.0;
        for (int32_t k = 0; k < graph->op_count; k++) total += us[graph->topological[k]];
        speed[d] = total > 0.0 ? 1.0 / total : 1.0;
    }
}

static void add_device(stw_device_set *set, int32_t device, double speed) {
    set->device[set->count] = device;
    set->speed[set->count++] = speed;
}

static void find_links(const stw_costs *costs, stw_device_set *set) {
    set->link = (stw_link_mean){0};
    for (int32_t a = 0; a < set->count; a++) {
        for (int32_t b = 0; b < set->count; b++) {
            const stw_link *link = stw_machine_link(costs->machine, set->device[a], set->device[b]);
            if (a == b || link->bandwidth <= 0.0) continue;
            stw_link_mean_add(&set->link, link);
        }
    }
    if (set->link.count > 0) stw_link_mean_divide(&set->link, set->link.count);
}

static bool can_talk(const stw_machine *machine, int32_t a, int32_t b) {
    return stw_machine_link(machine, a, b)->bandwidth > 0.0 && stw_machine_link(machine, b, a)->bandwidth > 0.0;
}

/* Devices that all have links to each other, taken from fast to slow, equally fast ones by number. */
static void find_clique(const stw_costs *costs, const double *speed, bool *chosen) {
    const int32_t D = costs->machine->device_count;
    bool seen[STW_MAX_DEVICES] = {false};
    for (int32_t round = 0; round < D; round++) {
        int32_t next = -1;
        for (int32_t d = 0; d < D; d++) {
            if (!seen[d] && (next < 0 || speed[d] > speed[next])) next = d;
        }
        seen[next] = true;
        chosen[next] = true;
        for (int32_t d = 0; d < D; d++) {
            if (d != next && chosen[d] && !can_talk(costs->machine, d, next)) chosen[next] = false;
        }
    }
}

static bool is_new(const stw_device_set *sets, int32_t count) {
    for (int32_t k = 0; k < count; k++) {
        if (sets[k].count == sets[count].count &&
            memcmp(sets[k].device, sets[count].device, (size_t)sets[k].count * sizeof sets[k].device[0]) == 0)
            return false;
    }
    return true;
}

int32_t stw_device_sets(const stw_costs *costs, stw_device_set out[STW_MAX_DEVICE_SETS]) {
    const int32_t D = costs->machine->device_count;
    double speed[STW_MAX_DEVICES], fastest = 0.0;
    bool in_clique[STW_MAX_DEVICES] = {false};
    int32_t count = 0;
    find_speeds(costs, speed);
    find_clique(costs, speed, in_clique);
    for (int32_t d = 0; d < D; d++) fastest = speed[d] > fastest ? speed[d] : fastest;
    for (int32_t kind = 0; kind < STW_MAX_DEVICE_SETS; kind++) {
        out[count] = (stw_device_set){0};
        for (int32_t d = 0; d < D; d++) {
            if (kind == 1 || (kind == 0 ? speed[d] >= 0.25 * fastest : in_clique[d])) add_device(&out[count], d, speed[d]);
        }
        find_links(costs, &out[count]);
        if (is_new(out, count)) count++;
    }
    return count;
}

stw_device_set stw_device_set_first(const stw_costs *costs, const stw_device_set *set, int32_t count) {
    stw_device_set first = *set;
    first.count = count;
    find_links(costs, &first);
    return first;
}
