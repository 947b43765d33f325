/* Costs: the time of an op, of a fused group and of a transfer. Measured first, else modelled; see docs/cost-model.md.
 *
 * C cost classes (kinds of devices that take equal times), N nodes. */
#ifndef STW_COST_COST_H
#define STW_COST_COST_H

#include "graph/kernel.h"
#include "machine/machine.h"

typedef struct stw_kernel_model stw_kernel_model;

struct stw_costs {
    stw_arena arena;
    const stw_graph *graph;
    const stw_machine *machine;
    double **us;                          /* (C)(N) microseconds; 0 for views and sources */
    double *least_us;                     /* (N) on the class that is fastest at it */
    double **model_us;                    /* (C)(N) what the model says of the same op */
    double **compute_us;                  /* (C)(N) its arithmetic part: flops / (peak x efficiency) */
    bool **measured;                      /* (C)(N) the time was measured for this very kind */
    bool **carried;                       /* (C)(N) it was for another kind, and is that time times the ratio of the two models */
    int64_t *moved;                       /* (N) bytes that an op alone reads and writes */
    const stw_kernel_model *kernel_model; /* what kernels take, learnt (kernel_model.h); NULL: the formula alone */
    bool *learned;                        /* (C) it counts for kernels and single ops on this class */
    stw_str remark;                       /* on the file of costs, for the user; or empty */
    stw_str *warning; /* (warning_count) the remark and what else there is to know before trusting the times */
    int32_t warning_count;
};

/* The model: launch + latency of the class + max(arithmetic, memory traffic), in microseconds. */
double stw_cost_compute_us(const stw_device *device, stw_op_class op_class, int32_t dtype, double flops);
double stw_cost_model_us(const stw_device *device, stw_op_class op_class, int32_t dtype, double flops, double bytes);

/* cost_error.c: how far times may be off, |known / true - 1| in the mean (docs/cost-model.md). Of an op: */
double stw_cost_error(const stw_costs *costs, int32_t cost_class, int32_t node);
extern const double stw_cost_error_of_groups; /* beside what their members are off by */
extern const double stw_cost_error_of_links;

/* What a fused group of two or more members does. */
typedef struct stw_group_work {
    double us, model_us, compute_us;     /* sums over the members */
    double class_bytes[STW_CLASS_COUNT]; /* external bytes, by the class of the member that moves them */
} stw_group_work;
void stw_group_work_add(stw_group_work *work, const stw_costs *costs, int32_t cost_class, int32_t member);
/* r x model(group), r = sum of the members' times / sum of their modelled times. */
double stw_cost_group_us(const stw_device *device, const stw_group_work *work);
/* The same of a kernel whose ops and passes are known, r = 1: a fusion that stands in a file, a group of a plan. *compute_us (may
 * be NULL): its arithmetic, what is repeated left out. */
double stw_cost_kernel_us(const stw_device *device, const stw_kernel_work *kernel, double *compute_us);
/* The same on a cost class: by the formula, or by the learned model where it counts. */
double stw_costs_kernel_us(const stw_costs *costs, int32_t cost_class, const stw_kernel_work *kernel);
/* All bodies of a graph: out[b], and their arithmetic. */
void stw_cost_bodies(const stw_device *device, const stw_graph *graph, double *out_us, double *out_compute_us);

/* Picoseconds, rounded once, halves away from zero; INT64_MAX when above 2^62. */
int64_t stw_cost_us_to_ps(double us);
int64_t stw_cost_transfer_ps(const stw_link *link, int64_t bytes);
#define STW_MAX_STEP_PS ((int64_t)1 << 62)

/* Measured times; they override the graph's. */
typedef struct stw_cost_row {
    stw_str name, kind;
    double us;
    int64_t line; /* of a CSV */
    bool again;   /* the time of the row before, for another kind */
} stw_cost_row;
/* Reads rows name,kind,us. */
stw_status stw_cost_csv_parse(stw_str text, stw_arena *arena, stw_cost_row **out, int64_t *count, stw_error *error);

typedef struct stw_cost_rows {
    int64_t count;
    stw_cost_row *row;  /* (count) */
    int64_t unmatched;  /* further times that name no op of the graph */
    stw_str note;       /* what a reader has to tell of them, or empty */
    const char *unit;   /* what they are in the file: "times"; NULL: "rows" */
    const char *remedy; /* where some name no op; NULL: none */
} stw_cost_rows;
/* stw_costs_create is this with the rows of a file; NULL: none. Strings are borrowed for the call. `learned`: what nothing was
 * measured for goes by the learned model of kernels, where there is one for the device and the graph says how ops walk their
 * tensors (graph->flow). */
stw_status stw_costs_from_rows(const stw_graph *graph, const stw_machine *machine, const stw_cost_rows *rows, bool learned,
                               stw_costs **out, stw_error *error);

/* remark.c: that the file does not say how often some loops run, for the user; empty: it does. */
stw_str stw_tell_open_loops(const stw_graph *graph, stw_arena *arena);

/* Costs from times that are known, (C)(N) each; those of nodes that are no ops are 0. All of it is copied. The graph's
 * `moved` holds what each op moves. */
typedef struct stw_given_costs {
    const double *const *us, *const *compute_us;
    const bool *const *measured;
} stw_given_costs;
stw_status stw_costs_create_given(const stw_graph *graph, const stw_machine *machine, const stw_given_costs *given,
                                  stw_costs **out, stw_error *error);

/* Those of another machine, with every time multiplied by `factor`: class c of `machine` takes what class class_of[c] took
 * before. What was known of times stays known; the learned model is borrowed. */
stw_status stw_costs_scale(const stw_costs *costs, const stw_machine *machine, const int32_t *class_of, double factor,
                           stw_costs **out, stw_error *error);

#endif
