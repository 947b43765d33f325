/* The heads: from h to means or log probabilities. */
#include <math.h>

#include "policy/net.h"

/* Tape memory for rows * width reals. */
static stw_status take(stw_tape *tape, int32_t rows, int32_t width, void **out, stw_error *error) {
    return stw_tape_reals(tape, (int64_t)rows * width, out, error);
}

static double score_scale(const stw_net *net) { return 1.0 / sqrt((double)net->config.score_width); }

static stw_status device_forward(stw_pass *pass, stw_error *error) {
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

stw_status stw_device_backward(stw_pass *pass, stw_error *error) {
    stw_net *net = pass->net;
    const int32_t D = pass->input.D;
    void *d_hidden = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, D, net->config.score_width, &d_hidden, error));
    stw_linear_backward(&net->device[1], &net->p, D, pass->device_hidden, NULL, pass->d_device, false, d_hidden);
    stw_linear_backward(&net->device[0], &net->p, D, pass->input.device, pass->device_hidden, d_hidden, false, NULL);
    return STW_OK;
}

static int32_t rows_of(const stw_pass *pass, const stw_task_kept *task) { return task->sequences * pass->input.M; }

/* ---- placement ---- */

/* The query of each row against the scaled embedding of each device. */
static stw_status score_devices(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = rows_of(pass, &pass->placement), D = pass->input.D, width = net->config.score_width;
    void *scores = NULL;
    TRY(device_forward(pass, error));
    TRY(take(pass->placement_tape, rows, width, &pass->query_hidden, error));
    TRY(take(pass->placement_tape, rows, width, &pass->query, error));
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, rows, D, &scores, error));
    stw_linear_forward(&net->query[0], &net->p, rows, pass->placement.block.y, false, pass->query_hidden);
    stw_linear_forward(&net->query[1], &net->p, rows, pass->query_hidden, false, pass->query);
    b->linear(b, rows, width, D, pass->query, pass->scaled, NULL, false, false, scores);
    b->log_softmax(b, rows, D, scores, pass->placement.out);
    return STW_OK;
}

static stw_status scores_back(stw_pass *pass, const void *d_out, void *d_h, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = rows_of(pass, &pass->placement), D = pass->input.D, width = net->config.score_width;
    void *d_scores = NULL, *d_query = NULL, *d_hidden = NULL, *d_scaled = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, rows, D, &d_scores, error));
    TRY(take(pass->layer_tape, rows, width, &d_query, error));
    TRY(take(pass->layer_tape, rows, width, &d_hidden, error));
    TRY(stw_tape_zeros(b, pass->layer_tape, (int64_t)D * width, &d_scaled, error));
    b->log_softmax_back(b, rows, D, pass->placement.out, d_out, d_scores);
    b->linear_back(b, rows, width, D, pass->query, pass->scaled, NULL, false, d_scores, false, d_query, d_scaled, NULL);
    b->add_scaled(b, (int64_t)D * width, score_scale(net), d_scaled, pass->d_device);
    stw_linear_backward(&net->query[1], &net->p, rows, pass->query_hidden, NULL, d_query, false, d_hidden);
    stw_linear_backward(&net->query[0], &net->p, rows, pass->placement.block.y, pass->query_hidden, d_hidden, true, d_h);
    return STW_OK;
}

static bool is_first(const stw_pass *pass, const stw_task_kept *task) {
    return task == (stw_net_fuses(pass->net) ? &pass->fusion : &pass->placement);
}

/* What rows are, beside what they see, is the same in all samples: once for all, and repeated. */
static stw_status add_own(stw_pass *pass, const stw_linear_layer *own, const stw_task_kept *task, void *out, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t M = pass->input.M;
    void *once = NULL, *all = NULL;
    if (is_first(pass, task)) {
        stw_linear_forward(own, &net->p, M, pass->x0, true, out);
        return STW_OK;
    }
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, M, own->out, &once, error));
    TRY(take(pass->layer_tape, rows_of(pass, task), own->out, &all, error));
    stw_linear_forward(own, &net->p, M, pass->x0, false, once);
    b->repeat(b, M, own->out, task->sequences, once, all);
    b->add_scaled(b, (int64_t)rows_of(pass, task) * own->out, 1.0, all, out);
    return STW_OK;
}

