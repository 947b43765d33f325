/* The least peak of memory of a graph on one device, by a table over all sets of tasks that may have run: the simulator's rules
 * on memory, written down once more. */
#ifndef STW_TEST_MEMORY_TABLE_H
#define STW_TEST_MEMORY_TABLE_H

#include "sim/sim.h"

enum { MEMORY_TABLE_TASKS = 12 }; /* at most */

typedef struct memory_table {
    int64_t peak;                       /* the least of all orders */
    int64_t during[MEMORY_TABLE_TASKS]; /* the least that any order holds during a task */
} memory_table;

/* Fills it. `all`: what is held for no time counts as well. */
memory_table memory_table_fill(const stw_tasks *tasks, bool all);

/* Bytes held while `task` runs after the tasks of `set`. */
int64_t memory_table_held(const stw_tasks *tasks, uint32_t set, int32_t task);
/* needs: (MEMORY_TABLE_TASKS) what must run before each task, as sets. */
void memory_table_needs(const stw_tasks *tasks, uint32_t *needs);

#endif
