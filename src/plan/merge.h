/* Fusion priorities -> groups. Ops are visited from high to low priority, and each goes with its whole group into the groups that
 * read it, all or nothing: into the one that does, or, where several do, recomputed in each of them. What is illegal stays as it
 * is: ops of other devices, of classes that do not fuse, graph outputs, updates, groups that grow too large.
 *
 * An op leaves its group only if all its readers absorb it, so each group keeps exactly one op that is read outside: the one it
 * started with. Hence a group has a single output, and groups never close a cycle: whatever follows a member follows that op. */
#ifndef STW_PLAN_MERGE_H
#define STW_PLAN_MERGE_H

#include "plan/membership.h"

typedef struct stw_merge stw_merge; /* groups in the making; one thread at a time */

stw_status stw_merge_create(const stw_graph *graph, const stw_machine *machine, stw_arena *arena, stw_merge **out,
                            stw_error *error);
/* Whether an op may be recomputed in several groups; by default it may. */
void stw_merge_allow_recomputing(stw_merge *m, bool allow);
/* Every op alone. `device`: (N), borrowed until the next reset. */
void stw_merge_reset(stw_merge *m, const int32_t *device);
/* Merges the op into its readers; false: that is not legal, and nothing has changed. */
bool stw_merge_op(stw_merge *m, int32_t op);
/* The same without doing it: how many groups would take the op, by their ops; 0: it is not legal. They stay valid until the next
 * call. */
int32_t stw_merge_allows(stw_merge *m, int32_t op, const int32_t **reader);
/* These ops by priority, (N), ties in reverse topological order; those at or below 0 stay. */
void stw_merge_by_priority(stw_merge *m, const double *priority, const int32_t *op, int32_t count);
/* (N) as plans have it: the group's op, -1 for what is recomputed and for nodes that are no ops. */
void stw_merge_groups(stw_merge *m, int32_t *group);
/* The same of one op. */
int32_t stw_merge_group_of(stw_merge *m, int32_t op);

/* For who makes some groups anew (regroup.h). */

/* The op goes into its readers on no devices and with no priorities. */
bool stw_merge_never(const stw_merge *m, int32_t op);
/* The op is alone again, as after a reset. To be called for all ops that may be in one group with it, or recompute it. */
void stw_merge_part(stw_merge *m, int32_t op);
/* Since the reset there was always room for noting what is recomputed where, and would have been in any order of the merges:
 * what has been made in parts is what would have been made at once. */
bool stw_merge_has_room(const stw_merge *m);

/* What the op's group computes: its members, recomputed ones included. An op that has left its group has none. */
int32_t stw_merge_members(const stw_merge *m, int32_t op, const int32_t **member);
/* The op has a group of its own, perhaps with others in it. */
bool stw_merge_leads(const stw_merge *m, int32_t op);
enum { STW_MERGE_READERS = 32 };

#endif
