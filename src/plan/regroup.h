/* Fusion priorities -> groups, over and over with few changes: what stw_merge_by_priority makes, of which only what a change can
 * have an effect on is made anew.
 *
 * Whether an op goes into its readers depends on the groups that it would join, and these on the ops that went there before. So
 * ops depend on each other along reads of ops that may merge at all, and nowhere else: what is not connected with a change by
 * such reads stays as it is. */
#ifndef STW_PLAN_REGROUP_H
#define STW_PLAN_REGROUP_H

#include "plan/merge.h"

typedef struct stw_regroup stw_regroup; /* the last groups, and what they were made from; one thread at a time */

/* Works with `merge`, which others may use in between, if they say so by stw_regroup_forget. */
stw_status stw_regroup_create(const stw_graph *graph, stw_merge *merge, stw_arena *arena, stw_regroup **out, stw_error *error);
/* Nothing is kept: the next groups are made from scratch. */
void stw_regroup_forget(stw_regroup *r);
/* Groups as plans have them, (N), of these fusion priorities, (N), on these devices, (N). */
void stw_regroup_make(stw_regroup *r, const double *priority, const int32_t *device, int32_t *group);

#endif
