/* Stowage: decides where every operator of a model runs, in what order, and what is fused into one kernel.
 *
 * This is the whole public interface, in the order of the work: a graph and a machine come in, costs tell what each op takes,
 * a plan holds the decisions, the simulator says what the plan is worth.
 *
 *     stw_graph *graph;  stw_machine *machine;  stw_costs *costs;  stw_simulator *simulator;
 *     stw_plan *plan;  stw_workspace *workspace;  stw_evaluation result;  stw_error error;
 *     if (stw_graph_open("gnmt-4.json.gz", NULL, &graph, &error) ||
 *         stw_machine_open("h200x4", &machine, &error) ||
 *         stw_costs_create(graph, machine, NULL, &costs, &error) ||
 *         stw_simulator_create(costs, &simulator, &error) ||
 *         stw_method_run("spread", simulator, NULL, &plan, &error) ||
 *         stw_workspace_create(simulator, &workspace, &error) ||
 *         stw_simulate(simulator, plan, workspace, &result, &error)) { puts(error.message); return 1; }
 *     printf("%s is on device %d; a step takes %.3f ms\n", stw_graph_node_name(graph, 7), stw_plan_device(plan)[7],
 *            1e3 * result.step_s);
 *
 * docs/c-api.md explains it; examples/optimize.c searches for a plan, reads it and writes it.
 *
 * Conventions. Every function that can fail returns a stw_status and takes a stw_error (which may be NULL). What comes back
 * through a `**out` belongs to the caller and goes back with the `destroy` of its type; destroying NULL is allowed. Plain `const`
 * pointers that a function returns are borrowed from the object. Times are seconds unless a name ends in _us (microseconds),
 * sizes are bytes. Text is UTF-8. An `open` reads a file, a `parse` bytes in memory, a `list` gives the i-th name of a kind.
 *
 * What is passed must be there: handles, names and places for results must not be NULL unless their comment says that they may.
 * Debug builds of the library (without NDEBUG) check that and abort with a message; in others the result is not defined. May be
 * NULL everywhere: `error`, `options` (the defaults; a session needs some), `watch`, and what is destroyed or freed.
 *
 * An object is immutable after its creation unless a `set` function exists for it, so it may be used by several threads at
 * once; objects with `set` functions and workspaces belong to one thread at a time. */
#ifndef STOWAGE_H
#define STOWAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define STW_API          __attribute__((visibility("default")))
#define STW_CHECK_RESULT __attribute__((warn_unused_result))
#else
#define STW_API
#define STW_CHECK_RESULT
#endif

/* ---- Version and errors ------------------------------------------------------------------------------------------ */

#define STW_VERSION "0.1.0"
/* The version of the library that is linked, which may differ from the header's. */
STW_API const char *stw_version(void);

typedef enum stw_status {
    STW_OK = 0,
    STW_ERROR_INPUT = -1,    /* a file, a name or an option is wrong; the message says where and what helps */
    STW_ERROR_IO = -2,       /* reading or writing failed */
    STW_ERROR_MEMORY = -3,   /* out of memory */
    STW_ERROR_NO_PLAN = -4,  /* there is no valid plan */
    STW_ERROR_CANCELLED = -5 /* stopped on request */
} stw_status;

typedef struct stw_error {
    stw_status status;
    char message[500]; /* one line: what, where, value, remedy */
} stw_error;

/* ---- Options: by name, from the same table that drives the command line ------------------------------------------ */

typedef struct stw_options stw_options;

STW_API stw_status stw_options_create(stw_options **out, stw_error *error) STW_CHECK_RESULT;
STW_API void stw_options_destroy(stw_options *options);
/* `name` without dashes ("memory"), `value` as on the command line ("4GB"). Unknown names and bad values are refused. */
STW_API stw_status stw_options_set(stw_options *options, const char *name, const char *value, stw_error *error);
/* The text that was set, else the default, else NULL; NULL for an unknown name. */
STW_API const char *stw_options_get(const stw_options *options, const char *name);

/* ---- The graph: the operators of one step ------------------------------------------------------------------------ */

typedef struct stw_graph stw_graph;

/* Reads a graph file (opgraph JSON, a dnn-partitioning input, an ONNX model, an HLO module or a TensorFlow graph; plain, gzip or
 * zstd); "-" is standard input. Options (may be NULL): "shape" gives sizes that a model leaves open, which else count as 1:
 * "image=8,3,224,224" or "batch=8"; "file-limit" says how large the file may be, unpacked. */
