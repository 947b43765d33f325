/* Training on one graph: rounds of updates. An update samples plans from the policy, decodes and evaluates them on all threads,
 * and moves the policy towards those that were better (PPO). A round fixes the plan that decisions are relative to; the next one
 * begins with the best plan so far, or with one beside it when that was no use.
 *
 * Several trainers, each with a graph of its own, can learn into one network (src/pretrain): then an update is taken apart, and
 * whoever owns the network adds their gradients up.
 *
 * trainer.c  what a trainer has
 * update.c   an update: samples, what their plans are worth, a step of Adam
 * decide.c   what the policy decides; learn.c: the loss of that, and its gradient
 * round.c    a round: its plan, its feedback, the best constants; the plans that are kept
 * moves.c    groups of units that go elsewhere: another plan, trials that are learnt from, those that look promising
 * decode.c   decisions to a plan; ppo.c: rewards, advantages, the loss; explore.c: noise
 * imitate.c  the warm start of the head `device`
 * resume.c   to a file and back, bit for bit; kept.c: the settings in it, so that a training goes on as it began */
#ifndef STW_TRAIN_TRAINER_H
#define STW_TRAIN_TRAINER_H

#include "policy/checkpoint.h"
#include "policy/distribution.h"
#include "search/search.h"
#include "train/decode.h"
#include "train/explore.h"
#include "train/kept.h"
#include "train/ppo.h"

typedef struct stw_train_settings { /* settings.def says what they are */
#define STW_WHOLE(type, member, words)        type member;
#define STW_REAL(member, words)               double member;
#define STW_REALS(declaration, member, words) declaration;
#include "train/settings.def"
} stw_train_settings;

/* "default", "paper" or "gdp", to go with the network of that name (policy.h); "transfer", for a network `default` that learns
 * from many graphs, and for using it on another. False if unknown. */
bool stw_train_preset(const char *name, stw_train_settings *out);

typedef struct stw_trainer stw_trainer;

/* It works for `search`, with what is left of its budget from now on. `net`: to use and not to change; NULL: the trainer makes
 * one and learns into it. config: the network, its feature columns filled in (that of `net`, if there is one). `start`: an
 * initial plan, and what it is worth; NULL: none. */
stw_status stw_trainer_create(const stw_problem *problem, stw_search *search, stw_net *net, const stw_policy_config *config,
                              const stw_train_settings *settings, const stw_plan *start, const stw_score *score,
                              stw_trainer **out, stw_error *error);
/* Another one for the same problem, search and network, which takes turns with it: while one learns, the other may be prepared.
 */
stw_status stw_trainer_create_beside(const stw_trainer *trainer, const stw_plan *start, const stw_score *score, stw_trainer **out,
                                     stw_error *error);
void stw_trainer_destroy(stw_trainer *trainer);

/* It may use no more than a share of what is left of the budget from now on. */
void stw_trainer_limit(stw_trainer *trainer, double share);
/* How far the course of the training is at least, 0 to 1: for a caller who counts the updates. */
void stw_trainer_set_progress(stw_trainer *trainer, double progress);
/* 0 to 1: of the updates if the settings count them, else of the budget, or as the caller says if that is more. */
double stw_trainer_progress(const stw_trainer *trainer);

/* One update, the beginning of a round included when it is time. `*over`: nothing was done, since budget or updates are spent. */
stw_status stw_trainer_step(stw_trainer *trainer, bool *over, stw_error *error);
/* The two parts of an update, for a network that belongs to somebody else. First: samples and what they are worth. Then, once
 * per epoch, from 0: adds the gradient to that of the network. */
stw_status stw_trainer_sample(stw_trainer *trainer, bool *over, stw_error *error);
/* In the place of samples: the plan without noise, and moves alone. */
stw_status stw_trainer_try(stw_trainer *trainer, bool *over, stw_error *error);
/* The part of either that does not depend on what the network knows, ahead: the beginning of the update, and its moves. */
stw_status stw_trainer_prepare(stw_trainer *trainer, stw_error *error);
stw_status stw_trainer_add_gradient(stw_trainer *trainer, int32_t epoch, stw_error *error);
/* The next update begins round `round` (from 0) relative to this plan, as if nothing better were known; `update` decides its
 * draws. */
stw_status stw_trainer_restart(stw_trainer *trainer, const stw_plan *plan, const stw_score *score, int32_t round, int64_t update,
                               stw_error *error);
/* Better priorities for the best plan, or the initial one, from runs backwards: six evaluations at most. Every better plan
 * gets them as it is found. */
stw_status stw_trainer_polish(stw_trainer *trainer, stw_error *error);
/* The beginning of the first round alone, with its constants. */
stw_status stw_trainer_begin(stw_trainer *trainer, stw_error *error);
/* The plan of the policy's means (without noise), decoded and evaluated. */
stw_status stw_trainer_greedy(stw_trainer *trainer, stw_plan *plan, stw_score *score, stw_error *error);

const stw_plan *stw_trainer_best(const stw_trainer *trainer, stw_score *score); /* NULL: none yet */
/* Plans that do not fit teach something too, even where there are no others. */
bool stw_trainer_learns_from_all(const stw_trainer *trainer);
int64_t stw_trainer_updates(const stw_trainer *trainer);
int64_t stw_trainer_decodes(const stw_trainer *trainer); /* plans made from decisions */
const stw_curve_row *stw_trainer_last_row(const stw_trainer *trainer);
/* A round of moves: of `proposals` of them the `tries` that the network likes best are tried, and then all that helped together.
 * `*tried`: plans that were evaluated; at most tries + 1, and tries at most samples. Needs settings.moves and proposals. */
stw_status stw_trainer_screen(stw_trainer *trainer, int32_t proposals, int32_t tries, int32_t *tried, stw_error *error);
/* The network; if it is the trainer's own, it may be filled before the first update. */
stw_net *stw_trainer_net(stw_trainer *trainer);

/* The tensor "train/numbers" of the file; those that have a name are for people who look at it. */
enum { STW_TRAINING_BEST_STEP = 2, STW_TRAINING_NUMBERS = 15 };
/* The settings as a file keeps them. Returns how many. */
int32_t stw_train_settings_keep(const stw_train_settings *settings, stw_kept out[STW_MOST_KEPT]);
/* Writes everything that the next update depends on, and reads it into a trainer made with the same problem and settings. */
stw_status stw_trainer_save(stw_trainer *trainer, const char *path, stw_error *error);
stw_status stw_trainer_resume(stw_trainer *trainer, const char *path, stw_error *error);

#endif
