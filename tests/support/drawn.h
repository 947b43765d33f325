/* Steps that tests draw in a comment, a column per microsecond: checked against what was drawn. */
#ifndef STW_TESTS_SUPPORT_DRAWN_H
#define STW_TESTS_SUPPORT_DRAWN_H

#include "support/small.h"
#include "test.h"

/* The plan is valid, and its last run as drawn. */
static inline void check_step(const small *s, double step_us, const char *timeline) {
    CHECK_STR(s->result.message, "");
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK_NEAR(s->result.step_s * 1e6, step_us, 1e-9 * step_us);
    CHECK_STR(s->timeline, timeline);
}

/* The same of a problem of which nothing else is asked. */
static inline void check_drawn(small_text text, double step_us, const char *timeline) {
    small *s = small_open(text);
    check_step(s, step_us, timeline);
    small_close(s);
}

#endif