STW_API stw_status stw_graph_open(const char *path, const stw_options *options, stw_graph **out,
                                  stw_error *error) STW_CHECK_RESULT;
/* The same from memory, which is needed during the call only; `label` stands for the path in messages. */
STW_API stw_status stw_graph_parse(const void *bytes, size_t size, const char *label, const stw_options *options, stw_graph **out,
                                   stw_error *error) STW_CHECK_RESULT;
STW_API void stw_graph_destroy(stw_graph *graph);

STW_API const char *stw_graph_name(const stw_graph *graph);
STW_API const char *stw_graph_fingerprint(const stw_graph *graph); /* 32 hexadecimal digits; names and times play no part */
STW_API int32_t stw_graph_node_count(const stw_graph *graph);
STW_API int32_t stw_graph_op_count(const stw_graph *graph); /* nodes that compute: neither views nor sources */
STW_API const char *stw_graph_node_name(const stw_graph *graph, int32_t node);
/* What sizes and memories in the graph are divided by to be bytes: 1, but for dnn-partitioning inputs. */
STW_API double stw_graph_size_scale(const stw_graph *graph);

typedef struct stw_node { /* strings and arrays are borrowed from the graph */
    const char *name, *op;
    const char *kind;  /* "op", "view", "parameter", "buffer", "input" or "constant" */
    const char *label; /* of parameters: their name in the model; else "" */
    const char *dtype;
    int64_t bytes, flops;
    const int64_t *shape; /* (rank) */
    const int32_t *input; /* (input_count) ids in argument order */
    int32_t rank, input_count;
    int32_t root;    /* what a view is a view of; else the node itself */
    int32_t updates; /* the parameter or buffer that this op writes in place, or -1 */
} stw_node;
STW_API bool stw_graph_node(const stw_graph *graph, int32_t node, stw_node *out); /* false past the last */

/* ---- The machine: devices and links ------------------------------------------------------------------------------ */

typedef struct stw_machine stw_machine;

/* A built-in name ("h200x4", "cpu+h200x2", "h200x2+2"; "0.1/h200x4" is the one of version 0.1, whose transfers take nothing from
 * the devices; stw_machine_list lists them) or the path of a machine file. */
STW_API stw_status stw_machine_open(const char *name_or_path, stw_machine **out, stw_error *error) STW_CHECK_RESULT;
STW_API stw_status stw_machine_parse(const void *bytes, size_t size, const char *label, stw_machine **out,
                                     stw_error *error) STW_CHECK_RESULT;
STW_API void stw_machine_destroy(stw_machine *machine);
/* The machine that a graph's file describes with it (dnn-partitioning inputs do), owned by the graph; else NULL. */
STW_API const stw_machine *stw_graph_machine(const stw_graph *graph);

/* The i-th family of built-in machines ("h200xN") and what it is; false past the last. */
STW_API bool stw_machine_list(int32_t index, const char **name, const char **description);
STW_API const char *stw_machine_name(const stw_machine *machine);
/* What the reader of its file has to say: a key that nobody knows; else NULL. */
STW_API const char *stw_machine_warning(const stw_machine *machine);
STW_API int32_t stw_machine_device_count(const stw_machine *machine);
STW_API const char *stw_machine_device_name(const stw_machine *machine, int32_t device);
STW_API int64_t stw_machine_device_memory(const stw_machine *machine, int32_t device);
/* Gives every device this much memory. */
STW_API stw_status stw_machine_set_memory(stw_machine *machine, int64_t bytes, stw_error *error);

/* ---- Costs: what each op takes on each device -------------------------------------------------------------------- */

typedef struct stw_costs stw_costs;

/* Measured times where there are any (those of a file, then the graph's own), modelled ones for the rest. Options (may be NULL):
 * "costs", the path of the file: CSV with rows name,kind,us, a profile of ONNX Runtime, or RunMetadata, StepStats or CostGraphDef
 * of TensorFlow; "file-limit", how large it may be. Graph and machine must outlive the costs. */
STW_API stw_status stw_costs_create(const stw_graph *graph, const stw_machine *machine, const stw_options *options,
                                    stw_costs **out, stw_error *error) STW_CHECK_RESULT;
STW_API void stw_costs_destroy(stw_costs *costs);
/* Microseconds of one op on one device; 0 for views and sources. */
STW_API double stw_costs_op_us(const stw_costs *costs, int32_t node, int32_t device);
/* The i-th thing that the user should know before trusting times and memory, or NULL past the last: measured times that match no
 * op, always first; keys of the machine file that nobody knows; sizes that the model leaves open; unknown operators; a program
 * that is already partitioned. */
