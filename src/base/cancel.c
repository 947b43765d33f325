#include "base/cancel.h"

#include <stddef.h>

bool stw_stop_is_due(const stw_stop *stop) {
    if (stop == NULL) return false;
    if (stop->cancelled != NULL && atomic_load(stop->cancelled)) return true;
    return stop->until_s > 0.0 && stw_clock_now_s(stop->clock) >= stop->until_s;
}

stw_status stw_fail_stopped(stw_error *error) { return stw_fail(error, STW_ERROR_CANCELLED, "given up: the time was over"); }