static stw_status own_back(stw_pass *pass, const stw_linear_layer *own, const stw_task_kept *task, void *d_out,
                           stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t M = pass->input.M;
    void *once = d_out;
    if (!is_first(pass, task)) {
        stw_tape_reset(pass->layer_tape);
        TRY(take(pass->layer_tape, M, own->out, &once, error));
        b->repeat_back(b, M, own->out, task->sequences, d_out, false, once);
    }
    stw_linear_backward(own, &net->p, M, pass->x0, NULL, once, true, pass->d_x0);
    return STW_OK;
}

stw_status stw_placement_head_forward(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    stw_task_kept *task = &pass->placement;
    const int32_t rows = rows_of(pass, task);
    TRY(take(pass->placement_tape, rows, stw_pass_placement_width(pass), &task->out, error));
    if (net->config.placement == STW_PLACEMENT_DEVICE) return score_devices(pass, error);
    stw_linear_forward(&net->steer, &net->p, rows, task->block.y, false, task->out);
    return add_own(pass, &net->steer_own, task, task->out, error);
}

stw_status stw_placement_head_backward(stw_pass *pass, void *d_out, void *d_h, stw_error *error) {
    stw_net *net = pass->net;
    const stw_task_kept *task = &pass->placement;
    if (net->config.placement == STW_PLACEMENT_DEVICE) return scores_back(pass, d_out, d_h, error);
    stw_linear_backward(&net->steer, &net->p, rows_of(pass, task), task->block.y, NULL, d_out, true, d_h);
    return own_back(pass, &net->steer_own, task, d_out, error);
}

/* ---- fusion and schedule: numbers, or classes ---- */

static stw_status classify(stw_pass *pass, const stw_linear_layer *layer, stw_task_kept *task, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = rows_of(pass, task);
    void *scores = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, rows, layer->out, &scores, error));
    stw_linear_forward(layer, &net->p, rows, task->block.y, false, scores);
    b->log_softmax(b, rows, layer->out, scores, task->out);
    return STW_OK;
}

static stw_status classify_back(stw_pass *pass, const stw_linear_layer *layer, const stw_task_kept *task, const void *d_out,
                                bool add, void *d_h, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = rows_of(pass, task);
    void *d_scores = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, rows, layer->out, &d_scores, error));
    b->log_softmax_back(b, rows, layer->out, task->out, d_out, d_scores);
    stw_linear_backward(layer, &net->p, rows, task->block.y, NULL, d_scores, add, d_h);
    return STW_OK;
}

stw_status stw_fusion_head_forward(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    stw_task_kept *task = &pass->fusion;
    TRY(take(pass->fusion_tape, rows_of(pass, task), net->fusion.out, &task->out, error));
    if (net->config.fusion == STW_FUSION_HEAD_CLASS) return classify(pass, &net->fusion, task, error);
    stw_linear_forward(&net->fusion, &net->p, rows_of(pass, task), task->block.y, false, task->out);
    return add_own(pass, &net->fusion_own, task, task->out, error);
}

stw_status stw_fusion_head_backward(stw_pass *pass, void *d_out, void *d_h, stw_error *error) {
    stw_net *net = pass->net;
    const stw_task_kept *task = &pass->fusion;
    if (net->config.fusion == STW_FUSION_HEAD_CLASS) return classify_back(pass, &net->fusion, task, d_out, true, d_h, error);
    stw_linear_backward(&net->fusion, &net->p, rows_of(pass, task), task->block.y, NULL, d_out, true, d_h);
    return own_back(pass, &net->fusion_own, task, d_out, error);
}

stw_status stw_schedule_head_forward(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    stw_task_kept *task = &pass->schedule;
    TRY(take(pass->schedule_tape, rows_of(pass, task), stw_pass_schedule_width(pass), &task->out, error));
    if (net->config.schedule == STW_SCHEDULE_CLASS) return classify(pass, &net->class_, task, error);
    stw_linear_forward(&net->nudge, &net->p, rows_of(pass, task), task->block.y, false, task->out);
    return STW_OK;
}

stw_status stw_schedule_head_backward(stw_pass *pass, void *d_out, void *d_h, stw_error *error) {
    stw_net *net = pass->net;
    const stw_task_kept *task = &pass->schedule;
    if (net->config.schedule == STW_SCHEDULE_CLASS) return classify_back(pass, &net->class_, task, d_out, false, d_h, error);
    stw_linear_backward(&net->nudge, &net->p, rows_of(pass, task), task->block.y, NULL, d_out, false, d_h);
    return STW_OK;
}