STW_API const char *stw_costs_warning(const stw_costs *costs, int32_t index);

/* ---- The plan: the decisions ------------------------------------------------------------------------------------- */

typedef struct stw_plan stw_plan;

/* A plan with everything on device 0, priority 0, nothing fused. Graph and machine must outlive the plan. */
STW_API stw_status stw_plan_create(const stw_graph *graph, const stw_machine *machine, stw_plan **out,
                                   stw_error *error) STW_CHECK_RESULT;
STW_API void stw_plan_destroy(stw_plan *plan);

/* Reads a plan file for this graph. With `machine` NULL the machine in the file is used and owned by the plan; otherwise
 * devices are matched by name. */
STW_API stw_status stw_plan_open(const char *path, const stw_graph *graph, const stw_machine *machine, stw_plan **out,
                                 stw_error *error) STW_CHECK_RESULT;
STW_API stw_status stw_plan_parse(const void *bytes, size_t size, const char *label, const stw_graph *graph,
                                  const stw_machine *machine, stw_plan **out, stw_error *error) STW_CHECK_RESULT;
/* The plan that is in the graph's file: an HLO module that was exported with one for two or more devices. Devices are matched by
 * name. The option "plan" has this word for it. */
#define STW_PLAN_CARRIED "carried"
STW_API stw_status stw_plan_carried(const stw_graph *graph, const stw_machine *machine, stw_plan **out,
                                    stw_error *error) STW_CHECK_RESULT;
STW_API const stw_machine *stw_plan_machine(const stw_plan *plan);
/* What the user should know of a plan that was read (it was made for another machine, ...), or NULL. */
STW_API const char *stw_plan_warning(const stw_plan *plan);

/* The same decisions in a plan of the caller's, which can be changed. Graph and machine are those of the original: where that
 * brought its machine from a file, it must outlive the copy. */
STW_API stw_status stw_plan_copy(const stw_plan *plan, stw_plan **out, stw_error *error) STW_CHECK_RESULT;

/* Reading: one entry per node of the graph. The arrays belong to the plan and show later changes of it. */
STW_API const int32_t *stw_plan_device(const stw_plan *plan);  /* device index; without meaning at views and sources */
STW_API const double *stw_plan_priority(const stw_plan *plan); /* higher runs first */
STW_API const int32_t *stw_plan_group(const stw_plan *plan);   /* equal = one kernel; -1 = recomputed where read */
/* The strict order of one device: ids of its tasks, and their count; NULL and -1 where it has none or there is no such device. */
STW_API const int32_t *stw_plan_order(const stw_plan *plan, int32_t device, int32_t *count);

/* Writing: as many entries as the graph has nodes are copied; values are checked when the plan is simulated. */
STW_API void stw_plan_set_device(stw_plan *plan, const int32_t *device);
STW_API void stw_plan_set_priority(stw_plan *plan, const double *priority);
STW_API void stw_plan_set_group(stw_plan *plan, const int32_t *group);
/* A strict order for one device: ids of its tasks; count -1 removes it, and `tasks` may then be NULL. */
STW_API stw_status stw_plan_set_order(stw_plan *plan, int32_t device, const int32_t *tasks, int32_t count, stw_error *error);

/* Sets the plan's groups by a fusion rule, for its devices: "none"; "default" (greedy by estimated saving);
 * "one-pass" (each op looked at once: quicker, nearly as good); "joined" (then also groups that read the same values, in graphs
 * of HLO modules); or "reverse-post-order" (every legal merge, from the last op to the first). The costs are of the plan's graph
 * and machine. Strict orders name tasks, so they are removed. */
STW_API stw_status stw_plan_fuse(stw_plan *plan, const stw_costs *costs, const char *rule, stw_error *error) STW_CHECK_RESULT;

/* ---- The simulator ----------------------------------------------------------------------------------------------- */

typedef struct stw_simulator stw_simulator; /* immutable; shared by threads; the costs must outlive it */
typedef struct stw_workspace stw_workspace; /* one per thread; nothing is allocated after the first runs */

typedef enum stw_reason { /* why a plan is invalid; the first that applies */
                          STW_VALID = 0,
                          STW_INVALID_COLOCATION,
                          STW_INVALID_GROUPS,
                          STW_INVALID_LINKS,
                          STW_INVALID_ORDER,
                          STW_INVALID_OVERFLOW,
                          STW_INVALID_MEMORY
} stw_reason;

