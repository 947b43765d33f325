/* The placer. Forwards: the encoder over all groups, then the decoder group by group, each decision before the next. Backwards
 * only the recurrences go step by step; everything else is one product over all steps. */
#include <math.h>
#include <string.h>

#include "baseline/hdp/network_state.h"

/* ---- memory of a draw ---- */

static stw_status upload_order(stw_hdp *hdp, int32_t **out, int32_t *order, int64_t count, stw_error *error) {
    TRY(stw_tape_indices(hdp->place_tape, count, out, error));
    hdp->backend->copy_in(hdp->backend, *out, order, count * (int64_t)sizeof *order);
    return STW_OK;
}

/* Steps come first in recurrences, samples in attention. */
static stw_status make_orders(stw_hdp *hdp, stw_error *error) {
    const int32_t G = hdp->config.groups, K = hdp->K;
    stw_arena scratch = hdp->host;
    int32_t *to_sample, *to_step;
    STW_TRY_NEW(&scratch, to_sample, (int64_t)G * K, error);
    STW_TRY_NEW(&scratch, to_step, (int64_t)G * K, error);
    for (int32_t g = 0; g < G; g++) {
        for (int32_t k = 0; k < K; k++) {
            to_sample[k * G + g] = g * K + k;
            to_step[g * K + k] = k * G + g;
        }
    }
    TRY(upload_order(hdp, &hdp->to_sample, to_sample, (int64_t)G * K, error));
    return upload_order(hdp, &hdp->to_step, to_step, (int64_t)G * K, error);
}

static stw_status make_room(stw_hdp *hdp, stw_error *error) {
    const int64_t G = hdp->config.groups, K = hdp->K, D = hdp->config.devices, W = hdp->config.width;
    TRY(stw_tape_reals(hdp->place_tape, K * G * W, &hdp->memory, error));
    TRY(stw_tape_reals(hdp->place_tape, (D + 1) * 4 * W, &hdp->table, error));
    TRY(stw_tape_indices(hdp->place_tape, G * K, &hdp->before, error));
    TRY(stw_tape_reals(hdp->place_tape, (G + 1) * K * W, &hdp->h, error));
    TRY(stw_tape_reals(hdp->place_tape, (G + 1) * K * W, &hdp->c, error));
    TRY(stw_tape_reals(hdp->place_tape, G * K * 4 * W, &hdp->gates, error));
    TRY(stw_tape_reals(hdp->place_tape, G * K * W, &hdp->asked, error));
    TRY(stw_tape_reals(hdp->place_tape, G * K * W, &hdp->value, error));
    TRY(stw_tape_reals(hdp->place_tape, G * K * G, &hdp->weight, error));
    TRY(stw_tape_reals(hdp->place_tape, G * K * D, &hdp->logits, error));
    hdp->host = hdp->host_begin;
    STW_TRY_NEW(&hdp->host, hdp->q, G * K * D, error);
    STW_TRY_NEW(&hdp->host, hdp->slope, G * K * D, error);
    return make_orders(hdp, error);
}

/* ---- the encoder ---- */

/* The last states of both directions side by side: (K, width) from two of (K, width / 2). */
static void join_states(const stw_hdp *hdp, void *first, void *last, void *out) {
    stw_backend *b = hdp->backend;
    const int64_t half = hdp->config.width / 2 * (int64_t)b->real_bytes;
    for (int64_t k = 0; k < hdp->K; k++) {
        b->copy(b, (char *)out + 2 * k * half, (char *)first + k * half, half);
        b->copy(b, (char *)out + (2 * k + 1) * half, (char *)last + k * half, half);
    }
}

