/* Attention of one segment and head in AVX-512, where a head is a whole number of vectors. Matrices as narrow as a head take
 * libraries a third of their speed, and scores of few rows at a time stay in the first cache. */
#ifndef STW_BACKEND_CPU_HEADS_H
#define STW_BACKEND_CPU_HEADS_H

#include "backend/cpu/attention.h"

bool stw_heads_fit(int64_t size);
/* Floats that a thread needs. */
int64_t stw_heads_desk(const stw_attention_shape *shape);
void stw_heads_forward(const stw_attention_work *a, const stw_attention_part *p, float *desk);
/* All but the zeros of rows that no segment comes after. */
void stw_heads_backward(const stw_attention_work *a, const stw_attention_part *p, float *desk);

#endif
