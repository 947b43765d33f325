/* One run of the network: what callers see of it. */
#include <stdlib.h>

#include "policy/net.h"

/* ---- the input ---- */

/* What the network sees, checked and brought to the backend. */

/* One relation as lists: row r has item[start[r]] ... item[start[r + 1] - 1]. */
typedef struct {
    const char *name;
    const int32_t *start, *item;
} lists;

static stw_status check_lists(const lists *l, int32_t M, stw_error *error) {
    if (l->start == NULL || l->start[0] != 0 || (l->start[M] > 0 && l->item == NULL))
        return stw_fail(error, STW_ERROR_INPUT, "the network's input lacks its %s", l->name);
    for (int32_t r = 0; r < M; r++) {
        if (l->start[r + 1] < l->start[r])
            return stw_fail(error, STW_ERROR_INPUT, "the %s of row %d end before they begin", l->name, r);
        for (int32_t i = l->start[r]; i < l->start[r + 1]; i++) {
            if (l->item[i] < 0 || l->item[i] >= M)
                return stw_fail(error, STW_ERROR_INPUT, "the %s of row %d include %d; rows are 0 to %d", l->name, r, l->item[i],
                                M - 1);
        }
    }
    return STW_OK;
}

static stw_status check(const stw_net_input *in, const stw_policy_config *c, stw_error *error) {
    if (in->M < 1 || in->D < 1 || (int64_t)in->M * in->D > INT32_MAX)
        return stw_fail(error, STW_ERROR_INPUT,
                        "the network's input has %d rows and %d devices; it takes 1 or more, and 2^31 pairs", in->M, in->D);
    if (in->unit == NULL || in->operator_ == NULL || (c->placement == STW_PLACEMENT_DEVICE && in->device == NULL))
        return stw_fail(error, STW_ERROR_INPUT, "the network's input lacks its features");
    for (int32_t r = 0; r < in->M; r++) {
        if (in->operator_[r] < 0 || in->operator_[r] >= c->operators)
            return stw_fail(error, STW_ERROR_INPUT, "row %d has operator %d; the network knows 0 to %d", r, in->operator_[r],
                            c->operators - 1);
    }
    TRY(check_lists(&(lists){"producers", in->producer_start, in->producer}, in->M, error));
    return check_lists(&(lists){"readers", in->reader_start, in->reader}, in->M, error);
}

static stw_status hold_reals(stw_pass *pass, const double *from, int64_t count, void **out, stw_error *error) {
    stw_backend *b = pass->net->backend;
    if (count == 0) return STW_OK;
    if (from == NULL) return stw_tape_zeros(b, pass->input_tape, count, out, error);
    TRY(stw_tape_reals(pass->input_tape, count, out, error));
    stw_reals_in(b, *out, from, count, pass->scratch);
    return STW_OK;
}

static stw_status hold_indices(stw_pass *pass, const int32_t *from, int64_t count, int32_t **out, stw_error *error) {
    stw_backend *b = pass->net->backend;
    TRY(stw_tape_indices(pass->input_tape, count > 0 ? count : 1, out, error));
    if (count > 0) b->copy_in(b, *out, from, count * (int64_t)sizeof *from);
    return STW_OK;
}

/* The rows that have u in their list, once each: a row's gradient must not count twice where its list says u twice. */
static void turn_round(const lists *l, int32_t M, int32_t *back_start, int32_t *back_item, int32_t *last) {
    for (int32_t pass = 0; pass < 2; pass++) { /* count, then fill */
        for (int32_t u = 0; u < M; u++) last[u] = -1;
        for (int32_t r = 0; r < M; r++) {
            for (int32_t i = l->start[r]; i < l->start[r + 1]; i++) {
                const int32_t u = l->item[i];
                if (last[u] == r) continue;
                last[u] = r;
                if (pass == 0) {
                    back_start[u + 1]++;
                } else {
                    back_item[back_start[u]++] = r;
                }
            }
        }
        if (pass == 0) {
            for (int32_t u = 0; u < M; u++) back_start[u + 1] += back_start[u];
        }
    }
    for (int32_t u = M; u > 0; u--) back_start[u] = back_start[u - 1]; /* filling moved each to its end */
    back_start[0] = 0;
}

