#include "search/budget.h"

#include <math.h>

/* The whole itself from 1 on: it may be too large for a double. */
static int64_t round_down(int64_t left, double share) { return share < 1.0 ? (int64_t)(share * (double)left) : left; }

/* Never more than all of it. */
static int64_t share_of(int64_t left, double share, stw_share_rounding rounding) {
    if (left == 0 || share >= 1.0) return left;
    const int64_t down = round_down(left, share);
    switch (rounding) {
        case STW_SHARE_UP: return down + (share * (double)left > (double)down && down < left);
        case STW_SHARE_ONE_MORE: return down + (down < left);
        case STW_SHARE_BESIDE_ONE: return 1 + round_down(left - 1, share);
        default: return down;
    }
}

/* 0 would be none. */
static int64_t limit(int64_t evaluations) { return evaluations > 0 ? evaluations : 1; }

stw_budget stw_budget_share(const stw_budget *whole, stw_moment now, double share, stw_share_rounding rounding) {
    stw_budget budget = *whole;
    budget.began = now;
    if (whole->until_s > 0.0 && share < 1.0) budget.until_s = now.s + share * (whole->until_s - now.s);
    if (whole->evaluations > 0)
        budget.evaluations =
            limit(now.evaluations + share_of(stw_budget_evaluations_left(whole, now.evaluations), share, rounding));
    return budget;
}

stw_budget stw_budget_part(const stw_budget *whole, stw_moment now, int32_t parts) {
    stw_budget budget = *whole;
    budget.began = now;
    if (whole->until_s > 0.0) budget.until_s = now.s + (whole->until_s - now.s) / parts;
    if (whole->evaluations > 0)
        budget.evaluations = limit(now.evaluations + stw_budget_evaluations_left(whole, now.evaluations) / parts);
    return budget;
}

stw_budget stw_budget_rest(const stw_budget *budget, int64_t made) {
    stw_budget rest = *budget;
    rest.began = (stw_moment){0};
    if (budget->evaluations > 0) rest.evaluations = limit(stw_budget_evaluations_left(budget, made));
    return rest;
}

int64_t stw_budget_evaluations_left(const stw_budget *budget, int64_t made) {
    if (budget->evaluations <= 0) return INT64_MAX;
    return budget->evaluations > made ? budget->evaluations - made : 0;
}

double stw_budget_seconds_left(const stw_budget *budget, double now_s) {
    return budget->until_s > 0.0 ? fmax(budget->until_s - now_s, 0.0) : HUGE_VAL;
}

bool stw_budget_is_spent(const stw_budget *budget, stw_moment now, double share) {
    const stw_moment began = budget->began;
    if (budget->until_s > 0.0 && now.s >= began.s + share * (budget->until_s - began.s)) return true;
    const int64_t made = now.evaluations - began.evaluations, all = budget->evaluations - began.evaluations;
    return budget->evaluations > 0 && (double)made >= share * (double)all;
}

double stw_budget_progress(const stw_budget *budget, stw_moment now) {
    const stw_moment began = budget->began;
    double progress = 0.0;
    if (budget->until_s > 0.0) progress = fmax(progress, (now.s - began.s) / fmax(budget->until_s - began.s, 1e-9));
    if (budget->evaluations > 0) {
        const double used = (double)(now.evaluations - began.evaluations);
        progress = fmax(progress, used / fmax((double)(budget->evaluations - began.evaluations), 1.0));
    }
    return progress;
}
