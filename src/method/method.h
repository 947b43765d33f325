/* Methods: anything that makes a plan. One file each; the table and what runs them are method.c. */
#ifndef STW_METHOD_METHOD_H
#define STW_METHOD_METHOD_H

#include "search/search.h"

typedef enum stw_method_kind {
    STW_METHOD_CONSTRUCTIVE, /* builds a plan, or some variants, and is done */
    STW_METHOD_POLICY,       /* the pre-trained policy: a number of plans or updates, and it is done */
    STW_METHOD_LEARNER,      /* learns from nothing as long as its budget lasts: runs where it is named, or without a policy */
    STW_METHOD_RIVAL,        /* the same, from elsewhere: runs only where it is named */
    STW_METHOD_COARSENER,    /* searches a coarser graph as long as its budget lasts; leaves groups alone */
    STW_METHOD_BREEDER,      /* searches plans of small graphs as long as its budget lasts; leaves groups alone */
    STW_METHOD_SEARCH,       /* improves plans as long as its budget lasts */
    STW_METHOD_EXACT         /* for small graphs only */
} stw_method_kind;

enum {                                  /* what sets a constructive method apart */
       STW_METHOD_PLACES = 1,           /* decides placements */
       STW_METHOD_ORDERS = 2,           /* decides the order of a placement that others made */
       STW_METHOD_DEFAULT = 4,          /* what all others are compared with; of a given plan it keeps the placement */
       STW_METHOD_STEERS = 8,           /* tries the knobs that policies decide about; the last of the constructive ones */
       STW_METHOD_NAMED_ONLY = 16,      /* runs only where it is named */
       STW_METHOD_THROUGHPUT_ONLY = 32, /* for that objective alone */
       STW_METHOD_VARIES = 64           /* tries variants, of which the best depends on the graph (rehearse.h) */
};

typedef struct stw_method {
    const char *name;
    const char *description; /* one line */
    stw_method_kind kind;
    unsigned traits; /* STW_METHOD_... */
    /* Seconds until the first plan is built, per op, and per op and device: as measured on gnmt-8, on a graph of 58,000 ops and
     * on one of 993,000 on 64 devices. They need not be exact: what runs into the deadline is given up, where that can be. */
    double op_s, pair_s;
    /* Leaves its best plan in `plan` (fresh on entry). Fails with STW_ERROR_NO_PLAN and the reason if it cannot make any. */
    stw_status (*run)(stw_search *search, stw_plan *plan, stw_error *error);
} stw_method;

extern const stw_method stw_method_single, stw_method_spread, stw_method_random, stw_method_expert, stw_method_topo,
    stw_method_etf, stw_method_heft, stw_method_sct, stw_method_metis, stw_method_steer, stw_method_balance, stw_method_anneal,
    stw_method_exact, stw_method_go_zero, stw_method_go_tune, stw_method_go_one, stw_method_hdp, stw_method_lean,
    stw_method_breed, stw_method_stretches, stw_method_pack, stw_method_express, stw_method_placeto, stw_method_coarse,
    stw_method_shortlist;

enum { STW_STRETCHES_OPS = 65536 }; /* `stretches` leaves smaller graphs to the others */

/* The i-th method in the order of the table, cheapest first; NULL past the last. */
const stw_method *stw_method_at(int32_t index);
const stw_method *stw_method_find(const char *name); /* or NULL */
/* "unknown method 'x'; known: ..." */
stw_status stw_method_fail_unknown(const char *name, stw_error *error);

/* Runs any method as its tasks ask for: on groups, if it leaves them alone; if the placement is not to be decided, that of the
 * best initial plan takes the place of a method that only places. */
stw_status stw_method_apply(const stw_method *method, stw_search *search, stw_plan *plan, stw_error *error);

#endif
