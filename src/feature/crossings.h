/* What passes between units: for each value, the other units that read it and how much of it. Private to feature/.
 *
 * M units, V values, U uses, E crossings. */
#ifndef STW_FEATURE_CROSSINGS_H
#define STW_FEATURE_CROSSINGS_H

#include "feature/feature.h"
#include "machine/link_mean.h"

typedef struct stw_crossings {
    int32_t E;
    int32_t *from;   /* (V) unit of each value; -1: none, on every device */
    double *sent;    /* (V) bytes of it that other units read */
    int32_t *start;  /* (V + 1) into what follows */
    int32_t *to;     /* (E) unit that reads the value; never its own */
    double *bytes;   /* (E) what that unit reads of it: the whole, or the sum of the views, at most the whole */
    int32_t *of_use; /* (U) the crossing that a use belongs to; -1: it stays within its unit */

    stw_link_mean link; /* the mean over the links of the machine */
} stw_crossings;

/* Bytes that one use reads. */
static inline double stw_use_bytes(const stw_features *features, int32_t value, const stw_task_use *use) {
    const int64_t whole = features->tasks->value_bytes[value];
    const int64_t part = use->view < 0 ? whole : features->costs->graph->bytes[use->view];
    return (double)(part < whole ? part : whole);
}

/* Time on the mean link, in microseconds. */
static inline double stw_mean_link_us(const stw_crossings *crossings, double bytes) {
    return stw_link_mean_us(&crossings->link, bytes);
}

stw_status stw_crossings_build(stw_features *features, stw_arena *arena, stw_error *error);
/* producer and reader lists of the features, from the crossings. */
stw_status stw_crossings_neighbours(stw_features *features, stw_arena *arena, stw_error *error);

#endif
