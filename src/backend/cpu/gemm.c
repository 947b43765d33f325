#include "backend/cpu/gemm.h"

#if defined(STW_HAVE_OPENBLAS)

#include <cblas.h>

void stw_gemm_prepare(void) { openblas_set_num_threads(1); }

const char *stw_gemm_library(void) { return "OpenBLAS"; }

void stw_gemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_step,
              const float *b, int64_t b_step, float beta, float *c, int64_t c_step) {
    cblas_sgemm(CblasRowMajor, turn_a ? CblasTrans : CblasNoTrans, turn_b ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n,
                (blasint)k, alpha, a, (blasint)a_step, b, (blasint)b_step, beta, c, (blasint)c_step);
}

#else

#include "backend/cpu/clones.h"

enum { DEPTH = 64, COLUMNS = 256 }; /* a piece of op(b), laid out row by row, stays in the first cache */

typedef struct {
    const float *at;
    int64_t row, column; /* distances */
} view;

STW_CLONES static void add_piece(view a, int64_t m, int64_t n, int64_t k, float alpha, const float *restrict piece,
                                 float *restrict c, int64_t c_step) {
    for (int64_t i = 0; i < m; i++) {
        float *restrict row = c + i * c_step;
        for (int64_t d = 0; d < k; d++) {
            const float factor = alpha * a.at[i * a.row + d * a.column];
            for (int64_t j = 0; j < n; j++) row[j] += factor * piece[d * COLUMNS + j];
        }
    }
}

static void multiply(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_step,
                     const float *b, int64_t b_step, float beta, float *c, int64_t c_step) {
    float piece[DEPTH * COLUMNS];
    const int64_t b_row = turn_b ? 1 : b_step, b_column = turn_b ? b_step : 1;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) c[i * c_step + j] = beta == 0.0f ? 0.0f : beta * c[i * c_step + j];
    }
    for (int64_t j = 0; j < n; j += COLUMNS) {
        const int64_t columns = n - j < COLUMNS ? n - j : COLUMNS;
        for (int64_t d = 0; d < k; d += DEPTH) {
            const int64_t depth = k - d < DEPTH ? k - d : DEPTH;
            for (int64_t e = 0; e < depth; e++) {
                for (int64_t l = 0; l < columns; l++) piece[e * COLUMNS + l] = b[(d + e) * b_row + (j + l) * b_column];
            }
            const view left = {.at = a + d * (turn_a ? a_step : 1), .row = turn_a ? 1 : a_step, .column = turn_a ? a_step : 1};
            add_piece(left, m, columns, depth, alpha, piece, c + j, c_step);
        }
    }
}

void stw_gemm_prepare(void) {}

#if defined(STW_HAVE_DNNL)

const char *stw_gemm_library(void) { return "oneDNN"; }

/* oneDNN writes the code of a kernel when it is first called for, and may lack the memory for that. */
void stw_gemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_step,
              const float *b, int64_t b_step, float beta, float *c, int64_t c_step) {
    if (!stw_gemm_dnnl(turn_a, turn_b, m, n, k, alpha, a, a_step, b, b_step, beta, c, c_step))
        multiply(turn_a, turn_b, m, n, k, alpha, a, a_step, b, b_step, beta, c, c_step);
}

#else

const char *stw_gemm_library(void) { return "plain loops"; }

void stw_gemm(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_step,
              const float *b, int64_t b_step, float beta, float *c, int64_t c_step) {
    multiply(turn_a, turn_b, m, n, k, alpha, a, a_step, b, b_step, beta, c, c_step);
}

#endif
#endif
