/* Matrix products of one thread, by the library that was found: oneDNN, else a CBLAS, else plain loops. */
#ifndef STW_BACKEND_CPU_GEMM_H
#define STW_BACKEND_CPU_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* c = alpha op(a) op(b) + beta c, op turning a matrix round if told. op(a): (m, k), op(b): (k, n), c: (m, n), row by row, with
 * distances a_step, b_step, c_step between rows. beta 0: c is not read. */
void stw_gemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_step,
              const float *b, int64_t b_step, float beta, float *c, int64_t c_step);
/* Called once before. */
void stw_gemm_prepare(void);
const char *stw_gemm_library(void);

/* gemm_dnnl.cpp: false: oneDNN lacks memory, and c is as it was. */
bool stw_gemm_dnnl(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_step,
                   const float *b, int64_t b_step, float beta, float *c, int64_t c_step);

#ifdef __cplusplus
}
#endif

#endif
