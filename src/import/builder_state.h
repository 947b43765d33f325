/* Private to the builder: builder.c collects, builder_order.c sorts, builder_finish.c makes the graph. */
#ifndef STW_IMPORT_BUILDER_STATE_H
#define STW_IMPORT_BUILDER_STATE_H

#include "base/vector.h"
#include "import/builder.h"

enum { STW_BUILDER_MAX_KINDS = 64 };

typedef struct stw_link_list { /* (node, from) pairs as they were added */
    stw_vector node, from;
} stw_link_list;

typedef struct stw_links { /* the same by node, in the order of adding */
    int64_t *start;        /* (count + 1) into from */
    int32_t *from;
} stw_links;

typedef struct stw_measurement {
    int32_t node, kind;
    double us;
} stw_measurement;

struct stw_builder {
    stw_arena *arena;
    stw_op_index *ops;
    stw_vocabulary vocabulary;
    stw_str text; /* of a file in text: for messages */
    bool keeps_flow, shares_insides;
    const stw_insides *insides; /* or NULL */
    int64_t count, capacity;
    stw_raw_node *node;          /* (count) */
    int32_t *colocate, *updates; /* (count) a node, or -1 */
    stw_link_list input, control, hold;
    stw_vector output;
    int32_t kind_count;
    stw_str kind_name[STW_BUILDER_MAX_KINDS];
    int64_t measured_count, measured_capacity;
    stw_measurement *measured; /* (measured_count) */
};

/* Fails about a node: its position in the file and its name stand in front. */
stw_status stw_builder_fail(const stw_builder *b, int32_t node, stw_error *error, const char *format, ...) STW_PRINTF(4, 5);

stw_status stw_builder_sort_links(const stw_builder *b, const stw_link_list *list, stw_arena *arena, stw_links *out,
                                  stw_error *error);
/* (count) positions, so that what a node reads, waits for or updates comes before it; file order otherwise. */
stw_status stw_builder_order(const stw_builder *b, const stw_links *input, const stw_links *control, stw_arena *arena,
                             int32_t **out, stw_error *error);

#endif
