/* Plans out, one file per format; export.c has the table. An exporter writes to `out`, which becomes the file only if all went
 * well. */
#ifndef STW_EXPORT_EXPORT_H
#define STW_EXPORT_EXPORT_H

#include <stdio.h>

#include "graph/grain.h"
#include "sim/sim.h"

typedef struct stw_price { /* seconds of a step; NaN: not valid */
    double exported_s, plan_s, one_device_s;
} stw_price;

/* How the target runs what it is given. */
typedef enum stw_target {
    STW_TARGET_PLAN,     /* as planned: or nobody runs it */
    STW_TARGET_MODULES,  /* modules where their parameters are: `home` */
    STW_TARGET_ONE,      /* XLA: all on one device, with the order and the groups of the plan */
    STW_TARGET_READY,    /* TensorFlow: the places of ops: `place`; each alone, as it becomes ready */
    STW_TARGET_SESSIONS, /* ONNX Runtime: a session for each part of the model that a device can run at a stretch, each op alone
                          */
} stw_target;

typedef struct stw_export {
    const stw_simulator *simulator;
    const stw_graph *graph;
    const stw_machine *machine;
    const stw_plan *plan;
    const stw_timeline *timeline;  /* of the plan, with memory changes */
    const int32_t *rank;           /* (N) when the node's task begins among all tasks: 0, 1, ...; -1 for nodes of no task */
    stw_str model;                 /* the model file as it was read, unpacked; of formats that change it, else empty */
    const char *model_path, *path; /* of the model and of the output; NULL: in memory */
    stw_str strip;                 /* names of modules are relative to this one: "m", "a.b"; empty: as they are */
    stw_arena *arena;              /* for whatever is needed until the end */
    FILE *out;
    stw_target target;
    const int32_t *home;  /* (N) set by exporters that tell the places of parameters alone: where these are, or -1; else NULL */
    stw_grain home_grain; /* and what of it the target makes (plan/of_modules.h) */
    const int32_t *place; /* (N) set by those that put nodes elsewhere than the plan has them; else NULL */
    stw_price price;
    int32_t sessions; /* set by price.c, of STW_TARGET_SESSIONS: how many */
    stw_str price_note;
    stw_str warning; /* what the plan lacks, a line; else empty */
    stw_str note;    /* set by the exporter: lines that the user may paste or should know, in the arena; else empty */
} stw_export;

/* price.c: after the exporter has run; sets e->price and e->price_note. */
stw_status stw_export_price(stw_export *e, stw_error *error);
/* As exported the step is slower than with everything on one device, or not valid where that is. */
bool stw_export_is_worse(double exported_s, double one_device_s);

/* The exporters. Faults in writing to `out` are found at the end, by the caller. */
stw_status stw_export_onnx(stw_export *e, stw_error *error);
stw_status stw_export_hlo(stw_export *e, stw_error *error);      /* as the model is: protobuf or text */
stw_status stw_export_hlo_text(stw_export *e, stw_error *error); /* text, for reading */
stw_status stw_export_graphdef(stw_export *e, stw_error *error); /* as the model is: bytes or text */
stw_status stw_export_trace(stw_export *e, stw_error *error);
stw_status stw_export_device_map(stw_export *e, stw_error *error);
stw_status stw_export_split_points(stw_export *e, stw_error *error);
stw_status stw_export_dot(stw_export *e, stw_error *error);
stw_status stw_export_csv(stw_export *e, stw_error *error);

#endif
