/* The columns by identifier (STW_UNIT_LOG_TIME, STW_PAIR_SHARE, ...) and the few ways in which they are normalised. Private to
 * feature/. */
#ifndef STW_FEATURE_COLUMNS_H
#define STW_FEATURE_COLUMNS_H

#include <math.h>

enum {
#define STW_UNIT_COLUMN(identifier, name) STW_UNIT_##identifier,
#include "feature/columns.def"
    STW_UNIT_COLUMNS
};
enum {
#define STW_FEEDBACK_COLUMN(identifier, name) STW_FEEDBACK_##identifier,
#include "feature/columns.def"
    STW_FEEDBACK_COLUMNS
};
enum {
#define STW_DEVICE_COLUMN(identifier, name) STW_DEVICE_##identifier,
#include "feature/columns.def"
    STW_DEVICE_COLUMNS
};
enum {
#define STW_PAIR_COLUMN(identifier, name) STW_PAIR_##identifier,
#include "feature/columns.def"
    STW_PAIR_COLUMNS
};

/* Cut at -2 and 2; what is not a number becomes 0. */
static inline double stw_bounded(double x) { return x > 2.0 ? 2.0 : x < -2.0 ? -2.0 : x == x ? x : 0.0; }
/* Small shares spread out: 0.001 -> 0.1, 0.1 -> 0.66, 1 -> 0.99. Keeps the sign. */
static inline double stw_compressed(double x) { return stw_bounded(copysign(log1p(1000.0 * fabs(x)) / 7.0, x)); }
static inline double stw_log_scaled(double x, double scale) { return stw_bounded(log1p(x) / scale); }
/* 0 / 0 counts as 0. */
static inline double stw_ratio(double a, double b) { return b > 0.0 ? a / b : 0.0; }

#endif
