/* The graph that is partitioned: units as vertices, transfers as edges. Undirected, since a cut is paid either way.
 *
 * A value with several readers is one transfer per device that needs it, which no weighting of pairs can say exactly. */
#ifndef STW_METHOD_METIS_PART_GRAPH_H
#define STW_METHOD_METIS_PART_GRAPH_H

#include "base/pool.h"
#include "graph/units.h"
#include "method/device_set.h"
#include "method/metis/copies.h"
#include "sim/sim.h"

typedef enum stw_net_shape {
    STW_NET_STAR,  /* the producer with every reader, each at the full cost: too much when readers go to one device */
    STW_NET_SHARE, /* the same, but the cost of the whole value divided among the readers: too little when they are apart */
    STW_NET_PATH   /* from reader to reader in order: right for readers that are cut into two */
} stw_net_shape;

typedef struct stw_edge_cost { /* microseconds of a transfer, to a power */
    double fixed_us;           /* of a transfer */
    const stw_link_mean *link; /* what its bytes take */
    double exponent;
    stw_net_shape shape;
} stw_edge_cost;

typedef struct stw_part_graph { /* M vertices */
    int32_t M;
    int64_t *start;     /* (M + 1) into neighbour and cost; each edge is there from both sides */
    int32_t *neighbour; /* ascending for no vertex; no repeats */
    double *cost;
} stw_part_graph;

stw_status stw_part_graph_build(const stw_graph *graph, const stw_units *units, const stw_edge_cost *edge_cost, stw_arena *arena,
                                stw_part_graph *out, stw_error *error);

typedef struct stw_part_weights { /* M vertices, K constraints: in each of them every part is to get its share */
    int32_t K;
    double *weight; /* (M, K) not negative */
} stw_part_weights;

/* Joins vertices whose edge costs more than `dear`, dearest first, unless they are more than `most` of the work
 * together. work: (M). Fills piece: (M) and the number of pieces. */
stw_status stw_part_graph_glue(const stw_part_graph *graph, const double *work, double dear, double most, stw_arena *arena,
                               int32_t *piece, int32_t *pieces, stw_error *error);
/* The graph and the weights of the pieces. */
stw_status stw_part_graph_contract(const stw_part_graph *graph, const stw_part_weights *weights, const int32_t *piece,
                                   int32_t pieces, stw_arena *arena, stw_part_graph *out, stw_part_weights *out_weights,
                                   stw_error *error);

typedef struct stw_part_call {
    const stw_part_graph *graph;
    const stw_part_weights *weights;
    int32_t parts;            /* at least 2 */
    const double *share;      /* (parts) of each constraint; sum 1 */
    double imbalance;         /* above 1: how far a part may exceed its share, in every constraint */
    bool recursive;           /* by bisection; else all parts at once, where METIS can be trusted with it */
    bool volume;              /* all at once: minimise the volume of communication rather than the cut */
    int32_t seed;             /* not negative */
    stw_pool *pool;           /* whose threads take turns; or NULL */
    stw_metis_copies *copies; /* for them; or NULL: all use the one that the program is linked with */
} stw_part_call;

/* partition.c: the part of each vertex; part: (M). Fails with STW_ERROR_NO_PLAN if the program was built without METIS or METIS
 * fails. */
stw_status stw_metis_partition(const stw_part_call *call, int32_t *part, stw_arena scratch, stw_error *error);

/* One call of METIS. More vertices than parts. */
stw_status stw_metis_call(const stw_part_call *call, int32_t *part, stw_arena scratch, stw_error *error);
bool stw_metis_is_there(void);

/* metis.c: gives parts to devices. On entry part p belongs to set->device[p], devices of the machine beyond are free; on
 * return device[p], changed so that those that exchange much have fast links, and no missing link is needed if that can be.
 * Devices are exchanged only for others that take equal times. */
stw_status stw_metis_map(const stw_simulator *simulator, const stw_units *units, const int32_t *part, const stw_device_set *set,
                         int32_t *device, stw_arena scratch, stw_error *error);

#endif
