/* What stw_cancel is inside: for whoever hands the flag on to a search. And when long work gives up: because of that flag, or
 * because the time is up. */
#ifndef STW_BASE_CANCEL_H
#define STW_BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/error.h"

struct stw_cancel {
    atomic_bool requested;
};

typedef struct stw_stop {
    const atomic_bool *cancelled; /* or NULL */
    const stw_clock *clock;       /* NULL: the computer's */
    double until_s;               /* on it; 0: no limit of time, and the clock is not looked at */
} stw_stop;
/* NULL: never. */
bool stw_stop_is_due(const stw_stop *stop);
/* For what is given up then: STW_ERROR_CANCELLED. */
stw_status stw_fail_stopped(stw_error *error);

#endif
