/* The heads: from h to means or log probabilities. */
#include <math.h>

#include "policy/net.h"

/* ---- spread ---- */

/* The last step of the Gaussian heads: means = shift + gain * normal, where `normal` is the head's output brought to mean 0 and
 * deviation 1 over the rows of a sequence, and shift and gain come from the graph vector.
 *
 * A plan's worth hangs first of all on what all rows have in common. Without this step the gradient of that common part pulls
 * every weight, rows become alike, and the head can no longer tell them apart; with it the common part has parameters of its own.
 * Rows that are equal, or a single one, have no differences to spread: `normal` is 0, the means are the shift, and no gradient
 * goes back to them.
 *
 * A few numbers per row, so it is done on the host. */

static const double GAIN = 0.3;                   /* at the beginning: how far the means of unlike rows are apart */
static const double LOWEST = -5.0, HIGHEST = 3.0; /* of the gain's logarithm; beyond them it has no gradient */
/* Raw values are near 1. */
static const double LEAST = 1e-8;  /* added to the variance, so that no gradient grows by more than 1e4 * gain */
static const double EQUAL = 1e-12; /* variance up to which rows differ by the rounding of floats only */
enum { MAX_DIMS = STW_STEER_KNOBS };

typedef struct { /* of the graph */
    double shift[MAX_DIMS], gain[MAX_DIMS];
    bool bounded[MAX_DIMS]; /* the gain is at LOWEST or HIGHEST and stays there */
} common;

static stw_status find_common(stw_pass *pass, const stw_linear_layer *layer, int32_t dims, common *out, stw_error *error) {
    const stw_net *net = pass->net;
    void *numbers = NULL;
    double host[2 * MAX_DIMS];
    stw_tape_reset(pass->layer_tape);
    TRY(stw_tape_reals(pass->layer_tape, (int64_t)2 * dims, &numbers, error));
    stw_linear_forward(layer, &net->p, 1, pass->graph, false, numbers);
    stw_reals_out(net->backend, host, numbers, (int64_t)2 * dims, pass->scratch);
    for (int32_t k = 0; k < dims; k++) {
        out->shift[k] = host[k];
        out->gain[k] = GAIN * exp(fmin(fmax(host[dims + k], LOWEST), HIGHEST));
        out->bounded[k] = host[dims + k] < LOWEST || host[dims + k] > HIGHEST;
    }
    return STW_OK;
}

/* One dimension of one sequence, in place. Returns 1 / deviation, or 0 where rows are equal. */
static double normalise(double *z, int32_t rows, int32_t dims) {
    double mean = 0.0, square = 0.0;
    for (int32_t r = 0; r < rows; r++) mean += z[(int64_t)r * dims] / rows;
    for (int32_t r = 0; r < rows; r++) {
        z[(int64_t)r * dims] -= mean;
        square += z[(int64_t)r * dims] * z[(int64_t)r * dims] / rows;
    }
    const double inverse = square <= EQUAL ? 0.0 : 1.0 / sqrt(square + LEAST);
    for (int32_t r = 0; r < rows; r++) z[(int64_t)r * dims] *= inverse;
    return inverse;
}

stw_status stw_spread_forward(stw_pass *pass, const stw_linear_layer *layer, const void *raw, int32_t sequences, int32_t dims,
                              double *out, stw_error *error) {
    const int32_t M = pass->input.M;
    common c;
    TRY(find_common(pass, layer, dims, &c, error));
    stw_reals_out(pass->net->backend, out, raw, (int64_t)sequences * M * dims, pass->scratch);
    for (int32_t s = 0; s < sequences; s++) {
        for (int32_t k = 0; k < dims; k++) {
            double *z = &out[(int64_t)s * M * dims + k];
            normalise(z, M, dims);
            for (int32_t r = 0; r < M; r++) z[(int64_t)r * dims] = c.shift[k] + c.gain[k] * z[(int64_t)r * dims];
        }
    }
    return STW_OK;
}

/* Of one dimension of one sequence: d in: by the output, out: by the raw value. Adds to d_shift and d_gain. */
static void back(double *d, double *z, int32_t rows, int32_t dims, double gain, double *d_shift, double *d_gain) {
    const double inverse = normalise(z, rows, dims);
    double mean = 0.0, along = 0.0;
    for (int32_t r = 0; r < rows; r++) {
        const int64_t at = (int64_t)r * dims;
        *d_shift += d[at];
        *d_gain += d[at] * z[at] * gain; /* by the logarithm of the gain */
        mean += d[at] / rows;
        along += d[at] * z[at] / rows;
    }
    for (int32_t r = 0; r < rows; r++) {
        const int64_t at = (int64_t)r * dims;
        d[at] = gain * inverse * (d[at] - mean - z[at] * along);
    }
}

