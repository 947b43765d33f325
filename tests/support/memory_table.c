#include "support/memory_table.h"

#include <stdlib.h>
#include <string.h>

static int32_t in(uint32_t set, int32_t task) { return (int32_t)(set >> task & 1u); }

int64_t memory_table_held(const stw_tasks *tasks, uint32_t set, int32_t task) {
    int64_t sum = 0;
    for (int32_t v = 0; v < tasks->V; v++) {
        const int32_t writer = tasks->value_task[v];
        if (tasks->value_flags[v] & STW_VALUE_RESIDENT) {
            sum += tasks->value_bytes[v];
            continue;
        }
        if (writer >= 0 && writer != task && !in(set, writer)) continue;
        bool needed = writer == task || (writer >= 0 && (tasks->value_flags[v] & STW_VALUE_KEPT));
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) needed |= !in(set, tasks->use[u].task);
        if (needed) sum += writer < 0 ? tasks->value_bytes[v] : tasks->home_bytes[v];
    }
    return sum;
}

void memory_table_needs(const stw_tasks *tasks, uint32_t *needs) {
    memset(needs, 0, MEMORY_TABLE_TASKS * sizeof *needs);
    for (int32_t v = 0; v < tasks->V; v++) {
        if (tasks->value_task[v] < 0) continue;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++)
            needs[tasks->use[u].task] |= 1u << tasks->value_task[v];
    }
    for (int32_t t = 0; t < tasks->T; t++) {
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) needs[tasks->waiter[w]] |= 1u << t;
    }
}

memory_table memory_table_fill(const stw_tasks *tasks, bool all) {
    memory_table out = {0};
    uint32_t needs[MEMORY_TABLE_TASKS];
    int64_t *least = malloc(sizeof *least << MEMORY_TABLE_TASKS); /* the least peak on the way to a set */
    memory_table_needs(tasks, needs);
    for (uint32_t set = 0; set < 1u << tasks->T; set++) least[set] = INT64_MAX;
    for (int32_t t = 0; t < tasks->T; t++) out.during[t] = INT64_MAX;
    least[0] = 0;
    for (uint32_t set = 0; set < 1u << tasks->T; set++) {
        for (int32_t t = 0; t < tasks->T && least[set] < INT64_MAX; t++) {
            if (in(set, t) || (needs[t] & ~set) != 0) continue;
            const int64_t held = memory_table_held(tasks, set, t);
            if (held < out.during[t]) out.during[t] = held;
            const int64_t counted = all || tasks->duration_ps[0][t] > 0 ? held : 0;
            const int64_t peak = counted > least[set] ? counted : least[set];
            if (peak < least[set | 1u << t]) least[set | 1u << t] = peak;
        }
    }
    out.peak = least[(1u << tasks->T) - 1];
    free(least);
    return out;
}
