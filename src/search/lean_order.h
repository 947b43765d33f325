/* Orders for little memory, behind the method `lean` and memory repair. */
#ifndef STW_SEARCH_LEAN_ORDER_H
#define STW_SEARCH_LEAN_ORDER_H

#include "search/search.h"
#include "sim/sequence.h"

typedef struct stw_lean_order {
    int32_t *task;  /* (T) */
    int64_t peak;   /* bytes of this order on one device, parameters and buffers included */
    bool is_least;  /* no order of these tasks on one device takes less */
    int32_t splits; /* that the order owes to minimum cuts */
} stw_lean_order;

/* The leanest order that simple rules and minimum cuts find, as if one device ran all tasks. `first`: (T) an order that the
 * result must not be worse than, or NULL. Depends on the tasks alone, but for `search`, which may stop it early (by time or a
 * cancel) or be NULL. */
stw_status stw_lean_find(const stw_sequences *s, int32_t cost_classes, const int32_t *first, const stw_search *search,
                         stw_arena *arena, stw_lean_order *out, stw_error *error);

/* Sets the priorities of a plan, whose tasks these are, so that its devices run by this order as far as they can. */
void stw_lean_apply(const stw_tasks *tasks, const stw_lean_order *order, stw_plan *plan);
/* Both, for the tasks of a plan with its groups. Strict orders are removed. `unfused`: what was found for the simulator's tasks
 * without groups, or NULL. out->task is not set. */
stw_status stw_lean_reorder(const stw_search *search, const stw_lean_order *unfused, stw_plan *plan, stw_arena scratch,
                            stw_lean_order *out, stw_error *error);

#endif