stw_status stw_spread_backward(stw_pass *pass, const stw_linear_layer *layer, const void *raw, int32_t sequences, int32_t dims,
                               const double *d_out, void *d_graph, void **d_raw, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int64_t M = pass->input.M, count = sequences * M * dims;
    stw_arena scratch = pass->scratch;
    common c;
    double *z = NULL, *d = NULL, d_common[2 * MAX_DIMS] = {0};
    TRY(find_common(pass, layer, dims, &c, error));
    STW_TRY_NEW(&scratch, z, count, error);
    STW_TRY_NEW(&scratch, d, count, error);
    stw_reals_out(b, z, raw, count, scratch);
    for (int64_t k = 0; k < count; k++) d[k] = d_out[k];
    for (int32_t s = 0; s < sequences; s++) {
        for (int32_t k = 0; k < dims; k++)
            back(&d[s * M * dims + k], &z[s * M * dims + k], (int32_t)M, dims, c.gain[k], &d_common[k], &d_common[dims + k]);
    }
    for (int32_t k = 0; k < dims; k++) {
        if (c.bounded[k]) d_common[dims + k] = 0.0;
    }
    void *d_numbers = NULL;
    TRY(stw_tape_reals(pass->part_tape, count, d_raw, error));
    TRY(stw_tape_reals(pass->part_tape, (int64_t)2 * dims, &d_numbers, error));
    stw_reals_in(b, *d_raw, d, count, scratch);
    stw_reals_in(b, d_numbers, d_common, (int64_t)2 * dims, scratch);
    stw_linear_backward(layer, &net->p, 1, pass->graph, NULL, d_numbers, true, d_graph);
    return STW_OK;
}

/* ---- devices, embedded ---- */

/* Tape memory for rows * width reals. */
static stw_status take(stw_tape *tape, int32_t rows, int32_t width, void **out, stw_error *error) {
    return stw_tape_reals(tape, (int64_t)rows * width, out, error);
}

static double score_scale(const stw_net *net) { return 1.0 / sqrt((double)net->config.score_width); }

static stw_status device_forward(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t D = pass->input.D, width = net->config.score_width;
    TRY(take(pass->now->placement.tape, D, width, &pass->device_hidden, error));
    TRY(take(pass->now->placement.tape, D, width, &pass->device, error));
    TRY(stw_tape_zeros(b, pass->now->placement.tape, (int64_t)D * width, &pass->scaled, error));
    stw_linear_forward(&net->device[0], &net->p, D, pass->input.device, false, pass->device_hidden);
    stw_linear_forward(&net->device[1], &net->p, D, pass->device_hidden, false, pass->device);
    if (net->config.device_names > 0)
        b->add_scaled(b, (int64_t)D * width, 1.0, stw_parameter_value(&net->p, net->device_names), pass->device);
    b->add_scaled(b, (int64_t)D * width, score_scale(net), pass->device, pass->scaled);
    return STW_OK;
}

stw_status stw_device_backward(stw_pass *pass, stw_error *error) {
    stw_net *net = pass->net;
    const int32_t D = pass->input.D;
    void *d_hidden = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, D, net->config.score_width, &d_hidden, error));
    if (net->config.device_names > 0)
        net->backend->add_scaled(net->backend, (int64_t)D * net->config.score_width, 1.0, pass->d_device,
                                 stw_parameter_gradient(&net->p, net->device_names));
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
    const int32_t rows = rows_of(pass, &pass->now->placement), D = pass->input.D, width = net->config.score_width;
    void *scores = NULL;
    TRY(device_forward(pass, error));
    TRY(take(pass->now->placement.tape, rows, width, &pass->now->query_hidden, error));
    TRY(take(pass->now->placement.tape, rows, width, &pass->now->query, error));
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, rows, D, &scores, error));
    stw_linear_forward(&net->query[0], &net->p, rows, pass->now->placement.block.y, false, pass->now->query_hidden);
    stw_linear_forward(&net->query[1], &net->p, rows, pass->now->query_hidden, false, pass->now->query);
    b->linear(b, rows, width, D, pass->now->query, pass->scaled, NULL, false, false, scores);
    b->log_softmax(b, rows, D, scores, pass->now->placement.out);
    return STW_OK;
}

