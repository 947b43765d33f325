/* The one door to Clp, which is C++: what it throws ends here. */
#ifndef STW_METHOD_CONSTRUCTIVE_CLP_H
#define STW_METHOD_CONSTRUCTIVE_CLP_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stw_linear_program { /* minimise cost * x with low <= x <= high, for columns and for rows */
    int columns, rows;
    const int *start;    /* (columns + 1) into row and value */
    const int *row;      /* (start[columns]) */
    const double *value; /* likewise */
    const double *column_low, *column_high, *cost, *row_low, *row_high;
    int most_iterations;
    double most_s; /* negative: no limit */
} stw_linear_program;

typedef enum stw_clp_status { STW_CLP_DONE, STW_CLP_MEMORY, STW_CLP_FAILED } stw_clp_status;

/* x: (columns). `*finished`: solved to its end, else as far as the limits allow. */
stw_clp_status stw_clp_solve(const stw_linear_program *program, double *x, bool *finished);

#ifdef __cplusplus
}
#endif

#endif
