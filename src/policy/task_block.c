/* The tasks: one recurrent attention block with shared weights, run once per task. */
#include "policy/net.h"

/* How the decisions of a task reach the next one: embedded, then through W_a (`task.action`). */

/* ---- decisions that are real numbers: knobs of the placement, nudges of fusion ---- */

/* Both layers are linear, so that one takes their place, with the weights W_a A and W_a a, where A and a are those of the layer
 * that embeds. */
static stw_status add_reals(stw_pass *pass, const stw_linear_layer *layer, stw_task_kept *task, const double *action,
                            stw_tape *tape, void *x, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = task->sequences * pass->input.M, width = net->config.width, dims = layer->in;
    stw_action_kept *kept = &task->action;
    void *outer = stw_parameter_value(&net->p, net->task_action.weight), *inner = stw_parameter_value(&net->p, layer->weight);
    TRY(stw_tape_reals(tape, (int64_t)rows * dims, &kept->reals, error));
    TRY(stw_tape_reals(tape, (int64_t)width * dims, &kept->weight, error));
    TRY(stw_tape_reals(tape, width, &kept->bias, error));
    stw_reals_in(b, kept->reals, action, (int64_t)rows * dims, pass->scratch);
    b->linear_back(b, width, dims, width, inner, inner, NULL, false, outer, false, kept->weight, NULL, NULL);
    b->linear(b, 1, width, width, stw_parameter_value(&net->p, layer->bias), outer, NULL, false, false, kept->bias);
    b->linear(b, rows, dims, width, kept->reals, kept->weight, kept->bias, true, false, x);
    return STW_OK;
}

static stw_status reals_back(stw_pass *pass, const stw_linear_layer *layer, const stw_task_kept *task, void *d_x,
                             stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = task->sequences * pass->input.M, width = net->config.width, dims = layer->in;
    const stw_action_kept *kept = &task->action;
    void *outer = stw_parameter_value(&net->p, net->task_action.weight), *inner = stw_parameter_value(&net->p, layer->weight);
    void *d_outer = stw_parameter_gradient(&net->p, net->task_action.weight);
    void *d_weight = NULL, *d_bias = NULL;
    TRY(stw_tape_zeros(b, pass->layer_tape, (int64_t)width * dims, &d_weight, error));
    TRY(stw_tape_zeros(b, pass->layer_tape, width, &d_bias, error));
    b->linear_back(b, rows, dims, width, kept->reals, kept->weight, NULL, false, d_x, false, NULL, d_weight, d_bias);
    b->linear(b, width, dims, width, d_weight, inner, NULL, true, false, d_outer);
    b->linear_back(b, width, dims, width, d_weight, inner, NULL, false, outer, false, NULL,
                   stw_parameter_gradient(&net->p, layer->weight), NULL);
    b->linear_back(b, 1, width, width, stw_parameter_value(&net->p, layer->bias), outer, NULL, false, d_bias, true,
                   stw_parameter_gradient(&net->p, layer->bias), d_outer, NULL);
    return STW_OK;
}

/* ---- decisions that are choices: devices, classes of fusion ---- */

static stw_status hold_choices(stw_pass *pass, stw_task_kept *task, const double *action, const char *what, int32_t choices,
                               stw_tape *tape, stw_error *error) {
    stw_backend *b = pass->net->backend;
    stw_arena scratch = pass->scratch;
    const int64_t rows = (int64_t)task->sequences * pass->input.M;
    int32_t *choice = NULL;
    STW_TRY_NEW(&scratch, choice, rows, error);
    for (int64_t r = 0; r < rows; r++) {
        if (!(action[r] >= 0.0 && action[r] < choices))
            return stw_fail(error, STW_ERROR_INPUT, "sample %d, row %d: %s %g; there are %d", (int)(r / pass->input.M),
                            (int)(r % pass->input.M), what, action[r], choices);
        choice[r] = (int32_t)action[r];
    }
    TRY(stw_tape_indices(tape, rows, &task->action.choice, error));
    b->copy_in(b, task->action.choice, choice, rows * (int64_t)sizeof *choice);
    return STW_OK;
}

