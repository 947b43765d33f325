/* What an evaluation is worth, by the objective. */
#ifndef STW_SIM_SCORE_H
#define STW_SIM_SCORE_H

#include "plan/aims.h"
#include "sim/sim.h"

/* What a plan is worth. Valid plans go by the objective, then by step time; then come those that only lack memory, by how much;
 * then the rest. Among equals the plan wins that sends less, then the one whose largest peak is smaller, then the one with fewer
 * devices: nobody wants transfers that bring nothing. */
typedef struct stw_score {
    stw_reason reason;
    double value;  /* objective: seconds (time, throughput) or bytes (memory); of valid plans and those that lack memory */
    double step_s; /* likewise */
    double lacks;  /* bytes over the limits, summed over devices */
    int64_t sent_bytes, peak_bytes; /* by all transfers; on the device that holds most */
    int32_t devices;                /* that compute or hold something */
} stw_score;
bool stw_score_is_better(const stw_score *a, const stw_score *b); /* strictly */

/* Of the run that `workspace` holds. */
stw_score stw_score_of(stw_objective objective, const stw_workspace *workspace, const stw_evaluation *evaluation);

#endif