static stw_status scores_back(stw_pass *pass, const void *d_out, void *d_h, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = rows_of(pass, &pass->now->placement), D = pass->input.D, width = net->config.score_width;
    void *d_scores = NULL, *d_query = NULL, *d_hidden = NULL, *d_scaled = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, rows, D, &d_scores, error));
    TRY(take(pass->layer_tape, rows, width, &d_query, error));
    TRY(take(pass->layer_tape, rows, width, &d_hidden, error));
    TRY(stw_tape_zeros(b, pass->layer_tape, (int64_t)D * width, &d_scaled, error));
    b->log_softmax_back(b, rows, D, pass->now->placement.out, d_out, d_scores);
    b->linear_back(b, rows, width, D, pass->now->query, pass->scaled, NULL, false, d_scores, false, d_query, d_scaled, NULL);
    b->add_scaled(b, (int64_t)D * width, score_scale(net), d_scaled, pass->d_device);
    stw_linear_backward(&net->query[1], &net->p, rows, pass->now->query_hidden, NULL, d_query, false, d_hidden);
    stw_linear_backward(&net->query[0], &net->p, rows, pass->now->placement.block.y, pass->now->query_hidden, d_hidden, true,
                        d_h);
    return STW_OK;
}

static bool is_first(const stw_pass *pass, const stw_task_kept *task) {
    return task == (stw_net_fuses(pass->net) ? &pass->now->fusion : &pass->now->placement);
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
    stw_task_kept *task = &pass->now->placement;
    const int32_t rows = rows_of(pass, task);
    TRY(take(pass->now->placement.tape, rows, stw_pass_placement_width(pass), &task->out, error));
    if (net->config.placement == STW_PLACEMENT_DEVICE) return score_devices(pass, error);
    stw_linear_forward(&net->steer, &net->p, rows, task->block.y, false, task->out);
    return add_own(pass, &net->steer_own, task, task->out, error);
}

stw_status stw_placement_head_backward(stw_pass *pass, void *d_out, void *d_h, stw_error *error) {
    stw_net *net = pass->net;
    const stw_task_kept *task = &pass->now->placement;
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
                                void *d_h, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int32_t rows = rows_of(pass, task);
    void *d_scores = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(take(pass->layer_tape, rows, layer->out, &d_scores, error));
    b->log_softmax_back(b, rows, layer->out, task->out, d_out, d_scores);
    stw_linear_backward(layer, &net->p, rows, task->block.y, NULL, d_scores, true, d_h);
    return STW_OK;
}

stw_status stw_fusion_head_forward(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    stw_task_kept *task = &pass->now->fusion;
    TRY(take(pass->now->fusion.tape, rows_of(pass, task), net->fusion.out, &task->out, error));
    if (net->config.fusion == STW_FUSION_HEAD_CLASS) return classify(pass, &net->fusion, task, error);
    stw_linear_forward(&net->fusion, &net->p, rows_of(pass, task), task->block.y, false, task->out);
    return add_own(pass, &net->fusion_own, task, task->out, error);
}

stw_status stw_fusion_head_backward(stw_pass *pass, void *d_out, void *d_h, stw_error *error) {
    stw_net *net = pass->net;
    const stw_task_kept *task = &pass->now->fusion;
    if (net->config.fusion == STW_FUSION_HEAD_CLASS) return classify_back(pass, &net->fusion, task, d_out, d_h, error);
    stw_linear_backward(&net->fusion, &net->p, rows_of(pass, task), task->block.y, NULL, d_out, true, d_h);
    return own_back(pass, &net->fusion_own, task, d_out, error);
}

stw_status stw_schedule_head_forward(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    stw_task_kept *task = &pass->now->schedule;
    TRY(take(pass->now->schedule.tape, rows_of(pass, task), stw_pass_schedule_width(pass), &task->out, error));
    if (net->config.schedule == STW_SCHEDULE_CLASS) return classify(pass, &net->class_, task, error);
    stw_linear_forward(&net->nudge, &net->p, rows_of(pass, task), task->block.y, false, task->out);
    return STW_OK;
}

stw_status stw_schedule_head_backward(stw_pass *pass, void *d_out, void *d_h, stw_error *error) {
    stw_net *net = pass->net;
    const stw_task_kept *task = &pass->now->schedule;
    if (net->config.schedule == STW_SCHEDULE_CLASS) return classify_back(pass, &net->class_, task, d_out, d_h, error);
    stw_linear_backward(&net->nudge, &net->p, rows_of(pass, task), task->block.y, NULL, d_out, true, d_h);
    return STW_OK;
}
