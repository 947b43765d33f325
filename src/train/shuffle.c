/* What the network sees of the units, dealt out among them at random: to find out whether it goes by that at all. */
#include <string.h>

#include "train/trainer_state.h"

static stw_status deal(const void *from, size_t row_bytes, const int32_t *of, int32_t M, stw_arena *arena, const void **out,
                       stw_error *error) {
    char *to;
    *out = from;
    if (from == NULL || row_bytes == 0) return STW_OK;
    STW_TRY_NEW(arena, to, (int64_t)M * (int64_t)row_bytes, error);
    for (int32_t u = 0; u < M; u++) memcpy(to + (size_t)u * row_bytes, (const char *)from + (size_t)of[u] * row_bytes, row_bytes);
    *out = to;
    return STW_OK;
}

stw_status stw_trainer_shuffle(const stw_trainer *t, stw_net_input *input, stw_arena *arena, stw_error *error) {
    const stw_policy_config *c = stw_net_config(t->net);
    const int32_t M = input->M;
    stw_rng rng = stw_rng_split(&t->rng, UINT64_MAX);
    int32_t *of;
    const void *dealt = NULL;
    STW_TRY_NEW(arena, of, M, error);
    for (int32_t u = 0; u < M; u++) of[u] = u;
    for (int32_t u = M - 1; u > 0; u--) {
        const int32_t k = (int32_t)stw_rng_below(&rng, u + 1), kept = of[u];
        of[u] = of[k];
        of[k] = kept;
    }
    TRY(deal(input->unit, (size_t)c->unit_columns * sizeof *input->unit, of, M, arena, &dealt, error));
    input->unit = dealt;
    TRY(deal(input->feedback, (size_t)c->feedback_columns * sizeof *input->feedback, of, M, arena, &dealt, error));
    input->feedback = dealt;
    TRY(deal(input->pair, (size_t)c->pair_columns * (size_t)input->D * sizeof *input->pair, of, M, arena, &dealt, error));
    input->pair = dealt;
    TRY(deal(input->proposal, (size_t)c->proposal_columns * sizeof *input->proposal, of, M, arena, &dealt, error));
    input->proposal = dealt;
    TRY(deal(input->operator_, sizeof *input->operator_, of, M, arena, &dealt, error));
    input->operator_ = dealt;
    return STW_OK;
}