/* The layers are linear, so they run once per choice, embedded: (choices, width), and rows take their choice's result. */
static stw_status add_choices(stw_pass *pass, stw_task_kept *task, int32_t choices, stw_tape *tape, void *x, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = task->sequences * pass->input.M, width = net->config.width;
    void *taken = NULL;
    TRY(stw_tape_reals(tape, (int64_t)choices * width, &task->action.terms, error));
    stw_tape_reset(pass->layer_tape);
    TRY(stw_tape_reals(pass->layer_tape, (int64_t)rows * width, &taken, error));
    stw_linear_forward(&net->task_action, &net->p, choices, task->action.embedded, false, task->action.terms);
    b->embed(b, rows, width, task->action.terms, task->action.choice, taken);
    b->add_scaled(b, (int64_t)rows * width, 1.0, taken, x);
    return STW_OK;
}

/* d_embedded: (choices, width), added to if `add`. */
static stw_status choices_back(stw_pass *pass, const stw_task_kept *task, int32_t choices, const void *d_x, bool add,
                               void *d_embedded, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = task->sequences * pass->input.M, width = net->config.width;
    void *d_terms = NULL;
    TRY(stw_tape_zeros(b, pass->layer_tape, (int64_t)choices * width, &d_terms, error));
    b->embed_back(b, rows, width, choices, task->action.choice, d_x, d_terms);
    stw_linear_backward(&net->task_action, &net->p, choices, task->action.embedded, NULL, d_terms, add, d_embedded);
    return STW_OK;
}

static stw_status add_devices(stw_pass *pass, stw_task_kept *task, const double *action, stw_tape *tape, void *x,
                              stw_error *error) {
    const stw_net *net = pass->net;
    const int32_t D = pass->input.D;
    TRY(hold_choices(pass, task, action, "device", D, tape, error));
    TRY(stw_tape_reals(tape, (int64_t)D * net->config.width, &task->action.embedded, error));
    stw_linear_forward(&net->action, &net->p, D, pass->device, false, task->action.embedded);
    return add_choices(pass, task, D, tape, x, error);
}

static stw_status devices_back(stw_pass *pass, const stw_task_kept *task, const void *d_x, stw_error *error) {
    stw_net *net = pass->net;
    const int32_t D = pass->input.D;
    void *d_embedded = NULL;
    TRY(stw_tape_reals(pass->layer_tape, (int64_t)D * net->config.width, &d_embedded, error));
    TRY(choices_back(pass, task, D, d_x, false, d_embedded, error));
    stw_linear_backward(&net->action, &net->p, D, pass->device, NULL, d_embedded, true, pass->d_device);
    return STW_OK;
}

/* Classes have a table of what each is like: those of fusion, and those of priority. */
static int32_t table_of(const stw_net *net, stw_task_kind kind) {
    return kind == STW_TASK_OF_FUSION ? net->fusion_table : net->schedule_table;
}

static int32_t classes_of(const stw_net *net, stw_task_kind kind) {
    return kind == STW_TASK_OF_FUSION ? net->config.fusion_classes : net->config.classes;
}

static stw_status add_classes(stw_pass *pass, stw_task_kind kind, stw_task_kept *task, const double *action, void *x,
                              stw_error *error) {
    const stw_net *net = pass->net;
    const char *what = kind == STW_TASK_OF_FUSION ? "fusion class" : "class";
    TRY(hold_choices(pass, task, action, what, classes_of(net, kind), task->tape, error));
    task->action.embedded = stw_parameter_value(&net->p, table_of(net, kind));
    return add_choices(pass, task, classes_of(net, kind), task->tape, x, error);
}

/* ---- decisions of either kind ---- */

/* The schedule's decisions are embedded for the draft after it alone, and are classes then. */
static bool is_class(const stw_net *net, stw_task_kind kind) {
    return kind == STW_TASK_OF_SCHEDULE || (kind == STW_TASK_OF_FUSION && net->config.fusion == STW_FUSION_HEAD_CLASS);
}

/* What the decisions of `before` add to x, (rows of the task, width). */
static stw_status add_action(stw_pass *pass, const stw_task_kept *before, stw_task_kept *task, const double *action, void *x,
                             stw_error *error) {
    const stw_net *net = pass->net;
    stw_tape *tape = task->tape;
    if (is_class(net, before->kind)) return add_classes(pass, before->kind, task, action, x, error);
    if (before->kind == STW_TASK_OF_FUSION) return add_reals(pass, &net->fusion_action, task, action, tape, x, error);
    if (net->config.placement == STW_PLACEMENT_DEVICE) return add_devices(pass, task, action, tape, x, error);
    return add_reals(pass, &net->action, task, action, tape, x, error);
}

