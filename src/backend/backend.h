/* A backend: memory and the layer-sized kernels of the network. The code above it (nn/, policy/) holds no numbers of its own: it
 * passes buffers around, and copies in and out are explicit, so that a device with memory of its own can stand behind it.
 *
 * Reals are float or double (real_bytes); indices are int32. Matrices are row by row without gaps. Buffers may be NULL where it
 * says so. `d_x` is the gradient of the loss by x; gradients of parameters are ADDED to what is there, gradients of activations
 * are overwritten unless `add` is set. No kernel fails: sizes are the caller's business. Results do not depend on the number
 * of threads. */
#ifndef STW_BACKEND_BACKEND_H
#define STW_BACKEND_BACKEND_H

#include "base/pool.h"

typedef struct stw_backend stw_backend;

/* Attention within segments. The rows are sequences of `sequence` rows each (rows / sequence of them, independent of each other);
 * a sequence is cut into segments of `segment` rows (the last may be shorter). A row sees all rows of its own segment and of the
 * segment before it in its sequence. `heads` divides `width`. */
typedef struct stw_attention_shape {
    int32_t rows, sequence, segment, heads, width;
} stw_attention_shape;

/* Rows that gather from other rows: row r from item[start[r]] ... item[start[r + 1] - 1]. `back_*` is the same relation turned
 * round, for the gradient: the rows that gather from row u, ascending. Both live on the backend. */
typedef struct stw_gathering {
    int32_t rows;                          /* that gather */
    int32_t sources;                       /* that are gathered from */
    const int32_t *start, *item;           /* (rows + 1), (items) */
    const int32_t *back_start, *back_item; /* (sources + 1), (items) */
} stw_gathering;

typedef struct stw_adam {
    double rate, beta1, beta2, epsilon;
    int64_t step; /* from 1 */
} stw_adam;

struct stw_backend {
    const char *name;  /* "cpu", "reference" */
    size_t real_bytes; /* 4 or 8 */
    void *state;       /* the backend's own */
    void (*destroy)(stw_backend *b);

    /* Memory. Fresh memory is zeroed. */
    stw_status (*allocate)(stw_backend *b, int64_t bytes, void **out, stw_error *error);
    void (*release)(stw_backend *b, void *buffer); /* NULL is allowed */
    void (*copy_in)(stw_backend *b, void *to, const void *host, int64_t bytes);
    void (*copy_out)(stw_backend *b, void *host, const void *from, int64_t bytes);
    void (*copy)(stw_backend *b, void *to, const void *from, int64_t bytes);
    void (*zero)(stw_backend *b, void *buffer, int64_t bytes);

    /* y = x w^T (+ bias) (+ y, if add), then max(0, .) if relu. x: (rows, in), w: (out, in), bias: (out) or NULL, y: (rows, out).
     */
    void (*linear)(stw_backend *b, int32_t rows, int32_t in, int32_t out, const void *x, const void *w, const void *bias,
                   bool add, bool relu, void *y);
    /* d_x: (rows, in) or NULL, added to if `add`; d_w: (out, in) or NULL: x may be NULL too; d_bias: (out) or NULL. With relu, y
     * is the output of the forward pass, and d_y is set to 0 in place where y is 0. */
    void (*linear_back)(stw_backend *b, int32_t rows, int32_t in, int32_t out, const void *x, const void *w, const void *y,
                        bool relu, void *d_y, bool add, void *d_x, void *d_w, void *d_bias);

    /* y = table[id]. table: (entries, width), id: (rows) in [0, entries). */
    void (*embed)(stw_backend *b, int32_t rows, int32_t width, const void *table, const int32_t *id, void *y);
    void (*embed_back)(stw_backend *b, int32_t rows, int32_t width, int32_t entries, const int32_t *id, const void *d_y,
                       void *d_table);

    /* y = (z - mean(z)) * inverse(z) * gain + bias per row, z = x + residual (residual may be NULL), inverse = 1 / sqrt(variance
     * + 1e-5). Keeps `normal`: (rows, width) = (z - mean) * inverse, and `inverse`: (rows). y may be x. */
    void (*norm)(stw_backend *b, int32_t rows, int32_t width, const void *x, const void *residual, const void *gain,
                 const void *bias, void *y, void *normal, void *inverse);
    /* d_z: (rows, width), the gradient of x and of the residual alike. */
    void (*norm_back)(stw_backend *b, int32_t rows, int32_t width, const void *normal, const void *inverse, const void *gain,
                      const void *d_y, void *d_z, void *d_gain, void *d_bias);

    /* y[r] = element-wise largest of x over what r gathers; 0 where it gathers nothing. chosen: (rows, width) the source of each
     * element, the first of equals, -1 for nothing. */
    void (*gather_max)(stw_backend *b, const stw_gathering *g, int32_t width, const void *x, void *y, int32_t *chosen);
    void (*gather_max_back)(stw_backend *b, const stw_gathering *g, int32_t width, const int32_t *chosen, const void *d_y,
                            bool add, void *d_x);

