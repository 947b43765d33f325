/* Random problems and plans for tests. Everything depends on the generator that is passed in. */
#ifndef STW_TEST_RANDOM_H
#define STW_TEST_RANDOM_H

#include "base/rng.h"
#include "support/small.h"

typedef struct random_shape {
    int32_t nodes; /* about so many */
    int32_t device_count;
    bool plain;             /* ops and data edges only; no sources, views, updates, control edges and outputs */
    bool wide;              /* few edges, so that much is ready at once */
    bool unlike;            /* devices of two kinds */
    bool buses;             /* some links share one */
    bool free_links;        /* a transfer takes no time */
    bool charges;           /* it takes some of the devices', one or two microseconds at each end or none */
    bool model;             /* few ops have measured times, and sizes are those of real tensors */
    bool far;               /* tensors so large that launches hardly count, odd devices, and times far from the model */
    const char *contention; /* NULL: queue */
} random_shape;

/* A problem with everything on device 0; ties are frequent, since times and sizes are small whole numbers. */
small *random_open(stw_rng *rng, random_shape shape);

/* Random devices; what must be together is. */
void random_placement(stw_rng *rng, const stw_simulator *simulator, stw_plan *plan);
void random_priorities(stw_rng *rng, stw_plan *plan);
/* `tries` times: fuses an op with one that reads it, or recomputes it; what is illegal is taken back. Returns how often it was
 * legal. */
int32_t random_groups(stw_rng *rng, const stw_simulator *simulator, stw_plan *plan, int32_t tries);
/* A strict order on every device, out of a random order of all tasks in which they could run. */
void random_orders(stw_rng *rng, const stw_simulator *simulator, stw_plan *plan);
void remove_orders(stw_plan *plan);
/* Every op alone, and no orders. */
void unfuse_and_free(stw_plan *plan);

/* A hash of all that a run leaves behind. */
uint64_t hash_run(const stw_workspace *workspace, const stw_evaluation *result);

#endif
