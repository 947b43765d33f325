/* The heads: from h to means or log probabilities. */
#include <math.h>

#include "policy/net.h"

/* Tape memory for rows * width reals. */
static stw_status take(stw_tape *tape, int32_t rows, int32_t width, void **out, stw_error *error) {
    return stw_tape_reals(tape, (int64_t)rows * width, out, error);
}

static double score_scale(const stw_net *net) { return 1.0 / sqrt((double)net->config.score_width); }

stw_status stw_device_forward(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t D = pass->input.D, width = net->config.score_width;
    TRY(take(pass->placement_tape, D, width, &pass->device_hidden, error));
    TRY(take(pass->placement_tape, D, width, &pass->device, error));
    TRY(stw_tape_zeros(b, pass->placement_tape, (int64_t)D * width, &pass->scaled, error));
    stw_linear_forward(&net->device[0], &net->p, D, pass->input.device, false, pass->device_hidden);
    stw_linear_forward(&net->device[1], &net->p, D, pass->device_hidden, false, pass->device);
    b->add_scaled(b, (int64_t)D * width, score_scale(net), pass->device, pass->scaled);
    return STW_OK;
}

stw_status stw_device_backward(stw_pass *pass, void *d_device, stw_error *error) {
    stw_net *net = pass->net;
    const int32_t D = pass->input.D;
    void *d_hidden = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, D, net->config.score_width, &d_hidden, error));
    stw_linear_backward(&net->device[1], &net->p, D, pass->device_hidden, NULL, d_device, false, d_hidden);
    stw_linear_backward(&net->device[0], &net->p, D, pass->input.device, pass->device_hidden, d_hidden, false, NULL);
    return STW_OK;
}

/* The query of each row against the scaled embedding of each device. */
static stw_status score_devices(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t M = pass->input.M, D = pass->input.D, width = net->config.score_width;
    void *scores = NULL;
    TRY(stw_device_forward(pass, error));
    TRY(take(pass->placement_tape, M, width, &pass->query_hidden, error));
    TRY(take(pass->placement_tape, M, width, &pass->query, error));
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, M, D, &scores, error));
    stw_linear_forward(&net->query[0], &net->p, M, pass->placement.block.y, false, pass->query_hidden);
    stw_linear_forward(&net->query[1], &net->p, M, pass->query_hidden, false, pass->query);
    b->linear(b, M, width, D, pass->query, pass->scaled, NULL, false, false, scores);
    b->log_softmax(b, M, D, scores, pass->placement_out);
    return STW_OK;
}

stw_status stw_placement_head_forward(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    TRY(take(pass->placement_tape, pass->input.M, stw_pass_placement_width(pass), &pass->placement_out, error));
    if (net->config.placement == STW_PLACEMENT_DEVICE) return score_devices(pass, error);
    stw_linear_forward(&net->steer, &net->p, pass->input.M, pass->placement.block.y, false, pass->placement_out);
    stw_linear_forward(&net->steer_own, &net->p, pass->input.M, pass->x0, true, pass->placement_out);
    return STW_OK;
}

static stw_status scores_back(stw_pass *pass, const void *d_out, void *d_h, void *d_device, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t M = pass->input.M, D = pass->input.D, width = net->config.score_width;
    void *d_scores = NULL, *d_query = NULL, *d_hidden = NULL, *d_scaled = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, M, D, &d_scores, error));
    TRY(take(pass->layer_tape, M, width, &d_query, error));
    TRY(take(pass->layer_tape, M, width, &d_hidden, error));
    TRY(stw_tape_zeros(b, pass->layer_tape, (int64_t)D * width, &d_scaled, error));
    b->log_softmax_back(b, M, D, pass->placement_out, d_out, d_scores);
    b->linear_back(b, M, width, D, pass->query, pass->scaled, NULL, false, d_scores, false, d_query, d_scaled, NULL);
    b->add_scaled(b, (int64_t)D * width, score_scale(net), d_scaled, d_device);
    stw_linear_backward(&net->query[1], &net->p, M, pass->query_hidden, NULL, d_query, false, d_hidden);
    stw_linear_backward(&net->query[0], &net->p, M, pass->placement.block.y, pass->query_hidden, d_hidden, true, d_h);
    return STW_OK;
}

stw_status stw_placement_head_backward(stw_pass *pass, void *d_out, void *d_h, void *d_device, stw_error *error) {
    stw_net *net = pass->net;
    if (net->config.placement == STW_PLACEMENT_DEVICE) return scores_back(pass, d_out, d_h, d_device, error);
    stw_linear_backward(&net->steer, &net->p, pass->input.M, pass->placement.block.y, NULL, d_out, true, d_h);
    stw_linear_backward(&net->steer_own, &net->p, pass->input.M, pass->x0, NULL, d_out, true, pass->d_x0);
    return STW_OK;
}

stw_status stw_schedule_head_forward(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = pass->K * pass->input.M, width = stw_pass_schedule_width(pass);
    TRY(take(pass->schedule_tape, rows, width, &pass->schedule_out, error));
    if (net->config.schedule == STW_SCHEDULE_NUDGE) {
        stw_linear_forward(&net->nudge, &net->p, rows, pass->schedule.block.y, false, pass->schedule_out);
        return STW_OK;
    }
    void *scores = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, rows, width, &scores, error));
    stw_linear_forward(&net->class_, &net->p, rows, pass->schedule.block.y, false, scores);
    b->log_softmax(b, rows, width, scores, pass->schedule_out);
    return STW_OK;
}

stw_status stw_schedule_head_backward(stw_pass *pass, void *d_out, void *d_h, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = pass->K * pass->input.M, width = stw_pass_schedule_width(pass);
    const void *h = pass->schedule.block.y;
    if (net->config.schedule == STW_SCHEDULE_NUDGE) {
        stw_linear_backward(&net->nudge, &net->p, rows, h, NULL, d_out, false, d_h);
        return STW_OK;
    }
    void *d_scores = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, rows, width, &d_scores, error));
    b->log_softmax_back(b, rows, width, pass->schedule_out, d_out, d_scores);
    stw_linear_backward(&net->class_, &net->p, rows, h, NULL, d_scores, false, d_h);
    return STW_OK;
}
