/* A clock that never goes back, for budgets and measurements. Results of the library never depend on it unless a time budget
 * was asked for. */
#ifndef STW_BASE_CLOCK_H
#define STW_BASE_CLOCK_H

/* The computer's. */
double stw_now_s(void);

/* Another one, so that what a search does with its time can be tried without waiting. Any thread may ask it. */
typedef struct stw_clock {
    double (*now_s)(void *context);
    void *context;
} stw_clock;
/* Counts the processor time of this process, all threads together: for budgets on a busy computer. */
const stw_clock *stw_processor_clock(void);
/* NULL: the computer's. */
double stw_clock_now_s(const stw_clock *clock);

#endif
