/* An HLO module in memory: computations and instructions in flat arrays, the same whether it came as text or as a protobuf.
 *
 * A computation's instructions stand together, operands before their readers; called computations come before their callers, as
 * XLA requires in both formats, so nothing here is cyclic. Strings are views into the file. */
#ifndef STW_IMPORT_HLO_HLO_H
#define STW_IMPORT_HLO_HLO_H

#include "base/array.h"
#include "graph/graph.h"
#include "import/builder.h"

enum {
    STW_HLO_MAX_DEPTH = 100, /* of tuples in tuples */
    STW_HLO_MAX_RANK = 255   /* layouts are compared in time that grows with the rank */
};

/* How an opcode is priced and what becomes of it in the graph. */
typedef enum stw_hlo_rule {
    STW_HLO_UNKNOWN, /* an opcode that is not in hlo_ops.def: opaque */
    STW_HLO_PARAMETER,
    STW_HLO_CONSTANT,
    STW_HLO_TUPLE,
    STW_HLO_PART,    /* get-tuple-element */
    STW_HLO_SAME,    /* its first operand under another name, parts included */
    STW_HLO_BITCAST, /* a view */
    STW_HLO_RESHAPE, /* a view where the layout allows it */
    STW_HLO_TRANSPOSE,
    STW_HLO_ORDER, /* tokens: no work */
    STW_HLO_DEPENDENCY,
    STW_HLO_ELEMENTWISE, /* from here on ops */
    STW_HLO_MOVE,        /* data movement: no arithmetic */
    STW_HLO_SLICE,       /* reads only what it hands on */
    STW_HLO_UPDATE,      /* dynamic-update-slice: touches only what it writes */
    STW_HLO_SCATTER,
    STW_HLO_DOT,
    STW_HLO_CONVOLUTION,
    STW_HLO_REDUCE,
    STW_HLO_WINDOW,
    STW_HLO_SELECT_AND_SCATTER,
    STW_HLO_MAP,
    STW_HLO_SORT,
    STW_HLO_NORMALIZATION,
    STW_HLO_FFT,
    STW_HLO_CHOLESKY,
    STW_HLO_SOLVE,
    STW_HLO_FUSION,
    STW_HLO_CALL,
    STW_HLO_WHILE,
    STW_HLO_CONDITIONAL,
    STW_HLO_CUSTOM,
    STW_HLO_START, /* of an asynchronous pair: does the work; its "done" is STW_HLO_SAME */
    STW_HLO_OPAQUE
} stw_hlo_rule;

typedef enum stw_hlo_shape_kind { STW_HLO_ARRAY, STW_HLO_PARTS, STW_HLO_TOKEN } stw_hlo_shape_kind;

typedef struct stw_hlo_shape {
    uint8_t kind;            /* stw_hlo_shape_kind; opaque values count as tokens */
    bool has_layout;         /* minor-to-major follows the dimensions */
    int16_t dtype;           /* of an array; STW_UNKNOWN: none of ours */
    int32_t rank;            /* of a tuple: its parts */
    int32_t first;           /* dimensions: into module->number; parts: into module->shape */
    int32_t leaves;          /* arrays and tokens in it */
    int32_t offset;          /* leaves of its tuple before it */
    int64_t elements, bytes; /* a tuple's: sums */
} stw_hlo_shape;

typedef struct stw_hlo_range { /* a piece of one of the lists */
    int32_t first, count;
} stw_hlo_range;

typedef enum stw_hlo_direction {
    STW_HLO_NO_DIRECTION,
    STW_HLO_LESS,
    STW_HLO_LESS_EQUAL,
    STW_HLO_GREATER,
    STW_HLO_GREATER_EQUAL,
    STW_HLO_NOT_EQUAL,
    STW_HLO_OTHER
} stw_hlo_direction;
stw_hlo_direction stw_hlo_find_direction(stw_str text); /* "LT"; empty: none */

/* What an export of a plan writes to an instruction: entries of frontend_attributes (notes.c). */
enum { STW_HLO_NOTE_DEVICE, STW_HLO_NOTE_PRIORITY, STW_HLO_NOTE_ORDER, STW_HLO_NOTES };
extern const char *const stw_hlo_note_keys[STW_HLO_NOTES];
typedef struct stw_hlo_note {
    stw_str value[STW_HLO_NOTES]; /* of a parameter that is a tuple: one for all arrays, or a list with commas; empty: none */
} stw_hlo_note;
int stw_hlo_find_note(stw_str key); /* STW_HLO_NOTES: none of these */

