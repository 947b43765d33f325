/* Random numbers: one seed decides all. A generator is split by WHAT is computed (seed, graph, update, sample), never by
 * thread or rank, so that the number of threads and machines does not change any draw. */
#ifndef STW_BASE_RNG_H
#define STW_BASE_RNG_H

#include <stdint.h>

typedef struct stw_rng {
    uint64_t state[4]; /* xoshiro256** */
} stw_rng;

stw_rng stw_rng_create(uint64_t seed);
/* An independent generator for item `key`; the parent does not move. */
stw_rng stw_rng_split(const stw_rng *rng, uint64_t key);

static inline uint64_t stw_rng_next(stw_rng *rng) {
    uint64_t *s = rng->state;
    const uint64_t five = s[1] * 5, result = (five << 7 | five >> 57) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = s[3] << 45 | s[3] >> 19;
    return result;
}
double stw_rng_uniform(stw_rng *rng);               /* [0, 1) */
int64_t stw_rng_below(stw_rng *rng, int64_t bound); /* [0, bound), unbiased; bound > 0 */
double stw_rng_normal(stw_rng *rng);                /* mean 0, variance 1 */

#endif
