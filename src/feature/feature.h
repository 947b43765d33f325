/* Features: what the policy sees of a graph, a machine and a plan, as matrices.
 *
 * One row per unit (ops that are decided together; a unit may be a single op), in topological order. Everything is normalised per
 * graph, so that numbers mean the same on graphs and machines of other sizes. The columns are one table (columns.def); their set
 * has a version, which policies carry. M units, D devices. */
#ifndef STW_FEATURE_FEATURE_H
#define STW_FEATURE_FEATURE_H

#include "cost/cost.h"
#include "graph/units.h"
#include "plan/tasks.h"

enum {
    STW_FEATURE_VERSION = 1,
    STW_OPERATOR_BUCKETS = 128, /* operators by the hash of their canonical name; 0: not in the table */
};

/* Columns of a matrix, by name: "log_time", "class.matmul", ... NULL past the last. */
typedef enum stw_feature_set { STW_FEATURES_UNIT, STW_FEATURES_FEEDBACK, STW_FEATURES_DEVICE, STW_FEATURES_PAIR } stw_feature_set;
const char *stw_feature_name(stw_feature_set set, int32_t column);
int32_t stw_feature_count(stw_feature_set set);

/* What does not depend on a plan. */
typedef struct stw_features {
    int32_t M, D;
    double *unit;                       /* (M, unit columns) */
    int32_t *operator_;                 /* (M) bucket of the operator that takes most of the unit's time */
    double *device;                     /* (D, device columns) */
    int32_t *producer_start, *producer; /* (M + 1), units that this one reads from, distinct, ascending */
    int32_t *reader_start, *reader;     /* (M + 1), units that read from this one, distinct, ascending */

    /* For the feedback. */
    const stw_costs *costs;
    const stw_tasks *tasks;
    const stw_units *units;
    double *unit_us; /* (M) time on the fastest class */
    double *weight;  /* (N) of a node in the means over its unit: its time and a little more; without ops in the unit all are 1 */
    int32_t *stand_in; /* (N) the task whose place in the graph a node shares: its own, or that of its first reader; -1: none */
    const struct stw_crossings *crossings; /* what passes between units */
} stw_features;

/* tasks: every op a task of its own. */
stw_status stw_features_build(const stw_costs *costs, const stw_tasks *tasks, const stw_units *units, stw_arena *arena,
                              stw_features *out, stw_error *error);

/* What a simulator says of a plan, as plain arrays: the feedback is built from them, not from the simulator. */
typedef struct stw_feedback_input { /* T tasks, N nodes */
    const int32_t *device;          /* (N) of the plan */
    int64_t step_ps;
    const int64_t *start_ps, *end_ps; /* (T) */
    const int32_t *critical;          /* (critical_count) tasks on the critical path */
    int32_t critical_count;
    const int64_t *busy_ps; /* (D) */
    const double *priority; /* (N) of the plan */
} stw_feedback_input;

/* feedback: (M, feedback columns), pair: (M, D, pair columns); both are given. */
stw_status stw_features_feedback(const stw_features *features, const stw_feedback_input *input, double *feedback, double *pair,
                                 stw_arena scratch, stw_error *error);

/* What a proposal to move units means: per unit whether it would move, its pair columns where it would go, and those where it is.
 * pair: as above. now, then: (N) devices; of a unit those of its first member. proposal: (M, proposal columns), 0 for those that
 * stay. */
int32_t stw_features_proposal_columns(void);
void stw_features_proposal(const stw_features *features, const double *pair, const int32_t *now, const int32_t *then,
                           double *proposal);

#endif