typedef struct stw_hlo_instruction {
    stw_str name, opcode;
    stw_str attributes; /* in text: all behind the operands; in a protobuf: the whole message */
    stw_str meaning;    /* those that change what it computes, in one form (meaning.h) */
    stw_str op_name;    /* of metadata */
    stw_str target;     /* of a custom-call */
    stw_str config;     /* backend_config */
    stw_str kind;       /* of a fusion: "kLoop" */
    stw_hlo_note note;  /* of the plan that the module carries */
    uint64_t hash;      /* of its meaning; when its computation has ended, of it and all that it reads (meaning.h) */
    int64_t at;         /* offset in the file */
    int64_t number;     /* parameter number, tuple index; else STW_UNKNOWN */
    int64_t value;      /* of an integer scalar constant */
    int32_t shape;      /* into module->shape */
    uint8_t rule;       /* stw_hlo_rule */
    uint8_t direction;  /* of a compare */
    bool has_value;
    bool has_effect;           /* of a custom-call: outside of the module too */
    bool aliases;              /* the same: an output is written over an operand */
    int16_t kernel_output;     /* of a convolution: the kernel's dimension of output features; STW_UNKNOWN: not said */
    stw_hlo_range operand;     /* instructions, in module->number, as all lists that follow */
    stw_hlo_range called;      /* computations; of a while: body, condition */
    stw_hlo_range control;     /* instructions that come before */
    stw_hlo_range dimensions;  /* of a transpose: its permutation; of a reduction: what it reduces */
    stw_hlo_range contracting; /* of a dot: dimensions of the left side */
    stw_hlo_range batch;
    stw_hlo_range window;   /* sizes */
    stw_hlo_range dilation; /* of the window's base: holes in its input */
} stw_hlo_instruction;

typedef struct stw_hlo_computation {
    stw_str name;
    int32_t first, count; /* instructions */
    int32_t root;
    int64_t id;              /* in a protobuf */
    stw_hlo_range parameter; /* instructions by parameter number, -1 where there is none */
    int32_t constants;       /* integer scalars in it */
    int64_t constant;        /* the last of them */
    uint64_t hash;
} stw_hlo_computation;

typedef struct stw_hlo_alias {            /* an output that is written over an entry parameter */
    stw_hlo_range output, parameter_part; /* paths through tuples */
    int64_t parameter;
} stw_hlo_alias;

typedef struct stw_hlo_names stw_hlo_names;

typedef struct stw_hlo_module {
    stw_arena *arena;
    stw_str name;
    bool is_scheduled;
    int64_t partitions; /* that it was or will be cut into; 0: not said */
    int32_t entry;      /* computation */
    int32_t computation_count, instruction_count, shape_count, number_count, alias_count;
    int64_t computation_room, instruction_room, shape_room, number_room, alias_room;
    stw_hlo_computation *computation;
    stw_hlo_instruction *instruction;
    stw_hlo_shape *shape;
    int64_t *number; /* the lists */
    stw_hlo_alias *alias;
    stw_hlo_names *names;
} stw_hlo_module;

/* ---- reading: module.c, shared by both readers ---- */

/* Room for one more at `count`, which is an int32_t, in a list of an arena. */
#define STW_HLO_RESERVE(arena, list, count, room, error)                                                    \
    do {                                                                                                    \
        if ((count) >= INT32_MAX / 2 - 64)                                                                  \
            return stw_fail((error), STW_ERROR_INPUT, "more than 2^30 instructions or numbers; too large"); \
        TRY(STW_GROW((arena), (list), (int64_t)(count) + 1, (room), (error)));                              \
    } while (0)

stw_status stw_hlo_module_create(stw_arena *arena, stw_hlo_module **out, stw_error *error);
stw_status stw_hlo_add_computation(stw_hlo_module *m, const stw_hlo_computation *computation, stw_error *error);
stw_status stw_hlo_add_instruction(stw_hlo_module *m, const stw_hlo_instruction *instruction, stw_error *error);
stw_status stw_hlo_add_shape(stw_hlo_module *m, const stw_hlo_shape *shape, stw_error *error);
stw_status stw_hlo_add_number(stw_hlo_module *m, int64_t number, stw_error *error);
stw_status stw_hlo_add_alias(stw_hlo_module *m, const stw_hlo_alias *alias, stw_error *error);
/* Elements and bytes of dimensions that are in place; false when they pass 2^56. `element_bits`: of one element. */
bool stw_hlo_measure_array(const stw_hlo_module *m, stw_hlo_shape *shape, int64_t element_bits);
/* Makes one shape of `parts` shapes that the caller has collected. */
stw_status stw_hlo_add_tuple(stw_hlo_module *m, const stw_hlo_shape *parts, int32_t count, stw_hlo_shape *out, stw_error *error);
/* The type's place in stw_dtype_* and bits; false for what is not a type of XLA. */
bool stw_hlo_find_type(stw_str name, int16_t *dtype, int64_t *bits);
stw_hlo_rule stw_hlo_find_rule(const stw_hlo_module *m, stw_str opcode);

