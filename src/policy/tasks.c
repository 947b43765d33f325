/* The tasks: one recurrent attention block with shared weights, run once per task. */
#include "policy/net.h"

stw_status stw_placement_forward(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    const int32_t M = pass->input.M, width = net->config.width;
    const void *x = stw_trunk_output(pass);
    stw_task_kept *task = &pass->placement;
    TRY(stw_tape_reals(pass->placement_tape, (int64_t)M * width, &task->x, error));
    TRY(stw_tape_reals(pass->placement_tape, (int64_t)M * width, &task->n, error));
    stw_linear_forward(&net->task_self, &net->p, M, x, false, task->x);
    TRY(stw_norm_forward(&net->task_norm, &net->p, M, task->x, x, task->n, pass->placement_tape, &task->norm, error));
    return stw_attention_forward(&net->task_block, &net->p, M, M, net->config.segment, task->n, pass->placement_tape,
                                 &task->block, error);
}

/* Through the block and the norm: d_h: (rows, width), overwritten; d_z, the gradient of what is normed, is taken from the tape of
 * the layer. */
static stw_status block_back(stw_pass *pass, const stw_task_kept *task, int32_t rows, void *d_h, void **d_z, stw_error *error) {
    stw_net *net = pass->net;
    void *d_n = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(stw_tape_reals(pass->layer_tape, (int64_t)rows * net->config.width, &d_n, error));
    TRY(stw_attention_backward(&net->task_block, &net->p, &task->block, d_h, d_n, pass->layer_tape, error));
    *d_z = d_h; /* no longer needed */
    stw_norm_backward(&net->task_norm, &net->p, rows, &task->norm, d_n, *d_z);
    return STW_OK;
}

stw_status stw_placement_backward(stw_pass *pass, void *d_h, void *d_x, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t M = pass->input.M, width = net->config.width;
    void *d_z = NULL;
    TRY(block_back(pass, &pass->placement, M, d_h, &d_z, error));
    b->copy(b, d_x, d_z, (int64_t)M * width * (int64_t)b->real_bytes); /* the residual */
    stw_linear_backward(&net->task_self, &net->p, M, stw_trunk_output(pass), NULL, d_z, true, d_x);
    return STW_OK;
}

/* Adds what the knobs say to x: (K * M, width). Both layers are linear, so that one takes their place, with the weights W_a A and
 * W_a a, where W_a is that of `task_action`, A and a those of `action`. */
static stw_status add_knobs(stw_pass *pass, const double *action, void *x, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = pass->K * pass->input.M, width = net->config.width;
    void *outer = stw_parameter_value(&net->p, net->task_action.weight),
         *inner = stw_parameter_value(&net->p, net->action.weight);
    TRY(stw_tape_reals(pass->schedule_tape, (int64_t)rows * STW_STEER_KNOBS, &pass->knobs, error));
    TRY(stw_tape_reals(pass->schedule_tape, (int64_t)width * STW_STEER_KNOBS, &pass->knob_weight, error));
    TRY(stw_tape_reals(pass->schedule_tape, width, &pass->knob_bias, error));
    stw_reals_in(b, pass->knobs, action, (int64_t)rows * STW_STEER_KNOBS, pass->scratch);
    b->linear_back(b, width, STW_STEER_KNOBS, width, inner, inner, NULL, false, outer, false, pass->knob_weight, NULL, NULL);
    b->linear(b, 1, width, width, stw_parameter_value(&net->p, net->action.bias), outer, NULL, false, false, pass->knob_bias);
    b->linear(b, rows, STW_STEER_KNOBS, width, pass->knobs, pass->knob_weight, pass->knob_bias, true, false, x);
    return STW_OK;
}

static stw_status hold_choices(stw_pass *pass, const double *action, stw_error *error) {
    stw_backend *b = pass->net->backend;
    stw_arena scratch = pass->scratch;
    const int64_t rows = (int64_t)pass->K * pass->input.M;
    int32_t *choice = NULL;
    STW_TRY_NEW(&scratch, choice, rows, error);
    for (int64_t r = 0; r < rows; r++) {
        if (!(action[r] >= 0.0 && action[r] < pass->input.D))
            return stw_fail(error, STW_ERROR_INPUT, "sample %d, row %d: device %g; there are %d", (int)(r / pass->input.M),
                            (int)(r % pass->input.M), action[r], pass->input.D);
        choice[r] = (int32_t)action[r];
    }
    TRY(stw_tape_indices(pass->schedule_tape, rows, &pass->choice, error));
    b->copy_in(b, pass->choice, choice, rows * (int64_t)sizeof *choice);
    return STW_OK;
}

