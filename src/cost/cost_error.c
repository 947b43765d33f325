/* How far times may be off. docs/cost-model.md says where each figure comes from. */
#include "cost/cost.h"

static const double MEASURED = 0.05; /* steps of one device whose ops were all measured are predicted within this */
static const double CARRIED = 0.5;   /* between the two kinds that both were measured, either way */
const double stw_cost_error_of_groups = 0.19;
const double stw_cost_error_of_links = 0.1;

double stw_cost_error(const stw_costs *costs, int32_t cost_class, int32_t node) {
    const stw_machine *machine = costs->machine;
    if (costs->measured[cost_class][node]) return MEASURED;
    if (costs->carried[cost_class][node]) return CARRIED;
    return stw_kind_error(machine->device[machine->class_device[cost_class]].kind, (stw_op_class)costs->graph->op_class[node]);
}
