/* The grain of a plan: what a target can place, and so what a search decides about (docs/grain.md). */
#ifndef STW_GRAPH_GRAIN_H
#define STW_GRAPH_GRAIN_H

#include "graph/paths.h"

#define STW_GRAINS(X)   \
    X(OP, "op")         \
    X(MODULE, "module") \
    X(LAYER, "layer")   \
    X(STAGE, "stage")
#define STW_GRAIN_CHOICE "op|module|layer|stage"

typedef enum stw_grain {
#define STW_ROW(id, name) STW_GRAIN_##id,
    STW_GRAINS(STW_ROW)
#undef STW_ROW
        STW_GRAIN_COUNT
} stw_grain;

extern const char *const stw_grain_name[STW_GRAIN_COUNT];
stw_grain stw_grain_find(const char *name); /* STW_GRAIN_COUNT: none */

typedef struct stw_parcels { /* what goes to one device as a whole, at a grain */
    int32_t count;
    int32_t *of;      /* (N) of ops, parameters and buffers, and of views of them; -1: on every device */
    stw_str *name;    /* (count) the module that it is, or the first of those that it has */
    int32_t *modules; /* (count) how many it has that are not within another of it; 0: only parameters of their own */
    int32_t *first;   /* (count) its first op in the order of the program; N: none */
} stw_parcels;

/* The parcels of a grain; of STW_GRAIN_OP those of a program that is cut at calls of modules, wherever these stand: modules
 * without others inside, and of the code around them each op with what it read last. Fails where labels are no paths. A parcel
 * has
 *
 * - all of a module that is not divided: one with no modules inside; one with parameters of its own beside such; one whose own
 *   code takes a value from outside together with one from inside, as residual connections do (a target moves what a module is
 *   called with, but not what goes around it); at the grain layer also one that is called by a number, as its siblings are;
 * - with each op of the code around these the values that it reads, since no target moves them, and the parameters;
 * - with a parameter all forward ops that read it, so that tied weights are at one place, and its update. In stages, and in a
 *   program that is cut at calls, what belongs to no module is with the first op that reads it; others have copies, as a tied
 *   head has of its embedding, and go with what they read besides;
 * - of the rest of the backward pass what it computed last. */
stw_status stw_grain_parcels(const stw_graph *graph, stw_grain grain, stw_arena *arena, stw_parcels *out, stw_error *error);

/* Merges parcels to at most `most` stages: ranges in the order of the program, so that no forward op reads from a later one, of
 * which the longest takes as little time as can be (us: (N) of each op). Fewer where there are not as many. allowed: (N) the
 * devices that each node may be on, or NULL: any; all of a stage may be on one, unless that takes more than `most` stages, or
 * what cannot be cut has no such device. */
stw_status stw_grain_stages(const stw_graph *graph, const double *us, const uint64_t *allowed, int32_t most, stw_arena *arena,
                            stw_parcels *parcels, stw_error *error);

#endif