static stw_status encode(stw_hdp *hdp, const double *embedding, stw_error *error) {
    stw_backend *b = hdp->backend;
    const stw_hdp_config *c = &hdp->config;
    const int32_t G = c->groups, K = hdp->K, rows = G * K, half = c->width / 2;
    stw_lstm_kept *f = &hdp->kept_forwards, *r = &hdp->kept_backwards;
    void *x = NULL;
    TRY(stw_tape_reals(hdp->place_tape, (int64_t)rows * c->embedding, &x, error));
    stw_reals_in(b, x, embedding, (int64_t)rows * c->embedding, hdp->host);
    TRY(stw_lstm_forward(&hdp->forwards, &hdp->p, G, K, false, x, hdp->place_tape, f, error));
    TRY(stw_lstm_forward(&hdp->backwards, &hdp->p, G, K, true, x, hdp->place_tape, r, error));
    void *by_step = hdp->asked; /* which is not needed yet */
    stw_linear_forward(&hdp->from_first, &hdp->p, rows, f->h, false, by_step);
    stw_linear_forward(&hdp->from_last, &hdp->p, rows, r->h, true, by_step);
    b->embed(b, rows, c->width, by_step, hdp->to_sample, hdp->memory);
    join_states(hdp, stw_hdp_at(hdp, f->h, G - 1, half), r->h, hdp->h);
    join_states(hdp, stw_hdp_at(hdp, f->c, G - 1, half), r->c, hdp->c);
    return STW_OK;
}

/* ---- the decoder ---- */

static void step(stw_hdp *hdp, int32_t t, const int32_t *before) {
    stw_backend *b = hdp->backend;
    const int32_t W = hdp->config.width, G = hdp->config.groups, K = hdp->K;
    int32_t *id = hdp->before + (int64_t)t * K;
    void *h = stw_hdp_at(hdp, hdp->h, t + 1, W), *gates = stw_hdp_at(hdp, hdp->gates, t, 4 * (int64_t)W);
    void *asked = stw_hdp_at(hdp, hdp->asked, t, W), *value = stw_hdp_at(hdp, hdp->value, t, W);
    void *logits = stw_hdp_at(hdp, hdp->logits, t, hdp->config.devices);
    b->copy_in(b, id, before, K * (int64_t)sizeof *before);
    b->embed(b, K, 4 * W, hdp->table, id, gates);
    stw_linear_forward(&hdp->decoder.recurse, &hdp->p, K, stw_hdp_at(hdp, hdp->h, t, W), true, gates);
    b->lstm(b, K, W, gates, stw_hdp_at(hdp, hdp->c, t, W), stw_hdp_at(hdp, hdp->c, t + 1, W), h);
    stw_linear_forward(&hdp->query, &hdp->p, K, h, false, asked);
    b->point(b, K, G, W, W, hdp->memory, asked, stw_parameter_value(&hdp->p, hdp->score), hdp->memory, value,
             stw_hdp_at(hdp, hdp->weight, t, G));
    stw_linear_forward(&hdp->head_state, &hdp->p, K, h, false, logits);
    stw_linear_forward(&hdp->head_value, &hdp->p, K, value, true, logits);
}

/* The logits of one decision (D) become log probabilities; `slope` is what the bound does to a gradient. */
static void judge(const stw_hdp *hdp, const stw_hdp_draw *draw, stw_rng *rng, double *logit, double *slope) {
    const int32_t D = hdp->config.devices;
    const double bound = hdp->config.bound;
    double square = 0.0;
    for (int32_t d = 0; d < D; d++) {
        const double squashed = tanh(logit[d]);
        slope[d] = bound > 0.0 ? bound * (1.0 - squashed * squashed) : 1.0;
        if (bound > 0.0) logit[d] = bound * squashed;
        square += logit[d] * logit[d];
    }
    for (int32_t d = 0; draw->noise > 0.0 && d < D; d++) logit[d] += draw->noise * sqrt(square / D) * stw_rng_normal(rng);
    stw_hdp_log_softmax(D, logit);
}

static int32_t choose(stw_hdp_choice choice, int32_t D, const double *log_q, stw_rng *rng, int32_t given) {
    if (choice == STW_HDP_GIVEN) return given;
    int32_t best = 0;
    if (choice == STW_HDP_LIKELY) {
        for (int32_t d = 1; d < D; d++) best = log_q[d] > log_q[best] ? d : best;
        return best;
    }
    double rest = stw_rng_uniform(rng);
    while (best + 1 < D && (rest -= exp(log_q[best])) >= 0.0) best++;
    return best;
}

