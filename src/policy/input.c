/* What the network sees, checked and brought to the backend. */
#include "policy/net.h"

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

stw_status stw_pass_set_input(stw_pass *pass, const stw_net_input *in, stw_error *error) {
    const stw_policy_config *c = &pass->net->config;
    TRY(check(in, c, error));
    if (c->identities > 0 && in->M != c->identities)
        return stw_fail(error, STW_ERROR_INPUT, "%d rows; this policy was made for one graph, of %d rows", in->M, c->identities);
    pass->has_input = false;
    pass->fusion.sequences = pass->placement.sequences = pass->schedule.sequences = 0;
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
