/* An order in which what a node needs comes before it; otherwise as in the file. */
#ifndef STW_IMPORT_INPUTS_FIRST_H
#define STW_IMPORT_INPUTS_FIRST_H

#include "base/arena.h"

/* Node i needs need[start[i]] to need[start[i + 1] - 1]. order: (count). *stuck: a node on a cycle, where there is no order; else
 * -1. */
stw_status stw_inputs_first(int32_t count, const int64_t *start, const int32_t *need, stw_arena scratch, int32_t *order,
                            int32_t *stuck, stw_error *error);

#endif
