/* Fusion among the tasks: what the methods share then.
 *
 * A method that only places goes by groups: those that the rule makes when all ops are on one device and nothing is recomputed
 * are an op each (sim/fused.h), and are placed as one. On the devices that come out of it the ops are grouped anew, recomputing
 * where that pays; the best of both and of fusing nothing stays. Methods that decide about groups themselves do without this. */
#ifndef STW_SEARCH_FUSING_H
#define STW_SEARCH_FUSING_H

#include "plan/fuse.h"
#include "search/search.h"
#include "sim/fused.h"

struct stw_fusing {
    int32_t rule;     /* stw_fusion that goes with every plan, or -1: ours to decide */
    stw_fused *fused; /* NULL: nothing to place as one */
    int32_t threads;
    stw_workspace **workspace; /* (threads) of fused->simulator */
    stw_fuser **fuser;         /* (threads) of the problem itself, each in an arena of its own: */
    stw_arena *fuser_arena;    /* (threads) */
    double *priority;          /* (N) of the rule `asked` with all ops on `device`, recomputing allowed */
    int32_t *group;            /* (N) the groups that these make there */
    stw_fusion asked;
    int32_t device;
    bool partial; /* the time was up before the rule was done: `priority` has what saves most, and `fused` is NULL */
};

/* Everything lives in the arena but what stw_fusing_close frees, which must be called in any case. `by` makes the groups if no
 * rule (-1) goes with every plan. `stop`: when it ends early; or NULL. */
stw_status stw_fusing_open(const stw_simulator *simulator, int32_t rule, stw_fusion by, int32_t threads, const stw_stop *stop,
                           stw_arena *arena, stw_fusing *out, stw_error *error);
/* The same for groups that are not ours to decide, (N) as plans have them: they can be placed as one, and that is all. Groups
 * with several outputs cannot (`fused` is NULL then). */
stw_status stw_fusing_open_groups(const stw_simulator *simulator, const int32_t *group, int32_t threads, stw_arena *arena,
                                  stw_fusing *out, stw_error *error);
void stw_fusing_close(stw_fusing *fusing);
/* On large graphs: gives the memory of the fusers back until they are used again; NULL: nothing. */
void stw_fusing_rest(stw_fusing *fusing);

/* The groups of a plan by the rule that goes with every plan; left as they are if there is none. Orders are
 * removed with them. */
void stw_fusing_apply_rule(const stw_search *search, stw_plan *plan, int32_t worker);
/* The groups of that rule; if there is none, the best of the groups that the plan has, of those of `default` for its devices, and
 * of none. An order is for the groups it has: with one they stay. */
stw_status stw_fusing_choose(stw_search *search, stw_plan *plan, stw_error *error);

#endif