/* What stands in `text` behind `what`; empty: it is not there. */
stw_str stw_hlo_find_after(stw_str text, const char *what);
/* The next number at *cursor; false: no more. Too large ones are INT64_MAX. */
bool stw_hlo_next_number(const char **cursor, const char *end, int64_t *out);

/* Names (of computations: scope -1; of instructions: scope = their computation) to indices. */
stw_status stw_hlo_set_name(stw_hlo_module *m, int32_t scope, stw_str name, int32_t index, bool *fresh, stw_error *error);
int32_t stw_hlo_find_name(const stw_hlo_module *m, int32_t scope, stw_str name); /* -1: none */

/* Checks what its opcode needs of an instruction whose operands and called computations are resolved; NULL: nothing amiss. */
const char *stw_hlo_find_fault(const stw_hlo_module *m, const stw_hlo_instruction *i);
/* Ends the last computation: its root, if none was named, and its parameters by number. */
stw_status stw_hlo_end_computation(stw_hlo_module *m, stw_error *error);
/* After the last computation: there must be one. `entry` < 0: the last. */
stw_status stw_hlo_end_module(stw_hlo_module *m, stw_error *error);

stw_status stw_hlo_text_parse(stw_str bytes, stw_arena *arena, stw_hlo_module **out, stw_error *error);
stw_status stw_hlo_proto_parse(stw_str bytes, stw_arena *arena, stw_hlo_module **out, stw_error *error);

/* ---- use ---- */

static inline const stw_hlo_instruction *stw_hlo_operand(const stw_hlo_module *m, const stw_hlo_instruction *i, int32_t k) {
    return &m->instruction[m->number[i->operand.first + k]];
}
static inline const stw_hlo_shape *stw_hlo_shape_of(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    return &m->shape[i->shape];
}
static inline const int64_t *stw_hlo_dimensions(const stw_hlo_module *m, const stw_hlo_shape *shape) {
    return &m->number[shape->first];
}

/* The same tuples of arrays with as many dimensions; their sizes and types may differ. */
bool stw_hlo_are_alike(const stw_hlo_module *m, const stw_hlo_shape *a, const stw_hlo_shape *b);
/* The array that stands for a value in reports: itself, or the largest part, floating ones before others. */
const stw_hlo_shape *stw_hlo_main_part(const stw_hlo_module *m, const stw_hlo_shape *shape);
/* A reshape or transpose that only renames dimensions: the bytes stay where they are. */
bool stw_hlo_reshape_is_free(const stw_hlo_module *m, const stw_hlo_instruction *i);
bool stw_hlo_transpose_is_free(const stw_hlo_module *m, const stw_hlo_instruction *i);
/* Dimensions from the fastest to the slowest, those of size 1 left out: the next one, or -1. *k is 0 at first. */
int64_t stw_hlo_next_dimension(const stw_hlo_module *m, const stw_hlo_shape *shape, int32_t *k);
/* The last dimension is the fastest, and so on; those of size 1 do not count. */
bool stw_hlo_is_row_major(const stw_hlo_module *m, const stw_hlo_shape *shape);

/* What an instruction costs, bodies included. */
typedef struct stw_hlo_cost {
    int64_t flops, moved;
    int64_t bytes;    /* of the result that needs memory of its own */
    int32_t op_class; /* STW_UNKNOWN: that of the opcode */
    bool usual;       /* `moved` is inputs + output */
} stw_hlo_cost;
typedef struct stw_hlo_costs stw_hlo_costs;
stw_status stw_hlo_costs_create(const stw_hlo_module *m, stw_arena *arena, stw_hlo_costs **out, stw_error *error);
stw_hlo_cost stw_hlo_cost_of(const stw_hlo_costs *costs, int32_t instruction);
/* kernel_flow.c: the ops of the computation that a fusion calls become the next of the fused kernels. `b` knows their classes.
 */
stw_status stw_hlo_add_fused(const stw_hlo_module *m, const stw_hlo_costs *costs, const stw_builder *b,
                             const stw_hlo_instruction *fusion, stw_arena scratch, stw_insides *insides, stw_error *error);

