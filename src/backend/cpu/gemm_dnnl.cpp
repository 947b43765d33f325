// oneDNN throws what C cannot catch (docs/adr/0015).
#include <oneapi/dnnl/dnnl.h>

#include "backend/cpu/gemm.h"

// Of the OpenMP runtime that oneDNN runs on; its header is the compiler's own, which may come with another runtime.
extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int threads);

extern "C" bool stw_gemm_dnnl(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                              int64_t a_step, const float *b, int64_t b_step, float beta, float *c, int64_t c_step) {
    const int threads = omp_get_max_threads();  // of the calling thread alone
    bool done = false;
    if (threads != 1) omp_set_num_threads(1);
    try {
        done = dnnl_sgemm(turn_a ? 'T' : 'N', turn_b ? 'T' : 'N', m, n, k, alpha, a, a_step, b, b_step, beta, c, c_step) ==
               dnnl_success;
    } catch (...) {
        // the kernel's code could not be made
    }
    if (threads != 1) omp_set_num_threads(threads);
    return done;
}
