/* The plan file (docs/formats/plan.md), for those who know how the plan was found. */
#ifndef STW_EXPORT_PLAN_FILE_H
#define STW_EXPORT_PLAN_FILE_H

#include "plan/aims.h"
#include "sim/sim.h"

typedef struct stw_plan_head { /* what stands before the lists per node */
    const stw_simulator *simulator;
    const stw_plan *plan; /* NULL: none was found, and there are no lists */
    unsigned tasks;       /* STW_TASK_...; fusion is added where the plan fuses */
    int64_t seed;
    stw_objective objective;
    stw_candidate outcome; /* of the plan */
    stw_bounds bounds;
    bool optimal;           /* it is proved that no plan within the limits has a smaller value */
    const char *limits;     /* of the search; NULL: none */
    double measured_share;  /* NaN: there is no plan */
    const stw_noise *noise; /* NULL, or no draws: it was not tried */
    const stw_candidate *candidate;
    int32_t candidate_count;
} stw_plan_head;

/* Writes the file: equal runs write equal bytes. `head_only` leaves out the lists per node and adds the times that methods took.
 * "-" is standard output. */
stw_status stw_plan_head_write(const stw_plan_head *head, const char *path, bool head_only, stw_error *error);
/* One candidate as an object, here and, with its times, its note and when it found its plans, in `stowage compare`. */
void stw_candidate_write(stw_json_writer *writer, const stw_candidate *candidate, int32_t device_count, bool timed);

#endif
