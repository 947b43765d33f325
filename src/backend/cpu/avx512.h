/* Functions in AVX-512, whatever the rest is compiled for; they run only where stw_has_avx512 says so. */
#ifndef STW_BACKEND_CPU_AVX512_H
#define STW_BACKEND_CPU_AVX512_H

#include <stdbool.h>

#if defined(__x86_64__)

#include <immintrin.h>

#define STW_AVX512        __attribute__((target("avx512f,fma")))
#define STW_AVX512_INLINE __attribute__((target("avx512f,fma"), always_inline)) static inline

/* Before a loop of few, known rounds: its arrays then live in registers. */
#if defined(__clang__)
#define STW_UNROLL _Pragma("unroll")
#else
#define STW_UNROLL _Pragma("GCC unroll 16")
#endif

static inline bool stw_has_avx512(void) { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma"); }

/* The first `lanes` of 16; none if negative. */
static inline __mmask16 stw_first_lanes(long lanes) {
    return (__mmask16)(lanes >= 16 ? 0xffff : lanes <= 0 ? 0 : (1 << lanes) - 1);
}

#else

static inline bool stw_has_avx512(void) { return false; }

#endif
#endif
