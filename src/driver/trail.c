/* When a method's plan got better: a list of bounded length. */
#include <stdlib.h>

#include "base/array.h"
#include "driver/runner.h"

enum { MOST_FOUND = 4096 };

/* Of the kept ones, every second: they stay evenly spaced. A value is then reached later than it was, never earlier. */
static void thin_out(stw_trail *trail) {
    int32_t kept = 0;
    for (int32_t k = 0; k < trail->count; k += 2) trail->found[kept++] = trail->found[k];
    trail->count = kept;
    trail->stride *= 2;
}

/* Room for one more. */
static bool make_room(stw_trail *trail) {
    if (trail->count == MOST_FOUND) thin_out(trail);
    return STW_GROW(NULL, trail->found, (int64_t)trail->count + 1, trail->capacity, NULL) == STW_OK;
}

void stw_trail_add(stw_trail *trail, stw_found found) {
    if (trail->count > 0 && trail->found[trail->count - 1].value <= found.value) return;
    if (trail->stride == 0) trail->stride = 1;
    const bool last_stays = trail->total == 0 || (trail->total - 1) % trail->stride == 0;
    if (!last_stays || !make_room(trail)) {
        if (trail->count == 0) return; /* out of memory */
        trail->count--;
    }
    trail->found[trail->count++] = found;
    trail->total++;
}

void stw_trail_append(stw_trail *trail, const stw_trail *other, double seconds, int64_t evaluations) {
    for (int32_t k = 0; k < other->count; k++) {
        stw_found found = other->found[k];
        found.seconds += seconds;
        found.evaluations += evaluations;
        stw_trail_add(trail, found);
    }
}

void stw_trail_free(stw_trail *trail) {
    free(trail->found);
    *trail = (stw_trail){0};
}
