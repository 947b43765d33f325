/* Rules of ONNX operators that multiply: products of matrices, attention, recurrent layers, Einsum. */
#include <stdio.h>

#include "import/onnx/onnx_rules.h"

enum { RANK = STW_ONNX_MAX_RANK };

static int64_t product(const int64_t *shape, int64_t count) {
    int64_t value = 1;
    for (int64_t k = 0; k < count; k++) value = stw_onnx_multiply(value, shape[k]);
    return value;
}

/* 2 m n k for a product whose result has `elements` and whose operands share a dimension of `inner`. */
static int64_t product_flops(int64_t elements, int64_t inner) { return stw_onnx_multiply(2, stw_onnx_multiply(elements, inner)); }

/* ---- products of matrices ---- */

/* The last two dimensions of an operand, transposed if asked for; a vector has one of them. */
static void split_matrix(const stw_onnx_value *v, bool transposed, bool left, int64_t *batch_rank, int64_t *rows,
                         int64_t *columns) {
    *batch_rank = v->rank >= 2 ? v->rank - 2 : 0;
    *rows = v->rank >= 2 ? v->shape[v->rank - 2] : left ? 1 : v->shape[0];
    *columns = v->rank >= 2 ? v->shape[v->rank - 1] : left ? v->shape[0] : 1;
    if (!transposed || v->rank < 2) return;
    const int64_t swap = *rows;
    *rows = *columns;
    *columns = swap;
}

static void write_shape(const stw_onnx_value *v, char *text, size_t size) {
    size_t length = 0;
    text[0] = '\0';
    for (int32_t d = 0; d < v->rank && length + 30 < size; d++)
        length += (size_t)snprintf(text + length, size - length, "%s%lld", d > 0 ? "," : "", (long long)v->shape[d]);
}

/* Does the file say this shape, or do rules that leave no doubt? What it declares must not contradict. */
static bool is_certain(const stw_onnx_call *c, const stw_onnx_value *v) {
    stw_arena scratch = c->eval->reader->scratch;
    stw_onnx_value declared = {.rank = STW_UNKNOWN};
    if (v->is_guess || v->declared.length == 0 || v->producer < 0) return !v->is_guess;
    stw_onnx_read_type(c->eval->reader, v->declared, 0, &declared, &scratch);
    if (declared.rank < 0 || declared.is_guess) return true;
    bool same = declared.rank == v->rank;
    for (int32_t d = 0; same && d < v->rank; d++) same = declared.shape[d] == v->shape[d];
    return same;
}

/* Operands that cannot be multiplied: an error where their shapes are certain, else their product is not known. Always false. */
static bool do_not_fit(stw_onnx_call *c, const stw_onnx_value *a, const stw_onnx_value *b) {
    char left[80], right[80];
    if (!c->eval->scope->emits || !stw_onnx_is_standard(c->node) || !is_certain(c, a) || !is_certain(c, b)) return false;
    write_shape(a, left, sizeof left);
    write_shape(b, right, sizeof right);
    return stw_onnx_fail(c->eval->reader, c->node, "'%.*s' (%s) and '%.*s' (%s) cannot be multiplied; check the model or --shape",
                         STW_STR_SHOW(a->name), left, STW_STR_SHOW(b->name), right);
}

static bool put_matmul(stw_onnx_call *c, const stw_onnx_value *a, const stw_onnx_value *b, int32_t dtype) {
    if (a == NULL || b == NULL || a->rank < 1 || b->rank < 1) return false;
    int64_t a_batch, b_batch, m, k, inner, n, shape[RANK], rank = 0;
    split_matrix(a, stw_onnx_int(c, "transA", 0) != 0, true, &a_batch, &m, &k);
    split_matrix(b, stw_onnx_int(c, "transB", 0) != 0, false, &b_batch, &inner, &n);
    if (k != inner) return do_not_fit(c, a, b);
    const int64_t batch = a_batch > b_batch ? a_batch : b_batch;
    for (int64_t d = 0; d < batch; d++) {
        const int64_t x = d - (batch - a_batch), y = d - (batch - b_batch);
        const int64_t left = x >= 0 ? a->shape[x] : 1, right = y >= 0 ? b->shape[y] : 1;
        if (left != right && left != 1 && right != 1) return do_not_fit(c, a, b);
        shape[rank++] = left == 1 ? right : left;
    }
    if (a->rank >= 2) shape[rank++] = m;
    if (b->rank >= 2) shape[rank++] = n;
    c->flops = product_flops(product(shape, rank), k);
    return stw_onnx_put(c, 0, dtype, rank, shape);
}

bool stw_onnx_rule_matmul(stw_onnx_call *c) {
    const stw_onnx_value *a = stw_onnx_shaped(c, 0);
    /* Batches that are transposed with the matrix are rare; the file's own shapes must serve. */
    if (stw_onnx_int(c, "transBatchA", 0) != 0 || stw_onnx_int(c, "transBatchB", 0) != 0) return false;
    return a != NULL && put_matmul(c, a, stw_onnx_shaped(c, 1), a->dtype);
}

