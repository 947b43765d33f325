/* What a plan's step is made of, and what would change it (docs/explain.md).
 *
 * explain.c   the whole as one short function; what callers see
 * path.c      the critical path, whose parts add up to the step
 * idle.c      why devices idle
 * trial.c     plans that are changed and simulated
 * move.c      an op on each other device
 * group.c     a group apart, and merged with its neighbours
 * what_if.c   other machines and times
 * machine.c   the machines of these
 * name.c      ops by name
 * write.c     as JSON */
#ifndef STW_EXPLAIN_EXPLAIN_H
#define STW_EXPLAIN_EXPLAIN_H

#include "api/options.h"
#include "base/array.h"
#include "plan/plan.h"
#include "sim/causes.h"

struct stw_explanation {
    stw_arena arena;
    const stw_simulator *simulator;
    const stw_plan *plan;
    stw_step_parts parts;
    int64_t path_count, path_room;
    stw_path_part *path; /* in order of time */
    int32_t cost_count;
    stw_path_cost *cost;
    stw_device_time *device; /* (D) */
    int32_t idle_count;
    stw_idle *idle;
    int64_t what_if_count, what_if_room;
    stw_what_if *what_if;
    bool interrupted;
    int32_t moved_count; /* 0: no op was asked for */
    int32_t *moved;
    int32_t move_count;
    stw_move_trial *move;
    int64_t pull_count, pull_room;
    stw_pull *pull;
    bool has_group;
    stw_group_worth group;
    int32_t merge_count;
    stw_merge_trial *merge;
};

/* The run that is explained, and room for others. */
typedef struct stw_explainer {
    const stw_simulator *simulator;
    const stw_plan *plan;
    const stw_options *options;
    const stw_watch *watch;   /* or NULL */
    stw_workspace *workspace; /* holds the run */
    stw_workspace *trial;     /* for those of changed plans */
    stw_evaluation result;
    const stw_tasks *tasks;
    const stw_timeline *timeline;
    stw_causes causes;
    int32_t *first_copy, *next_copy; /* (T), (transfers): the copies of what a task updates, which it waits for; -1: no more */
    int64_t *op_start_ps;            /* (N) when each op began */
    stw_explanation *out;
    stw_arena *scratch;
} stw_explainer;

/* ---- path.c ---- */

/* What a task waited for last: `ready_ps` is when that ended. Neither a task nor a transfer (-1): it was ready at once. */
typedef struct stw_last_wait {
    int64_t ready_ps;
    int32_t task, transfer;
} stw_last_wait;
stw_last_wait stw_find_last_wait(const stw_explainer *e, int32_t task);

/* What a device or a channel was busy with, by time. */
typedef struct stw_span {
    int64_t start_ps, end_ps;
    int32_t id; /* task or transfer */
} stw_span;
/* Those of all devices: start (D + 1) into span. */
stw_status stw_device_spans(const stw_explainer *e, stw_arena *arena, int64_t **start, stw_span **span, stw_error *error);

stw_status stw_explain_path(stw_explainer *e, stw_error *error);
/* ---- idle.c ---- */
stw_status stw_explain_idle(stw_explainer *e, stw_error *error);

/* ---- trial.c ---- */

/* The strict orders of a changed plan that no longer fit their devices' tasks, anew: by when the ops began in the run that is
 * explained, and so that inputs come first. Other devices keep theirs, which may still forbid the change. */
stw_status stw_refit_orders(const stw_explainer *e, const stw_simulator *simulator, stw_plan *plan, stw_error *error);
/* Simulates it, after its orders were made to fit. Texts are copied. */
stw_status stw_try_plan(stw_explainer *e, stw_plan *plan, stw_attempt *out, stw_error *error);
/* One whose orders fit, on another simulator. */
stw_status stw_try_plan_on(stw_explainer *e, const stw_simulator *simulator, const stw_plan *plan, stw_attempt *out,
                           stw_error *error);

static inline bool stw_has_step(const stw_attempt *trial) {
    return trial->tried && (trial->reason == STW_VALID || trial->reason == STW_INVALID_MEMORY);
}

/* ---- name.c ---- */

/* The node that a name or an id means, for the option `option`: an op, or with `resident` a parameter or buffer. */
stw_status stw_find_named(const stw_graph *graph, const char *option, const char *name, bool resident, int32_t *out,
                          stw_error *error);

stw_status stw_explain_move(stw_explainer *e, const char *name, stw_error *error);
stw_status stw_explain_group(stw_explainer *e, const char *name, stw_error *error);

/* ---- what_if.c ---- */

typedef enum stw_change_kind {
    STW_CHANGE_NOTHING,
    STW_CHANGE_BANDWIDTH,
    STW_CHANGE_DEVICES,
    STW_CHANGE_MEMORY,
    STW_CHANGE_TIMES
} stw_change_kind;
typedef struct stw_change {
    stw_change_kind kind;
    double factor; /* of bandwidth, memory and times */
    int32_t count; /* devices more, or less */
} stw_change;
/* Reads the option before anything is simulated. */
stw_status stw_changes_read(const char *text, stw_arena *arena, stw_change **out, stw_str **name, int32_t *count,
                            stw_error *error);
stw_status stw_explain_what_ifs(stw_explainer *e, const stw_change *change, const stw_str *name, int32_t count, stw_error *error);

/* ---- machine.c ---- */

/* A machine with one of these changes; device_of (D of the old one): where each of its devices is now, -1: taken away. `words`
 * tell what the change is, where its name does not; without such a machine *out is NULL, and they say why. */
stw_status stw_machine_change(const stw_machine *machine, const stw_change *change, stw_arena *arena, stw_machine **out,
                              int32_t *device_of, stw_str *words, stw_error *error);

/* ---- write.c ---- */
extern const char *const stw_path_kind_names[STW_PATH_KINDS]; /* one word each */

#endif
