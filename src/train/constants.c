/* Constants: knobs that are the same for all units. The best of them are what a round begins with. */
#include <string.h>

#include "train/trainer_state.h"

static const double a0[] = {-1, 0, 1, 2}, a1[] = {-2, 0, 2}, a2[] = {-3, 0, 2, 4, 6};
enum { A0 = 4, A1 = 3, A2 = 5, GRID = A0 * A1 * A2 };

static void constant_at(const stw_trainer *t, int32_t k, double *knobs) {
    knobs[0] = a0[k % A0];
    knobs[1] = a1[k / A0 % A1];
    knobs[2] = t->settings.glue ? a2[k / (A0 * A1)] : 0.0;
    knobs[3] = 0.0;
}

static void fill_constant(stw_trainer *t, int32_t place, int32_t constant) {
    double knobs[STW_STEER_KNOBS], *action = &t->placement[(int64_t)place * t->problem->M * STW_STEER_KNOBS];
    constant_at(t, constant, knobs);
    for (int64_t u = 0; u < t->problem->M; u++) {
        for (int32_t k = 0; k < STW_STEER_KNOBS; k++) action[u * STW_STEER_KNOBS + k] = knobs[k] / stw_knob_scale[k];
    }
}

stw_status stw_trainer_find_constants(stw_trainer *t, bool *over, stw_error *error) {
    const stw_environment *e = &t->environment;
    const int32_t count = t->settings.glue ? GRID : A0 * A1, room = t->settings.samples + 1;
    double offset[STW_STEER_KNOBS] = {0, 0, 0, 0};
    stw_score best = {.reason = STW_INVALID_ORDER};
    memset(t->round.offset, 0, sizeof t->round.offset);
    for (int32_t first = 0; first < count && !*over; first += room) {
        const int32_t size = count - first < room ? count - first : room;
        bool complete = false;
        if (e->evaluations_left(e->context) < size) {
            *over = true;
            break;
        }
        for (int32_t k = 0; k < size; k++) fill_constant(t, k, first + k);
        const stw_actions actions = {.placement = t->placement};
        TRY(stw_trainer_rollout(t, &actions, size, &complete, error));
        *over = !complete;
        for (int32_t k = 0; k < size && complete; k++) {
            if (!stw_trainer_is_a_change(t, t->plan[k]) || !stw_score_is_better(&t->score[k], &best)) continue;
            best = t->score[k];
            constant_at(t, first + k, offset);
        }
        int32_t winner = -1; /* kept last: keeping writes to the first of these plans */
        for (int32_t k = 0; k < size && complete; k++)
            if (winner < 0 || stw_score_is_better(&t->score[k], &t->score[winner])) winner = k;
        if (winner >= 0) TRY(stw_trainer_keep(t, winner, &t->score[winner], error));
    }
    memcpy(t->round.offset, offset, sizeof offset);
    return STW_OK;
}