static stw_status hold_lists(stw_pass *pass, const lists *l, int32_t M, stw_gathering *out, stw_error *error) {
    stw_arena scratch = pass->scratch;
    const int64_t items = l->start[M];
    int32_t *back_start = NULL, *back_item = NULL, *last = NULL;
    STW_TRY_NEW(&scratch, back_start, (int64_t)M + 1, error);
    STW_TRY_NEW(&scratch, back_item, items, error);
    STW_TRY_NEW(&scratch, last, M, error);
    turn_round(l, M, back_start, back_item, last);
    int32_t *held[4] = {NULL};
    TRY(hold_indices(pass, l->start, (int64_t)M + 1, &held[0], error));
    TRY(hold_indices(pass, l->item, items, &held[1], error));
    TRY(hold_indices(pass, back_start, (int64_t)M + 1, &held[2], error));
    TRY(hold_indices(pass, back_item, back_start[M], &held[3], error));
    *out = (stw_gathering){M, M, held[0], held[1], held[2], held[3]};
    return STW_OK;
}

/* Row r gathers from pairs r * D ... r * D + D - 1. */
static stw_status hold_pairs(stw_pass *pass, int32_t M, int32_t D, stw_gathering *out, stw_error *error) {
    stw_arena scratch = pass->scratch;
    const int32_t pairs = M * D;
    int32_t *index = NULL, *held[3] = {NULL};
    STW_TRY_NEW(&scratch, index, (int64_t)pairs + 1, error);
    for (int32_t r = 0; r <= M; r++) index[r] = r * D;
    TRY(hold_indices(pass, index, (int64_t)M + 1, &held[0], error));
    for (int32_t i = 0; i < pairs; i++) index[i] = i / D;
    TRY(hold_indices(pass, index, pairs, &held[1], error));
    for (int32_t i = 0; i <= pairs; i++) index[i] = i; /* the items, and where each source's only one begins */
    TRY(hold_indices(pass, index, (int64_t)pairs + 1, &held[2], error));
    *out = (stw_gathering){M, pairs, held[0], held[2], held[2], held[1]};
    return STW_OK;
}

/* Nothing has run. */
static void forget_runs(stw_pass *pass) {
    pass->now = &pass->draft[0];
    for (int32_t k = 0; k < STW_MOST_DRAFTS; k++)
        pass->draft[k].fusion.sequences = pass->draft[k].placement.sequences = pass->draft[k].schedule.sequences = 0;
}

stw_status stw_pass_set_input(stw_pass *pass, const stw_net_input *in, stw_error *error) {
    const stw_policy_config *c = &pass->net->config;
    TRY(check(in, c, error));
    if (c->device_names > 0 && in->D > c->device_names)
        return stw_fail(error, STW_ERROR_INPUT, "%d devices; this policy has names for %d; --device-names no learns one without",
                        in->D, c->device_names);
    if (c->identities > 0 && in->M != c->identities)
        return stw_fail(error, STW_ERROR_INPUT, "%d rows; this policy was made for one graph, of %d rows", in->M, c->identities);
    pass->has_input = false;
    forget_runs(pass);
    stw_tape_reset(pass->input_tape);
    stw_held_input *held = &pass->input;
    *held = (stw_held_input){.M = in->M, .D = in->D};
    const int64_t M = in->M, D = in->D;
    TRY(hold_reals(pass, in->unit, M * c->unit_columns, &held->unit, error));
    TRY(hold_reals(pass, in->feedback, M * c->feedback_columns, &held->feedback, error));
    TRY(hold_reals(pass, in->pair, M * D * c->pair_columns, &held->pair, error));
    TRY(hold_reals(pass, in->proposal, M * c->proposal_columns, &held->proposal, error));
    if (c->placement == STW_PLACEMENT_DEVICE) TRY(hold_reals(pass, in->device, D * c->device_columns, &held->device, error));
    TRY(hold_indices(pass, in->operator_, M, &held->operator_, error));
    TRY(hold_lists(pass, &(lists){"producers", in->producer_start, in->producer}, in->M, &held->producers, error));
    TRY(hold_lists(pass, &(lists){"readers", in->reader_start, in->reader}, in->M, &held->readers, error));
    if (c->pair_columns > 0) TRY(hold_pairs(pass, in->M, in->D, &held->of_pairs, error));
    pass->has_input = true;
    return STW_OK;
}

/* ---- memory ---- */

stw_status stw_tape_zeros(stw_backend *b, stw_tape *tape, int64_t count, void **out, stw_error *error) {
    TRY(stw_tape_reals(tape, count, out, error));
    b->zero(b, *out, count * (int64_t)b->real_bytes);
    return STW_OK;
}

static stw_status make_memory(stw_pass *pass, stw_error *error) {
    stw_backend *b = pass->net->backend;
    TRY(stw_arena_create(&pass->scratch, error));
    TRY(stw_tape_create(b, &pass->input_tape, error));
    TRY(stw_tape_create(b, &pass->trunk_tape, error));
    for (int32_t k = 0; k < stw_net_drafts(pass->net); k++) {
        stw_draft_kept *draft = &pass->draft[k];
        draft->fusion.kind = STW_TASK_OF_FUSION;
        draft->placement.kind = STW_TASK_OF_PLACEMENT;
        draft->schedule.kind = STW_TASK_OF_SCHEDULE;
        TRY(stw_tape_create(b, &draft->fusion.tape, error));
        TRY(stw_tape_create(b, &draft->placement.tape, error));
        TRY(stw_tape_create(b, &draft->schedule.tape, error));
    }
    TRY(stw_tape_create(b, &pass->back_tape, error));
    TRY(stw_tape_create(b, &pass->part_tape, error));
    return stw_tape_create(b, &pass->layer_tape, error);
}

