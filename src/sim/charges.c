#include "sim/charges.h"

#include <string.h>

typedef struct {
    const stw_machine *machine;
    const stw_tasks *tasks;
    const stw_run_options *options;
    int64_t *charge; /* (T) */
} charges;

/* A transfer charges the task that sends it, if any, and of the tasks that read it there the one with the smallest id. */
static void charge_transfer(const charges *c, int32_t value, int32_t from, int32_t to, int32_t receiver) {
    const stw_link *link = stw_machine_link(c->machine, from, to);
    const int32_t node = c->tasks->value_node[value], sender = c->tasks->value_task[value];
    const int64_t send = stw_scale_ps(c->options, stw_cost_us_to_ps(link->send_us), node, link->channel);
    const int64_t receive = stw_scale_ps(c->options, stw_cost_us_to_ps(link->receive_us), node, link->channel);
    if (sender >= 0) c->charge[sender] = stw_add_ps(c->charge[sender], send);
    c->charge[receiver] = stw_add_ps(c->charge[receiver], receive);
}

void stw_charge_tasks(const stw_machine *machine, const stw_tasks *tasks, const int32_t *task_device, const int32_t *device,
                      const stw_run_options *options, int64_t *charge) {
    const charges c = {.machine = machine, .tasks = tasks, .options = options, .charge = charge};
    memset(charge, 0, (size_t)tasks->T * sizeof *charge);
    for (int32_t value = 0; value < tasks->V; value++) {
        if (tasks->value_flags[value] & STW_VALUE_EVERYWHERE) continue;
        const int32_t producer = tasks->value_task[value];
        const int32_t home = producer >= 0 ? task_device[producer] : device[tasks->value_node[value]];
        int32_t receiver[STW_MAX_DEVICES]; /* of the destinations */
        uint64_t destinations = 0;
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
            const int32_t task = tasks->use[u].task, d = task_device[task];
            if (d == home) continue;
            if (!(destinations >> d & 1) || task < receiver[d]) receiver[d] = task; /* tasks stand by ascending id */
            destinations |= 1ULL << d;
        }
        for (uint64_t left = destinations; left != 0; left &= left - 1) {
            const int32_t to = __builtin_ctzll(left);
            charge_transfer(&c, value, home, to, receiver[to]);
        }
    }
}
