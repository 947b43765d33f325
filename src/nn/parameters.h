/* The parameters of a network: one block of reals on a backend, described by one table; gradients and Adam's moments are blocks
 * of the same layout. */
#ifndef STW_NN_PARAMETERS_H
#define STW_NN_PARAMETERS_H

#include "backend/backend.h"
#include "base/arena.h"
#include "base/rng.h"

typedef enum stw_start { /* what a parameter is before training */
                         STW_START_ZERO,
                         STW_START_ONE,
                         STW_START_UNIFORM, /* in [-scale, scale] / sqrt(cols) */
                         STW_START_NORMAL,  /* scale * N(0, 1) */
                         STW_START_FORGET   /* of an LSTM's four gates' biases, side by side: the second 1, the others 0 */
} stw_start;

typedef struct stw_parameter {
    char name[48];      /* "trunk.attention.0.query.weight" */
    int32_t rows, cols; /* a vector: (1, cols) */
    int64_t offset;     /* in reals, from the beginning of the block */
    stw_start start;
    double scale;
} stw_parameter;

enum { STW_MAX_PARAMETERS = 256 };

typedef struct stw_parameters {
    stw_backend *backend; /* borrowed */
    int32_t count;
    stw_parameter entry[STW_MAX_PARAMETERS];
    int64_t total;                           /* reals */
    void *value, *gradient, *first, *second; /* (total) on the backend; NULL before stw_parameters_allocate */
    bool borrows;                            /* the values are those of others */
    int64_t step;                            /* of Adam, so far */
} stw_parameters;

/* Declares a parameter and returns its index; all are declared before memory is made. Offsets are multiples of 16 reals. */
int32_t stw_parameters_declare(stw_parameters *p, int32_t rows, int32_t cols, stw_start start, double scale, const char *format,
                               ...) STW_PRINTF(6, 7);
/* Blocks on the backend, values from the generator split by the parameter's name (so that adding one changes no other). */
stw_status stw_parameters_allocate(stw_parameters *p, const stw_rng *rng, stw_error *error);
void stw_parameters_release(stw_parameters *p);
/* From here on the values are those of `from`, of an equal network on a backend of the same memory, for as long as that lives. */
void stw_parameters_borrow(stw_parameters *p, const stw_parameters *from);
int32_t stw_parameters_find(const stw_parameters *p, const char *name); /* or -1 */

/* Where one parameter begins in a block. */
void *stw_parameter_in(const stw_parameters *p, int32_t index, void *block);
static inline void *stw_parameter_value(const stw_parameters *p, int32_t index) { return stw_parameter_in(p, index, p->value); }
static inline void *stw_parameter_gradient(const stw_parameters *p, int32_t index) {
    return stw_parameter_in(p, index, p->gradient);
}
void stw_parameters_zero_gradient(stw_parameters *p);
/* Adam (0.9, 0.999, 1e-8) on gradients cut to norm `clip` (0: as they are). Returns the norm before the cut. A rate of 0 or a
 * norm that is not finite changes nothing. */
double stw_parameters_update(stw_parameters *p, double rate, double clip);

/* Between host doubles and reals on the backend. */
void stw_reals_in(stw_backend *b, void *to, const double *from, int64_t count, stw_arena scratch);
void stw_reals_out(stw_backend *b, double *to, const void *from, int64_t count, stw_arena scratch);

#endif
