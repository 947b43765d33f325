/* What the methods go-one, go-zero and go-tune share: the problem as the policy meets it, initial plans. Of a
 * pre-trained policy: its file, and the plans that it makes without learning. */
#ifndef STW_METHOD_GO_GO_H
#define STW_METHOD_GO_GO_H

#include "method/method.h"
#include "method/starts.h"
#include "search/list.h"
#include "train/trainer.h"

typedef struct stw_go {
    stw_search *search;
    stw_list list;
    stw_problem problem;
    stw_starts starts;
    stw_train_settings settings;
    stw_policy_config config;
    stw_trainer *trainer;
    stw_score first; /* of the initial plan, if there is one */
    bool has_first;
    double evaluation_s; /* the time that its evaluation took */
} stw_go;

/* What was asked for; all unset where nothing was. */
const stw_policy_settings *stw_go_wish(const stw_search *search);
/* The problem, with what the tasks leave to decide; fusion is not decided. */
stw_status stw_go_prepare(stw_go *go, stw_arena *arena, stw_error *error);
/* The policy chooses devices itself, as published; else it steers a list scheduler. */
static inline bool stw_go_chooses(const stw_policy_config *config) { return config->placement == STW_PLACEMENT_DEVICE; }
/* The policy that `method` would go by is one of those: by its preset, or by its file. */
bool stw_go_is_published(const stw_search *search, const stw_method *method);
/* What such a policy does not decide is left as it is in the papers: a bare network places alone, and ops whose priorities are
 * nobody's decision run in the order in which they become ready. */
void stw_go_limit(const stw_policy_config *config, stw_problem *problem);
/* Initial plans, where none are given: those of every constructive method but `steer`, whose constants the policy tries
 * itself. */
stw_status stw_go_open_starts(stw_go *go, stw_error *error);
/* What the best of them is worth, if there is one. */
stw_status stw_go_measure_start(stw_go *go, stw_error *error);
/* The note of a training: its updates, and what they came to against the initial plan. `without`: what is said where there was
 * none. */
void stw_go_write_note(const stw_go *go, const char *without);
/* The trainer's best plan, made to fit if it lacks memory. */
stw_status stw_go_take_best(stw_go *go, stw_plan *plan, stw_error *error);

/* ---- the pre-trained policy ---- */

typedef struct stw_pretrained {
    const char *label; /* for messages */
    stw_tensor_file file;
    stw_policy_config config;
    bool schedules;  /* it has learnt to decide the schedule */
    bool reinforced; /* it has learnt to steer; else it knows of moves alone */
} stw_pretrained;

/* Reads and checks a file that was asked for, before anything is searched; nothing is kept of it. */
stw_status stw_pretrained_check(const stw_policy_settings *wish, stw_error *error);
/* What `go-tune` trains: of a policy that has learnt from moves alone, the scorer of anneal's moves, while it searches; false:
 * the policy itself, because it has learnt to steer or to choose devices, because updates were asked for, or because there is no
 * scorer for this objective, with these tasks. In `optimize`, `anneal` runs in any case. `policy`: NULL: of the file. */
bool stw_go_tunes_scorer(const stw_policy_settings *wish, stw_objective objective, unsigned tasks, const stw_pretrained *policy);
/* Runs a method that goes by a pre-trained policy: `work` leaves its plan; everything it needs is there. */
typedef stw_status stw_go_work(stw_go *go, const stw_pretrained *policy, stw_plan *plan, stw_error *error);
stw_status stw_go_run_pretrained(stw_search *search, const char *method, stw_go_work *work, stw_plan *plan, stw_error *error);
/* Its network. */
stw_status stw_pretrained_net(const stw_pretrained *policy, stw_backend *backend, stw_arena scratch, stw_net **out,
                              stw_error *error);

/* The settings of a policy that chooses devices itself: as it was trained. */
stw_status stw_go_published(stw_go *go, const stw_pretrained *policy, int32_t samples, stw_error *error);

/* ---- without learning (go_zero.c) ---- */

typedef struct stw_zero {
    int32_t rounds;  /* that were completed */
    int64_t decodes; /* plans that were made */
    stw_score best;  /* of the plan that is left */
} stw_zero;

/* Plans that the policy makes, round after round; leaves the best of them and of the start (or NULL) in `plan`. */
stw_status stw_zero_decode(stw_go *go, const stw_pretrained *policy, const stw_plan *start, stw_plan *plan, stw_zero *out,
                           stw_error *error);

#endif