static void decide(stw_hdp *hdp, const stw_hdp_draw *draw, int32_t t, int32_t *device, double *logp) {
    const int32_t G = hdp->config.groups, D = hdp->config.devices, K = hdp->K;
    double *q = &hdp->q[(int64_t)t * K * D], *slope = &hdp->slope[(int64_t)t * K * D];
    stw_reals_out(hdp->backend, q, stw_hdp_at(hdp, hdp->logits, t, D), (int64_t)K * D, hdp->host);
    for (int32_t k = 0; k < K; k++) {
        stw_rng rng = stw_rng_split(&draw->rng, (uint64_t)t * (uint64_t)K + (uint64_t)k);
        int32_t *chosen = &device[(int64_t)k * G + t];
        judge(hdp, draw, &rng, q, slope);
        *chosen = choose(draw->choice, D, q, &rng, *chosen);
        logp[k] += q[*chosen];
        for (int32_t d = 0; d < D; d++) q[d] = exp(q[d]);
        q += D;
        slope += D;
    }
}

static stw_status decode(stw_hdp *hdp, const stw_hdp_draw *draw, int32_t *device, double *logp, stw_error *error) {
    const stw_hdp_config *c = &hdp->config;
    stw_arena scratch = hdp->host;
    int32_t *before;
    STW_TRY_NEW(&scratch, before, hdp->K, error);
    stw_linear_forward(&hdp->decoder.input, &hdp->p, c->devices + 1, stw_parameter_value(&hdp->p, hdp->devices), false,
                       hdp->table);
    for (int32_t k = 0; k < hdp->K; k++) {
        before[k] = c->devices;
        logp[k] = 0.0;
    }
    for (int32_t t = 0; t < c->groups; t++) {
        if (draw->is_stopped != NULL && draw->is_stopped(draw->context))
            return stw_fail(error, STW_ERROR_CANCELLED, "stopped while groups were placed");
        step(hdp, t, before);
        decide(hdp, draw, t, device, logp);
        for (int32_t k = 0; k < hdp->K; k++) before[k] = device[(int64_t)k * c->groups + t];
    }
    return STW_OK;
}

stw_status stw_hdp_place(stw_hdp *hdp, const stw_hdp_draw *draw, const double *embedding, int32_t *device, double *logp,
                         stw_error *error) {
    if (!hdp->grouped || draw->K != hdp->K)
        return stw_fail(error, STW_ERROR_INPUT, "%d samples to place, %d grouped; call stw_hdp_group first", draw->K,
                        hdp->grouped ? hdp->K : 0);
    hdp->placed = false;
    stw_tape_reset(hdp->place_tape);
    TRY(make_room(hdp, error));
    TRY(encode(hdp, embedding, error));
    TRY(decode(hdp, draw, device, logp, error));
    hdp->placed = true;
    return STW_OK;
}

double stw_hdp_device_entropy(const stw_hdp *hdp) {
    const int64_t decisions = (int64_t)hdp->config.groups * hdp->K, count = decisions * hdp->config.devices;
    double sum = 0.0;
    for (int64_t i = 0; hdp->q != NULL && i < count; i++) sum -= hdp->q[i] > 0.0 ? hdp->q[i] * log(hdp->q[i]) : 0.0;
    return decisions > 0 ? sum / (double)decisions : 0.0;
}

/* ---- backwards ---- */

typedef struct {
    void *d_logits;           /* (G, K, D) */
    void *d_h, *d_gates;      /* (G, K, width), (G, K, 4 width) */
    void *d_first_h, *d_c;    /* (K, width): by the states that the decoder began with */
    void *d_value, *d_asked;  /* (G, K, width) */
    void *d_memory, *d_mixed; /* (K, G, width): as keys, as values */
    void *d_table;            /* (D + 1, 4 width) */
} gradients;

static stw_status zeros(stw_hdp *hdp, int64_t count, void **out, stw_error *error) {
    TRY(stw_tape_reals(hdp->back_tape, count, out, error));
    hdp->backend->zero(hdp->backend, *out, count * (int64_t)hdp->backend->real_bytes);
    return STW_OK;
}

