/* Looks inside a run of the network. */
#ifndef STW_TESTS_SUPPORT_LOOK_H
#define STW_TESTS_SUPPORT_LOOK_H

#include "policy/policy.h"

/* Intermediates by name: "input", "sage.0", ..., "graph", "attention.0", ..., and of each task that ran, as
 * "placement.hidden", "placement.out", which is what the forward pass gave, and, where the head is spread, "placement.raw", which
 * is what it was before. After "draft.<number>." it is that draft's, else the
 * last one's. Returns rows and columns; false if unknown. `out` may be NULL (sizes only). */
bool stw_pass_look(const stw_pass *pass, const char *name, int32_t *rows, int32_t *cols, double *out, stw_arena scratch);

#endif
