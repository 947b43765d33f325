/* Pre-training: one network for many graphs and machines.
 *
 * A generation is a set of problems, one per slot, drawn from the corpus, that lasts some updates. In an update every slot
 * samples plans of its problem from its own copy of the network and finds a gradient; the gradients are added up and make one
 * step of Adam, and all copies are equal again. Slots are shared out among processes (dist/) and threads. What a slot draws
 * follows from the seed, the generation and the slot alone, so the number of processes and threads changes nothing.
 *
 * A file is written between two generations: it needs nothing but the network, Adam's moments and the number of updates. */
#ifndef STW_PRETRAIN_PRETRAIN_H
#define STW_PRETRAIN_PRETRAIN_H

#include "dist/comm.h"
#include "pretrain/corpus.h"
#include "train/trainer.h"

typedef struct stw_pretrain_settings {
#define STW_WHOLE(type, member, words) type member;
#define STW_REAL(member, words)        double member;
#include "pretrain/settings.def"
    double budget_s;        /* by time: ends with the generation in which it is over; such a run cannot be resumed */
    int32_t validations;    /* problems that are never learnt from */
    int64_t validate_every; /* updates; rounded up to whole generations */
    bool ordered;           /* gradients are added in the order of slots: equal bits from any number of processes */
    stw_policy_config config;
    stw_train_settings train;
    const stw_cancel *cancel; /* or NULL; borrowed. Looked at all the time: an update ends within a moment */
} stw_pretrain_settings;

/* Made for the policy network of that preset. "default" learns which moves help; "paper" and "gdp" learn to decide these tasks by
 * PPO, as published (GO-batch). tasks: STW_TASK_..., as far as the network decides them. */
stw_status stw_pretrain_preset(const char *preset, unsigned tasks, stw_pretrain_settings *out, stw_error *error);

typedef struct stw_pretrain_row { /* one update, over all slots; values over that of the initial plan: geometric means */
    int64_t update, evaluations;
    double seconds, difficulty;
    double greedy, best; /* the plan without noise; the best of it, the samples, the moves tried and the initial plan */
    double mean;         /* of the samples */
    double spread;       /* over units, of the first knob */
    double rate, sigma, gradient_norm, clipped;
    double validation_greedy, validation_best, validation_constants, validation_moves; /* NAN where it was not due */
} stw_pretrain_row;

typedef struct stw_pretrain stw_pretrain;

/* corpus, comm and pool are borrowed; the pool is this process's. */
stw_status stw_pretrain_create(const stw_pretrain_settings *settings, const stw_corpus *corpus, stw_comm *comm, stw_pool *pool,
                               stw_pretrain **out, stw_error *error);
void stw_pretrain_destroy(stw_pretrain *pretrain);

/* One update. `*over`: all updates are done, and none was made. STW_ERROR_CANCELLED on all processes if it was requested on one.
 * After any failure a training by updates stands where the last generation began, and may be saved; one by time stands after the
 * last step of Adam. */
stw_status stw_pretrain_step(stw_pretrain *pretrain, stw_pretrain_row *row, bool *over, stw_error *error);
/* Validation now; NAN without problems for it. */
stw_status stw_pretrain_judge(stw_pretrain *pretrain, stw_pretrain_row *row, stw_error *error);
int64_t stw_pretrain_updates(const stw_pretrain *pretrain);
/* Between two generations: what is written now can be gone on from. */
bool stw_pretrain_may_save(const stw_pretrain *pretrain);
/* Writes the network; with `state`, what is needed to go on as well. */
stw_status stw_pretrain_save(stw_pretrain *pretrain, bool state, const char *path, stw_error *error);
stw_status stw_pretrain_resume(stw_pretrain *pretrain, const char *path, stw_error *error);

#endif
