/* The inside of a trainer, for the files of this folder. K samples and the greedy plan: K + 1 plans per update. */
#ifndef STW_TRAIN_TRAINER_STATE_H
#define STW_TRAIN_TRAINER_STATE_H

#include "plan/plan.h"
#include "train/moves.h"
#include "train/ppo.h"
#include "train/trainer.h"

enum { STW_TRIAL_MOVES = 4 };
typedef struct stw_trial { /* some moves at once, and what came of it */
    int32_t count, move[STW_TRIAL_MOVES];
    stw_score score;
} stw_trial;

enum { STW_FAILED_MOVES = 256 }; /* that are remembered */

/* What the network gives and what is decided in one of its drafts (policy.h). F, P, S: width of the outputs of fusion, placement
 * and schedule; A: of a placement action. */
typedef struct stw_draft {
    double *fusion_out;                                   /* the first task's outputs: (M, F); of a later draft (K + 1, M, F) */
    double *means;                                        /* (M, P); where it is not the first task of all: (K + 1, M, P) */
    double *schedule_out;                                 /* (K + 1, M, S) */
    double *fusion, *placement, *schedule;                /* (K + 1, M), (K + 1, M, A), (K + 1, M) actions */
    double *logp_fusion, *logp_placement, *logp_schedule; /* (K + 1, M) */
    double *d_fusion, *d_placement, *d_schedule;          /* as the outputs */
} stw_draft;

struct stw_trainer {
    stw_arena arena, round_arena; /* of the trainer; of the round: a place in memory to begin again from */
    const stw_problem *problem;
    stw_search *search;
    stw_budget budget; /* of the search, or a share of it */
    double progress;   /* as the caller says */
    stw_train_settings settings;
    stw_backend *backend;
    stw_net *net, *own_net; /* own_net: NULL where the network is somebody else's */
    stw_pass *pass;
    bool shares_pass; /* it is another trainer's */
    stw_rng rng;
    double began_s;

    int64_t update, evaluations;
    atomic_llong decodes; /* plans made from decisions */
    int32_t round_index;  /* -1: none has begun */
    int64_t last_better;  /* the update that found the best plan, or began the round */
    bool restarted;       /* the next update begins a round */
    int64_t draw;         /* what the round's proposal is drawn by; -1: the index of the round */
    stw_round round;
    stw_plan *origin; /* the plan that this round is relative to */
    stw_plan *best;
    stw_score best_score;
    bool has_best;
    double reference;       /* value of the round's plan */
    stw_score origin_score; /* of a round of moves */
    double least;           /* of the best plan when the round began */
    stw_plan *beside;       /* the best of the round's samples that is not the round's plan all over again */
    stw_score beside_score;
    bool has_beside;
    int32_t *other;   /* (N) the devices that the round proposes */
    stw_moves moves;  /* the groups that it would move */
    stw_trial *trial; /* (settings.moves) of the update */
    int32_t tried;
    bool prepares;                          /* the pass is not to be touched yet */
    bool prepared;                          /* the update has begun, and its moves are tried; what follows needs the network */
    stw_net_input input;                    /* that the network gets then */
    stw_score held_score;                   /* of plan K + 1: the best of the trials */
    uint64_t failed_move[STW_FAILED_MOVES]; /* hashes of moves that rounds of moves tried in vain, a ring */
    int32_t failed_count;                   /* all that there ever were */
    /* Fusion priorities, (N), of the plans of these names; those of the samples are in `plan_fusion`. Unused without fusion. */
    double *rule_fusion; /* (N) of the rule, for one device or, where devices stay, for those of the start */
    double *origin_fusion, *best_fusion, *beside_fusion;
    stw_curve_row row;

    /* One update. */
    int32_t F, P, S, A;
    int32_t drafts;
    stw_draft draft[STW_MOST_DRAFTS];
    stw_draft *now;                 /* the draft that is decided; after that the last, which makes the plan */
    stw_trials *trials, own_trials; /* of this graph, which trainers beside each other share */
    bool steered, nudged, fusion_nudged;
    bool chained;                       /* the network has a head for fusion: every sample has a placement output of its own */
    double *feedback, *pair, *proposal; /* (M, .), (M, D, .), (M, .) */
    double *noise;                      /* (M, max(F, P, S)) */
    stw_plan **plan;                    /* (K + 2) */
    stw_fuser **fuser;                  /* (threads) NULL without fusion */
    double **plan_fusion;               /* (K + 2)(N) fusion priorities of the plans */
    stw_score *score;                   /* (K + 1) */
    double *reward, *advantage;         /* (K + 1) */

    /* The best sample of the round, from which every update learns beside its own: then it takes the place of the greedy one. */
    bool has_elite;
    stw_score elite_score;
    double *elite_fusion, *elite_placement, *elite_schedule; /* (M), (M, A), (M) */
    int32_t learnt;                                          /* samples that this update learns from */
};

static inline bool stw_trainer_is_stopped(const stw_trainer *t) {
    return stw_stop_is_due(&(stw_stop){t->search->cancelled, t->search->clock, t->budget.until_s});
}