static stw_status make_back_room(stw_hdp *hdp, gradients *d, stw_error *error) {
    const int64_t G = hdp->config.groups, K = hdp->K, D = hdp->config.devices, W = hdp->config.width;
    TRY(stw_tape_reals(hdp->back_tape, G * K * D, &d->d_logits, error));
    TRY(stw_tape_reals(hdp->back_tape, G * K * W, &d->d_h, error));
    TRY(stw_tape_reals(hdp->back_tape, G * K * 4 * W, &d->d_gates, error));
    TRY(stw_tape_reals(hdp->back_tape, K * W, &d->d_first_h, error));
    TRY(zeros(hdp, K * W, &d->d_c, error));
    TRY(stw_tape_reals(hdp->back_tape, G * K * W, &d->d_value, error));
    TRY(stw_tape_reals(hdp->back_tape, G * K * W, &d->d_asked, error));
    TRY(zeros(hdp, K * G * W, &d->d_memory, error));
    TRY(zeros(hdp, K * G * W, &d->d_mixed, error));
    return zeros(hdp, (D + 1) * 4 * W, &d->d_table, error);
}

static stw_status decisions_back(stw_hdp *hdp, const double *weight, const int32_t *device, gradients *d, stw_error *error) {
    const int32_t G = hdp->config.groups, K = hdp->K, D = hdp->config.devices;
    stw_arena scratch = hdp->host;
    double *d_logits;
    STW_TRY_NEW(&scratch, d_logits, (int64_t)G * K * D, error);
    for (int32_t t = 0; t < G; t++) {
        for (int32_t k = 0; k < K; k++) {
            const int64_t row = ((int64_t)t * K + k) * D;
            for (int32_t i = 0; i < D; i++) {
                const double chosen = device[(int64_t)k * G + t] == i ? 1.0 : 0.0;
                d_logits[row + i] = weight[k] * (chosen - hdp->q[row + i]) * hdp->slope[row + i];
            }
        }
    }
    stw_reals_in(hdp->backend, d->d_logits, d_logits, (int64_t)G * K * D, scratch);
    return STW_OK;
}

/* From the logits to the decoder's states and the memory. */
static void attention_back(stw_hdp *hdp, gradients *d) {
    stw_backend *b = hdp->backend;
    const int32_t G = hdp->config.groups, K = hdp->K, W = hdp->config.width;
    const void *after = stw_hdp_at(hdp, hdp->h, 1, W);
    stw_linear_backward(&hdp->head_state, &hdp->p, G * K, after, NULL, d->d_logits, false, d->d_h);
    stw_linear_backward(&hdp->head_value, &hdp->p, G * K, hdp->value, NULL, d->d_logits, false, d->d_value);
    for (int32_t t = 0; t < G; t++) {
        b->point_back(b, K, G, W, W, hdp->memory, stw_hdp_at(hdp, hdp->asked, t, W), stw_parameter_value(&hdp->p, hdp->score),
                      hdp->memory, stw_hdp_at(hdp, hdp->weight, t, G), stw_hdp_at(hdp, d->d_value, t, W), d->d_memory,
                      stw_hdp_at(hdp, d->d_asked, t, W), stw_parameter_gradient(&hdp->p, hdp->score), d->d_mixed);
    }
    stw_linear_backward(&hdp->query, &hdp->p, G * K, after, NULL, d->d_asked, true, d->d_h);
    b->add_scaled(b, (int64_t)K * G * W, 1.0, d->d_mixed, d->d_memory);
}

