/* Packing: units onto devices so that at every moment of a run each device holds what it can.
 *
 * The model is a run that was simulated: everything happens when it happened then, whatever the devices. What each device holds
 * at each moment then follows from the devices alone, and moving a few nodes changes little of it, so that thousands of moves are
 * tried in the time of some evaluations. The simulator judges what comes out.
 *
 * pack.c         the model: what devices hold at each moment, and what a move changes of it
 * pack_search.c  the search on it: stages to begin with, moves of units until all fits, then for less time
 * repair_pack.c  rounds of both with the simulator */
#ifndef STW_SEARCH_PACK_H
#define STW_SEARCH_PACK_H

#include "base/cancel.h"
#include "base/rng.h"
#include "graph/units.h"
#include "plan/plan.h"
#include "sim/sim.h"

typedef struct stw_pack_node { /* of a tree over moments: the largest of its part */
    int64_t most, added;       /* bytes; `added`: to all of its part, and in `most` already */
} stw_pack_node;

typedef struct stw_pack {
    const stw_machine *machine;
    const stw_tasks *tasks;
    const stw_costs *costs;
    int32_t D, N;
    int32_t moments;       /* of the run at which something begins; on long runs, stretches of such */
    int32_t leaves;        /* of each tree: a power of two */
    stw_pack_node *tree;   /* (D)(2 x leaves) bytes held by device and moment */
    int32_t *first, *last; /* (T) moments while a task runs; last < first: it takes no time */
    int32_t *sent_until;   /* (V) a value that is sent stays at home until this moment */
    int32_t *value_of;     /* (N) or -1 */
    int32_t *device;       /* (N) as it stands; those of views count for nothing */
    int64_t limit[STW_MAX_DEVICES];
    double busy_us[STW_MAX_DEVICES];
    double sent_us;         /* of all transfers */
    int32_t *began;         /* (N) the devices at the beginning */
    double away_us;         /* of the tasks that are elsewhere now */
    double step_us;         /* of the run */
    int64_t work;           /* values that were looked at so far, and their readers */
    int32_t *stamp, stamps; /* (V) scratch of a move */
    int32_t *touched;       /* (V) */
} stw_pack;

/* Of the run that the timeline tells of, with these devices (N). */
stw_status stw_pack_open(const stw_costs *costs, const stw_machine *machine, const stw_timeline *timeline, const int32_t *device,
                         stw_arena *arena, stw_pack *out, stw_error *error);
/* All these nodes (ops, parameters, buffers) to one device. Groups must move as a whole, with what they recompute. */
void stw_pack_move(stw_pack *pack, const int32_t *node, int32_t count, int32_t target);
static inline int64_t stw_pack_peak(const stw_pack *pack, int32_t device) {
    return pack->tree[(int64_t)device * 2 * pack->leaves + 1].most;
}
/* Bytes above the limits, summed over devices. */
int64_t stw_pack_excess(const stw_pack *pack);
/* The first moment at which a device holds most. */
int32_t stw_pack_peak_moment(const stw_pack *pack, int32_t device);
/* What a device holds of a value at a moment, in bytes. */
int64_t stw_pack_held(stw_pack *pack, int32_t value, int32_t device, int32_t moment);

/* ---- pack_search.c ---- */

/* Spreads all nodes over the devices in stages: what stands together in the forward part of the run, with the part of the
 * backward run that belongs to it, so that the fullest device is as empty as can be. atoms: of the graph. */
stw_status stw_pack_stages(stw_pack *pack, const stw_units *atoms, stw_arena scratch, stw_error *error);

typedef struct stw_pack_plan { /* how a search goes */
    const stw_units *units;    /* (kinds) what moves as one */
    int32_t kinds;
    int64_t work; /* about so much, in the unit of stw_pack.work */
    double hot;   /* how much worse a move may be at first: about so many steps */
    double away;  /* what a task costs that is not where it began, in its own times */
    stw_rng rng;
    const stw_stop *stop; /* or NULL */
} stw_pack_plan;

/* Moves units until all fits, then for less time. Leaves the best devices in pack->device: those that exceed the limits least,
 * and of these the quickest as far as the model knows. */
stw_status stw_pack_search(stw_pack *pack, const stw_pack_plan *plan, stw_arena scratch, stw_error *error);

#endif
