/* Calendars: when a device or a channel is busy, and the gaps in between. For the list schedulers; times in microseconds. */
#ifndef STW_PLAN_CALENDAR_H
#define STW_PLAN_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { STW_CALENDAR_GAPS = 24 };

typedef struct stw_calendar { /* when a device or a channel is busy */
    double end;               /* of what comes last */
    int32_t gap_count;        /* free times before that, in order; the latest ones, others are forgotten */
    double gap_from[STW_CALENDAR_GAPS], gap_to[STW_CALENDAR_GAPS];
} stw_calendar;

/* fmax() minds what is not a number, and takes a call. */
static inline double stw_larger(double a, double b) { return a > b ? a : b; }

static inline void stw_calendar_clear(stw_calendar *c) {
    c->end = 0.0;
    c->gap_count = 0;
}

/* The first gap that holds it, or -1. */
static inline int32_t stw_calendar_find_gap(const stw_calendar *c, double ready, double us) {
    int32_t g = c->gap_count;
    while (g > 0 && c->gap_to[g - 1] >= ready + us) g--; /* what ends before is of no use: mostly all but the last */
    for (; g < c->gap_count; g++) {
        if (stw_larger(c->gap_from[g], ready) + us <= c->gap_to[g]) return g;
    }
    return -1;
}

static inline double stw_calendar_start(const stw_calendar *c, bool insertion, double ready, double us) {
    const int32_t gap = insertion ? stw_calendar_find_gap(c, ready, us) : -1;
    return stw_larger(ready, gap < 0 ? c->end : c->gap_from[gap]);
}

static inline void stw_calendar_remove_gap(stw_calendar *c, int32_t gap) {
    const size_t after = (size_t)(--c->gap_count - gap) * sizeof(double);
    memmove(&c->gap_from[gap], &c->gap_from[gap + 1], after);
    memmove(&c->gap_to[gap], &c->gap_to[gap + 1], after);
}

static inline void stw_calendar_insert_gap(stw_calendar *c, int32_t gap, double from, double to) {
    if (to <= from) return;
    if (c->gap_count == STW_CALENDAR_GAPS) {
        if (gap == 0) return; /* it would be the oldest */
        stw_calendar_remove_gap(c, 0);
        gap--;
    }
    const size_t after = (size_t)(c->gap_count++ - gap) * sizeof(double);
    memmove(&c->gap_from[gap + 1], &c->gap_from[gap], after);
    memmove(&c->gap_to[gap + 1], &c->gap_to[gap], after);
    c->gap_from[gap] = from;
    c->gap_to[gap] = to;
}

/* Takes the time and returns its end. */
static inline double stw_calendar_take(stw_calendar *c, bool insertion, double ready, double us) {
    const int32_t gap = insertion ? stw_calendar_find_gap(c, ready, us) : -1;
    if (gap < 0) {
        const double start = stw_larger(ready, c->end);
        if (insertion) stw_calendar_insert_gap(c, c->gap_count, c->end, start);
        return c->end = start + us;
    }
    const double from = c->gap_from[gap], to = c->gap_to[gap], start = stw_larger(ready, from), end = start + us;
    stw_calendar_remove_gap(c, gap);
    stw_calendar_insert_gap(c, gap, end, to);
    stw_calendar_insert_gap(c, gap, from, start);
    return end;
}

#endif
