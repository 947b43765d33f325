/* A plan as one HTML file that is looked at in a browser (docs/report.md).
 *
 * report.c    the whole as one short function: runs, what is known of them, the file
 * run.c       the timeline and the critical path of a run, as columns
 * boxes.c     which tensor is held where and when, and where its box stands in the picture
 * modules.c   which module a node belongs to
 * measured.c  a trace of a real run, beside the simulated ones
 * head.c      what is said once: names, devices, explanations, candidates, as JSON
 * payload.c   head and columns as one packed text
 * sha256.c    the hash by which the browser knows our script from any other
 * page.c      the page around it, whose sources are in page/
 *
 * Text that comes from files is in the packed part alone, never in the page's own HTML. */
#ifndef STW_REPORT_REPORT_H
#define STW_REPORT_REPORT_H

#include <stdio.h>

#include "api/options.h"
#include "base/array.h"
#include "base/json.h"
#include "explain/explain.h"
#include "sim/sim.h"

/* ---- payload.c ---- */

/* Numbers of a kind, one per node, task or the like. The browser has 8, 32 and 64 bits of them. */
typedef enum stw_column_type { STW_COLUMN_U8, STW_COLUMN_I32, STW_COLUMN_F64 } stw_column_type;
typedef struct stw_column {
    stw_str name;
    stw_column_type type;
    int64_t count;
    const void *data; /* (count) */
} stw_column;
typedef struct stw_payload {
    stw_arena *arena; /* for names and data of columns, until the payload is written */
    stw_column *column;
    int64_t column_count, column_room;
} stw_payload;

/* `data` is borrowed. `run` goes in front of the name where it is not negative: "1.task_node". */
stw_status stw_payload_add(stw_payload *payload, int32_t run, const char *name, stw_column_type type, const void *data,
                           int64_t count, stw_error *error);
/* Whole numbers as doubles: exact up to 2^53, which is 2.5 hours in picoseconds. */
stw_status stw_payload_add_int64(stw_payload *payload, int32_t run, const char *name, const int64_t *data, int64_t count,
                                 stw_error *error);
/* The key "columns" of the head: [name, type, offset, count] each; offsets in bytes behind the head. */
void stw_payload_describe(const stw_payload *payload, stw_json_writer *writer);
/* The length of the head (8 bytes, little-endian), the head, then the columns, each at a multiple of 8 bytes: packed by gzip and
 * written as base64. */
stw_status stw_payload_write(const stw_payload *payload, stw_str head, FILE *file, stw_error *error);

/* ---- run.c ---- */

typedef struct stw_report_run { /* a step that is shown */
    const char *title;          /* "plan" or "default" */
    const stw_plan *plan;
    stw_plan *owned_plan;
    stw_workspace *workspace;
    stw_evaluation result;
    stw_explanation *explanation;
} stw_report_run;

/* Simulates and explains. STW_ERROR_NO_PLAN: there is no step. */
stw_status stw_report_run_create(const stw_simulator *simulator, stw_report_run *run, stw_error *error);
void stw_report_run_destroy(stw_report_run *run);
/* Its columns: tasks, transfers, boxes, path. */
stw_status stw_report_run_add(const stw_report_run *run, int32_t index, stw_payload *payload, stw_error *error);

/* ---- boxes.c ---- */

typedef enum stw_box_kind { STW_BOX_RESIDENT, STW_BOX_EVERYWHERE, STW_BOX_MADE, STW_BOX_COPY } stw_box_kind;
typedef struct stw_box { /* a tensor in the memory of a device */
    int32_t node, device;
    stw_box_kind kind;
    int64_t from_ps, to_ps; /* held from .. to, the latter not included */
    int64_t bytes;
    int64_t base; /* where it stands: boxes of a device that are there at the same time do not overlap */
} stw_box;
/* All that the run held for some time, by device and then by time. Bases are a drawing's, by first fit: the simulator gives no
 * addresses. */
stw_status stw_report_boxes(const stw_report_run *run, stw_arena *arena, stw_box **out, int64_t *count, stw_error *error);

/* ---- modules.c ---- */

typedef struct stw_report_tree {
    int32_t count;
    stw_str *path;   /* (count) "enc.0.gates"; a module comes after what it lies in, whose path begins its own */
    int32_t *parent; /* (count) or -1 */
    int32_t *of;     /* (N) or -1: not known */
} stw_report_tree;
stw_status stw_report_modules(const stw_graph *graph, stw_arena *arena, stw_report_tree *out, stw_error *error);

/* ---- measured.c ---- */

typedef struct stw_measured_track {
    stw_str process, name;
    int32_t device; /* the device of this name, or -1 */
} stw_measured_track;
typedef struct stw_measured {
    stw_str path; /* empty: there is no trace */
    int64_t track_count, track_room;
    stw_measured_track *track;
    int64_t name_count, name_room;
    stw_str *name; /* distinct names of events without a node */
    int64_t event_count, event_room;
    struct stw_measured_event {
        int32_t track;
        int32_t node, name; /* a node of the graph and -1, or -1 and an index of `name` */
        double start_us, duration_us;
    } * event;        /* by track, then by start */
    int64_t left_out; /* complete events without a start or a duration, or with a negative one */
} stw_measured;
/* Reads complete events ("X") of a trace in the Trace Event format; times count from the first of those that are ours, if any
 * are. */
stw_status stw_report_measured(const char *path, const stw_options *options, const stw_graph *graph, const stw_machine *machine,
                               stw_arena *arena, stw_measured *out, stw_error *error);
stw_status stw_report_measured_parse(stw_str text, const stw_graph *graph, const stw_machine *machine, stw_arena *arena,
                                     stw_measured *out, stw_error *error);
stw_status stw_report_measured_add(const stw_measured *measured, stw_payload *payload, stw_error *error);

/* ---- head.c ---- */

typedef struct stw_report_parts { /* what the file says */
    const stw_simulator *simulator;
    int32_t run_count;
    const stw_report_run *run; /* (run_count) the default, if it is shown, then the plan */
    const char *note;          /* why there is no default, or "" */
    const stw_result *result;  /* or NULL; then: */
    stw_str candidates;        /* JSON of the plan's file, or empty; and what its search minimised, */
    stw_str objective;         /* likewise */
    stw_bounds bounds;
    stw_report_tree modules;
    stw_measured measured;
} stw_report_parts;
/* Columns of the nodes, and the JSON text, in the payload's arena. All columns must have been added before. */
stw_status stw_report_nodes_add(const stw_report_parts *parts, stw_payload *payload, stw_str **op_name, int32_t *op_count,
                                stw_error *error);
stw_status stw_report_head(const stw_report_parts *parts, const stw_str *op_name, int32_t op_count, const stw_payload *payload,
                           stw_str *out, stw_error *error);

/* ---- sha256.c ---- */

/* FIPS 180-4. */
void stw_sha256(const char *const *text, const int64_t *length, int32_t count, uint8_t digest[32]);

/* ---- page.c ---- */

stw_status stw_report_page(const stw_payload *payload, stw_str head, FILE *file, stw_error *error);
/* Base64 with padding, for hashes; `out` has room for 4 characters per 3 bytes and a NUL. */
void stw_base64(const uint8_t *bytes, int64_t count, char *out);

#endif
