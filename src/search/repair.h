/* Memory repair, inside: units that move (repair_units.c), all of them at once by a model of the run (repair_pack.c on pack.h),
 * what fills a device at its peak and which units to move one after the other (repair_move.c); repair.c tries. */
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

/* What moves as one: convex units from coarse to fine, the last of them the atoms; then units by weights. */
typedef struct stw_repair_units {
    stw_units kind[6];
    int32_t count;
} stw_repair_units;

/* us: (N) time of each op. tasks: of the plan; groups move as a whole. */
stw_status stw_repair_units_list(const stw_graph *graph, const double *us, const stw_tasks *tasks, stw_arena *arena,
                                 stw_repair_units *out, stw_error *error);

typedef enum stw_pack_begin {
    STW_PACK_REPAIR, /* with the devices that the plan has */
    STW_PACK_STAGES  /* with stages of equal memory, whatever it has */
} stw_pack_begin;

/* Rounds of a simulation and a packing by what it was like, until the plan is valid or rounds gain nothing. The plan lacks
 * memory, its tasks (with its groups, which stay) are `tasks`, and its run is in the workspace. `*score` is the plan's on entry
 * and on return; strict orders may have been added where the schedule is to be decided and no rule was asked for. */
stw_status stw_repair_pack(stw_search *search, const stw_tasks *tasks, const stw_repair_units *units, stw_pack_begin begin,
                           stw_plan *plan, stw_score *score, int32_t worker, stw_arena scratch, stw_error *error);

/* Only the stages: devices by the run that the workspace holds, of a plan without groups. */
stw_status stw_repair_stages(const stw_search *search, const stw_repair_units *units, stw_plan *plan, int32_t worker,
                             stw_arena scratch, stw_error *error);

#endif
