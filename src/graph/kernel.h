/* What a set of ops does as one kernel: how often it computes each of them, and what it moves from and to memory, by class. A
 * group of a plan and a fusion in a file are the same to it. Only for graphs that say how ops walk their tensors (graph->flow).
 *
 * Members ascend. A unit is an op of the kernel: a member, or a part of one. */
#ifndef STW_GRAPH_KERNEL_H
#define STW_GRAPH_KERNEL_H

#include "graph/graph.h"

typedef struct stw_unit {
    double elements, flops;
    double whole, parts; /* what others need of it, in passes over it: the most of those that are at least one, for the others
                            see the same elements; the sum of those below, for slices are different ones */
    double passes;       /* how often it is computed, 1 being each element once */
    int64_t read_first, read_count;
    int32_t member, part;
    uint8_t op_class, dtype;
    bool is_read, dear, folds;
    bool leaves; /* its value is written */
    const stw_form *form;
} stw_unit;

typedef struct stw_unit_read { /* what a unit reads */
    double elements;
    int32_t unit; /* within the kernel; -1: from outside; -2: something that is not computed */
    int32_t node, view;
    uint8_t take; /* stw_take */
} stw_unit_read;

typedef struct stw_external { /* a value that is read from outside */
    double whole, parts;      /* as above */
    double moved;             /* bytes that the kernel reads of it */
    int64_t bytes, most;      /* of the distinct views that are read; of the value */
    int32_t node, result;
    int32_t next; /* another result of the node; -1: none */
    int32_t first_use;
    uint8_t op_class; /* of the first unit that reads it and is no alias; STW_CLASS_COUNT: there is none */
} stw_external;

typedef struct stw_external_use {
    int32_t view, next;
} stw_external_use;

typedef struct stw_kernel_room {
    stw_unit *unit;         /* (kernel_units) */
    stw_unit_read *read;    /* (kernel_reads) */
    stw_external *external; /* (kernel_reads) */
    stw_external_use *use;  /* (kernel_reads) */
    int32_t *slot;          /* (N) of a node the first of its externals, + 1; zeros between calls */
} stw_kernel_room;
stw_status stw_kernel_room_create(const stw_graph *graph, stw_arena *arena, stw_kernel_room *out, stw_error *error);

typedef struct stw_members {
    const int32_t *member; /* (count), at most 128 */
    const bool *written;   /* (count) its output leaves the kernel, in part at least; NULL: of all */
    int32_t count;
    bool holds_rows; /* it holds the rows that it folds, and computes nothing twice (plan/kernel_rules.h); of one op its file says
                        it */
    /* Whether an op that reads a member does so outside of this kernel. NULL: every op that is no member does. */
    bool (*reads_outside)(const void *context, int32_t reader);
    const void *context;
} stw_members;

typedef struct stw_kernel_work {
    int32_t unit_count;
    const stw_unit *unit; /* in the room: what is computed, and how often */
    int32_t external_count;
    const stw_external *external;        /* likewise: what is read */
    double written;                      /* bytes of what is written */
    double class_bytes[STW_CLASS_COUNT]; /* by the class of the first op that reads a value, of the op that writes it */
} stw_kernel_work;
void stw_kernel_find_work(const stw_graph *graph, const stw_members *members, const stw_kernel_room *room, stw_kernel_work *out);

/* How many times repeated arithmetic counts where it is expensive. */
enum { STW_DEAR_FACTOR = 16 };

/* The same by class and dtype, to be kept: rows into `out`, which has room for one for each unit and one for each class;
 * returns their number. */
int64_t stw_kernel_rows(const stw_kernel_work *kernel, stw_work_row *out);

/* Bytes that a read of these uses of ONE value moves: the whole if the value itself is read, else the distinct views, at most
 * the whole. `use` sorted by view; count > 0. */
int64_t stw_read_bytes(const stw_graph *graph, int32_t value, const stw_use *use, int64_t count);
/* Bytes that op i moves when it runs alone. An alias moves nothing; a gather reads only what it hands on; of some ops the reader
 * of the file knows. */
int64_t stw_op_bytes_moved(const stw_graph *graph, int32_t i);

#endif
