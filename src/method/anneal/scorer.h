/* The scorer: of a move's features, how much it is worth trying. A network of one hidden layer, learnt from moves that searches
 * tried (src/pretrain/proposals.h). */
#ifndef STW_METHOD_ANNEAL_SCORER_H
#define STW_METHOD_ANNEAL_SCORER_H

#include "base/arena.h"
#include "base/rng.h"
#include "base/str.h"
#include "method/anneal/move_features.h"

enum {
    STW_SCORER_HIDDEN = 32,
    /* All weights, one after the other: (FEATURES, HIDDEN), (HIDDEN) biases, (HIDDEN) to the score, its bias. */
    STW_SCORER_BIAS = STW_MOVE_FEATURES * STW_SCORER_HIDDEN,
    STW_SCORER_OUT = STW_SCORER_BIAS + STW_SCORER_HIDDEN,
    STW_SCORER_OUT_BIAS = STW_SCORER_OUT + STW_SCORER_HIDDEN,
    STW_SCORER_WEIGHTS
};

typedef struct stw_scorer {
    /* Features are made alike: (x - mean) * scale, cut to [-5, 5]. */
    float mean[STW_MOVE_FEATURES], scale[STW_MOVE_FEATURES];
    float weight[STW_SCORER_WEIGHTS];
} stw_scorer;

/* As it is made: nothing is learnt. */
void stw_scorer_begin(stw_scorer *scorer, const stw_rng *rng);
/* Logarithm of the odds that the move is worth it; the higher the better. hidden: (HIDDEN) what comes before the slope; or NULL.
 */
float stw_scorer_score(const stw_scorer *scorer, const float *feature, float *hidden);
/* A feature as the network meets it. */
static inline float stw_scorer_input(const stw_scorer *scorer, const float *feature, int32_t column) {
    const float x = (feature[column] - scorer->mean[column]) * scorer->scale[column];
    return x > 5.0f ? 5.0f : x < -5.0f ? -5.0f : x;
}
/* Hidden numbers below 0 count by this share. */
static const float stw_scorer_slope = 0.01f;

/* Written aside and renamed; docs/formats/policy.md. */
stw_status stw_scorer_write(const stw_scorer *scorer, const char *path, stw_error *error);
stw_status stw_scorer_read(const char *path, stw_scorer *out, stw_error *error);
/* The same of a text that has been read, of this name. */
stw_status stw_scorer_parse(stw_str text, const char *label, stw_scorer *out, stw_error *error);
/* The one that comes with the library; false: it was built without. */
bool stw_scorer_shipped(stw_scorer *out);

#endif