typedef struct stw_evaluation {
    stw_reason reason; /* STW_VALID, or why not */
    double step_s;     /* 0 unless reason is STW_VALID or STW_INVALID_MEMORY */
    int64_t step_ps;
    int32_t transfer_count;
    int64_t transfer_bytes;
    int64_t worst_peak_bytes;  /* largest peak of a device */
    const int64_t *peak_bytes; /* (devices), NULL when there is no step; lives in the workspace until its next run */
    const int64_t *busy_ps;    /* (devices) time at work, charges included; likewise */
    const int64_t *charged_ps; /* (devices) the part of it that transfers take (docs/simulator.md, charges); likewise */
    const char *message;       /* the reason in words, or ""; likewise */
} stw_evaluation;

STW_API stw_status stw_simulator_create(const stw_costs *costs, stw_simulator **out, stw_error *error) STW_CHECK_RESULT;
STW_API void stw_simulator_destroy(stw_simulator *simulator);
STW_API stw_status stw_workspace_create(const stw_simulator *simulator, stw_workspace **out, stw_error *error) STW_CHECK_RESULT;
STW_API void stw_workspace_destroy(stw_workspace *workspace);

/* One evaluation. The status tells of faults in the call (device out of range, out of memory); an invalid plan is a result.
 * `out` counts only if the status is STW_OK. */
STW_API stw_status stw_simulate(const stw_simulator *simulator, const stw_plan *plan, stw_workspace *workspace,
                                stw_evaluation *out, stw_error *error) STW_CHECK_RESULT;
/* The short name of a reason: "colocation", "groups", ... ; NULL for STW_VALID. */
STW_API const char *stw_reason_name(stw_reason reason);

/* What no plan can beat: with this plan's groups, and with the groups free. */
typedef struct stw_bounds {
    double plan_s;
    double fusion_s;
    int64_t peak_bytes;   /* the largest peak of memory of a device, with this plan's groups */
    double load_s;        /* the largest load of a device (objective throughput), with this plan's groups, */
    double load_fusion_s; /* and with the groups free */
} stw_bounds;
STW_API stw_status stw_lower_bounds(const stw_simulator *simulator, const stw_plan *plan, stw_bounds *out,
                                    stw_error *error) STW_CHECK_RESULT;
/* The share of the work (time on the planned devices) whose time was measured for that very kind of device; 1 without work,
 * NaN if the plan does not belong to the simulator. */
STW_API double stw_measured_share(const stw_simulator *simulator, const stw_plan *plan);

/* ---- Methods: what makes a plan ---------------------------------------------------------------------------------- */

/* The i-th method ("single", "spread") and what it does; false past the last. */
STW_API bool stw_method_list(int32_t index, const char **name, const char **description);
STW_API bool stw_method_exists(const char *name);
/* Runs one method. `options` (may be NULL): "budget" or "evaluations", "rule", "objective", "tasks", "units", "threads", "seed".
 * Where a method finds nothing that fits into memory, its plan says so when it is simulated; STW_ERROR_NO_PLAN: it made none. */
STW_API stw_status stw_method_run(const char *method, const stw_simulator *simulator, const stw_options *options, stw_plan **out,
                                  stw_error *error) STW_CHECK_RESULT;

/* ---- Searches: the best plan within a budget --------------------------------------------------------------------------- */

/* A request to stop, which may come from another thread or from a signal handler. What was found so far is kept. */
typedef struct stw_cancel stw_cancel;
STW_API stw_status stw_cancel_create(stw_cancel **out, stw_error *error) STW_CHECK_RESULT;
STW_API void stw_cancel_destroy(stw_cancel *cancel);
STW_API void stw_cancel_request(stw_cancel *cancel);
STW_API bool stw_cancel_is_requested(const stw_cancel *cancel); /* false for NULL */

typedef struct stw_progress {
    const char *method;                     /* at work now */
    double elapsed_s, budget_s;             /* budget 0: no limit of time */
    int64_t evaluations, evaluation_budget; /* budget 0: no limit of evaluations */
    bool has_plan;                          /* a valid plan was found; then: */
    double best_step_s, best_value;
    double lower_bound_s; /* of the step time */
} stw_progress;

/* One update of a policy that learns: a row of its learning curve. Values in the unit of the objective; NaN where there is none.
 */
