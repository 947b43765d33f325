/* Memory repair, inside: what fills a device at its peak and which units to move (repair_move.c); repair.c tries. */
#ifndef STW_SEARCH_REPAIR_H
#define STW_SEARCH_REPAIR_H

#include "search/search.h"

/* What a device holds when it holds most. A holding is gone from there at that moment once all nodes that it needs there have
 * moved: those that read it later, and whatever owns it if it would stay without readers. */
typedef struct stw_peak {
    int32_t device;
    int32_t count;
    int64_t *bytes;      /* (count) */
    int32_t *need_start; /* (count + 1) into need */
    int32_t *need;       /* ops, parameters and buffers on the device */
} stw_peak;

/* Of the run that the timeline tells of. device: (N) the plan's. */
stw_status stw_peak_find(const stw_machine *machine, const stw_timeline *timeline, const int32_t *device, int32_t of,
                         stw_arena *arena, stw_peak *out, stw_error *error);

/* A batch of units, or of what of them is on the device of the peak, for another device. */
typedef struct stw_repair_move {
    const stw_simulator *simulator;
    const stw_units *units; /* of any level */
    const stw_peak *peak;
    int32_t target;
    int64_t wanted;     /* bytes to free */
    int64_t room;       /* bytes that the target can take; at least one unit is moved */
    int32_t most_units; /* at most so many */
    double busy_us;     /* of the target */
    double step_us;
} stw_repair_move;

/* Chooses units by bytes freed over time added, and gives their nodes in `device` (N) to the target. Returns in `moved` how many
 * units; 0 if none would free anything. */
stw_status stw_move_choose(const stw_repair_move *move, int32_t *device, int32_t *moved, stw_arena scratch, stw_error *error);

#endif
