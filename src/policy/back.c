/* The way back through a run of the network: from the gradients of what the tasks gave to those of the parameters. */
#include "policy/net.h"

/* All tasks that ran, in their order, with the gradients of what they gave. */
typedef struct {
    stw_draft_kept *draft;
    stw_task_kept *task;
    int32_t width; /* of the head */
    const stw_linear_layer *common;
    const double *d_out; /* or NULL */
} link;
enum { MOST_LINKS = STW_DRAFT_TASKS * STW_MOST_DRAFTS };

static int32_t find_chain(stw_pass *pass, const stw_net_gradient *of_draft, link *chain) {
    const stw_net *net = pass->net;
    int32_t count = 0;
    for (stw_draft_kept *d = pass->draft; d <= pass->now; d++) {
        const stw_net_gradient *gradient = &of_draft[d - pass->draft];
        const link all[STW_DRAFT_TASKS] = {
            {d, &d->fusion, stw_pass_fusion_width(pass), stw_fusion_common(net), gradient->fusion},
            {d, &d->placement, stw_pass_placement_width(pass), stw_placement_common(net), gradient->placement},
            {d, &d->schedule, stw_pass_schedule_width(pass), stw_schedule_common(net), gradient->schedule}};
        for (int32_t k = 0; k < STW_DRAFT_TASKS; k++)
            if (all[k].task->sequences > 0) chain[count++] = all[k];
    }
    while (count > 1 && chain[count - 1].d_out == NULL) count--;
    return count;
}

/* A gradient from the host to the head's own numbers on the backend. */
static stw_status bring(stw_pass *pass, const link *l, void **out, stw_error *error) {
    const int64_t count = (int64_t)l->task->sequences * pass->input.M * l->width;
    if (l->common != NULL)
        return stw_spread_backward(pass, l->common, l->task->out, l->task->sequences, l->width, l->d_out, pass->d_graph, out,
                                   error);
    TRY(stw_tape_reals(pass->part_tape, count, out, error));
    stw_reals_in(pass->net->backend, *out, l->d_out, count, pass->scratch);
    return STW_OK;
}

static stw_status head_back(stw_pass *pass, const link *l, void *d_h, stw_error *error) {
    void *d_out = NULL;
    if (l->d_out == NULL) return STW_OK;
    TRY(bring(pass, l, &d_out, error));
    if (l->task->kind == STW_TASK_OF_FUSION) return stw_fusion_head_backward(pass, d_out, d_h, error);
    return l->task->kind == STW_TASK_OF_PLACEMENT ? stw_placement_head_backward(pass, d_out, d_h, error)
                                                  : stw_schedule_head_backward(pass, d_out, d_h, error);
}

/* Samples up to the last with a gradient; those after it, as the greedy one, need no way back. */
static int32_t samples_that_count(const stw_pass *pass, const link *l) {
    const int64_t each = (int64_t)pass->input.M * l->width;
    int64_t count = l->d_out == NULL ? 0 : l->task->sequences * each;
    while (count > 0 && l->d_out[count - 1] == 0.0) count--;
    return (int32_t)((count + each - 1) / each);
}

static void set_sequences(const stw_pass *pass, stw_task_kept *task, int32_t sequences) {
    task->sequences = sequences;
    task->block.shape.rows = sequences * pass->input.M;
}

/* From the last of the chain to what the first of it gave, d_h of which is added to pass->d_first. */
static stw_status chain_back(stw_pass *pass, const link *chain, int32_t count, stw_error *error) {
    stw_backend *b = pass->net->backend;
    const int64_t each = (int64_t)pass->input.M * pass->net->config.width;
    void *d_h = NULL, *d_before = NULL;
    TRY(stw_tape_zeros(b, pass->part_tape, chain[count - 1].task->sequences * each, &d_h, error));
    for (int32_t k = count - 1; k > 0; k--) {
        pass->now = chain[k].draft;
        TRY(head_back(pass, &chain[k], d_h, error));
        d_before = pass->d_first;
        if (k > 1) TRY(stw_tape_zeros(b, pass->part_tape, chain[k - 1].task->sequences * each, &d_before, error));
        TRY(stw_next_task_backward(pass, chain[k - 1].task, chain[k].task, d_h, d_before, error));
        d_h = d_before;
    }
    return STW_OK;
}

