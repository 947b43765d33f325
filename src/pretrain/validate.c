/* Problems that are never learnt from: how good the policy is on what it has not seen. */
#include <math.h>

#include "pretrain/pretrain_state.h"

enum { PROPOSALS = 8, TRIES = 9 };
static const uint64_t VALIDATION = UINT64_C(1) << 40; /* of the generator's parts, beyond those of the generations */

static bool chooses(const stw_pretrain *p) { return p->settings.config.placement == STW_PLACEMENT_DEVICE; }

static stw_status open_check(stw_pretrain *p, stw_slot *slot, int32_t index, stw_error *error) {
    const stw_rng all = stw_rng_split(&p->rng, VALIDATION), rng = stw_rng_split(&all, (uint64_t)index);
    TRY(stw_slot_open(p, slot, error));
    TRY(stw_slot_draw(p, slot, &(stw_slot_wish){rng, 1.0, p->progress, true}, &slot->instance, error));
    if (chooses(p)) return STW_OK;
    TRY(stw_instance_constants(slot->instance, &slot->constants, error));
    slot->constants /= stw_instance_first(slot->instance);
    return STW_OK;
}

stw_status stw_pretrain_open_checks(stw_pretrain *p, stw_error *error) {
    const int64_t checks = p->settings.validations;
    const int32_t rank = stw_comm_rank(p->comm), ranks = stw_comm_size(p->comm);
    p->first_check = (int32_t)(checks * rank / ranks);
    p->checks = (int32_t)(checks * (rank + 1) / ranks) - p->first_check;
    STW_TRY_NEW(&p->arena, p->check, p->checks, error);
    return stw_slots_run(p, p->check, p->first_check, p->checks, open_check, error);
}

/* What one round of moves that look promising comes to. */
static stw_status check_moves(const stw_pretrain *p, stw_slot *slot, stw_error *error) {
    stw_trainer *trainer = stw_instance_trainer(slot->instance);
    stw_score score = {0};
    int32_t tried = 0;
    TRY(stw_instance_begin(slot->instance, 0, p->progress, error));
    TRY(stw_trainer_screen(trainer, PROPOSALS, TRIES, &tried, error));
    (void)stw_trainer_best(trainer, &score);
    slot->number[STW_SLOT_MOVES] = slot->number[STW_SLOT_COUNTS] * log(score.value / stw_instance_first(slot->instance));
    return STW_OK;
}

static stw_status check(stw_pretrain *p, stw_slot *slot, int32_t index, stw_error *error) {
    (void)index;
    TRY(stw_instance_begin(slot->instance, 0, p->progress, error));
    TRY(stw_slot_sample(slot, false, error));
    if (chooses(p)) return STW_OK; /* it knows no constants and no moves */
    slot->number[STW_SLOT_CONSTANTS] = slot->number[STW_SLOT_COUNTS] * log(slot->constants);
    return check_moves(p, slot, error);
}

stw_status stw_pretrain_validate(stw_pretrain *p, stw_pretrain_row *row, stw_error *error) {
    double sum[STW_SLOT_NUMBERS];
    TRY(stw_slots_run(p, p->check, p->first_check, p->checks, check, error));
    TRY(stw_slots_sum(p, p->check, p->checks, sum, error));
    if (sum[STW_SLOT_COUNTS] == 0.0) return STW_OK;
    row->validation_greedy = exp(sum[STW_SLOT_GREEDY] / sum[STW_SLOT_COUNTS]);
    row->validation_best = exp(sum[STW_SLOT_BEST] / sum[STW_SLOT_COUNTS]);
    if (chooses(p)) return STW_OK;
    row->validation_constants = exp(sum[STW_SLOT_CONSTANTS] / sum[STW_SLOT_COUNTS]);
    row->validation_moves = exp(sum[STW_SLOT_MOVES] / sum[STW_SLOT_COUNTS]);
    return STW_OK;
}
