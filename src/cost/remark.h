/* Private to cost/: what there is to tell the user of a file of measured times, and of modelled ones. All text lies in the arena.
 */
#ifndef STW_COST_REMARK_H
#define STW_COST_REMARK_H

#include "cost/cost.h"

typedef struct stw_row_count {
    int64_t rows, unmatched, unknown; /* unmatched: they name no op; unknown: no kind of device */
    stw_str unknown_kind;
} stw_row_count;

const char *stw_cost_unit(const stw_cost_rows *rows); /* what the file is a list of: "rows", "times" */
/* The note of the reader, then what is wrong with rows; empty: nothing. */
stw_str stw_remark_on_rows(const stw_cost_rows *rows, const stw_row_count *n, stw_arena *arena);
/* `remark` and, where every time of `kind` was carried over from others, that. served[k]: a time of kind other[k] served. */
stw_str stw_remark_on_carried(stw_str remark, stw_str kind, const stw_str *other, const bool *served, int64_t count,
                              stw_arena *arena);
/* `remark` and, where a loop's time goes by a number of turns that nobody knows, that. */
stw_str stw_remark_on_loops(stw_str remark, const stw_costs *costs, stw_arena *arena);

#endif
