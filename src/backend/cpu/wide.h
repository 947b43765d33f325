/* Products with a matrix of some megabytes, as an LSTM's: such a matrix is cut, not the rows, so that few rows feed several
 * threads and the gradient of the matrix needs no parts to be added up. */
#ifndef STW_BACKEND_CPU_WIDE_H
#define STW_BACKEND_CPU_WIDE_H

#include "backend/backend.h"

/* Whether a (inner, outer) matrix is one of these, and whether the rows are so few that it is what takes the time. */
bool stw_wide_fits(int64_t inner, int64_t outer);
bool stw_wide_few(int64_t rows);

/* y = x w^T (+ y, if add). Shapes as in stw_backend.linear. */
void stw_wide_forward(stw_backend *b, int64_t rows, int64_t in, int64_t out, const float *x, const float *w, bool add, float *y);
/* d_x = d_y w (+ d_x, if add). */
void stw_wide_back(stw_backend *b, int64_t rows, int64_t in, int64_t out, const float *w, const float *d_y, bool add, float *d_x);
/* d_w += d_y^T x, of any number of rows. */
void stw_wide_weights(stw_backend *b, int64_t rows, int64_t in, int64_t out, const float *x, const float *d_y, float *d_w);

#endif
