/* What the files of a step share: its nodes and how ops are added. Each op is a constant beside the function that adds it, with
 * its derivative. */
#ifndef STW_GENERATE_STEP_PARTS_H
#define STW_GENERATE_STEP_PARTS_H

#include "generate/step.h"
#include "graph/graph.h"

typedef struct stw_step_op {
    const char *name;
    /* Adds the ops that pass the gradient of `node` on to its inputs (stw_step_pass); NULL: none goes on. */
    void (*derivative)(stw_step *step, stw_tensor node);
} stw_step_op;

typedef struct stw_step_node {
    const stw_step_op *op; /* NULL for sources */
    const char *label;     /* of parameters and buffers */
    const stw_tensor *input;
    int64_t shape[STW_STEP_MAX_RANK];
    int64_t stride[STW_STEP_MAX_RANK]; /* in elements */
    int64_t bytes, flops;
    int64_t attribute[2]; /* what the derivative must know: a dimension, an offset */
    int32_t input_count;
    int32_t output_count;      /* of ops with several outputs: as many getitem views follow at once; else 0 */
    stw_tensor saved;          /* the detached result that the derivative reads */
    stw_tensor gradient;       /* so far */
    stw_tensor updates;        /* the parameter that this op writes */
    uint8_t rank, dtype, kind; /* stw_dtype_*, stw_node_kind */
    bool needs_gradient;       /* a parameter is among what it is computed from */
} stw_step_node;

enum { STW_STEP_CHUNK = 4096, STW_STEP_MAX_CHUNKS = 2048 }; /* nodes never move */

struct stw_step {
    stw_arena *arena;
    stw_step_node *chunk[STW_STEP_MAX_CHUNKS];
    int64_t count, op_count, total_bytes;
    double flops;
    int32_t dtype_s64, dtype_u8, dtype_pred; /* as the graph numbers them */
    stw_tensor loss;
    bool differentiating; /* what is added from here on takes no gradient */
    bool failed;
    stw_error error;
};

static inline stw_step_node *stw_step_at(const stw_step *step, stw_tensor tensor) {
    return &step->chunk[tensor / STW_STEP_CHUNK][tensor % STW_STEP_CHUNK];
}

/* step.c */
/* An op of this shape: contiguous, f32, an operation per element, a gradient if an input has one. */
stw_tensor stw_step_emit(stw_step *step, const stw_step_op *op, stw_shape shape, const stw_tensor *input, int32_t count);
/* The same for another dtype; no gradient goes through. */
stw_tensor stw_step_emit_typed(stw_step *step, const stw_step_op *op, stw_shape shape, int32_t dtype, const stw_tensor *input,
                               int32_t count);
stw_tensor stw_step_emit_view(stw_step *step, const stw_step_op *op, stw_tensor x, stw_shape shape, const int64_t *stride);
/* A part of an op with several outputs. */
stw_tensor stw_step_emit_part(stw_step *step, stw_tensor op, stw_shape shape, const int64_t *stride);
/* Several outputs: the op has the bytes and arithmetic of them all, and a view for each goes to out. A shape of rank -1: this
 * output does not exist. */
stw_tensor stw_step_emit_outputs(stw_step *step, const stw_step_op *op, const stw_tensor *input, int32_t count,
                                 const stw_shape *shape, const int32_t *dtype, int32_t outputs, stw_tensor *out);
void stw_step_set_flops(stw_step *step, stw_tensor op, int64_t flops);
/* The product of factors, or a failure when it is beyond any machine. */
int64_t stw_step_product(stw_step *step, const int64_t *factor, int32_t count);

/* step_shape.c */
int64_t stw_shape_elements(stw_shape shape);
bool stw_shape_equal(stw_shape a, stw_shape b);
stw_shape stw_shape_broadcast(stw_step *step, stw_shape a, stw_shape b);
void stw_stride_contiguous(stw_shape shape, int64_t *stride);
/* The strides of `x` seen in another shape, if no copy is needed for it. */
bool stw_stride_view(const stw_step *step, stw_tensor x, stw_shape shape, int64_t *stride);
/* An op's result lies in memory in the order of its operand. */
void stw_stride_follow(stw_step *step, stw_tensor result, stw_tensor operand);

/* step_views.c: of a fresh result, which traces show as an op */
stw_tensor stw_step_unsafe_view(stw_step *step, stw_tensor x, stw_shape shape);

/* step_finish.c */
/* Does `x` take a gradient at all? */
bool stw_step_wants(const stw_step *step, stw_tensor x);
/* Adds to the gradient of `x`; nothing where it takes none. */
void stw_step_pass(stw_step *step, stw_tensor x, stw_tensor gradient);
/* The same, summed over what was broadcast. */
void stw_step_pass_reduced(stw_step *step, stw_tensor x, stw_tensor gradient);

static inline stw_tensor stw_step_gradient(const stw_step *step, stw_tensor node) { return stw_step_at(step, node)->gradient; }
static inline stw_tensor stw_step_operand(const stw_step *step, stw_tensor node, int32_t k) {
    return stw_step_at(step, node)->input[k];
}
/* An op whose derivative reads its result: a detached alias of it is kept, as autograd does. */
stw_tensor stw_step_save(stw_step *step, stw_tensor result);
stw_tensor stw_step_saved(stw_step *step, stw_tensor node); /* another alias of that, for the derivative */

#endif
