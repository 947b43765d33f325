/* Plans that say of modules where they are, as device maps and split points do, and what a target makes of them. */
#ifndef STW_PLAN_OF_MODULES_H
#define STW_PLAN_OF_MODULES_H

#include "graph/grain.h"
#include "plan/plan.h"

/* What a target runs that knows where parameters and buffers are. `home`: (N) of these a device, or -1: nothing is said. Parcels
 * go where most of their bytes are; those of which nothing is said to the first device that is. Ops run in the order of the
 * program, each alone. `grain`: STW_GRAIN_MODULE as device maps are run; STW_GRAIN_OP for splits, which cut the program at calls
 * of modules wherever these stand. *torn (may be NULL): parcels of which parts are elsewhere. */
stw_status stw_plan_of_homes(const stw_graph *graph, const stw_machine *machine, stw_grain grain, const int32_t *home,
                             stw_plan **out, int32_t *torn, stw_error *error);

/* A device map, {"encoder.0": 0, "head": "cpu"}, or split points as stw_plan_export writes them: not a plan file. */
bool stw_map_is(stw_str text);
/* Devices are numbers among those that are no CPU, "cpu", "cuda:1", or names of the machine, which must be given. A map whose
 * names lie within a module that everything is in, such as a wrapper, is taken for that module's. */
stw_status stw_map_read(stw_str text, const stw_graph *graph, const stw_machine *machine, stw_plan **out, stw_error *error);

#endif
