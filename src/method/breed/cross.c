/* Sequences that are drawn, or made of two others. */
#include <string.h>

#include "method/breed/breed.h"

/* ---- drawn ---- */

/* Always one of the tasks that may come next. */
static void draw_order(const stw_breed *b, stw_rng *rng, stw_sequence *out) {
    int32_t count = 0, ready = 0; /* out->task: what is placed, then what is ready; place: how many must come before, at first */
    for (int32_t t = 0; t < b->T; t++) {
        out->place[t] = b->before_start[t + 1] - b->before_start[t];
        if (out->place[t] == 0) out->task[ready++] = t;
    }
    for (; count < ready; count++) {
        const int32_t k = count + (int32_t)stw_rng_below(rng, ready - count), t = out->task[k];
        out->task[k] = out->task[count];
        out->task[count] = t;
        for (int32_t j = b->after_start[t]; j < b->after_start[t + 1]; j++) {
            if (--out->place[b->after[j]] == 0) out->task[ready++] = b->after[j];
        }
    }
    for (int32_t k = 0; k < b->T; k++) out->place[out->task[k]] = k;
}

void stw_sequence_draw(const stw_breed *b, stw_rng *rng, stw_sequence *out) {
    draw_order(b, rng, out);
    const int64_t used = 1 + stw_rng_below(rng, b->D);
    for (int32_t i = 0; i < b->I; i++) out->device[i] = (int32_t)stw_rng_below(rng, used);
    out->ps = STW_BREED_NEVER_PS;
}

/* ---- of two ---- */

/* rename: (D) the device of `one` for each of `other`, so that they have much in common; where devices differ, the same. */
static void match_devices(const stw_breed *b, const stw_sequence *one, const stw_sequence *other, int32_t *rename) {
    uint64_t taken = 0;
    for (int32_t d = 0; d < b->D; d++) rename[d] = b->alike ? -1 : d;
    for (int32_t d = 0; b->alike && d < b->D; d++) {
        int32_t common[STW_MAX_DEVICES] = {0}, best = -1;
        for (int32_t i = 0; i < b->I; i++) {
            if (other->device[i] == d) common[one->device[i]]++;
        }
        for (int32_t e = 0; e < b->D; e++) {
            if (!(taken >> e & 1) && (best < 0 || common[e] > common[best])) best = e;
        }
        rename[d] = best;
        taken |= 1ULL << best;
    }
}

/* The first `cut` tasks of one in its order, then the others in the order of the other. */
static void cross_orders(const stw_breed *b, const stw_sequence *one, const stw_sequence *other, int32_t cut, stw_sequence *out) {
    int32_t count = cut;
    memcpy(out->task, one->task, (size_t)cut * sizeof *out->task);
    for (int32_t k = 0; k < b->T; k++) {
        if (one->place[other->task[k]] >= cut) out->task[count++] = other->task[k];
    }
    for (int32_t k = 0; k < b->T; k++) out->place[out->task[k]] = k;
}

void stw_sequence_cross(const stw_breed *b, stw_rng *rng, const stw_sequence *one, const stw_sequence *other, stw_sequence *out,
                        int32_t *rename) {
    const int32_t cut = (int32_t)stw_rng_below(rng, b->T + 1);
    const bool by_time = stw_rng_below(rng, 2) == 0;
    match_devices(b, one, other, rename);
    cross_orders(b, one, other, by_time ? cut : b->T, out);
    for (int32_t i = 0; i < b->I; i++) out->device[i] = one->device[i];
    for (int32_t k = 0; k < b->T; k++) {
        const int32_t item = b->task_item[out->task[k]];
        const bool theirs = by_time ? k >= cut : stw_rng_below(rng, 2) == 0;
        if (theirs) out->device[item] = rename[other->device[item]];
    }
    out->ps = STW_BREED_NEVER_PS;
}