/* kernel_flow.c: how XLA's kernel of an instruction walks its tensors, and whether it may be within another kernel. */
stw_flow stw_hlo_flow_of(const stw_hlo_module *m, const stw_hlo_instruction *i, bool *stays);
/* kernel_form.c: what the instruction does with the elements that it moves. */
stw_form stw_hlo_form_of(const stw_hlo_module *m, const stw_hlo_instruction *i);
/* XLA sums so few values for each result, such as the parts of a split product, that it does so in a loop over the results, like
 * an element-wise op. Only beyond that do threads work together on one result. */
bool stw_hlo_reduces_few(const stw_hlo_module *m, const stw_hlo_instruction *i);

/* kernel_apart.c. A fusion by blocks of Triton, which go on with what they have reduced from rows. A loop reduces anew for each
 * result. */
bool stw_hlo_is_triton(const stw_hlo_instruction *fusion);
/* `entry` is the computation that a graph is made of. (entry->count) why an instruction, as an op, is in no fusion
 * with others (graph.h: apart), or NULL. */
stw_status stw_hlo_find_apart(const stw_hlo_module *m, const stw_hlo_computation *entry, stw_arena *arena, const char ***out,
                              bool **keeps, stw_error *error);
/* The same of a view between two ops of a fusion. */
const char *stw_hlo_view_apart(const stw_hlo_instruction *i);
/* Fills in what XLA wants of a fusion that the instruction is in; not NULL: why it is in none. */
const char *stw_hlo_describe_kernel(const stw_hlo_module *m, const stw_hlo_instruction *i, stw_flow *flow);
/* (entry->count) the instruction that another stands for when one looks through tuples and barriers: itself, in most cases. */
stw_status stw_hlo_look_through(const stw_hlo_module *m, const stw_hlo_computation *entry, stw_arena *arena, int32_t **out,
                                stw_error *error);
/* (entry->count) the op or source behind views; a tuple of several values stands for itself. `is_op` (entry->count); `behind` as
 * above. */
stw_status stw_hlo_find_roots(const stw_hlo_module *m, const stw_hlo_computation *entry, const bool *is_op, const int32_t *behind,
                              stw_arena *arena, int32_t **out, stw_error *error);

/* buffers.c: ops of the entry that stay before others which write over what they read. */
typedef struct stw_hlo_hold {
    int32_t before, after; /* instructions */
} stw_hlo_hold;
typedef struct stw_hlo_holds {
    stw_hlo_hold *pair; /* (count) */
    int32_t count;
    int64_t room;
} stw_hlo_holds;
stw_status stw_hlo_find_holds(const stw_hlo_module *m, const bool *is_op, stw_arena *arena, stw_hlo_holds *out, stw_error *error);

/* notes.c: what a note says; NULL: nothing amiss. */
const char *stw_hlo_read_note(const stw_hlo_note *note, stw_carried *out);
/* Of a tuple-shaped parameter's note, the next array's; `rest` is the note itself at first. */
stw_hlo_note stw_hlo_next_note(const stw_hlo_note *list, stw_hlo_note *rest);

/* The element k of a while's state that its body hands on untouched. */
bool stw_hlo_while_passes(const stw_hlo_module *m, const stw_hlo_instruction *loop, int32_t k);
/* As the file states it, else by the constant in its condition, else 1. *is_known is false where that is a guess. */
int64_t stw_hlo_trip_count(const stw_hlo_module *m, const stw_hlo_instruction *loop, bool *is_known);

/* A custom-call: adjusts the cost where its target is known. Some are views. */
void stw_hlo_call_cost(const stw_hlo_module *m, const stw_hlo_instruction *i, stw_hlo_cost *cost);
bool stw_hlo_call_is_view(const stw_hlo_instruction *i);

/* (instruction_count) stw_node_kind of the entry's parameters, by instruction minus the entry's first. The rule stands in
 * module_parameters.c. */
stw_status stw_hlo_classify_parameters(const stw_hlo_module *m, stw_arena *arena, uint8_t **out, stw_error *error);

/* The graph of the entry computation. `instruction_of` (may be NULL): for each builder index (graph->origin) its instruction. */
stw_status stw_hlo_build(const stw_hlo_module *m, stw_arena *arena, stw_graph **out, int32_t **instruction_of, stw_error *error);

/* Arithmetic that stays at 2^60 instead of overflowing. */
static inline int64_t stw_hlo_add(int64_t a, int64_t b) {
    const int64_t most = (int64_t)1 << 60;
    return a > most - b ? most : a + b; /* both are at most 2^60 */
}
static inline int64_t stw_hlo_multiply(int64_t a, int64_t b) {
    const int64_t most = (int64_t)1 << 60;
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) || product > most ? most : product;
}

#endif
