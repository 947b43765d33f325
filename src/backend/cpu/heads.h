/* The two products of attention whose one side is as narrow as a head: libraries lose a third of their speed there. In AVX-512
 * where the processor has it and a head is a whole number of vectors; elsewhere the library multiplies. */
#ifndef STW_BACKEND_CPU_HEADS_H
#define STW_BACKEND_CPU_HEADS_H

#include <stdbool.h>
#include <stdint.h>

bool stw_heads_fit(int64_t size);

/* score = scale * q turned_k. q: (rows, size), turned_k: (size, seen), score: (rows, seen). */
void stw_heads_score(int64_t rows, int64_t seen, int64_t size, float scale, const float *q, const float *turned_k, float *score);

/* to[i] = scale * sum over k of weight(i, k) * from[k] (+ to[i], if add), i < count, k < depth, where weight(i, k) is
 * weight[i * across + k * along]. from: (depth, size), to: (count, size). */
void stw_heads_mix(int64_t count, int64_t depth, int64_t size, float scale, const float *weight, int64_t across, int64_t along,
                   const float *from, bool add, float *to);

#endif