stw_status stw_pass_create(stw_net *net, stw_pass **out, stw_error *error) {
    *out = NULL;
    stw_pass *pass = calloc(1, sizeof *pass);
    if (pass == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (a pass of the network)");
    pass->net = net;
    pass->now = &pass->draft[0];
    const stw_status status = make_memory(pass, error);
    if (status != STW_OK) {
        stw_pass_destroy(pass);
        return status;
    }
    *out = pass;
    return STW_OK;
}

void stw_pass_destroy(stw_pass *pass) {
    if (pass == NULL) return;
    stw_tape_destroy(pass->input_tape);
    stw_tape_destroy(pass->trunk_tape);
    for (int32_t k = 0; k < STW_MOST_DRAFTS; k++) {
        stw_tape_destroy(pass->draft[k].fusion.tape);
        stw_tape_destroy(pass->draft[k].placement.tape);
        stw_tape_destroy(pass->draft[k].schedule.tape);
    }
    stw_tape_destroy(pass->back_tape);
    stw_tape_destroy(pass->part_tape);
    stw_tape_destroy(pass->layer_tape);
    stw_arena_destroy(&pass->scratch);
    free(pass);
}

int32_t stw_pass_fusion_width(const stw_pass *pass) {
    const stw_policy_config *c = &pass->net->config;
    return c->fusion == STW_FUSION_HEAD_CLASS ? c->fusion_classes : c->fusion == STW_FUSION_HEAD_NUDGE ? 1 : 0;
}

int32_t stw_pass_placement_width(const stw_pass *pass) {
    return pass->net->config.placement == STW_PLACEMENT_STEER ? STW_STEER_KNOBS : pass->input.D;
}

int32_t stw_pass_schedule_width(const stw_pass *pass) {
    return pass->net->config.schedule == STW_SCHEDULE_NUDGE ? 1 : pass->net->config.classes;
}

/* ---- forward ---- */

/* `common`: of a head whose numbers are spread; NULL: they are log probabilities. */
static stw_status on_host(stw_pass *pass, const stw_task_kept *task, const stw_linear_layer *common, int32_t width, double *out,
                          stw_error *error) {
    if (common != NULL) return stw_spread_forward(pass, common, task->out, task->sequences, width, out, error);
    stw_reals_out(pass->net->backend, out, task->out, (int64_t)task->sequences * pass->input.M * width, pass->scratch);
    return STW_OK;
}

stw_status stw_fusion_on_host(stw_pass *pass, double *out, stw_error *error) {
    return on_host(pass, &pass->now->fusion, stw_fusion_common(pass->net), stw_pass_fusion_width(pass), out, error);
}

stw_status stw_placement_on_host(stw_pass *pass, double *out, stw_error *error) {
    return on_host(pass, &pass->now->placement, stw_placement_common(pass->net), stw_pass_placement_width(pass), out, error);
}

stw_status stw_schedule_on_host(stw_pass *pass, double *out, stw_error *error) {
    return on_host(pass, &pass->now->schedule, stw_schedule_common(pass->net), stw_pass_schedule_width(pass), out, error);
}

/* The last that ran in it; NULL: none. */
static stw_task_kept *last_of(stw_draft_kept *draft) {
    stw_task_kept *const task[STW_DRAFT_TASKS] = {&draft->schedule, &draft->placement, &draft->fusion};
    for (int32_t k = 0; k < STW_DRAFT_TASKS; k++)
        if (task[k]->sequences > 0) return task[k];
    return NULL;
}

static stw_status run_head(stw_pass *pass, const stw_task_kept *task, stw_error *error) {
    if (task->kind == STW_TASK_OF_FUSION) return stw_fusion_head_forward(pass, error);
    return task->kind == STW_TASK_OF_PLACEMENT ? stw_placement_head_forward(pass, error) : stw_schedule_head_forward(pass, error);
}

static stw_status run_first(stw_pass *pass, stw_task_kept *task, stw_error *error) {
    if (!pass->has_input) return stw_fail(error, STW_ERROR_INPUT, "the network has no input; call stw_pass_set_input first");
    forget_runs(pass);
    stw_tape_reset(pass->trunk_tape);
    stw_tape_reset(task->tape);
    TRY(stw_trunk_forward(pass, error));
    task->sequences = 1;
    stw_status status = stw_first_task_forward(pass, task, error);
    if (status == STW_OK) status = run_head(pass, task, error);
    if (status != STW_OK) task->sequences = 0;
    return status;
}

static stw_status run_next(stw_pass *pass, const stw_task_kept *before, stw_task_kept *task, int32_t K, const double *action,
                           stw_error *error) {
    if (K < 1 || (int64_t)K * pass->input.M > INT32_MAX)
        return stw_fail(error, STW_ERROR_INPUT, "%d samples of %d rows; 1 or more samples, and at most 2^31 rows in all", K,
                        pass->input.M);
    stw_tape_reset(task->tape);
    task->sequences = K;
    stw_status status = stw_next_task_forward(pass, before, task, action, error);
    if (status == STW_OK) status = run_head(pass, task, error);
    if (status != STW_OK) task->sequences = 0;
    return status;
}

stw_status stw_pass_fusion(stw_pass *pass, double *out, stw_error *error) {
    if (!stw_net_fuses(pass->net)) return stw_fail(error, STW_ERROR_INPUT, "this network has no head for fusion");
    TRY(run_first(pass, &pass->draft[0].fusion, error));
    return stw_fusion_on_host(pass, out, error);
}

stw_status stw_pass_placement(stw_pass *pass, double *out, stw_error *error) {
    if (stw_net_fuses(pass->net))
        return stw_fail(error, STW_ERROR_INPUT, "this network fuses before it places; call stw_pass_fusion and _place");
    TRY(run_first(pass, &pass->draft[0].placement, error));
    return stw_placement_on_host(pass, out, error);
}

/* After a task that ran for samples there are as many. */
static stw_status check_samples(const stw_task_kept *before, int32_t K, bool shared, const char *to, const char *were,
                                stw_error *error) {
    if ((shared && before->sequences == 1) || before->sequences == K) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "%d samples to %s, but %d were %s", K, to, before->sequences, were);
}

