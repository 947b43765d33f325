/* Training of what `anneal` proposes moves by. In every update problems are drawn and annealed, the moves that are tried are the
 * examples, and a scorer is fitted on all examples so far: first on moves drawn blindly, then also on those that the scorer
 * before proposed. The same seed gives the same scorer from any number of threads. */
#ifndef STW_PRETRAIN_PROPOSALS_H
#define STW_PRETRAIN_PROPOSALS_H

#include "base/cancel.h"
#include "base/pool.h"
#include "pretrain/corpus.h"
#include "pretrain/scorer_fit.h"

typedef struct stw_proposals_settings {
    uint64_t seed;
    int32_t problems;         /* of an update */
    double rate;              /* of learning, the highest; 0: nothing is learnt (a control) */
    const stw_cancel *cancel; /* or NULL; borrowed */
} stw_proposals_settings;

typedef struct stw_proposals_row { /* one update */
    int64_t update, problems;      /* these without a plan left out */
    int64_t examples, helped;      /* of this update */
    double auc, least_auc;         /* of the scorer before, on these problems, which it has not seen: mean and worst */
    double loss;                   /* of the new one, on all examples */
    double seconds;                /* since the beginning */
} stw_proposals_row;

typedef struct stw_proposals_training stw_proposals_training;

/* corpus and pool are borrowed. */
stw_status stw_proposals_create(const stw_proposals_settings *settings, const stw_corpus *corpus, stw_pool *pool,
                                stw_proposals_training **out, stw_error *error);
void stw_proposals_destroy(stw_proposals_training *training);
/* One update. STW_ERROR_CANCELLED: the scorer is as before it. */
stw_status stw_proposals_update(stw_proposals_training *training, stw_proposals_row *row, stw_error *error);
/* NULL before the first update. */
const stw_scorer *stw_proposals_scorer(const stw_proposals_training *training);

#endif