static inline int64_t stw_trainer_evaluations_left(const stw_trainer *t) {
    if (atomic_load(&t->search->met)) return 0;
    return stw_budget_evaluations_left(&t->budget, (int64_t)atomic_load(&t->search->evaluations));
}

/* Within an update. One that repeats (a number of updates) is completed once it has begun, so that whatever is saved is the state
 * between two. */
static inline bool stw_trainer_may_stop(const stw_trainer *t) { return t->settings.updates == 0 && stw_trainer_is_stopped(t); }

/* round.c: begins the next round. `*over`: the budget does not suffice. */
stw_status stw_trainer_begin_round(stw_trainer *t, bool *over, stw_error *error);
/* The plan of the round is known: its order, and what the network sees of it. */
stw_status stw_trainer_observe(stw_trainer *t, stw_error *error);
/* The last part of it: draws a proposal by t->draw, and shows all to the network. */
stw_status stw_trainer_show(stw_trainer *t, stw_error *error);
/* Keeps plan k if it is better than the best, after a try at better priorities. */
stw_status stw_trainer_keep(stw_trainer *t, int32_t k, const stw_score *score, stw_error *error);
/* Remembers the best of the first `count` plans to wander to. */
stw_status stw_trainer_look_beside(stw_trainer *t, int32_t count, stw_error *error);
/* Deals the rows of the input out anew, at random: to find out whether the network goes by them at all. */
stw_status stw_trainer_shuffle(const stw_trainer *t, stw_net_input *input, stw_arena *arena, stw_error *error);

/* decide.c: what sample k is drawn from; the first task of the first draft has the same for all samples. */
stw_distribution stw_trainer_fusion_of(const stw_trainer *t, int32_t k);
stw_distribution stw_trainer_placement_of(const stw_trainer *t, int32_t k);
stw_distribution stw_trainer_schedule_of(const stw_trainer *t, int32_t k);
static inline bool stw_trainer_is_later(const stw_trainer *t) { return t->now != t->draft; } /* than the first draft */
static inline bool stw_trainer_has_own_placement(const stw_trainer *t) { return t->chained || stw_trainer_is_later(t); }
/* Fusion is decided first and needs none of the others. */
static inline bool stw_trainer_runs_placement(const stw_trainer *t) {
    return !t->chained || t->problem->places || t->problem->schedules;
}
/* Samples that go through the network together. Of `count` samples the batch that begins with `first`; empty past the last. */
typedef struct stw_batch {
    int32_t first, count;
} stw_batch;
stw_batch stw_trainer_batch(const stw_trainer *t, int32_t first, int32_t count);
/* Draws samples of all tasks; the last is the greedy one. `*over`: stopped on the way. */
stw_status stw_trainer_draw(stw_trainer *t, bool *over, stw_error *error);
/* All drafts, decided without noise: one plan, in the place of the first sample. */
stw_status stw_trainer_decide(stw_trainer *t, stw_error *error);
/* The network again, for what was decided: all; the first task of all; after that, the rest for some samples. */
stw_status stw_trainer_run_again(stw_trainer *t, stw_error *error);
stw_status stw_trainer_run_first_again(stw_trainer *t, stw_error *error);
stw_status stw_trainer_run_batch_again(stw_trainer *t, stw_batch batch, stw_error *error);

/* learn.c: keeps the best sample of the round, and puts it in the place of the greedy one for learning. */
void stw_trainer_stand_elite(stw_trainer *t);

/* update.c: a plan that was made from decisions: with the groups of the rule, where one goes with every plan, and its worth. */
stw_status stw_trainer_evaluate(stw_trainer *t, stw_plan *plan, int32_t worker, stw_score *out, stw_error *error);
/* Actions laid out as in the trainer, of the first sample; NULL: that is not decided (placement: only if it is not open). */
typedef struct stw_actions {
    const double *fusion, *placement, *schedule;
} stw_actions;
/* Decodes and evaluates `count` plans. `*complete` is false if the time ran out: then some have no score. */
stw_status stw_trainer_rollout(stw_trainer *t, const stw_actions *actions, int32_t count, bool *complete, stw_error *error);
/* Plans are built from nothing, by devices: none was ever there, and none is asked for. */
bool stw_trainer_is_blank(const stw_trainer *t);
/* The placement task for the first `count` samples of fusion, or, where the network has no fusion, once for all. */
stw_status stw_trainer_run_placement(stw_trainer *t, int32_t count, stw_error *error);

/* moves.c: tries some of the round's moves, which takes nothing from the network; keeps the best of them, once it is sure that
 * nothing before it is better; adds the gradient of what they say to d_out, (M, P). */
stw_status stw_trainer_try_moves(stw_trainer *t, stw_error *error);
stw_status stw_trainer_keep_tried(stw_trainer *t, stw_error *error);
double stw_trainer_learn_moves(const stw_trainer *t, double *d_out);

/* imitate.c: trains the head `device` to name the devices of the round's plan. `*over`: stopped on the way. */
stw_status stw_trainer_imitate(stw_trainer *t, bool *over, stw_error *error);

#endif