    /* Softmax attention, scaled by 1 / sqrt(width / heads). q, k, v, y: (rows, width), heads side by side. Keeps `peak`:
     * (rows, heads) = log of the sum of exp of the scaled scores. */
    void (*attend)(stw_backend *b, const stw_attention_shape *shape, const void *q, const void *k, const void *v, void *y,
                   void *peak);
    /* Gradients of keys and values come apart: by a row's own segment (d_k, d_v) and by the segment after it, which sees it as a
     * memory that no gradient passes (d_k_later, d_v_later: they count for the weights alone). All (rows, width), written. */
    void (*attend_back)(stw_backend *b, const stw_attention_shape *shape, const void *q, const void *k, const void *v,
                        const void *y, const void *peak, const void *d_y, void *d_q, void *d_k, void *d_v, void *d_k_later,
                        void *d_v_later);

    /* Additive attention: each of K queries on `items` keys of its own. score[j] = <v, tanh(key[j] + query)>, weight = softmax of
     * the scores, y = sum of weight[j] value[j]. key: (K, items, width), query: (K, width), v: (width), value: (K, items, depth),
     * y: (K, depth); keeps weight: (K, items). */
    void (*point)(stw_backend *b, int32_t K, int32_t items, int32_t width, int32_t depth, const void *key, const void *query,
                  const void *v, const void *value, void *y, void *weight);
    /* d_key, d_value and d_v are added to (many queries share them), d_query is written. */
    void (*point_back)(stw_backend *b, int32_t K, int32_t items, int32_t width, int32_t depth, const void *key, const void *query,
                       const void *v, const void *value, const void *weight, const void *d_y, void *d_key, void *d_query,
                       void *d_v, void *d_value);

    /* A step of an LSTM: c = forget * c_before + input * cell, h = output * tanh(c). gates: (rows, 4 width): input, forget, cell,
     * output side by side, sums on entry, squashed on return (tanh the cell, sigmoid the others). c_before: (rows, width) or
     * NULL: zeros. c, h: (rows, width). */
    void (*lstm)(stw_backend *b, int32_t rows, int32_t width, void *gates, const void *c_before, void *c, void *h);
    /* gates as squashed. d_c: on entry the gradient by c of the steps that follow, on return that by c_before. d_gates: by the
     * sums, (rows, 4 width), written. */
    void (*lstm_back)(stw_backend *b, int32_t rows, int32_t width, const void *gates, const void *c_before, const void *c,
                      const void *d_h, void *d_c, void *d_gates);

    /* y = x * 2 sigmoid(gate), the gate the same for all rows. gate: (width). */
    void (*gate)(stw_backend *b, int32_t rows, int32_t width, const void *x, const void *gate, void *y);
    void (*gate_back)(stw_backend *b, int32_t rows, int32_t width, const void *x, const void *gate, const void *d_y, bool add,
                      void *d_x, void *d_gate);

    /* y = mean of the rows of x. y: (width). */
    void (*mean)(stw_backend *b, int32_t rows, int32_t width, const void *x, void *y);
    void (*mean_back)(stw_backend *b, int32_t rows, int32_t width, const void *d_y, bool add, void *d_x);

    /* y = x, `times` times one after the other. x: (rows, width), y: (times * rows, width). Backwards: sums. */
    void (*repeat)(stw_backend *b, int32_t rows, int32_t width, int32_t times, const void *x, void *y);
    void (*repeat_back)(stw_backend *b, int32_t rows, int32_t width, int32_t times, const void *d_y, bool add, void *d_x);

    /* y = log of the softmax of each row. d_x = d_y - softmax * sum(d_y). */
    void (*log_softmax)(stw_backend *b, int32_t rows, int32_t width, const void *x, void *y);
    void (*log_softmax_back)(stw_backend *b, int32_t rows, int32_t width, const void *y, const void *d_y, void *d_x);

    /* to += factor * from. */
    void (*add_scaled)(stw_backend *b, int64_t count, double factor, const void *from, void *to);
    /* Sum of squares, summed in fixed blocks. */
    double (*square_sum)(stw_backend *b, int64_t count, const void *x);
    /* One step of Adam on gradients multiplied by `factor`. first, second: its moments. */
    void (*adam)(stw_backend *b, int64_t count, const stw_adam *adam, double factor, const void *gradient, void *first,
                 void *second, void *value);
};

/* cpu/: float, a BLAS library where there is one, threads of the pool (borrowed; NULL: the calling thread alone). */
stw_status stw_backend_cpu(stw_pool *pool, stw_backend **out, stw_error *error);

static inline void stw_backend_destroy(stw_backend *b) {
    if (b != NULL) b->destroy(b);
}

#endif
