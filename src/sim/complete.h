/* What a method need not decide: where the nodes go that must be with others. */
#ifndef STW_SIM_COMPLETE_H
#define STW_SIM_COMPLETE_H

#include "sim/sim.h"

/* Completes the devices: what must be together goes where the smallest op of it is, and views follow their root. */
void stw_plan_join(const stw_simulator *simulator, stw_plan *plan);
/* The same, and parameters and buffers that are free go to their smallest reader; what nobody reads, and what is on every
 * device anyway, to device 0. */
void stw_plan_complete(const stw_simulator *simulator, stw_plan *plan);

#endif
