/* tanh and the sigmoid for loops that the compiler turns into vectors: relative error below 5e-7. */
#ifndef STW_BACKEND_CPU_SQUASH_H
#define STW_BACKEND_CPU_SQUASH_H

#include "backend/cpu/exp.h"

/* A quotient of polynomials, odd by even; beyond the limit tanh is 1 in float. */
static inline float stw_tanh(float x) {
    const float limit = 7.90531110763549805f;
    x = x > limit ? limit : x;
    x = x < -limit ? -limit : x;
    const float square = x * x;
    float above = -2.76076847742355e-16f;
    above = above * square + 2.00018790482477e-13f;
    above = above * square - 8.60467152213735e-11f;
    above = above * square + 5.12229709037114e-08f;
    above = above * square + 1.48572235717979e-05f;
    above = above * square + 6.37261928875436e-04f;
    above = above * square + 4.89352455891786e-03f;
    float below = 1.19825839466702e-06f;
    below = below * square + 1.18534705686654e-04f;
    below = below * square + 2.26843463243900e-03f;
    below = below * square + 4.89352518554385e-03f;
    return x * above / below;
}

static inline float stw_sigmoid(float x) {
    x = x < -87.0f ? -87.0f : x; /* stw_exp has no larger powers */
    return 1.0f / (1.0f + stw_exp(-x));
}

#endif
