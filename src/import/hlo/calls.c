/* Custom calls whose targets are known: libraries that XLA calls for products, convolutions and attention. */
#include <math.h>

#include "import/hlo/hlo.h"

typedef enum {
    VIEW,
    GEMM,
    FORWARD_CONVOLUTION, /* operands: input, kernel */
    INPUT_GRADIENT,      /* output gradient, kernel -> input gradient; labels and window are those of the forward pass */
    KERNEL_GRADIENT,     /* input, output gradient -> kernel gradient */
    ATTENTION,           /* queries, keys, values */
    ATTENTION_GRADIENT,
    TOP_K,
    RANDOM_BITS
} call_kind;

static const struct {
    const char *prefix;
    call_kind kind;
} targets[] = {
    {"Sharding", VIEW},
    {"SPMDFullToShardShape", VIEW},
    {"SPMDShardToFullShape", VIEW},
    {"annotate_device_placement", VIEW},
    {"LayoutConstraint", VIEW},
    {"__cublas$", GEMM},
    {"__onednn$matmul", GEMM},
    {"__cudnn$convForward", FORWARD_CONVOLUTION},
    {"__cudnn$convBiasActivationForward", FORWARD_CONVOLUTION},
    {"__onednn$convolution", FORWARD_CONVOLUTION},
    {"__cudnn$convBackwardInput", INPUT_GRADIENT},
    {"__cudnn$convBackwardFilter", KERNEL_GRADIENT},
    {"te_fused_attn_backward", ATTENTION_GRADIENT},
    {"te_fused_attn_forward", ATTENTION},
    {"TopK", TOP_K},
    {"__gpu$TopK", TOP_K},
    {"cu_threefry2x32", RANDOM_BITS},
};

static bool find_kind(stw_str target, call_kind *out) {
    for (int k = 0; k < (int)(sizeof targets / sizeof targets[0]); k++) {
        if (!stw_str_starts(target, targets[k].prefix)) continue;
        *out = targets[k].kind;
        return true;
    }
    if (!stw_str_starts(target, "__cudnn$fmha")) return false;
    *out = stw_hlo_find_after(target, "Backward").length > 0 ? ATTENTION_GRADIENT : ATTENTION;
    return true;
}

bool stw_hlo_call_is_view(const stw_hlo_instruction *i) {
    call_kind kind = GEMM;
    return i->rule == STW_HLO_CUSTOM && i->operand.count == 1 && find_kind(i->target, &kind) && kind == VIEW;
}

/* The result: the first part, where a workspace comes with it. */
static const stw_hlo_shape *result_of(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const stw_hlo_shape *shape = stw_hlo_shape_of(m, i);
    return shape->kind == STW_HLO_PARTS && shape->rank > 0 ? &m->shape[shape->first] : shape;
}

/* A workspace of bytes at the end is gone when the call is over. */
static void leave_out_workspace(const stw_hlo_module *m, const stw_hlo_instruction *i, stw_hlo_cost *cost) {
    const stw_hlo_shape *shape = stw_hlo_shape_of(m, i);
    if (shape->kind != STW_HLO_PARTS || shape->rank < 2) return;
    const stw_hlo_shape *last = &m->shape[shape->first + shape->rank - 1];
    if (last->kind != STW_HLO_ARRAY || last->rank != 1 || last->bytes != last->elements) return;
    cost->bytes -= last->bytes;
    cost->moved = cost->moved > last->bytes ? cost->moved - last->bytes : 0;
    cost->usual = false;
}

/* The contracted size of a product: from the configuration, or from left x right = batch x out x contracted^2. */
static int64_t contracted_size(const stw_hlo_module *m, const stw_hlo_instruction *i, const stw_hlo_shape *left,
                               const stw_hlo_shape *right, const stw_hlo_shape *out) {
    const stw_str config = stw_hlo_find_after(i->config, "lhs_contracting_dimensions");
    const char *cursor = config.p;
    int64_t dimension = 0;
    if (config.length > 0 && stw_hlo_next_number(&cursor, config.p + config.length, &dimension) && dimension >= 0 &&
        dimension < left->rank) {
        return stw_hlo_dimensions(m, left)[dimension];
    }
    double batch = 1.0;
    for (int32_t k = 0; k < out->rank - 2; k++) batch *= (double)stw_hlo_dimensions(m, out)[k];
    const double square = (double)left->elements * (double)right->elements / ((double)out->elements * batch);
    return square >= 1.0 && square < 1e18 ? (int64_t)(sqrt(square) + 0.5) : 1;
}

