/* What a chain knows of the last run of its plan: when each task ran, how much later it could have, what was critical. Taken once
 * a run, so that what a move would change can be told from what is around it (move_features.h). */
#ifndef STW_METHOD_ANNEAL_SIGHT_H
#define STW_METHOD_ANNEAL_SIGHT_H

#include "sim/sim.h"

enum { STW_SIGHT_BINS = 64 }; /* equal parts of the step */

/* N nodes, T tasks and V values of the simulator's `unfused`, D devices. All times are shares of the step. */
typedef struct stw_sight {
    float *start, *end;       /* (T) */
    float *slack;             /* (T) how much later it could end for what needs it, if no device were busy */
    float *give;              /* (T) the same with devices running in the order they did */
    int32_t *before, *behind; /* (T) its neighbours on the critical path; -1: none */
    uint8_t *critical;        /* (T) */
    float *load;              /* (D) */
    float *fill;              /* (D) the peak over the memory */
    float *busy, *on_path;    /* (D, BINS) share of the bin that the device runs something; something critical */
    float *least_give;        /* (D, BINS) of what starts in it; 1: nothing does */
    float mean_load, most_load, mean_task;
    float sent; /* all transfers, over D */
    double step_us;
    double latency_us; /* mean over the links */

    /* What features of a move mark. */
    int32_t stamp;
    int32_t *node_stamp, *old_device; /* (N) */
    int32_t *value_stamp;             /* (V) */
    int32_t *task;                    /* (T) */
} stw_sight;

typedef struct stw_seen { /* a run, by unfused tasks */
    const stw_plan *plan;
    const int64_t *start_ps, *end_ps; /* (T) */
    const int32_t *order;             /* (T) by start */
    int32_t critical_count;
    const int32_t *critical; /* (critical_count) last first */
    int64_t step_ps;
    const int64_t *peak_bytes; /* (D) */
} stw_seen;

stw_status stw_sight_create(const stw_simulator *simulator, stw_arena *arena, stw_sight *out, stw_error *error);
void stw_sight_take(const stw_simulator *simulator, const stw_seen *seen, stw_sight *sight);

static inline int32_t stw_sight_bin(float share) {
    return share < 0.0f ? 0 : share >= 1.0f ? STW_SIGHT_BINS - 1 : (int32_t)(share * STW_SIGHT_BINS);
}

/* What a transfer takes, waits left aside; ten steps where there is no link. */
static inline double stw_sight_transfer(const stw_sight *s, const stw_machine *machine, int32_t from, int32_t to, double bytes) {
    if (from == to) return 0.0;
    const stw_link *link = stw_machine_link(machine, from, to);
    if (link->bandwidth <= 0.0) return 10.0;
    return (stw_link_fixed_us(link) + stw_link_bytes_us(link, bytes)) / s->step_us;
}

/* What is sent of a value to this reader. */
static inline double stw_sight_bytes(const stw_simulator *s, int32_t value, const stw_task_use *use) {
    const int64_t whole = s->unfused.value_bytes[value];
    return (double)(use->view < 0 || s->graph->bytes[use->view] > whole ? whole : s->graph->bytes[use->view]);
}

#endif