bool stw_onnx_rule_matmul_integer(stw_onnx_call *c) {
    const bool whole = stw_str_is(c->node->op, "MatMulInteger");
    return put_matmul(c, stw_onnx_shaped(c, 0), stw_onnx_shaped(c, 1), whole ? stw_onnx_dtype_named("s32") : STW_DTYPE_F32);
}

bool stw_onnx_rule_matmul_quantized(stw_onnx_call *c) {
    const stw_onnx_value *a = stw_onnx_shaped(c, 0);
    return a != NULL && put_matmul(c, a, stw_onnx_shaped(c, 3), a->dtype);
}

/* Weights of a few bits: their shape is packed, so attributes K and N tell. */
bool stw_onnx_rule_matmul_bits(stw_onnx_call *c) {
    const stw_onnx_value *a = stw_onnx_shaped(c, 0);
    const int64_t K = stw_onnx_int(c, "K", 0), N = stw_onnx_int(c, "N", 0);
    int64_t shape[RANK];
    if (a == NULL || a->rank < 1 || K < 1 || N < 1) return false;
    for (int32_t d = 0; d < a->rank; d++) shape[d] = d + 1 < a->rank ? a->shape[d] : N;
    c->flops = product_flops(product(shape, a->rank), K);
    return stw_onnx_put(c, 0, a->dtype, a->rank, shape);
}

bool stw_onnx_rule_gemm(stw_onnx_call *c) {
    const stw_onnx_value *a = stw_onnx_shaped(c, 0), *b = stw_onnx_shaped(c, 1);
    if (a == NULL || b == NULL || b->rank != 2 || a->rank < 2) return false;
    const bool left = stw_onnx_int(c, "transA", 0) != 0, right = stw_onnx_int(c, "transB", 0) != 0;
    const int64_t n = b->shape[right ? 0 : 1], inner = b->shape[right ? 1 : 0];
    const int64_t rest = product(a->shape + 1, a->rank - 1); /* before opset 7 the input was flattened */
    const int64_t m = left ? rest : a->shape[0], k = left ? a->shape[0] : rest;
    const int64_t shape[] = {m, n};
    if (k != inner) return do_not_fit(c, a, b);
    c->flops = product_flops(product(shape, 2), k);
    if (stw_onnx_in(c, 2) != NULL) c->flops = stw_onnx_add(c->flops, product(shape, 2));
    return stw_onnx_put(c, 0, a->dtype, 2, shape);
}

/* ---- attention ---- */

/* Query (B, S, H) or (B, heads, S, D) against L keys: two products. */
static int64_t attention_flops(const stw_onnx_value *query, int64_t keys) {
    return stw_onnx_multiply(4, stw_onnx_multiply(stw_onnx_elements(query), keys));
}

bool stw_onnx_rule_attention(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0), *w = stw_onnx_shaped(c, 1);
    if (x == NULL || w == NULL) return false;
    if (!stw_str_is(c->node->domain, "com.microsoft")) return stw_onnx_rule_multi_head_attention(c);
    if (x->rank != 3 || w->rank != 2) return false; /* x (B, S, D), w (D, 3 H): projection and attention in one */
    int64_t sizes[3] = {w->shape[1] / 3, w->shape[1] / 3, w->shape[1] / 3};
    stw_onnx_ints(c, "qkv_hidden_sizes", sizes, 3);
    const int64_t shape[] = {x->shape[0], x->shape[1], sizes[2]};
    if (!stw_onnx_put(c, 0, x->dtype, 3, shape)) return false;
    const int64_t projection = product_flops(product((const int64_t[]){x->shape[0], x->shape[1], w->shape[1]}, 3), w->shape[0]);
    c->flops = stw_onnx_add(projection, attention_flops(c->output[0], x->shape[1]));
    return true;
}

/* Keys or values with those of earlier steps in front: (B, heads, past + L, D). */
static void put_present(stw_onnx_call *c, int32_t k, const stw_onnx_value *past, const stw_onnx_value *now, int64_t heads) {
    if (now == NULL || (now->rank != 3 && now->rank != 4) || heads < 1) return;
    const bool split = now->rank == 4;
    int64_t shape[] = {now->shape[0], split ? now->shape[1] : heads, now->shape[now->rank - 2],
                       split ? now->shape[3] : now->shape[2] / heads};
    if (past != NULL && past->rank == 4) shape[2] = stw_onnx_add(shape[2], past->shape[2]);
    stw_onnx_put(c, k, now->dtype, 4, shape);
}