static void price_gemm(const stw_hlo_module *m, const stw_hlo_instruction *i, stw_hlo_cost *cost) {
    const stw_hlo_shape *left = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0));
    const stw_hlo_shape *right = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 1));
    const stw_hlo_shape *out = result_of(m, i);
    if (left->kind != STW_HLO_ARRAY || right->kind != STW_HLO_ARRAY || out->kind != STW_HLO_ARRAY) return;
    const int64_t inner = contracted_size(m, i, left, right, out);
    cost->flops = stw_hlo_multiply(stw_hlo_multiply(2, out->elements), inner);
    cost->op_class = STW_CLASS_MATMUL;
}

/* 2 x output of the forward pass x kernel elements per output feature. */
static void price_convolution(const stw_hlo_module *m, const stw_hlo_instruction *i, call_kind kind, stw_hlo_cost *cost) {
    const stw_hlo_shape *first = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0));
    const stw_hlo_shape *second = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 1));
    const stw_hlo_shape *result = result_of(m, i);
    const stw_hlo_shape *kernel = kind == KERNEL_GRADIENT ? result : second;
    const stw_hlo_shape *output = kind == FORWARD_CONVOLUTION ? result : kind == INPUT_GRADIENT ? first : second;
    cost->op_class = STW_CLASS_CONVOLUTION;
    if (kernel->kind != STW_HLO_ARRAY || i->kernel_output < 0 || i->kernel_output >= kernel->rank) return;
    const int64_t features = stw_hlo_dimensions(m, kernel)[i->kernel_output];
    const int64_t each = kernel->elements / (features > 0 ? features : 1);
    cost->flops = stw_hlo_multiply(stw_hlo_multiply(2, output->elements), each);
}

/* A causal mask, in the words of cuDNN or the numbers of Transformer Engine: half of the products are skipped. */
static bool is_causal(stw_str config) {
    const stw_str mask = stw_hlo_find_after(config, "mask_type");
    const char *cursor = mask.p;
    int64_t number = 0;
    if (stw_hlo_find_after(config, "CAUSAL").p != NULL) return true;
    enum { FIRST_CAUSAL = 2 };
    return mask.length > 0 && stw_hlo_next_number(&cursor, mask.p + mask.length, &number) && number >= FIRST_CAUSAL;
}

/* Queries (batch, length, heads, size) and keys alike: two products of 2 x queries x keys' length; the gradient has five. */
static void price_attention(const stw_hlo_module *m, const stw_hlo_instruction *i, int64_t products, stw_hlo_cost *cost) {
    const stw_hlo_shape *queries = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0));
    const stw_hlo_shape *keys = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 1));
    cost->op_class = STW_CLASS_ATTENTION;
    if (queries->kind != STW_HLO_ARRAY || keys->kind != STW_HLO_ARRAY || queries->rank != 4 || keys->rank != 4) return;
    cost->flops = stw_hlo_multiply(stw_hlo_multiply(2 * products, queries->elements), stw_hlo_dimensions(m, keys)[1]);
    if (is_causal(i->config)) cost->flops /= 2;
}

void stw_hlo_call_cost(const stw_hlo_module *m, const stw_hlo_instruction *i, stw_hlo_cost *cost) {
    call_kind kind = VIEW;
    if (i->target.length > 0 && !find_kind(i->target, &kind)) return; /* an unknown operator */
    cost->op_class = STW_CLASS_OPAQUE;
    if (kind == VIEW) {
        if (stw_hlo_call_is_view(i)) cost->moved = 0;
        return;
    }
    if (kind == TOP_K) cost->op_class = STW_CLASS_SORT;
    if (kind == RANDOM_BITS) cost->op_class = STW_CLASS_RANDOM;
    if (i->operand.count < 2 || kind == TOP_K || kind == RANDOM_BITS) {
        cost->flops = i->operand.count > 0 ? stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0))->elements : 0;
        return;
    }
    if (kind == GEMM) price_gemm(m, i, cost);
    if (kind >= FORWARD_CONVOLUTION && kind <= KERNEL_GRADIENT) price_convolution(m, i, kind, cost);
    if (kind == ATTENTION) price_attention(m, i, 2, cost);
    if (kind == ATTENTION_GRADIENT) price_attention(m, i, 5, cost);
    leave_out_workspace(m, i, cost);
}
