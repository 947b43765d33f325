/* How long a search may take, by time, by evaluations or whichever ends first; and shares of what is left of that.
 *
 * Time is that of the search's clock. Evaluations count from 0 when the search begins: a share is on the same count, so that it
 * can take the place of the whole; `rest` is what a new search may use, whose count begins anew. What comes of a limit is a
 * limit: 1 at least. */
#ifndef STW_SEARCH_BUDGET_H
#define STW_SEARCH_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

typedef struct stw_moment { /* where a search stands */
    double s;               /* on its clock */
    int64_t evaluations;    /* that it has made */
} stw_moment;

typedef struct stw_budget { /* 0: no such limit */
    int64_t evaluations;
    double until_s;
    double last_s;    /* what was begun before `until_s` may go on until then; 0: no longer than that */
    bool gives_up;    /* the first plan of a method may be given up, which is built whatever it takes otherwise; a proof too */
    stw_moment began; /* of a share: progress counts from here */
} stw_budget;

/* Evaluations are whole. Of `left` of them a share is, at most all of them: */
typedef enum stw_share_rounding {
    STW_SHARE_DOWN,       /* rounded down; may be none */
    STW_SHARE_UP,         /* rounded up */
    STW_SHARE_ONE_MORE,   /* one more than rounded down */
    STW_SHARE_BESIDE_ONE, /* one, and the share of the others rounded down */
} stw_share_rounding;

/* From now on until `share` of what is left is gone; from 1 on, all of it. */
stw_budget stw_budget_share(const stw_budget *whole, stw_moment now, double share, stw_share_rounding rounding);
/* One of `parts` equal parts of what is left, from now on; evaluations are rounded down. */
stw_budget stw_budget_part(const stw_budget *whole, stw_moment now, int32_t parts);
/* What is left for a search that begins after `made` evaluations. */
stw_budget stw_budget_rest(const stw_budget *budget, int64_t made);

/* INT64_MAX without such a limit. */
int64_t stw_budget_evaluations_left(const stw_budget *budget, int64_t made);
/* Never negative; HUGE_VAL without such a limit. */
double stw_budget_seconds_left(const stw_budget *budget, double now_s);
/* `share` of the whole is gone, to the fraction of an evaluation: a share rounded down can be gone before. */
bool stw_budget_is_spent(const stw_budget *budget, stw_moment now, double share);
/* From 0 when it began to 1 and beyond: that of time or that of evaluations, whichever is larger; 0 without a limit. */
double stw_budget_progress(const stw_budget *budget, stw_moment now);

#endif
