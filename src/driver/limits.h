/* What the caller wants of placements: the grain, pins and what else limits devices. It becomes part of the problem (nodes that
 * must be together, devices that they may be on), so that every method, move and repair keeps to it. */
#ifndef STW_DRIVER_LIMITS_H
#define STW_DRIVER_LIMITS_H

#include "api/settings.h"
#include "graph/grain.h"

/* The same problem with its limits: a view of the graph, its costs, a simulator. Everything else is the outer's. */
typedef struct stw_limited {
    stw_arena arena;
    stw_graph graph; /* arrays are the outer's, but for colocate, allowed and kept_apart */
    stw_costs costs; /* those of the outer */
    stw_simulator *simulator;
    stw_grain grain;
    stw_parcels parcels;     /* of the grain; none at that of ops */
    uint64_t *stage_allowed; /* (parcels.count) at the grain stage: where each may be */
    bool in_line;            /* at the grain stage, unless stages are tied: those of a device are neighbours */
} stw_limited;

/* NULL, if the options have no limits. Names that match nothing are refused, with what comes near. */
stw_status stw_limited_open(const stw_simulator *simulator, const stw_options *options, stw_limited **out, stw_error *error);
void stw_limited_close(stw_limited *limited);

/* The limits as they were given, "--grain module --pin a=0", the caller's (free); NULL: there are none. */
stw_status stw_limits_show(const stw_options *options, char **out, stw_error *error);

/* settle.c. Whether the stages of each device are neighbours, or limits leave no way to have them so; true at other grains. */
bool stw_limited_is_in_line(const stw_limited *limited, const stw_plan *plan);

/* Brings a plan of the outer graph to the limits: what must be together goes where most of its time is spent. */
stw_status stw_limited_project(const stw_limited *limited, stw_plan *plan, stw_arena scratch, stw_error *error);

/* The same, and groups that are torn apart by it are dissolved; where something moves, no strict orders are left. */
stw_status stw_limited_take(const stw_limited *limited, stw_plan *plan, stw_workspace *workspace, stw_error *error);

/* The same for a plan of the limited problem whose method knows nothing of devices that are not allowed: what is where it may not
 * be goes to the first device that it may be on, and stages that are not in line to another device. */
stw_status stw_limited_settle(const stw_limited *limited, stw_plan *plan, stw_workspace *workspace, stw_error *error);

/* match.c. What a name in an option stands for: an op, parameter or buffer by its name or label, or all that lies in a module;
 * with * and ? any text and any character of these. path: (N) of modules. Sets matched[i] of ops and residents; fails where there
 * is none, and names what comes near. */
stw_status stw_match_nodes(const stw_graph *graph, const stw_str *path, const char *option, stw_str pattern, bool *matched,
                           stw_error *error);
/* A device by name or number. */
stw_status stw_match_device(const stw_machine *machine, const char *option, stw_str text, int32_t *out, stw_error *error);

#endif