static stw_status check_runs(stw_pass *pass, const stw_net_gradient *of_draft, stw_error *error) {
    const stw_net *net = pass->net;
    const bool fuses = stw_net_fuses(net);
    for (const stw_draft_kept *d = pass->draft; d <= pass->now; d++) {
        const stw_net_gradient *gradient = &of_draft[d - pass->draft];
        if (stw_first_task(net, pass->draft)->sequences == 0 || (gradient->placement != NULL && d->placement.sequences == 0) ||
            (gradient->schedule != NULL && d->schedule.sequences == 0) || (!fuses && gradient->fusion != NULL))
            return stw_fail(error, STW_ERROR_INPUT,
                            "no forward pass to go back through; call stw_pass_placement (with fusion: _fusion and _place) and "
                            "_schedule first");
    }
    return STW_OK;
}

stw_status stw_pass_begin_backward(stw_pass *pass, stw_error *error) {
    const stw_policy_config *c = &pass->net->config;
    stw_backend *b = pass->net->backend;
    const int64_t M = pass->input.M;
    stw_tape_reset(pass->back_tape);
    TRY(stw_tape_zeros(b, pass->back_tape, c->width, &pass->d_graph, error));
    TRY(stw_tape_zeros(b, pass->back_tape, M * c->width, &pass->d_x0, error));
    TRY(stw_tape_zeros(b, pass->back_tape, M * c->width, &pass->d_first, error));
    if (c->placement != STW_PLACEMENT_DEVICE) return STW_OK;
    return stw_tape_zeros(b, pass->back_tape, (int64_t)pass->input.D * c->score_width, &pass->d_device, error);
}

stw_status stw_pass_add_backward(stw_pass *pass, const stw_net_gradient *of_draft, stw_error *error) {
    stw_draft_kept *const last = pass->now;
    link chain[MOST_LINKS];
    int32_t samples = 0, kept[MOST_LINKS];
    TRY(check_runs(pass, of_draft, error));
    const int32_t count = find_chain(pass, of_draft, chain);
    stw_tape_reset(pass->part_tape);
    for (int32_t k = 1; k < count; k++) {
        const int32_t own = samples_that_count(pass, &chain[k]);
        samples = own > samples ? own : samples;
        kept[k] = chain[k].task->sequences;
    }
    if (samples == 0) return STW_OK; /* nothing after the first task counts */
    for (int32_t k = 1; k < count; k++) set_sequences(pass, chain[k].task, samples);
    const stw_status status = chain_back(pass, chain, count, error);
    for (int32_t k = 1; k < count; k++) set_sequences(pass, chain[k].task, kept[k]);
    pass->now = last;
    return status;
}

static stw_status first_back(stw_pass *pass, const stw_net_gradient *of_draft, stw_error *error) {
    const stw_net *net = pass->net;
    link chain[MOST_LINKS];
    void *d_x = NULL;
    find_chain(pass, of_draft, chain);
    pass->now = pass->draft;
    stw_tape_reset(pass->part_tape);
    TRY(stw_tape_reals(pass->part_tape, (int64_t)pass->input.M * net->config.width, &d_x, error));
    TRY(head_back(pass, &chain[0], pass->d_first, error));
    if (net->config.placement == STW_PLACEMENT_DEVICE && pass->now->placement.sequences > 0)
        TRY(stw_device_backward(pass, error));
    TRY(stw_first_task_backward(pass, chain[0].task, pass->d_first, d_x, error));
    return stw_trunk_backward(pass, d_x, error);
}

stw_status stw_pass_end_backward(stw_pass *pass, const stw_net_gradient *of_draft, stw_error *error) {
    stw_draft_kept *const last = pass->now;
    TRY(check_runs(pass, of_draft, error));
    const stw_status status = first_back(pass, of_draft, error);
    pass->now = last;
    return status;
}

stw_status stw_pass_backward(stw_pass *pass, const stw_net_gradient *of_draft, stw_error *error) {
    TRY(check_runs(pass, of_draft, error));
    TRY(stw_pass_begin_backward(pass, error));
    TRY(stw_pass_add_backward(pass, of_draft, error));
    return stw_pass_end_backward(pass, of_draft, error);
}
