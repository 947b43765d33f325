/* What is fused: groups by a rule, or by fusion priorities, on top of merge.h.
 *
 *   none                every op alone
 *   default             greedy: repeatedly makes the merge with the largest estimated saving, as XLA's priority fusion does
 *   reverse-post-order  every legal merge, from the last op to the first, as compilers without a cost model do
 *   one-pass            every merge that saves something when it is looked at, from the last op to the first: takes a small part
 *                       of the time of `default`, for short budgets
 *
 * `default` and `one-pass` also report their result as priorities in [-1, 1]: positive for merged ops (the first merge highest),
 * negative for merges that would cost more than they save (the costliest lowest), 0 for ops that could not be merged in the end.
 *
 * stw_plan_fuse (stowage.h) knows one more, `joined`: `default`, then siblings.h. It is no rule of searches, since groups with
 * several results cannot be placed as one op. */
#ifndef STW_PLAN_FUSE_H
#define STW_PLAN_FUSE_H

#include "base/cancel.h"
#include "plan/merge.h"

typedef enum stw_fusion {
    STW_FUSION_NONE,
    STW_FUSION_DEFAULT,
    STW_FUSION_REVERSE_POST_ORDER,
    STW_FUSION_ONE_PASS,
    STW_FUSION_COUNT
} stw_fusion;

/* "none", "default", "reverse-post-order", "one-pass" */
extern const char *const stw_fusion_name[STW_FUSION_COUNT];
bool stw_fusion_find(stw_str name, stw_fusion *out);

typedef struct stw_fuser stw_fuser; /* room for making groups; one thread at a time */

stw_status stw_fuser_create(const stw_costs *costs, stw_arena *arena, stw_fuser **out, stw_error *error);
/* Of a fuser that stands last in its arena, and may recompute: gives its memory back until it is used again, if it is at least so
 * many bytes. */
void stw_fuser_rest(stw_fuser *f, int64_t least);
/* Whether ops may be recomputed in several groups; by default they may. */
void stw_fuser_allow_recomputing(stw_fuser *f, bool allow);

/* When the rule `default` ends early, with those groups that save most; NULL, as at first: never. Borrowed. */
void stw_fuser_set_stop(stw_fuser *f, const stw_stop *stop);
/* It did so, when it was asked last. */
bool stw_fuser_was_stopped(const stw_fuser *f);

/* Groups as plans have them, (N), for these devices, (N); NULL: all on the first device. `priority`, (N), or NULL: receives the
 * priorities that make the same groups. */
void stw_fuse_by_rule(stw_fuser *f, stw_fusion rule, const int32_t *device, int32_t *group, double *priority);
/* Priorities above 0 are merged where that is legal, high ones first. */
void stw_fuse_by_priority(stw_fuser *f, const double *priority, const int32_t *device, int32_t *group);

#endif