/* Queries, keys, values as (B, S, H) or (B, heads, S, D); keys and values may have fewer heads. */
bool stw_onnx_rule_multi_head_attention(stw_onnx_call *c) {
    const stw_onnx_value *q = stw_onnx_shaped(c, 0), *k = stw_onnx_shaped(c, 1), *v = stw_onnx_shaped(c, 2);
    if (q == NULL || (q->rank != 3 && q->rank != 4)) return false;
    const bool grouped = stw_str_is(c->node->op, "GroupQueryAttention"), plain = stw_str_is(c->node->op, "Attention");
    const int64_t heads = stw_onnx_int(c, plain ? "q_num_heads" : "num_heads", 1);
    const int64_t fewer = stw_onnx_int(c, "kv_num_heads", heads);
    int64_t shape[4];
    for (int32_t d = 0; d < q->rank; d++) shape[d] = q->shape[d];
    if (v != NULL && v->rank == q->rank && !grouped && fewer > 0 && heads > 0) {
        const int64_t width = v->shape[v->rank - 1];
        shape[q->rank - 1] = q->rank == 4 || !plain ? width : stw_onnx_multiply(width / fewer, heads);
    }
    const int32_t past = plain ? 4 : grouped ? 3 : 6; /* the input with the keys of earlier steps */
    const stw_onnx_value *past_keys = stw_onnx_shaped(c, past), *past_values = stw_onnx_shaped(c, past + 1);
    int64_t keys = k != NULL && k->rank == q->rank ? k->shape[k->rank - 2] : q->shape[q->rank - 2];
    if (past_keys != NULL && past_keys->rank == 4) keys = stw_onnx_add(keys, past_keys->shape[2]);
    put_present(c, 1, past_keys, k, fewer);
    put_present(c, 2, past_values, v, fewer);
    c->flops = attention_flops(q, keys);
    return stw_onnx_put(c, 0, q->dtype, q->rank, shape);
}

/* ---- recurrent layers ---- */

/* x (T, B, I), w (directions, gates H, I), r (directions, gates H, H): outputs (T, directions, B, H) and states. */
static bool put_recurrent(stw_onnx_call *c, int64_t gates) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0), *w = stw_onnx_shaped(c, 1), *r = stw_onnx_shaped(c, 2);
    if (x == NULL || w == NULL || r == NULL || x->rank != 3 || w->rank != 3 || r->rank != 3) return false;
    const bool batch_first = stw_onnx_int(c, "layout", 0) != 0;
    const int64_t steps = x->shape[batch_first ? 1 : 0], batch = x->shape[batch_first ? 0 : 1];
    const int64_t directions = w->shape[0], hidden = r->shape[2], per_gate = stw_onnx_add(x->shape[2], hidden);
    const int64_t all[] = {steps, directions, batch, hidden}, turned[] = {batch, steps, directions, hidden};
    const int64_t state[] = {directions, batch, hidden}, turned_state[] = {batch, directions, hidden};
    c->flops = stw_onnx_multiply(gates, product_flops(product(all, 4), per_gate));
    return stw_onnx_put(c, 0, x->dtype, 4, batch_first ? turned : all) &&
           stw_onnx_put(c, 1, x->dtype, 3, batch_first ? turned_state : state) &&
           stw_onnx_put(c, 2, x->dtype, 3, batch_first ? turned_state : state);
}

bool stw_onnx_rule_lstm(stw_onnx_call *c) { return put_recurrent(c, 4); }
bool stw_onnx_rule_gru(stw_onnx_call *c) { return put_recurrent(c, 3); }
bool stw_onnx_rule_rnn(stw_onnx_call *c) { return put_recurrent(c, 1); }

/* ---- Einsum ---- */

/* The sizes of letters; "..." is not understood, and then the file's shapes must serve. */
static bool read_operands(const stw_onnx_call *c, stw_str equation, int64_t *size, int64_t *at) {
    const stw_onnx_value *v = stw_onnx_shaped(c, 0);
    int32_t operand = 0, dim = 0;
    for (*at = 0; *at < equation.length && equation.p[*at] != '-'; (*at)++) {
        const char letter = equation.p[*at];
        if (letter == ' ') continue;
        if (v == NULL || letter == '.') return false;
        if (letter == ',') {
            if (dim != v->rank) return false;
            v = stw_onnx_shaped(c, ++operand);
            dim = 0;
            continue;
        }
        if (letter < 'A' || letter > 'z' || dim >= v->rank) return false;
        int64_t *to = &size[letter - 'A'];
        if (*to <= 1) *to = v->shape[dim];
        dim++;
    }
    return v != NULL && dim == v->rank;
}

bool stw_onnx_rule_einsum(stw_onnx_call *c) {
    enum { LETTERS = 'z' - 'A' + 1 };
    int64_t size[LETTERS], shape[RANK], rank = 0, at = 0, all = 1;
    const stw_str equation = stw_onnx_text(c, "equation");
    for (int k = 0; k < LETTERS; k++) size[k] = -1;
    if (!read_operands(c, equation, size, &at) || at + 1 >= equation.length || equation.p[at + 1] != '>') return false;
    for (at += 2; at < equation.length; at++) {
        const char letter = equation.p[at];
        if (letter == ' ') continue;
        if (letter < 'A' || letter > 'z' || size[letter - 'A'] < 0 || rank == RANK) return false;
        shape[rank++] = size[letter - 'A'];
    }
    for (int k = 0; k < LETTERS; k++) {
        if (size[k] >= 0) all = stw_onnx_multiply(all, size[k]);
    }
    c->flops = stw_onnx_multiply(2, all);
    return stw_onnx_put(c, 0, stw_onnx_in(c, 0)->dtype, rank, shape);
}