static void decoder_back(stw_hdp *hdp, gradients *d) {
    stw_backend *b = hdp->backend;
    const int32_t G = hdp->config.groups, K = hdp->K, W = hdp->config.width, entries = hdp->config.devices + 1;
    const void *recurse = stw_parameter_value(&hdp->p, hdp->decoder.recurse.weight);
    for (int32_t t = G; t-- > 0;) {
        void *d_gates = stw_hdp_at(hdp, d->d_gates, t, 4 * (int64_t)W);
        b->lstm_back(b, K, W, stw_hdp_at(hdp, hdp->gates, t, 4 * (int64_t)W), stw_hdp_at(hdp, hdp->c, t, W),
                     stw_hdp_at(hdp, hdp->c, t + 1, W), stw_hdp_at(hdp, d->d_h, t, W), d->d_c, d_gates);
        b->linear_back(b, K, W, 4 * W, NULL, recurse, NULL, false, d_gates, t > 0,
                       t > 0 ? stw_hdp_at(hdp, d->d_h, t - 1, W) : d->d_first_h, NULL, NULL);
    }
    stw_linear_backward(&hdp->decoder.recurse, &hdp->p, G * K, hdp->h, NULL, d->d_gates, false, NULL);
    b->embed_back(b, G * K, 4 * W, entries, hdp->before, d->d_gates, d->d_table);
    stw_linear_backward(&hdp->decoder.input, &hdp->p, entries, stw_parameter_value(&hdp->p, hdp->devices), NULL, d->d_table, true,
                        stw_parameter_gradient(&hdp->p, hdp->devices));
}

/* The two halves of (K, width), added to or put in place of (K, width / 2) each. */
static void part_states(const stw_hdp *hdp, void *joined, bool add, void *first, void *last) {
    stw_backend *b = hdp->backend;
    const int64_t half = hdp->config.width / 2, bytes = half * (int64_t)b->real_bytes;
    for (int64_t k = 0; k < 2 * (int64_t)hdp->K; k++) {
        char *from = (char *)joined + k * bytes, *to = (char *)(k % 2 == 0 ? first : last) + k / 2 * bytes;
        if (add) {
            b->add_scaled(b, half, 1.0, from, to);
        } else {
            b->copy(b, to, from, bytes);
        }
    }
}

static stw_status encoder_back(stw_hdp *hdp, gradients *d, stw_error *error) {
    stw_backend *b = hdp->backend;
    const int32_t G = hdp->config.groups, K = hdp->K, half = hdp->config.width / 2, rows = G * K;
    void *by_step = d->d_value; /* which is not needed any more */
    void *d_f = NULL, *d_r = NULL, *d_c_f = NULL, *d_c_r = NULL;
    TRY(stw_tape_reals(hdp->back_tape, (int64_t)rows * half, &d_f, error));
    TRY(stw_tape_reals(hdp->back_tape, (int64_t)rows * half, &d_r, error));
    TRY(stw_tape_reals(hdp->back_tape, (int64_t)K * half, &d_c_f, error));
    TRY(stw_tape_reals(hdp->back_tape, (int64_t)K * half, &d_c_r, error));
    b->embed(b, rows, hdp->config.width, d->d_memory, hdp->to_step, by_step);
    stw_linear_backward(&hdp->from_first, &hdp->p, rows, hdp->kept_forwards.h, NULL, by_step, false, d_f);
    stw_linear_backward(&hdp->from_last, &hdp->p, rows, hdp->kept_backwards.h, NULL, by_step, false, d_r);
    part_states(hdp, d->d_first_h, true, stw_hdp_at(hdp, d_f, G - 1, half), d_r);
    part_states(hdp, d->d_c, false, d_c_f, d_c_r);
    TRY(stw_lstm_backward(&hdp->forwards, &hdp->p, &hdp->kept_forwards, d_f, d_c_f, false, NULL, hdp->back_tape, error));
    return stw_lstm_backward(&hdp->backwards, &hdp->p, &hdp->kept_backwards, d_r, d_c_r, false, NULL, hdp->back_tape, error);
}

stw_status stw_hdp_placer_backward(stw_hdp *hdp, const double *weight, const int32_t *device, stw_error *error) {
    gradients d = {0};
    stw_tape_reset(hdp->back_tape);
    TRY(make_back_room(hdp, &d, error));
    TRY(decisions_back(hdp, weight, device, &d, error));
    attention_back(hdp, &d);
    decoder_back(hdp, &d);
    return encoder_back(hdp, &d, error);
}
