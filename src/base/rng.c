#include "base/rng.h"

#include <math.h>

/* splitmix64: spreads any 64-bit number over all bits. */
static uint64_t mix(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

stw_rng stw_rng_create(uint64_t seed) {
    stw_rng rng;
    for (int i = 0; i < 4; i++) rng.state[i] = mix(&seed);
    return rng;
}

stw_rng stw_rng_split(const stw_rng *rng, uint64_t key) {
    stw_rng child;
    uint64_t state = mix(&key);
    for (int i = 0; i < 4; i++) {
        state ^= rng->state[i];
        child.state[i] = mix(&state);
    }
    return child;
}

double stw_rng_uniform(stw_rng *rng) { return (double)(stw_rng_next(rng) >> 11) * 0x1.0p-53; }

int64_t stw_rng_below(stw_rng *rng, int64_t bound) {
    const uint64_t range = (uint64_t)bound;
    const uint64_t limit = UINT64_MAX - UINT64_MAX % range; /* draws above it would favour small results */
    uint64_t draw;
    do draw = stw_rng_next(rng);
    while (draw >= limit);
    return (int64_t)(draw % range);
}

double stw_rng_normal(stw_rng *rng) { /* Box-Muller; the second number is not kept, so a draw has no hidden state */
    const double radius = sqrt(-2.0 * log(1.0 - stw_rng_uniform(rng)));
    return radius * cos(6.283185307179586 * stw_rng_uniform(rng));
}