typedef struct stw_curve_row {
    int64_t update;                      /* from 0 */
    int64_t evaluations;                 /* so far */
    int32_t round;                       /* of refinement */
    double seconds;                      /* since this run began */
    double greedy;                       /* of the plan without noise */
    double mean;                         /* of the valid samples */
    double best;                         /* so far */
    double valid;                        /* share of the samples */
    double entropy;                      /* of a placement decision, nats */
    double sigma, rate;                  /* of the noise; of learning */
    double gradient_norm, clipped, loss; /* of the last epoch; clipped: share of the decisions */
    double spread;                       /* over units, of the first knob's mean; 0 for the head that names devices */
} stw_curve_row;

typedef struct stw_watch {                                         /* everything may be NULL */
    void (*progress)(void *context, const stw_progress *progress); /* called in the thread that called, some times per second */
    void *context;
    stw_cancel *cancel;
    void (*curve)(void *context, const stw_curve_row *row); /* after each update of a policy; likewise */
    double spent_s; /* of a budget of time, before stw_optimize was called: for reading the graph, say */
} stw_watch;

typedef struct stw_found { /* a valid plan that was better than those before it */
    double seconds;        /* since the method's run began */
    int64_t evaluations;   /* so far */
    double value;          /* of the objective */
} stw_found;

typedef struct stw_candidate { /* what one method came to; strings and arrays are borrowed from the result */
    const char *method;
    bool valid;
    const char *reason;        /* why not, in words; NULL if valid */
    double step_s;             /* NaN when there is none */
    double value;              /* of the objective: seconds or bytes; likewise */
    const int64_t *peak_bytes; /* (devices), or NULL */
    double search_s;
    int64_t evaluations;
    int64_t seed;
    bool repaired;          /* its first plan did not fit into memory */
    const char *note;       /* how the plan was found, or "" */
    const stw_found *found; /* (found_count) in order, the last being the plan itself; of thousands, some are left out */
    int32_t found_count;
} stw_candidate;

typedef struct stw_result stw_result; /* immutable; the simulator must outlive it */

/* The best valid plan within the options' budget: never worse than the default, nor than any of its candidates. Options as for
 * stw_method_run. `watch` may be NULL. Without any valid plan the status is STW_OK all the same, and stw_result_plan is NULL. */
STW_API stw_status stw_optimize(const stw_simulator *simulator, const stw_options *options, const stw_watch *watch,
                                stw_result **out, stw_error *error) STW_CHECK_RESULT;
/* A plan at the grain of the options ("grain", modules if it is not given), found from another: what is placed as a whole goes
 * where most of it is, and a search improves on that within the options' budget. If that gains less over one device than
 * "min-gain" says (1 % if it is not given), everything is on one. A plan that is at the grain already keeps its devices. Ops run
 * in the order of the program, each alone. For exports that tell the places of modules alone. */
STW_API stw_status stw_plan_regrain(const stw_simulator *simulator, const stw_plan *plan, const stw_options *options,
                                    stw_plan **out, stw_error *error) STW_CHECK_RESULT;
/* Each of these methods (names separated by commas, "optimize" being one) by itself, each with the whole budget and with the same
 * scheduling rule (upward-rank unless the options name one). */
STW_API stw_status stw_compare(const stw_simulator *simulator, const char *methods, const stw_options *options,
                               const stw_watch *watch, stw_result **out, stw_error *error) STW_CHECK_RESULT;
/* Trains a policy on this graph and machine and writes it to the option "output" (with the state of the training, now and then
 * and at the end; written aside and renamed). Options besides those of stw_method_run: "preset", "updates" (the training repeats
 * bit for bit; "budget" and "evaluations" are then not looked at), "resume" ("yes": goes on from the file "output"),
 * "learning-rate", "reward", "initial-plans", "warm-start", "device-names". The result has one candidate: the best plan that was
 * found. */
STW_API stw_status stw_train(const stw_simulator *simulator, const stw_options *options, const stw_watch *watch, stw_result **out,
                             stw_error *error) STW_CHECK_RESULT;
STW_API void stw_result_destroy(stw_result *result);

STW_API const stw_plan *stw_result_plan(const stw_result *result);
STW_API int32_t stw_result_best(const stw_result *result); /* index of the candidate that the plan came from; -1: no valid plan */
STW_API bool stw_result_candidate(const stw_result *result, int32_t index, stw_candidate *out); /* false past the last */
STW_API const char *stw_result_lacking(
    const stw_result *result); /* what every plan lacks, in words; "" if there is a valid one */
