/* Private to the method `balance`, which makes the largest load of a device small:
 *
 * balance_model.c   atoms and edges: what loads and memory depend on; a placement with its loads: a move costs as much as the
 * atom has edges balance_order.c   linear orders of the atoms balance_anneal.c  annealing, and what one chain does in one round
 * balance.c         levels, rounds, the best contiguous split of a linear order, the exact judgement
 *
 * A atoms (sets of nodes that are placed together), E edges, D devices. Times in microseconds. */
#ifndef STW_METHOD_BALANCE_BALANCE_H
#define STW_METHOD_BALANCE_BALANCE_H

#include "search/search.h"

/* An edge is what one atom writes and other atoms read: all values, and all parts that are read through one view, that have
 * the same readers, together. A device that reads parts of a value in several ways pays for each, which may be more than the
 * simulator asks. */
typedef struct stw_balance_edge {
    int32_t producer;
    int32_t reader, reader_count; /* first place in reader_atom, and how many: distinct, without the producer */
    double bytes;                 /* sum over its values */
    double transfers;             /* number of its values: each costs a latency, and charges who receives it */
    double sends;                 /* number of those that a task writes, which is charged for sending them */
} stw_balance_edge;

typedef struct stw_balance_hop { /* us = bytes x us_per_byte + transfers x latency_us */
    double us_per_byte, latency_us;
    const stw_link *tabled;     /* its table of rates goes before us_per_byte; NULL: it has none */
    double send_us, receive_us; /* charges, beside those */
    bool possible;
} stw_balance_hop;

typedef struct stw_balance_model {
    int32_t A, E, D;
    int32_t host;           /* device or -1 */
    int32_t *atom_of;       /* (N) of ops, parameters, buffers and views of them; -1: on every device anyway */
    int32_t *node;          /* (A) the smallest node of each atom */
    double *work_us;        /* (A, D) */
    int64_t *resident;      /* (A) bytes of parameters and buffers */
    int64_t resident_sum;   /* of all, and 1: it is divided by */
    int32_t *first_op;      /* (A) place in the topological order of its first op that takes time, else of its last; beyond all
                               others without ops */
    stw_balance_edge *edge; /* (E) by producer */
    int32_t *reader_atom;
    int32_t *made_start;   /* (A + 1) edges that an atom writes: made_start[a] .. made_start[a + 1] */
    int32_t *read_start;   /* (A + 1) into read_edge */
    int32_t *read_edge;    /* edges that an atom reads */
    stw_balance_hop *link; /* (D, D) between devices, without a host */
    stw_balance_hop *up;   /* (D) to the host, or the fastest link to another */
    stw_balance_hop *down; /* (D) from the host, likewise */
    int64_t *memory;       /* (D) what residents may take: less than the device has if other tensors need room */
} stw_balance_model;

/* `units`: the atoms to be; NULL: as fine as can be. */
stw_status stw_balance_model_build(const stw_simulator *simulator, const stw_units *units, stw_arena *arena,
                                   stw_balance_model *out, stw_error *error);

static inline double stw_balance_bytes_us(const stw_balance_hop *hop, double bytes, double transfers) {
    return hop->tabled != NULL ? stw_link_sum_us(hop->tabled, bytes, transfers) : bytes * hop->us_per_byte;
}
static inline double stw_balance_hop_us(const stw_balance_hop *hop, const stw_balance_edge *edge) {
    return stw_balance_bytes_us(hop, edge->bytes, edge->transfers) + edge->transfers * hop->latency_us;
}

typedef struct stw_balance_state {
    const stw_balance_model *model;
    int32_t *device;   /* (A) */
    int32_t *readers;  /* (E, D) atoms that read an edge, by device */
    uint64_t *present; /* (E) a bit for each device with readers */
    double load[STW_MAX_DEVICES];
    int64_t resident[STW_MAX_DEVICES];
    int64_t broken; /* hops that are needed but not possible */
} stw_balance_state;

stw_status stw_balance_state_create(const stw_balance_model *model, stw_arena *arena, stw_balance_state *out, stw_error *error);
/* Computes everything anew from these devices, (A). */
void stw_balance_state_set(stw_balance_state *state, const int32_t *device);
void stw_balance_state_move(stw_balance_state *state, int32_t atom, int32_t to);
double stw_balance_largest(const stw_balance_state *state);
/* Residents over the limits as a share of all, and hops that are not possible: 0 if all is well. */
double stw_balance_lacks(const stw_balance_state *state);

/* A linear order of the atoms, of one of several kinds. order: (A). */
enum { STW_BALANCE_ORDERS = 4 };
stw_status stw_balance_order(const stw_balance_model *model, int32_t kind, stw_rng *rng, int32_t *order, stw_arena scratch,
                             stw_error *error);
/* The best split of an order into contiguous pieces, one per device, devices in this order; device: (A). */
stw_status stw_balance_split(const stw_balance_model *model, const int32_t *order, const int32_t *sequence, int32_t *device,
                             stw_arena scratch, stw_error *error);

typedef struct stw_balance_limit { /* of one chain's slice */
    const stw_search *search;
    int64_t moves;  /* at most; INT64_MAX: by time alone */
    double until_s; /* 0: by moves alone */
    int64_t made;   /* moves so far */
} stw_balance_limit;

enum {
    STW_BALANCE_CHAINS = 8,
    STW_BALANCE_LEVELS = 3,
    STW_BALANCE_MOVES_PER_EVALUATION = 10000 /* what moves cost when the budget is a number of evaluations */
};

typedef struct stw_balance_chain {
    int32_t *best;  /* (A of the finest level) */
    double best_us; /* its largest load; infinite: it does not fit */
    int64_t made;   /* moves of the round */
} stw_balance_chain;

typedef struct stw_balance {
    stw_search *search;
    stw_arena scratch; /* behind what is kept for the whole run */
    int32_t level_count;
    stw_balance_model level[STW_BALANCE_LEVELS]; /* from coarse to fine */
    const stw_balance_model *model;              /* the level of this round */
    stw_balance_chain chain[STW_BALANCE_CHAINS];
    int32_t *leader; /* (A of the finest level) the best of all rounds so far */
    double leader_us;
    int32_t round;
    bool new_level; /* the round is the first of its level */
    int64_t moves;  /* of a chain in this round, or INT64_MAX */
    double slice_s; /* of a chain in this round, or 0 */
} stw_balance;

/* One chain in one round; work for a pool, context is the stw_balance. */
stw_status stw_balance_work_on_chain(void *context, int64_t chain, int32_t worker, stw_error *error);

#endif
