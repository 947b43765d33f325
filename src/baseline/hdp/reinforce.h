/* REINFORCE for the hierarchical planner (network.h) on one graph (grouping_problem.h). An update draws K groupings and
 * placements, evaluates their plans on all threads, and makes those that cost less than usual more likely. */
#ifndef STW_BASELINE_HDP_REINFORCE_H
#define STW_BASELINE_HDP_REINFORCE_H

#include "baseline/hdp/grouping_problem.h"
#include "baseline/hdp/network.h"
#include "search/search.h"

typedef struct stw_reinforce_settings {
    uint64_t seed;
    int64_t updates;      /* 0: until the budget is spent */
    int64_t patience;     /* ends after this many updates without a better plan; 0: never */
    int32_t samples;      /* K */
    int32_t units;        /* how many units ops are combined into beforehand, about this many rows; 0: each op is a row */
    int32_t groups;       /* G; 0: as the next two say */
    int32_t per_device;   /* groups per device */
    int32_t most_groups;  /* and no more than that */
    double rate;          /* of Adam */
    double rate_for_many; /* in place of it, from STW_MANY_DEVICES devices on */
    double decay;         /* what the rate is multiplied with every decay_every updates from decay_from on */
    int64_t decay_from, decay_every;
    double gradient_norm;   /* gradients are cut to it */
    double failing;         /* time of a plan that is not valid, in units of the reference */
    double keep;            /* of the baseline, a moving mean of costs that begins as the cost of failing */
    bool own_baseline;      /* no moving mean: the mean of the update itself */
    double noise;           /* on logits, of their root mean square */
    int64_t noise_until;    /* update; 0: to the end */
    int64_t sampling_until; /* from this update on the placer takes the most likely device; 0: never */
    int64_t failures_until; /* from this update on plans that are not valid teach nothing; 0: never */
    double bound;           /* of the placer's logits; 0: none */
    double sharpness;       /* of the grouper, at first */
    int32_t hidden, width;  /* of the network */
} stw_reinforce_settings;

enum { STW_MANY_DEVICES = 5 };
/* "default" or "paper", for this many devices. False if unknown. */
bool stw_reinforce_preset(const char *name, int32_t devices, stw_reinforce_settings *out);
/* No more than there are ops. */
int32_t stw_reinforce_groups(const stw_reinforce_settings *settings, int32_t devices, int32_t ops);

/* ---- the rules ---- */

/* Square root of the time over the reference. */
double stw_reinforce_cost(const stw_reinforce_settings *settings, const stw_score *score, double reference);
double stw_reinforce_rate(const stw_reinforce_settings *settings, int64_t update);

typedef struct stw_baseline {
    double value;
    bool begun;
} stw_baseline;
/* cost: (K), valid: (K). Fills weight: (K), the cost of each sample less the baseline, a share of the update each; moves the
 * baseline. */
void stw_reinforce_weights(const stw_reinforce_settings *settings, int64_t update, const double *cost, const bool *valid,
                           stw_baseline *baseline, double *weight);

/* ---- training ---- */

typedef enum stw_reinforce_end {
    STW_REINFORCE_GOES_ON,
    STW_REINFORCE_SPENT, /* the budget or the updates */
    STW_REINFORCE_STALE  /* `patience` updates brought nothing */
} stw_reinforce_end;

typedef struct stw_reinforce stw_reinforce;

/* It works for `search`, as long as its budget lasts. reference: the value that counts as 1. */
stw_status stw_reinforce_create(const stw_grouping_problem *problem, stw_search *search, const stw_reinforce_settings *settings,
                                double reference, stw_reinforce **out, stw_error *error);
void stw_reinforce_destroy(stw_reinforce *r);
/* One update. If *end says so, nothing was done. */
stw_status stw_reinforce_step(stw_reinforce *r, stw_reinforce_end *end, stw_error *error);

const stw_plan *stw_reinforce_best(const stw_reinforce *r, stw_score *score); /* NULL: none yet */
int64_t stw_reinforce_updates(const stw_reinforce *r);
const stw_curve_row *stw_reinforce_last_row(const stw_reinforce *r);

#endif
