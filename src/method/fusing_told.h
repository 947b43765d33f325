/* See fusing_told.c. */
#ifndef STW_METHOD_FUSING_TOLD_H
#define STW_METHOD_FUSING_TOLD_H

#include "method/search.h"
#include "sim/fused.h"

typedef struct stw_told {
    stw_search *outer;
    const stw_search *inner;
    const stw_fused *fused;
    stw_plan *trial, *best; /* of ops */
    stw_score score;        /* of `best`, if there is one */
    bool has_best;
} stw_told;

stw_status stw_told_open(stw_told *told, stw_search *outer, const stw_fused *fused, stw_error *error);
void stw_told_close(stw_told *told);
/* From here on what `inner` tells goes to `outer`. */
void stw_told_watch(stw_told *told, stw_search *inner);

#endif
