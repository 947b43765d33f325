/* The column table: what is in the matrices. */
#include "feature/columns.h"

#include <stddef.h>

#include "feature/feature.h"

static const char *const unit_columns[] = {
#define STW_UNIT_COLUMN(identifier, name) name,
#include "feature/columns.def"
};
static const char *const feedback_columns[] = {
#define STW_FEEDBACK_COLUMN(identifier, name) name,
#include "feature/columns.def"
};
static const char *const device_columns[] = {
#define STW_DEVICE_COLUMN(identifier, name) name,
#include "feature/columns.def"
};
static const char *const pair_columns[] = {
#define STW_PAIR_COLUMN(identifier, name) name,
#include "feature/columns.def"
};

static const struct {
    const char *const *name;
    int32_t count;
} sets[] = {
    [STW_FEATURES_UNIT] = {unit_columns, STW_UNIT_COLUMNS},
    [STW_FEATURES_FEEDBACK] = {feedback_columns, STW_FEEDBACK_COLUMNS},
    [STW_FEATURES_DEVICE] = {device_columns, STW_DEVICE_COLUMNS},
    [STW_FEATURES_PAIR] = {pair_columns, STW_PAIR_COLUMNS},
};

int32_t stw_feature_count(stw_feature_set set) { return sets[set].count; }

const char *stw_feature_name(stw_feature_set set, int32_t column) {
    return column < 0 || column >= sets[set].count ? NULL : sets[set].name[column];
}