STW_API stw_bounds stw_result_bounds(const stw_result *result);
STW_API double stw_result_measured_share(const stw_result *result);
STW_API bool stw_result_is_interrupted(const stw_result *result);
/* A method, the bound or the noise check ended early because memory ran out (candidates say which method); the plan is the best
 * of what there is. Where it ran out before there was any plan, the search fails with STW_ERROR_MEMORY. */
STW_API bool stw_result_is_short_of_memory(const stw_result *result);
STW_API bool stw_result_is_optimal(const stw_result *result); /* proved: no plan within the limits is better */
/* The limits of the search as they were given, "--grain module --pin a=0"; "": there were none. */
STW_API const char *stw_result_limits(const stw_result *result);
/* How often the plan stays ahead of the default when costs are off by what is known of them (docs/cost-model.md), and how far the
 * times of its kernels were off: as a share of them, in the mean by time; NaN where the plan has no such kernels. Links are off
 * by 10 %, and each plan by about 2 % beside. */
typedef struct stw_noise {
    int32_t ahead;         /* the default is level with itself, which counts */
    int32_t draws;         /* how often that was tried: 32, fewer after a cancel or when the time is up */
    double measured_error; /* ops whose time was measured on that kind of device */
    double carried_error;  /* on another kind */
    double modelled_error; /* ops without a measured time */
    double fused_error;    /* fused groups */
} stw_noise;
STW_API stw_noise stw_result_noise(const stw_result *result);
/* Writes the plan file with its candidates; `head_only` leaves out the lists per node. "-" is standard output. */
STW_API stw_status stw_result_write(const stw_result *result, const char *path, bool head_only,
                                    stw_error *error) STW_CHECK_RESULT;

/* ---- Explanations: what a step is made of, and what would change it ------------------------------------------------- */

/* docs/explain.md has the words. Strings and arrays are borrowed from the explanation; a function with an index returns false
 * past the last. */
typedef struct stw_explanation stw_explanation; /* immutable; simulator and plan must outlive it */

/* Simulates the plan and explains its step. Options (may be NULL): "what-if" (changes separated by commas, or "all"; without it
 * none are tried), "op" (a name or an id), "group" (likewise: an op in it); for the searches of "what-if" those of stw_optimize.
 * STW_ERROR_NO_PLAN: the plan is invalid and has no step; one that only lacks memory has one. `watch` may be NULL; after a cancel
 * what-ifs that were not begun are left out. */
STW_API stw_status stw_explain(const stw_simulator *simulator, const stw_plan *plan, const stw_options *options,
                               const stw_watch *watch, stw_explanation **out, stw_error *error) STW_CHECK_RESULT;
STW_API void stw_explanation_destroy(stw_explanation *explanation);

/* The critical path: from the end of the step back to its beginning, each task with what it waited for last. Its parts touch each
 * other, from 0 to the end of the step. */
typedef enum stw_path_kind {
    STW_PATH_COMPUTE,  /* a task runs */
    STW_PATH_CHARGE,   /* its device sends or receives for it */
    STW_PATH_TRANSFER, /* a value is on its way */
    STW_PATH_DEVICE,   /* a task is ready, and its device runs another one */
    STW_PATH_CHANNEL,  /* a value is ready, and the channel carries another one */
    STW_PATH_ORDER     /* a task is ready and its device idle: the strict order has another one first, which is not ready */
} stw_path_kind;
#define STW_PATH_KINDS 6
typedef struct stw_path_part {
    stw_path_kind kind;
    int32_t node;     /* the task (an op, or the id of a group) or the value; of waits the one that was in the way */
    int32_t waiting;  /* of waits: the task or value that was ready; else -1 */
    int32_t from, to; /* devices; the same twice unless it is a link */
    int64_t start_ps, end_ps;
} stw_path_part;
STW_API bool stw_explanation_path(const stw_explanation *explanation, int32_t index, stw_path_part *out);

typedef struct stw_step_parts {
    int64_t step_ps;
    int64_t ps[STW_PATH_KINDS]; /* by stw_path_kind; they add up to the step */
} stw_step_parts;
STW_API stw_step_parts stw_explanation_parts(const stw_explanation *explanation);