/* The layers are linear, so they run once per device, and rows take their device's result. */
static stw_status add_devices(stw_pass *pass, const double *action, void *x, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = pass->K * pass->input.M, D = pass->input.D, width = net->config.width;
    void *taken = NULL;
    TRY(hold_choices(pass, action, error));
    TRY(stw_tape_reals(pass->schedule_tape, (int64_t)D * width, &pass->embedded, error));
    TRY(stw_tape_reals(pass->schedule_tape, (int64_t)D * width, &pass->device_terms, error));
    stw_tape_reset(pass->layer_tape);
    TRY(stw_tape_reals(pass->layer_tape, (int64_t)rows * width, &taken, error));
    stw_linear_forward(&net->action, &net->p, D, pass->device, false, pass->embedded);
    stw_linear_forward(&net->task_action, &net->p, D, pass->embedded, false, pass->device_terms);
    b->embed(b, rows, width, pass->device_terms, pass->choice, taken);
    b->add_scaled(b, (int64_t)rows * width, 1.0, taken, x);
    return STW_OK;
}

stw_status stw_schedule_forward(stw_pass *pass, const double *action, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t M = pass->input.M, rows = pass->K * M, width = net->config.width;
    const void *h = pass->placement.block.y;
    stw_task_kept *task = &pass->schedule;
    TRY(stw_tape_reals(pass->schedule_tape, (int64_t)M * width, &pass->base, error));
    TRY(stw_tape_reals(pass->schedule_tape, (int64_t)rows * width, &task->x, error));
    TRY(stw_tape_reals(pass->schedule_tape, (int64_t)rows * width, &task->n, error));
    /* What all samples have in common, once. */
    stw_linear_forward(&net->task_self, &net->p, M, h, false, pass->base);
    b->add_scaled(b, (int64_t)M * width, 1.0, h, pass->base);
    b->repeat(b, M, width, pass->K, pass->base, task->x);
    if (net->config.placement == STW_PLACEMENT_STEER) {
        TRY(add_knobs(pass, action, task->x, error));
    } else {
        TRY(add_devices(pass, action, task->x, error));
    }
    TRY(stw_norm_forward(&net->task_norm, &net->p, rows, task->x, NULL, task->n, pass->schedule_tape, &task->norm, error));
    return stw_attention_forward(&net->task_block, &net->p, rows, M, net->config.segment, task->n, pass->schedule_tape,
                                 &task->block, error);
}

static stw_status knobs_back(stw_pass *pass, void *d_x, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = pass->K * pass->input.M, width = net->config.width;
    void *outer = stw_parameter_value(&net->p, net->task_action.weight),
         *inner = stw_parameter_value(&net->p, net->action.weight);
    void *d_outer = stw_parameter_gradient(&net->p, net->task_action.weight);
    void *d_weight = NULL, *d_bias = NULL;
    TRY(stw_tape_zeros(b, pass->layer_tape, (int64_t)width * STW_STEER_KNOBS, &d_weight, error));
    TRY(stw_tape_zeros(b, pass->layer_tape, width, &d_bias, error));
    b->linear_back(b, rows, STW_STEER_KNOBS, width, pass->knobs, pass->knob_weight, NULL, false, d_x, false, NULL, d_weight,
                   d_bias);
    b->linear(b, width, STW_STEER_KNOBS, width, d_weight, inner, NULL, true, false, d_outer);
    b->linear_back(b, width, STW_STEER_KNOBS, width, d_weight, inner, NULL, false, outer, false, NULL,
                   stw_parameter_gradient(&net->p, net->action.weight), NULL);
    b->linear_back(b, 1, width, width, stw_parameter_value(&net->p, net->action.bias), outer, NULL, false, d_bias, true,
                   stw_parameter_gradient(&net->p, net->action.bias), d_outer, NULL);
    return STW_OK;
}

static stw_status devices_back(stw_pass *pass, const void *d_x, void *d_device, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = pass->K * pass->input.M, D = pass->input.D, width = net->config.width;
    void *d_terms = NULL, *d_embedded = NULL;
    TRY(stw_tape_zeros(b, pass->layer_tape, (int64_t)D * width, &d_terms, error));
    TRY(stw_tape_reals(pass->layer_tape, (int64_t)D * width, &d_embedded, error));
    b->embed_back(b, rows, width, D, pass->choice, d_x, d_terms);
    stw_linear_backward(&net->task_action, &net->p, D, pass->embedded, NULL, d_terms, false, d_embedded);
    stw_linear_backward(&net->action, &net->p, D, pass->device, NULL, d_embedded, true, d_device);
    return STW_OK;
}

stw_status stw_schedule_backward(stw_pass *pass, void *d_h, void *d_h1, void *d_device, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t M = pass->input.M, width = net->config.width;
    void *d_z = NULL, *d_base = NULL;
    TRY(block_back(pass, &pass->schedule, pass->K * M, d_h, &d_z, error));
    if (net->config.placement == STW_PLACEMENT_STEER) {
        TRY(knobs_back(pass, d_z, error));
    } else {
        TRY(devices_back(pass, d_z, d_device, error));
    }
    TRY(stw_tape_reals(pass->layer_tape, (int64_t)M * width, &d_base, error));
    b->repeat_back(b, M, width, pass->K, d_z, false, d_base);
    b->add_scaled(b, (int64_t)M * width, 1.0, d_base, d_h1);
    stw_linear_backward(&net->task_self, &net->p, M, pass->placement.block.y, NULL, d_base, true, d_h1);
    return STW_OK;
}
