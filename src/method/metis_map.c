/* Parts to devices: METIS numbers parts as it likes, but links may differ. */
#include "method/metis_graph.h"

typedef struct { /* D x D, from row to column: what parts send each other; a part without a device does not exist */
    int32_t D;
    double *count, *bytes;
} traffic;

/* One transfer for each value and each other part that reads it. `seen`: (D) the last value that was counted for a part. */
static stw_status measure(const stw_graph *graph, const stw_units *units, const int32_t *part, stw_arena *arena, traffic *t,
                          stw_error *error) {
    int32_t seen[STW_MAX_DEVICES];
    STW_TRY_NEW(arena, t->count, (int64_t)t->D * t->D, error);
    STW_TRY_NEW(arena, t->bytes, (int64_t)t->D * t->D, error);
    for (int32_t p = 0; p < t->D; p++) seen[p] = -1;
    for (int32_t i = 0; i < graph->N; i++) {
        if (units->of[i] < 0 || graph->kind[i] == STW_NODE_VIEW) continue;
        const int32_t from = part[units->of[i]];
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1]; r++) {
            const int32_t to = part[units->of[graph->reader[r].node]];
            if (to == from || seen[to] == i) continue;
            seen[to] = i;
            t->count[from * t->D + to] += 1.0;
            t->bytes[from * t->D + to] += (double)graph->bytes[i];
        }
    }
    return STW_OK;
}

static const double no_link_us = 1e15; /* worse than anything that exists */

static double cost_between(const stw_machine *machine, const traffic *t, const int32_t *device, int32_t p, int32_t q) {
    const int64_t k = (int64_t)p * t->D + q;
    if (t->count[k] == 0.0) return 0.0;
    const stw_link *link = stw_machine_link(machine, device[p], device[q]);
    if (link->bandwidth <= 0.0) return no_link_us;
    return t->count[k] * link->latency_us + t->bytes[k] / link->bandwidth * 1e6;
}

/* All that parts a and b exchange with anybody. */
static double cost_of_two(const stw_machine *machine, const traffic *t, const int32_t *device, int32_t a, int32_t b) {
    double us = 0.0;
    for (int32_t p = 0; p < t->D; p++) {
        if (p != a) us += cost_between(machine, t, device, p, a) + cost_between(machine, t, device, a, p);
        if (p != a && p != b) us += cost_between(machine, t, device, p, b) + cost_between(machine, t, device, b, p);
    }
    return us;
}

static bool links_are_alike(const stw_machine *machine) {
    const stw_link *first = NULL;
    for (int32_t a = 0; a < machine->device_count; a++) {
        for (int32_t b = 0; b < machine->device_count; b++) {
            const stw_link *link = stw_machine_link(machine, a, b);
            if (a == b) continue;
            if (first == NULL) first = link;
            if (link->bandwidth != first->bandwidth || link->latency_us != first->latency_us) return false;
        }
    }
    return true;
}

/* Exchanges pairs as long as that helps. */
static void improve(const stw_machine *machine, const traffic *t, int32_t *device) {
    enum { MOST_ROUNDS = 20 };
    bool better = true;
    for (int round = 0; round < MOST_ROUNDS && better; round++) {
        better = false;
        for (int32_t a = 0; a < t->D; a++) {
            for (int32_t b = a + 1; b < t->D; b++) {
                const int32_t x = device[a], y = device[b];
                if (machine->device[x].cost_class != machine->device[y].cost_class) continue;
                const double before = cost_of_two(machine, t, device, a, b);
                device[a] = y;
                device[b] = x;
                if (cost_of_two(machine, t, device, a, b) < before * (1.0 - 1e-9)) {
                    better = true;
                } else {
                    device[a] = x;
                    device[b] = y;
                }
            }
        }
    }
}

stw_status stw_metis_map(const stw_simulator *simulator, const stw_units *units, const int32_t *part, const stw_device_set *set,
                         int32_t *device, stw_arena scratch, stw_error *error) {
    const stw_machine *machine = simulator->machine;
    bool taken[STW_MAX_DEVICES] = {false};
    traffic t = {.D = machine->device_count};
    int32_t next = set->count;
    for (int32_t p = 0; p < set->count; p++) taken[device[p] = set->device[p]] = true;
    for (int32_t d = 0; d < machine->device_count; d++) { /* parts with nothing in them hold the free devices */
        if (!taken[d]) device[next++] = d;
    }
    if (links_are_alike(machine)) return STW_OK;
    TRY(measure(simulator->graph, units, part, &scratch, &t, error));
    improve(machine, &t, device);
    return STW_OK;
}