/* What the path's time went to: ops, groups, transfers, each sort from the dearest to the cheapest. */
typedef enum stw_path_sort { STW_SORT_OP, STW_SORT_GROUP, STW_SORT_TRANSFER } stw_path_sort;
typedef struct stw_path_cost {
    stw_path_sort sort;
    int32_t node;
    int32_t members;  /* ops that it computes; of a transfer 0 */
    int32_t from, to; /* as in stw_path_part */
    int64_t bytes;    /* of a transfer */
    int64_t path_ps;  /* on the path itself, charges included */
    int64_t delay_ps; /* that others on the path waited for it */
} stw_path_cost;
STW_API bool stw_explanation_cost(const stw_explanation *explanation, int32_t index, stw_path_cost *out);

typedef struct stw_device_time { /* busy and idle add up to the step */
    int64_t busy_ps;             /* charges included */
    int64_t charged_ps;
    int64_t idle_ps;
    int64_t peak_bytes;
} stw_device_time;
STW_API bool stw_explanation_device(const stw_explanation *explanation, int32_t device, stw_device_time *out);

/* Why a device idles: what the task that begins next waits for. */
typedef enum stw_idle_kind {
    STW_IDLE_OPS,      /* for an op of another device */
    STW_IDLE_CHANNEL,  /* for a value that waits for its channel */
    STW_IDLE_TRANSFER, /* for a value that is on its way */
    STW_IDLE_DONE      /* nothing is left to do */
} stw_idle_kind;
typedef struct stw_idle {
    int32_t device;
    stw_idle_kind kind;
    int32_t from, to; /* the other device twice, or the link; -1: nothing is left */
    int32_t times;    /* how often */
    int64_t ps;       /* those of a device add up to its idle_ps */
    int32_t node;     /* what it waits for longest, and how long; or -1 */
    int64_t node_ps;
} stw_idle;
STW_API bool stw_explanation_idle(const stw_explanation *explanation, int32_t index, stw_idle *out);

typedef struct stw_attempt { /* a simulation of something that was changed */
    bool tried;
    stw_reason reason;
    const char *message; /* the reason in words, or "" */
    int64_t step_ps;     /* 0 where there is no step */
    int64_t peak_bytes;  /* the largest of a device */
} stw_attempt;

typedef struct stw_what_if {
    const char *change;   /* "bandwidth=x2"; "" stands first: as it is */
    const char *words;    /* what it means here, or why it cannot be */
    stw_attempt kept;     /* with the plan as it is */
    stw_attempt searched; /* with the best plan of a new search, never worse */
    int64_t evaluations;  /* of that search */
} stw_what_if;
STW_API bool stw_explanation_what_if(const stw_explanation *explanation, int32_t index, stw_what_if *out);

STW_API bool stw_explanation_is_interrupted(const stw_explanation *explanation);

/* Option "op": the op, and what must be with it, on each device. */
STW_API const int32_t *stw_explanation_moved(const stw_explanation *explanation, int32_t *count); /* the op first */
typedef struct stw_move_trial {
    int32_t device;
    bool here; /* it is there already */
    stw_attempt trial;
    int64_t device_peak_bytes;          /* of that device */
    int32_t appear_count, vanish_count; /* transfers that would be new, and no longer be */
    int64_t appear_bytes, vanish_bytes;
    int64_t appear_ps, vanish_ps; /* on their links */
} stw_move_trial;
STW_API bool stw_explanation_move(const stw_explanation *explanation, int32_t index, stw_move_trial *out);
typedef struct stw_pull { /* one of these transfers, those that take longest first */
    int32_t device;       /* where the op would be */
    bool appears;         /* else it vanishes */
    int32_t node;         /* whose value is sent */
    int32_t neighbour;    /* at the other end: what reads the moved op's value, or makes the one that it reads */
    int32_t from, to;
    int64_t bytes, ps;
} stw_pull;
STW_API bool stw_explanation_pull(const stw_explanation *explanation, int32_t index, stw_pull *out);

/* Option "group": what fusing saves, and which merges with what it reads and what reads it were left. */
typedef struct stw_group_worth {
    int32_t group; /* its id */
    int32_t device;
    const int32_t *member; /* (member_count) ops that it computes */
    int32_t member_count;
    int64_t kernel_ps; /* as one kernel, without charges */
    int64_t apart_ps;  /* the sum of the members' own times */
    stw_attempt apart; /* the step with its members apart */
    int32_t left_out;  /* neighbours that were not tried: there are too many */
} stw_group_worth;
STW_API bool stw_explanation_group(const stw_explanation *explanation, stw_group_worth *out); /* false: not asked for */
typedef struct stw_merge_trial {                                                              /* legal ones first, by step */
    int32_t node; /* the neighbour: an op, or the id of a group */
    bool reads;   /* it reads the group; else the group reads it */
    stw_attempt trial;
    int64_t kernel_ps; /* of both as one kernel; 0: illegal */
} stw_merge_trial;
STW_API bool stw_explanation_merge(const stw_explanation *explanation, int32_t index, stw_merge_trial *out);

