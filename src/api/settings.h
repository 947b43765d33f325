/* What the options say of a search, as numbers. */
#ifndef STW_API_SETTINGS_H
#define STW_API_SETTINGS_H

#include "search/search.h"

typedef struct stw_settings {
    stw_objective objective;
    unsigned tasks;
    int32_t rule;   /* stw_rule, or -1 */
    int32_t fusion; /* stw_fusion, or -1 */
    uint64_t seed;
    int32_t threads;        /* 0: one per core */
    int32_t unit_count;     /* 0: off */
    double budget_s;        /* 0: no limit of time */
    int64_t evaluations;    /* 0: no limit of evaluations */
    const stw_clock *clock; /* NULL: the computer's; or that of --clock; tests bring their own */
    double min_gain;        /* what several devices must bring over one, as a share of its value; negative: not said */
    const char *from;       /* file of the initial plan; NULL: none; borrowed from the options */
    const stw_plan *given;  /* the initial plan itself, in place of a file; NULL: none; borrowed */
    stw_policy_settings policy;
} stw_settings;

/* `options` may be NULL: all defaults. `tasks`: what is decided where they do not say. */
stw_status stw_settings_read(const stw_options *options, unsigned tasks, stw_settings *out, stw_error *error);

#endif
