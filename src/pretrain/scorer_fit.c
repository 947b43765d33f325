#include "pretrain/scorer_fit.h"

#include <math.h>
#include <stdlib.h>

enum { COLUMNS = STW_MOVE_FEATURES, HIDDEN = STW_SCORER_HIDDEN, BATCH = 512 };

/* ---- examples ---- */

void stw_examples_weigh(stw_example *example, int64_t count) {
    static const double MOST = 30.0;
    double gain = 0.0;
    for (int64_t k = 0; k < count; k++) gain += (double)example[k].gain;
    for (int64_t k = 0; k < count; k++)
        example[k].worth = gain > 0.0 ? (float)fmin((double)example[k].gain * (double)count / gain, MOST) : 0.0f;
}

/* ---- the loss ---- */

/* What the score should rise by: log(1 + exp(-z)) and the like. */
static double softplus(double z) { return z > 0.0 ? z + log1p(exp(-z)) : log1p(exp(z)); }

double stw_scorer_learn(const stw_scorer *s, const stw_example *const *example, int64_t count,
                        float gradient[STW_SCORER_WEIGHTS]) {
    const float *out = &s->weight[STW_SCORER_OUT];
    double loss = 0.0;
    for (int64_t e = 0; e < count; e++) {
        float hidden[HIDDEN], back[HIDDEN];
        const float *feature = example[e]->feature;
        const double z = (double)stw_scorer_score(s, feature, hidden), worth = (double)example[e]->worth;
        loss += (1.0 + worth) * softplus(z) - worth * z; /* least where exp(z) is the mean worth */
        const float by = (float)((1.0 + worth) / (1.0 + exp(-z)) - worth);
        gradient[STW_SCORER_OUT_BIAS] += by;
        for (int32_t k = 0; k < HIDDEN; k++) {
            const float slope = hidden[k] > 0.0f ? 1.0f : stw_scorer_slope;
            gradient[STW_SCORER_OUT + k] += by * slope * hidden[k];
            back[k] = by * slope * out[k];
            gradient[STW_SCORER_BIAS + k] += back[k];
        }
        for (int32_t c = 0; c < COLUMNS; c++) {
            const float x = stw_scorer_input(s, feature, c);
            float *row = &gradient[(int64_t)c * HIDDEN];
            for (int32_t k = 0; k < HIDDEN; k++) row[k] += x * back[k];
        }
    }
    return loss;
}

/* ---- fitting ---- */

/* Makes the columns alike; one that is always the same is left out. */
static void standardise(const stw_example *example, int64_t count, stw_scorer *s) {
    for (int32_t c = 0; c < COLUMNS; c++) {
        double sum = 0.0, squares = 0.0;
        for (int64_t e = 0; e < count; e++) sum += (double)example[e].feature[c];
        const double mean = sum / (double)count;
        for (int64_t e = 0; e < count; e++) squares += pow((double)example[e].feature[c] - mean, 2.0);
        const double deviation = sqrt(squares / (double)count);
        s->mean[c] = (float)mean;
        s->scale[c] = deviation > 1e-5 ? (float)(1.0 / deviation) : 0.0f;
    }
}

typedef struct {
    float first[STW_SCORER_WEIGHTS], second[STW_SCORER_WEIGHTS];
    double first_left, second_left; /* of what they began with, powers of the decays */
} adam;

static void step(adam *a, stw_scorer *s, const float *gradient, double rate) {
    static const float DECAY = 0.9f, DECAY_SQUARED = 0.999f;
    a->first_left *= (double)DECAY;
    a->second_left *= (double)DECAY_SQUARED;
    const float by = (float)(rate / (1.0 - a->first_left)), scale = (float)(1.0 / (1.0 - a->second_left));
    for (int32_t k = 0; k < STW_SCORER_WEIGHTS; k++) {
        a->first[k] = DECAY * a->first[k] + (1.0f - DECAY) * gradient[k];
        a->second[k] = DECAY_SQUARED * a->second[k] + (1.0f - DECAY_SQUARED) * gradient[k] * gradient[k];
        s->weight[k] -= by * a->first[k] / (sqrtf(a->second[k] * scale) + 1e-8f);
    }
}

/* Up for a tenth of the way, then down to nothing. */
static double share_of_rate(double progress) {
    static const double UP = 0.1;
    return progress < UP ? progress / UP : (1.0 - progress) / (1.0 - UP);
}

static void shuffle(const stw_example **order, int64_t count, stw_rng *rng) {
    for (int64_t k = count - 1; k > 0; k--) {
        const int64_t other = stw_rng_below(rng, k + 1);
        const stw_example *kept = order[k];
        order[k] = order[other];
        order[other] = kept;
    }
}

double stw_scorer_fit(const stw_example *example, int64_t count, const stw_scorer_course *course, const stw_example **order,
                      stw_scorer *out) {
    const stw_rng start = stw_rng_split(&course->rng, 0);
    stw_rng draws = stw_rng_split(&course->rng, 1);
    const int64_t batches = (count + BATCH - 1) / BATCH, steps = batches * course->epochs;
    adam moments = {.first_left = 1.0, .second_left = 1.0};
    double loss = 0.0;
    stw_scorer_begin(out, &start);
    if (count == 0) return NAN;
    standardise(example, count, out);
    for (int64_t k = 0; k < count; k++) order[k] = &example[k];
    for (int64_t k = 0; k < steps; k++) {
        float gradient[STW_SCORER_WEIGHTS] = {0};
        const int64_t first = k % batches * BATCH, size = first + BATCH < count ? BATCH : count - first;
        if (first == 0) shuffle(order, count, &draws);
        if (first == 0) loss = 0.0;
        loss += stw_scorer_learn(out, &order[first], size, gradient);
        for (int32_t w = 0; w < STW_SCORER_WEIGHTS; w++) gradient[w] /= (float)size;
        step(&moments, out, gradient, course->rate * share_of_rate((double)k / (double)steps));
    }
    return loss / (double)count;
}

/* ---- judging ---- */

static int ascending(const void *left, const void *right) {
    const float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

/* How many of `count` ascending scores are below this one, equal ones by half. */
static double rank(const float *score, int64_t count, float one) {
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (score[middle] < one)
            low = middle + 1;
        else
            high = middle;
    }
    int64_t equal = 0;
    while (low + equal < count && score[low + equal] == one) equal++;
    return (double)low + 0.5 * (double)equal;
}

double stw_scorer_auc(const stw_scorer *s, const stw_example *example, int64_t count, float *score) {
    int64_t others = 0;
    double sum = 0.0;
    for (int64_t k = 0; k < count; k++) {
        if (!(example[k].gain > 0.0f)) score[others++] = stw_scorer_score(s, example[k].feature, NULL);
    }
    if (others == 0 || others == count) return NAN;
    qsort(score, (size_t)others, sizeof *score, ascending);
    for (int64_t k = 0; k < count; k++) {
        if (example[k].gain > 0.0f) sum += rank(score, others, stw_scorer_score(s, example[k].feature, NULL));
    }
    return sum / (double)others / (double)(count - others);
}
