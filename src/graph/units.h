/* Units: ops that are decided together.
 *
 * Level 0 are the atoms: what must be on one device anyway (views with their root, an update with its parameter, what the graph
 * asks to be together). Each further level merges units of the level before along chains and heavy edges, as long as the graph
 * of units stays acyclic, so that every unit is convex: no path leaves it and comes back. (Atoms that break this of themselves
 * are kept as they are: colocation is no choice.) A parameter or buffer that is free is an atom of its own, which at the next
 * level is in the unit of its smallest reader. Inputs and constants are in no unit. */
#ifndef STW_GRAPH_UNITS_H
#define STW_GRAPH_UNITS_H

#include "graph/graph.h"

typedef struct stw_units { /* one level */
    int32_t count;         /* M, numbered so that what comes first in topological order has the smaller number */
    int32_t *of;           /* (N) unit of each op, parameter, buffer and view of them; -1 for inputs, constants and their views */
    int32_t *start;        /* (M + 1) into member */
    int32_t *member;       /* ops, parameters and buffers, ascending within a unit */
    int32_t *parent;       /* (M) unit of the next coarser level that holds this one; NULL at the last level */
} stw_units;

enum { STW_MAX_UNIT_LEVELS = 16 };

typedef struct stw_unit_levels {
    int32_t count;
    stw_units level[STW_MAX_UNIT_LEVELS]; /* from fine to coarse */
} stw_unit_levels;

/* Atoms, then a level for each wanted number of units (falling; what is not below the level before is left out, and so is what
 * comes after STW_MAX_UNIT_LEVELS). A level has at most the wanted number: where edges do not suffice, neighbours in the order
 * are merged. us: (N) time of each op, in microseconds, so that a unit does not grow far beyond the mean. */
stw_status stw_units_build(const stw_graph *graph, const double *us, const int32_t *wanted, int32_t wanted_count,
                           stw_arena *arena, stw_unit_levels *out, stw_error *error);

/* Devices per unit -> devices per node; what is in no unit goes to device 0. */
void stw_units_expand(const stw_units *units, const stw_graph *graph, const int32_t *unit_device, int32_t *device);

/* Pairs of nodes that must be on one device (an update and its parameter, what the graph asks for), roots instead of views. */
stw_status stw_graph_colocated(const stw_graph *graph, stw_arena *arena, int32_t (**pair)[2], int32_t *count, stw_error *error);

#endif
