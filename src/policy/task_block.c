/* The tasks: one recurrent attention block with shared weights, run once per task. */
#include "policy/net.h"

static int32_t rows_of(const stw_pass *pass, const stw_task_kept *task) { return task->sequences * pass->input.M; }

static stw_status allocate(stw_pass *pass, stw_task_kept *task, stw_tape *tape, stw_error *error) {
    const int64_t size = (int64_t)rows_of(pass, task) * pass->net->config.width;
    TRY(stw_tape_reals(tape, size, &task->x, error));
    return stw_tape_reals(tape, size, &task->n, error);
}

/* From what is normed, task->x (+ residual, or NULL), to h. */
static stw_status run_block(stw_pass *pass, stw_task_kept *task, const void *residual, stw_tape *tape, stw_error *error) {
    const stw_net *net = pass->net;
    const int32_t rows = rows_of(pass, task);
    TRY(stw_norm_forward(&net->task_norm, &net->p, rows, task->x, residual, task->n, tape, &task->norm, error));
    return stw_attention_forward(&net->task_block, &net->p, rows, pass->input.M, net->config.segment, task->n, tape, &task->block,
                                 error);
}

/* Through the block and the norm: d_h: (rows, width), overwritten; d_z, the gradient of what is normed, takes its place. */
static stw_status block_back(stw_pass *pass, const stw_task_kept *task, void *d_h, void **d_z, stw_error *error) {
    stw_net *net = pass->net;
    const int32_t rows = rows_of(pass, task);
    void *d_n = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(stw_tape_reals(pass->layer_tape, (int64_t)rows * net->config.width, &d_n, error));
    TRY(stw_attention_backward(&net->task_block, &net->p, &task->block, d_h, d_n, pass->layer_tape, error));
    *d_z = d_h; /* no longer needed */
    stw_norm_backward(&net->task_norm, &net->p, rows, &task->norm, d_n, *d_z);
    return STW_OK;
}

/* ---- the first task ---- */

stw_status stw_first_task_forward(stw_pass *pass, stw_task_kept *task, stw_tape *tape, stw_error *error) {
    const stw_net *net = pass->net;
    const void *x = stw_trunk_output(pass);
    TRY(allocate(pass, task, tape, error));
    stw_linear_forward(&net->task_self, &net->p, pass->input.M, x, false, task->x);
    return run_block(pass, task, x, tape, error);
}

stw_status stw_first_task_backward(stw_pass *pass, const stw_task_kept *task, void *d_h, void *d_x, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t M = pass->input.M, width = net->config.width;
    void *d_z = NULL;
    TRY(block_back(pass, task, d_h, &d_z, error));
    b->copy(b, d_x, d_z, (int64_t)M * width * (int64_t)b->real_bytes); /* the residual */
    stw_linear_backward(&net->task_self, &net->p, M, stw_trunk_output(pass), NULL, d_z, true, d_x);
    return STW_OK;
}

/* ---- those after it ---- */

/* h W_x + h of the task before; where it has one sequence that all samples share, once for all. */
static stw_status carry_over(stw_pass *pass, const stw_task_kept *before, stw_task_kept *task, stw_tape *tape, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = rows_of(pass, before), width = net->config.width;
    const bool shared = before->sequences == 1;
    if (shared) TRY(stw_tape_reals(tape, (int64_t)rows * width, &task->base, error));
    void *to = shared ? task->base : task->x;
    stw_linear_forward(&net->task_self, &net->p, rows, before->block.y, false, to);
    b->add_scaled(b, (int64_t)rows * width, 1.0, before->block.y, to);
    if (shared) b->repeat(b, rows, width, task->sequences, task->base, task->x);
    return STW_OK;
}

static stw_status carry_back(stw_pass *pass, const stw_task_kept *before, const stw_task_kept *task, void *d_z, void *d_before,
                             stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = rows_of(pass, before), width = net->config.width;
    void *d_base = d_z;
    if (before->sequences == 1) {
        TRY(stw_tape_reals(pass->layer_tape, (int64_t)rows * width, &d_base, error));
        b->repeat_back(b, rows, width, task->sequences, d_z, false, d_base);
    }
    b->add_scaled(b, (int64_t)rows * width, 1.0, d_base, d_before);
    stw_linear_backward(&net->task_self, &net->p, rows, before->block.y, NULL, d_base, true, d_before);
    return STW_OK;
}

stw_status stw_next_task_forward(stw_pass *pass, const stw_task_kept *before, stw_task_kept *task, const double *action,
                                 stw_tape *tape, stw_error *error) {
    TRY(allocate(pass, task, tape, error));
    TRY(carry_over(pass, before, task, tape, error));
    TRY(stw_action_forward(pass, before, task, action, tape, task->x, error));
    return run_block(pass, task, NULL, tape, error);
}

stw_status stw_next_task_backward(stw_pass *pass, const stw_task_kept *before, const stw_task_kept *task, void *d_h,
                                  void *d_before, stw_error *error) {
    void *d_z = NULL;
    TRY(block_back(pass, task, d_h, &d_z, error));
    TRY(stw_action_backward(pass, before, task, d_z, error));
    return carry_back(pass, before, task, d_z, d_before, error);
}
