/* The cut of a sequence of units into one range per device that agrees best with the plan. */
#ifndef STW_EXPORT_MODULES_PIPELINE_CUT_H
#define STW_EXPORT_MODULES_PIPELINE_CUT_H

#include "export/modules/modules.h"

typedef struct stw_stage {
    int32_t device;
    int32_t begin, end; /* of the sequence; not empty */
} stw_stage;

typedef struct stw_pipeline {
    int32_t count;
    stw_stage stage[STW_MAX_DEVICES];
    bool exact; /* the best over all orders of the devices, not only over one */
} stw_pipeline;

/* `sequence` (count) units; `can_begin` (count): a stage may begin there; `weight` (units, D). */
stw_status stw_pipeline_cut(const int32_t *sequence, const bool *can_begin, int32_t count, const int64_t *weight, int32_t D,
                            stw_arena scratch, stw_pipeline *out, stw_error *error);

#endif
