/* Devices as other programs count them. */
#include "export/device_numbers.h"

#include <string.h>

/* "nic0-1": from host 0 to host 1. */
static bool read_bus(stw_str name, int32_t *from, int32_t *to) {
    if (!stw_str_starts(name, "nic")) return false;
    const char *dash = memchr(name.p, '-', (size_t)name.length);
    if (dash == NULL) return false;
    int64_t a = 0, b = 0;
    const stw_str first = {name.p + 3, dash - name.p - 3}, second = {dash + 1, name.p + name.length - dash - 1};
    if (!stw_str_to_int64(first, &a) || !stw_str_to_int64(second, &b)) return false;
    if (a < 0 || b < 0 || a >= STW_MAX_DEVICES || b >= STW_MAX_DEVICES) return false;
    *from = (int32_t)a;
    *to = (int32_t)b;
    return true;
}

/* Returns how many hosts there are; 1, and 0 everywhere, where buses say nothing or contradict each other. */
static int32_t find_hosts(const stw_machine *machine, int32_t host[STW_MAX_DEVICES]) {
    const int32_t D = machine->device_count;
    int32_t most = 0;
    bool sound = true;
    for (int32_t d = 0; d < D; d++) host[d] = -1;
    for (int32_t k = 0; k < D * D; k++) {
        const stw_link *link = &machine->link[k];
        int32_t end[2];
        if (link->bandwidth == 0.0 || link->bus < 0 || !read_bus(machine->bus_name[link->bus], &end[0], &end[1])) continue;
        const int32_t device[2] = {k / D, k % D};
        for (int i = 0; i < 2; i++) {
            sound &= host[device[i]] < 0 || host[device[i]] == end[i];
            host[device[i]] = end[i];
            if (end[i] > most) most = end[i];
        }
    }
    for (int32_t d = 0; d < D; d++) {
        if (!sound || host[d] < 0) host[d] = 0;
    }
    return sound ? most + 1 : 1;
}

int32_t stw_device_numbers_of(const stw_machine *machine, stw_device_number place[STW_MAX_DEVICES]) {
    int32_t host[STW_MAX_DEVICES], index = 0;
    const int32_t hosts = find_hosts(machine, host);
    for (int32_t d = 0; d < machine->device_count; d++) {
        const stw_str kind = machine->device[d].kind;
        const bool cpu = stw_str_starts(kind, "cpu");
        place[d] = (stw_device_number){.type = cpu ? "CPU" : stw_str_starts(kind, "tpu") ? "TPU" : "GPU", .host = host[d]};
        place[d].index = cpu ? -1 : index++;
        for (int32_t other = 0; other < d; other++) {
            place[d].local += place[other].host == host[d] && strcmp(place[other].type, place[d].type) == 0;
        }
    }
    return hosts;
}

stw_status stw_homes_of(const stw_export *e, int32_t **out, stw_error *error) {
    const stw_graph *graph = e->graph;
    int32_t *home;
    STW_TRY_NEW(e->arena, home, graph->N, error);
    for (int32_t i = graph->N - 1; i >= 0; i--) { /* readers come later, so theirs are known */
        const bool everywhere = stw_node_is_everywhere(graph->kind[i]);
        home[i] = everywhere ? -1 : e->plan->device[graph->root[i]];
        if (!everywhere) continue;
        int32_t first = graph->N;
        for (int64_t k = graph->reader_start[i]; k < graph->reader_start[i + 1]; k++) {
            const int32_t reader = graph->reader[k].node;
            if (reader >= first || home[reader] < 0) continue;
            first = reader;
            home[i] = home[reader];
        }
    }
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_VIEW) home[i] = home[graph->root[i]]; /* which may be everywhere */
    }
    *out = home;
    return STW_OK;
}
