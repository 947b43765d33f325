/* A clock that never goes back, for budgets and measurements. Results of the library never depend on it unless a time budget
 * was asked for. */
#ifndef STW_BASE_CLOCK_H
#define STW_BASE_CLOCK_H

double stw_now_s(void);

#endif
