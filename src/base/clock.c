#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "base/clock.h"

#include <stddef.h>
#include <time.h>

double stw_now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double stw_clock_now_s(const stw_clock *clock) { return clock == NULL ? stw_now_s() : clock->now_s(clock->context); }
