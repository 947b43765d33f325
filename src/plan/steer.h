/* The list scheduler behind heft, steer and the policy: ops in the order of their rank, each on the device where it costs least.
 *
 *   device(o) = argmin_d  start(o, d) + time(o, d)  + aversion(o) x comm(o, d)
 *                         + unit_glue(o) x [the unit of o is on another device already]
 *                         + plan_glue(o) x [d is not where the other plan has o]
 *
 * start: when the device and all inputs are there. comm: latency + charges + bytes / bandwidth of the inputs (parameters
 * included) that are not yet on d. All zero: HEFT. Glue is in microseconds. A very large aversion keeps everything on one device;
 * a very large plan glue reproduces the other plan. With an outlook, the cost of sending an op's outputs to its readers in the
 * other plan counts too, so that an op does not move towards its inputs and away from all its readers. The result is judged by
 * the simulator, not by this clock. */
#ifndef STW_PLAN_STEER_H
#define STW_PLAN_STEER_H

#include "base/cancel.h"
#include "plan/board.h"

#define STW_GLUE_FIXED \
    1e17 /* plan glue from here on: the op stays where the other plan has it, without a look at other devices */

typedef struct stw_steer_input { /* T tasks, N nodes */
    /* What is decided about. With `base` (stw_board_prepare), which many passes can share, the rest of it is not looked at. */
    const stw_board_base *base; /* NULL: made from what follows */
    const stw_costs *costs;
    const stw_tasks *tasks; /* every op a task of its own */
    const int32_t *atom;    /* (N) nodes of one atom go to one device; -1: on every device (inputs, constants) */
    int32_t atom_count;
    const double *rank; /* (T) higher first; what an op needs comes before it in any case */

    const int32_t *order; /* (T) in which tasks are placed, nothing before what it needs; NULL: by rank */

    /* How. Knobs are finite and not negative. */
    const double *aversion;  /* (T) factor; NULL: 0 */
    const double *unit_glue; /* (T) microseconds; NULL: 0 */
    const int32_t *unit;     /* (N) for unit_glue; NULL: none */
    int32_t unit_count;
    const double *plan_glue; /* (T) microseconds; NULL: 0 */
    const int32_t *glued;    /* (N) devices of the other plan; NULL: none */
    stw_home home;
    uint64_t allowed;  /* a bit per device that may be used; 0: all */
    bool outlook;      /* comm counts as well what would be sent to where the other plan has the readers */
    bool insertion;    /* an op may start in a gap that earlier decisions left */
    bool queues;       /* transfers wait for their channel, else they never wait: */
    bool channel_gaps; /* in the order in which they are ready; else in that in which they are decided */
    bool memory;       /* stay within device memory as far as this pass can tell */
    stw_stop stop;     /* looked at now and then; due: STW_ERROR_CANCELLED */
} stw_steer_input;

/* Fills device: (N) for all nodes. Scratch from the arena. `*out_us` (optional): the step time by this scheduler's own clock. */
stw_status stw_steer(const stw_steer_input *input, int32_t *device, double *out_us, stw_arena scratch, stw_error *error);

#endif
