/* Contraction: the graph of units, made smaller step by step without ever closing a cycle. units.c says what the units are for.
 */
#ifndef STW_GRAPH_CONTRACT_H
#define STW_GRAPH_CONTRACT_H

#include "graph/graph.h"

typedef struct stw_contraction {
    const stw_graph *graph;
    int32_t count;       /* M units, numbered in a topological order */
    int32_t *of;         /* (N) unit of each op, parameter and buffer; -1 for all else */
    double *weight;      /* (M) time; a little more for each op, so that numbers count as well */
    double total;        /* of all weights */
    int64_t *next_from;  /* (N + 1) into next */
    int32_t *next;       /* ops that must come after an op: its readers, each once, and those that wait for it */
    int64_t *next_bytes; /* what a reader reads; 0 for waits */
} stw_contraction;

/* Fills next, next_from and next_bytes from the graph. */
stw_status stw_contraction_link(stw_contraction *c, stw_arena *arena, stw_error *error);

/* Merges units until `wanted` (at least 1) are left. Scratch from the arena. */
stw_status stw_contract(stw_contraction *c, int32_t wanted, stw_arena scratch, stw_error *error);

#endif
