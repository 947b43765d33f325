/* REINFORCE for Placeto's network (network.h) on one graph or several. An update is some episodes on one graph, side by side. An
 * episode begins with a placement and visits all nodes once; each visit draws a device for its node and is rewarded with what the
 * step time falls by. */
#ifndef STW_BASELINE_PLACETO_TRAINER_H
#define STW_BASELINE_PLACETO_TRAINER_H

#include "baseline/placeto/problem.h"
#include "search/search.h"

typedef enum stw_placeto_start {
    STW_PLACETO_DRAWN,  /* one random placement for all episodes */
    STW_PLACETO_SINGLE, /* all nodes on the device that is fastest for them all */
    STW_PLACETO_BEST    /* the best placement so far; at first as the one before */
} stw_placeto_start;

typedef struct stw_placeto_settings {
    uint64_t seed;
    int64_t updates;  /* 0: until the budget is spent */
    int64_t patience; /* ends after this many updates without a better plan; 0: never */
    int32_t samples;  /* K, episodes of an update */
    int32_t units;    /* how many units ops are combined into, about this many nodes; 0: each op is a node */
    stw_placeto_start start;
    double rate, last_rate; /* of Adam, from one to the other in equal steps, */
    int64_t rate_until;     /* which end with this update */
    double entropy;         /* weight of its bonus; falls to 0 in equal steps, */
    int64_t entropy_until;  /* which end with this update */
    double discount;        /* of the rewards that follow */
    int32_t history;        /* updates whose returns are the baseline of a visit, this one among them */
    double gradient_norm;   /* gradients are cut to it */
    double memory_penalty;  /* added to the time, per share of all memory of a device that the plan exceeds it by */
    double most;            /* no plan counts as longer: times of the reference */
    int32_t rounds, width;  /* of the network */
    bool mean;
} stw_placeto_settings;

/* "default" or "paper". False if unknown. */
bool stw_placeto_preset(const char *name, stw_placeto_settings *out);

/* ---- the rules ---- */

/* The time that rewards are made of, in units of the reference. memory_bytes: of all devices together over their number. */
double stw_placeto_time(const stw_placeto_settings *settings, const stw_score *score, double reference, double memory_bytes);
/* From `from` to `to` in equal steps that end with update `until`; `to` from then on. */
double stw_placeto_between(double from, double to, int64_t until, int64_t update);
/* time: (N + 1) before the first visit and after each. out: (N), the sum of what follows each visit. */
void stw_placeto_returns(const stw_placeto_settings *settings, int32_t N, const double *time, double *out);

/* ---- training ---- */

typedef struct stw_placeto_task { /* a graph to learn on */
    const stw_placeto_problem *problem;
    stw_search *search;
    double reference; /* the value that counts as 1 */
} stw_placeto_task;

typedef enum stw_placeto_end {
    STW_PLACETO_GOES_ON,
    STW_PLACETO_SPENT, /* the budget or the updates */
    STW_PLACETO_STALE  /* `patience` updates brought nothing */
} stw_placeto_end;

typedef struct stw_placeto_trainer stw_placeto_trainer;

/* The graphs take turns, an update each; all have as many devices. */
stw_status stw_placeto_trainer_create(const stw_placeto_task *task, int32_t count, const stw_placeto_settings *settings,
                                      stw_placeto_trainer **out, stw_error *error);
void stw_placeto_trainer_destroy(stw_placeto_trainer *t);
/* One update, or what there are evaluations for: then nothing is learnt. If *end says so, there is nothing more to be had. */
stw_status stw_placeto_trainer_step(stw_placeto_trainer *t, stw_placeto_end *end, stw_error *error);

/* Of one of the graphs; NULL: none yet. */
const stw_plan *stw_placeto_trainer_best(const stw_placeto_trainer *t, int32_t task, stw_score *score);
int64_t stw_placeto_trainer_updates(const stw_placeto_trainer *t);
const stw_curve_row *stw_placeto_trainer_last_row(const stw_placeto_trainer *t);
stw_placeto_net *stw_placeto_trainer_net(stw_placeto_trainer *t);

#endif
