#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static double read_clock(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double stw_now_s(void) { return read_clock(CLOCK_MONOTONIC); }

static double processor_s(void *context) {
    (void)context;
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

const stw_clock *stw_processor_clock(void) {
    static const stw_clock clock = {.now_s = processor_s};
    return &clock;
}

double stw_clock_now_s(const stw_clock *clock) { return clock == NULL ? stw_now_s() : clock->now_s(clock->context); }
