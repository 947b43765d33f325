/* A topological order that stays valid while edges are added, and refuses an edge that would close a cycle. Only the part of
 * the order between the two ends of a new edge is looked at (Pearce and Kelly, 2006). */
#ifndef STW_GRAPH_ORDERING_H
#define STW_GRAPH_ORDERING_H

#include "base/arena.h"

typedef struct stw_ordering stw_ordering;

/* N nodes in the order of their ids, no edges yet, room for `capacity` edges. */
stw_status stw_ordering_create(int32_t N, int64_t capacity, stw_arena *arena, stw_ordering **out, stw_error *error);
/* Adds the edge from -> to; false, and nothing is added, if it would close a cycle. */
bool stw_ordering_add(stw_ordering *ordering, int32_t from, int32_t to);

#endif