/* All of it as JSON (docs/explain.md), the caller's, to be given back with stw_bytes_free. */
STW_API stw_status stw_explanation_json(const stw_explanation *explanation, char **bytes, size_t *size,
                                        stw_error *error) STW_CHECK_RESULT;

/* ---- Everything at once, by options ------------------------------------------------------------------------------------ */

/* A graph with what the options say: "machine" and "memory", "costs", "plan" (a file or a method). "machine" may be left out when
 * the plan is a file or the graph brings its machine, "plan" when none is wanted yet. Whatever was opened is owned by the
 * session. */
typedef struct stw_session stw_session;

STW_API stw_status stw_session_open(const char *graph_path, const stw_options *options, stw_session **out,
                                    stw_error *error) STW_CHECK_RESULT;
STW_API void stw_session_destroy(stw_session *session);
STW_API const stw_graph *stw_session_graph(const stw_session *session);
STW_API const stw_machine *stw_session_machine(const stw_session *session);
STW_API const stw_simulator *stw_session_simulator(const stw_session *session);
STW_API const stw_plan *stw_session_plan(const stw_session *session); /* NULL without "plan" */
/* The i-th warning, of the plan and then of the costs, or NULL past the last. */
STW_API const char *stw_session_warning(const stw_session *session, int32_t index);

/* ---- Plans out --------------------------------------------------------------------------------------------------- */

/* Writes the plan file with its evaluation; written aside and renamed; "-" is standard output. */
STW_API stw_status stw_plan_write(const stw_simulator *simulator, const stw_plan *plan, const char *path,
                                  stw_error *error) STW_CHECK_RESULT;
/* The i-th format of stw_plan_export ("onnx", "trace", ...) and what it is; false past the last. */
STW_API bool stw_export_list(int32_t index, const char **name, const char **description);
/* Where an export reads the model and where its result goes. Set what applies and leave the rest zero:
 * (stw_export_io){.path = "step.json"}. */
typedef struct stw_export_io {
    /* In; the caller's, needed during the call only. The model that the graph was read from, for the formats that are such a file
     * with the plan in it (onnx, hlo, hlo-text, graphdef): its path, or its bytes. */
    const char *model_path;
    const void *model; /* (model_size) */
    size_t model_size;
    const char *path; /* of the result, written aside and renamed; "-": standard output; NULL: it stays in memory, as `bytes` */
    /* Out; overwritten by each call. */
    char *bytes; /* (size) the result without `path`, else NULL; then the caller's, to be given back with stw_bytes_free */
    size_t size;
    char note[6000]; /* what the user may paste elsewhere or should know: lines, or "" */
    /* Simulated seconds of a step, NaN where it is not valid: as the target will run what was exported (a device map or split
     * tells the places of modules alone), as planned, and with everything on the one device that does best. */
    double exported_s, plan_s, one_device_s;
} stw_export_io;
/* The plan in another format, to a file or to memory. Of the options (may be NULL) "strip" and "file-limit" count.
 * STW_ERROR_NO_PLAN: the plan is invalid and has no step; one that only lacks memory is written. */
STW_API stw_status stw_plan_export(const stw_simulator *simulator, const stw_plan *plan, const char *format,
                                   const stw_options *options, stw_export_io *io, stw_error *error) STW_CHECK_RESULT;
STW_API void stw_bytes_free(char *bytes);

/* Writes one HTML file that shows the plan beside the default: timelines, memory, the critical path, modules, candidates
 * (docs/report.md). It needs no network; "-" is standard output. `result` (may be NULL) is the search that the plan comes from,
 * for its candidates and its default. Options (may be NULL): "measured", a trace of a real run to be shown beside; "plan", the
 * plan's file, for the candidates in it where there is no result. STW_ERROR_NO_PLAN: the plan is invalid and has no step; one
 * that only lacks memory is shown. */
STW_API stw_status stw_plan_report(const stw_simulator *simulator, const stw_plan *plan, const stw_result *result,
                                   const stw_options *options, const char *path, stw_error *error) STW_CHECK_RESULT;

#ifdef __cplusplus
}
#endif

#endif
