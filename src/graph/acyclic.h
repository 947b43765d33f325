/* Edges that stay free of cycles: one that would close a cycle is refused.
 *
 * Whether `to` already reaches `from` is searched from both ends in turn; the search ends when one side has nothing left, so its
 * cost goes by the smaller side. In real graphs that is tiny: an update op is read by few or none. */
#ifndef STW_GRAPH_ACYCLIC_H
#define STW_GRAPH_ACYCLIC_H

#include "base/arena.h"

typedef struct stw_acyclic stw_acyclic;

/* N nodes, no edges yet, room for `capacity` edges. */
stw_status stw_acyclic_create(int32_t N, int64_t capacity, stw_arena *arena, stw_acyclic **out, stw_error *error);
/* Adds the edge from -> to; false, and nothing is added, if it would close a cycle. */
bool stw_acyclic_add(stw_acyclic *edges, int32_t from, int32_t to);
/* Adds an edge that the caller knows to be harmless. */
void stw_acyclic_add_unchecked(stw_acyclic *edges, int32_t from, int32_t to);

#endif