/* From d_x to the layers, and d_device. */
static stw_status action_back(stw_pass *pass, const stw_task_kept *before, const stw_task_kept *task, void *d_x,
                              stw_error *error) {
    const stw_net *net = pass->net;
    const stw_task_kind kind = before->kind;
    if (is_class(net, kind))
        return choices_back(pass, task, classes_of(net, kind), d_x, true, stw_parameter_gradient(&net->p, table_of(net, kind)),
                            error);
    if (kind == STW_TASK_OF_FUSION) return reals_back(pass, &net->fusion_action, task, d_x, error);
    if (net->config.placement == STW_PLACEMENT_DEVICE) return devices_back(pass, task, d_x, error);
    return reals_back(pass, &net->action, task, d_x, error);
}

/* ---- the block ---- */

static int32_t rows_of(const stw_pass *pass, const stw_task_kept *task) { return task->sequences * pass->input.M; }

static stw_status allocate(stw_pass *pass, stw_task_kept *task, stw_error *error) {
    const int64_t size = (int64_t)rows_of(pass, task) * pass->net->config.width;
    TRY(stw_tape_reals(task->tape, size, &task->x, error));
    return stw_tape_reals(task->tape, size, &task->n, error);
}

/* From what is normed, task->x (+ residual, or NULL), to h. */
static stw_status run_block(stw_pass *pass, stw_task_kept *task, const void *residual, stw_error *error) {
    const stw_net *net = pass->net;
    const int32_t rows = rows_of(pass, task);
    TRY(stw_norm_forward(&net->task_norm, &net->p, rows, task->x, residual, task->n, task->tape, &task->norm, error));
    return stw_attention_forward(&net->task_block, &net->p, rows, pass->input.M, net->config.segment, task->n, task->tape,
                                 &task->block, error);
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

stw_status stw_first_task_forward(stw_pass *pass, stw_task_kept *task, stw_error *error) {
    const stw_net *net = pass->net;
    const void *x = stw_trunk_output(pass);
    if (net->config.bare != 0) { /* the head reads the trunk */
        task->block.y = (void *)(uintptr_t)x;
        return STW_OK;
    }
    TRY(allocate(pass, task, error));
    stw_linear_forward(&net->task_self, &net->p, pass->input.M, x, false, task->x);
    return run_block(pass, task, x, error);
}

stw_status stw_first_task_backward(stw_pass *pass, const stw_task_kept *task, void *d_h, void *d_x, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t M = pass->input.M, width = net->config.width;
    void *d_z = NULL;
    if (net->config.bare != 0) {
        b->copy(b, d_x, d_h, (int64_t)M * width * (int64_t)b->real_bytes);
        return STW_OK;
    }
    TRY(block_back(pass, task, d_h, &d_z, error));
    b->copy(b, d_x, d_z, (int64_t)M * width * (int64_t)b->real_bytes); /* the residual */
    stw_linear_backward(&net->task_self, &net->p, M, stw_trunk_output(pass), NULL, d_z, true, d_x);
    return STW_OK;
}

/* ---- those after it ---- */

/* h W_x + h of the task before; where it has one sequence that all samples share, once for all. */
static stw_status carry_over(stw_pass *pass, const stw_task_kept *before, stw_task_kept *task, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = rows_of(pass, before), width = net->config.width;
    const bool shared = before->sequences == 1;
    if (shared) TRY(stw_tape_reals(task->tape, (int64_t)rows * width, &task->base, error));
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
                                 stw_error *error) {
    TRY(allocate(pass, task, error));
    TRY(carry_over(pass, before, task, error));
    TRY(add_action(pass, before, task, action, task->x, error));
    return run_block(pass, task, NULL, error);
}

stw_status stw_next_task_backward(stw_pass *pass, const stw_task_kept *before, const stw_task_kept *task, void *d_h,
                                  void *d_before, stw_error *error) {
    void *d_z = NULL;
    TRY(block_back(pass, task, d_h, &d_z, error));
    TRY(action_back(pass, before, task, d_z, error));
    return carry_back(pass, before, task, d_z, d_before, error);
}
