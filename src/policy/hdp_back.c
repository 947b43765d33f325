/* The placer backwards. Only the recurrences go step by step; everything else is one product over all steps. */
#include "policy/hdp_state.h"

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

static stw_status make_room(stw_hdp *hdp, gradients *d, stw_error *error) {
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
    TRY(make_room(hdp, &d, error));
    TRY(decisions_back(hdp, weight, device, &d, error));
    attention_back(hdp, &d);
    decoder_back(hdp, &d);
    return encoder_back(hdp, &d, error);
}