stw_status stw_pass_place(stw_pass *pass, int32_t K, const double *action, double *out, stw_error *error) {
    stw_draft_kept *now = pass->now;
    if (now->fusion.sequences == 0) return stw_fail(error, STW_ERROR_INPUT, "nothing fused to place; call stw_pass_fusion first");
    TRY(check_samples(&now->fusion, K, now == pass->draft, "place", "fused", error));
    now->placement.sequences = now->schedule.sequences = 0;
    TRY(run_next(pass, &now->fusion, &now->placement, K, action, error));
    return stw_placement_on_host(pass, out, error);
}

stw_status stw_pass_schedule(stw_pass *pass, int32_t K, const double *action, double *out, stw_error *error) {
    stw_draft_kept *now = pass->now;
    if (pass->net->config.bare != 0) return stw_fail(error, STW_ERROR_INPUT, "this network places, and does not schedule");
    if (now->placement.sequences == 0)
        return stw_fail(error, STW_ERROR_INPUT, "no placement to schedule; call stw_pass_placement first");
    TRY(check_samples(&now->placement, K, now == pass->draft && !stw_net_fuses(pass->net), "schedule", "placed", error));
    now->schedule.sequences = 0;
    TRY(run_next(pass, &now->placement, &now->schedule, K, action, error));
    return stw_schedule_on_host(pass, out, error);
}

stw_status stw_pass_next_draft(stw_pass *pass, int32_t K, const double *action, double *out, stw_error *error) {
    stw_draft_kept *next = pass->now + 1;
    const stw_task_kept *before = last_of(pass->now);
    if (before == NULL) return stw_fail(error, STW_ERROR_INPUT, "no draft to go on from; run the first one first");
    if (next - pass->draft >= stw_net_drafts(pass->net))
        return stw_fail(error, STW_ERROR_INPUT, "this network makes %d drafts", stw_net_drafts(pass->net));
    TRY(check_samples(before, K, before == stw_first_task(pass->net, pass->draft), "decide again", "decided", error));
    next->fusion.sequences = next->placement.sequences = next->schedule.sequences = 0;
    pass->now = next;
    const stw_status status = run_next(pass, before, stw_first_task(pass->net, next), K, action, error);
    if (status != STW_OK) {
        pass->now = next - 1;
        return status;
    }
    return stw_net_fuses(pass->net) ? stw_fusion_on_host(pass, out, error) : stw_placement_on_host(pass, out, error);
}

void stw_pass_rewind(stw_pass *pass) {
    const stw_task_kept *first = stw_first_task(pass->net, pass->draft);
    const int32_t ran = first->sequences;
    forget_runs(pass);
    stw_first_task(pass->net, pass->draft)->sequences = ran;
}
