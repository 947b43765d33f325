/* Features of a move that a chain might try: what it would change, as far as the last run shows it. */
#ifndef STW_METHOD_ANNEAL_MOVE_FEATURES_H
#define STW_METHOD_ANNEAL_MOVE_FEATURES_H

#include <string.h>

#include "method/anneal/sight.h"

enum {
#define COLUMN(name, scale, what) STW_MOVE_HAS_##name,
#include "method/anneal/move_columns.def"
#undef COLUMN
    STW_MOVE_FEATURES
};
enum { STW_MOVE_FEATURES_VERSION = 1 };

typedef enum stw_move_shape { STW_SHAPE_UNIT, STW_SHAPE_BLOB, STW_SHAPE_WINDOW } stw_move_shape;

typedef struct stw_proposed {
    const stw_plan *plan; /* with the devices after the move, and the groups before it */
    stw_move_shape shape;
    int32_t count;                    /* nodes that got another device; one that got two stands twice, the first device first */
    const int32_t *node, *old_device; /* (count) */
    double progress, heat;            /* of the search; how much worse a plan may become, as a share */
} stw_proposed;

/* Like a logarithm far from 0 and like x near it; exact arithmetic, so that every machine has the same: log2(1 + |x|), linear
 * between powers of two, with the sign of x. */
static inline float stw_bend(float x) {
    const float y = 1.0f + (x < 0.0f ? -x : x);
    int32_t bits;
    memcpy(&bits, &y, sizeof bits);
    const float bent = (float)(bits - 0x3f800000) * (1.0f / 8388608.0f);
    return x < 0.0f ? -bent : bent;
}

/* feature: (STW_MOVE_FEATURES). Takes time in proportion to what moves and the edges around it, allocates nothing, and uses the
 * marks in `sight`. */
void stw_move_features(const stw_simulator *simulator, stw_sight *sight, const stw_proposed *move, float *feature);

#endif
