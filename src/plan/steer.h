/* The list scheduler behind heft, steer and the policy: ops in the order of their rank, each on the device where it costs least.
 *
 *   device(o) = argmin_d  start(o, d) [+ time(o, d)]  + aversion(o) x comm(o, d)
 *                         + unit_glue(o) x [the unit of o is on another device already]
 *                         + plan_glue(o) x [d is not where the other plan has o]
 *
 * start: when the device and all inputs are there. comm: latency + bytes / bandwidth of the inputs (parameters included) that
 * are not yet on d. All zero: HEFT. Aversion without end: one device. Plan glue without end: the other plan.
 * The result is judged by the simulator, not by this clock. */
#ifndef STW_PLAN_STEER_H
#define STW_PLAN_STEER_H

#include "plan/tasks.h"

typedef enum stw_home {                   /* where a parameter or buffer lives that no other rule binds */
                        STW_HOME_FIRST,   /* with its first placed reader */
                        STW_HOME_UPDATE,  /* with its update, which is placed like any op; else like FIRST */
                        STW_HOME_LARGEST, /* with the reader that takes longest */
                        STW_HOME_GLUED    /* where `glued` has it */
} stw_home;

typedef struct stw_steer_input { /* T tasks, N nodes */
    const stw_costs *costs;
    const stw_tasks *tasks; /* every op a task of its own */
    const int32_t *atom;    /* (N) nodes of one atom go to one device; -1: on every device (inputs, constants) */
    int32_t atom_count;
    const double *rank;      /* (T) higher first; predecessors must rank higher or be ready earlier: ties are safe */
    const double *aversion;  /* (T) factor; NULL: 0 */
    const double *unit_glue; /* (T) microseconds; NULL: 0 */
    const int32_t *unit;     /* (N) for unit_glue; NULL: none */
    int32_t unit_count;
    const double *plan_glue; /* (T) microseconds; NULL: 0 */
    const int32_t *glued;    /* (N) devices of the other plan; NULL: none */
    stw_home home;
    bool insertion; /* an op may start in a gap that earlier decisions left */
    bool queues;    /* transfers wait for their channel (first come first served), else they never wait */
    bool memory;    /* stay within device memory as far as this pass can tell */
} stw_steer_input;

/* Fills device: (N) for all nodes. Scratch from the arena. `*out_us` (optional): the step time by this scheduler's own clock. */
stw_status stw_steer(const stw_steer_input *input, int32_t *device, double *out_us, stw_arena scratch, stw_error *error);

#endif
