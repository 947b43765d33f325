/* One problem of a pre-training: a graph on a machine, initial plans of other methods, and a trainer that learns into a
 * network of somebody else. It is used for some updates and thrown away: what is learnt must be in the network. */
#ifndef STW_PRETRAIN_INSTANCE_H
#define STW_PRETRAIN_INSTANCE_H

#include "method/metis/copies.h"
#include "pretrain/corpus.h"
#include "train/trainer.h"

typedef struct stw_instance stw_instance;

typedef struct stw_instance_wish {
    const stw_train_settings *settings;
    stw_net *net;
    stw_pool *pool;           /* whose idle threads help */
    stw_metis_copies *copies; /* for them */
    unsigned tasks;           /* STW_TASK_..., that are decided */
    int32_t unit_count;       /* of the graph at most; 0: one per op; -1: by its size */
    bool all_starts;          /* every constructive method, as `go-zero` begins; else the cheap ones */
    double progress;          /* of the whole pre-training when the problem begins, 0 to 1 */
    const stw_cancel *cancel; /* or NULL; once requested, everything ends soon and what comes out is worth nothing */
} stw_instance_wish;

/* `drawn` is the instance's from here on, whatever the outcome. *out is NULL without an error where no method found a valid plan:
 * such a problem is not worth learning from. */
stw_status stw_instance_create(stw_drawn *drawn, stw_rng rng, const stw_instance_wish *wish, stw_instance **out,
                               stw_error *error);
void stw_instance_destroy(stw_instance *instance);

/* The next update is relative to the best plan of the other methods; all its draws follow from `update`. */
stw_status stw_instance_begin(stw_instance *instance, int64_t update, double progress, stw_error *error);
/* The same for visit `visit` of a training: mostly the plan that the updates before have come to, else one of the others. */
stw_status stw_instance_visit(stw_instance *instance, int32_t visit, double progress, stw_error *error);
/* The part of a visit that does not depend on what the network knows, ahead: once the visit before has its samples, while its
 * gradients are being found. */
stw_status stw_instance_prepare(stw_instance *instance, int32_t visit, double progress, stw_error *error);

/* Value of the best of that plan and a grid of constants around it: what 60 decodes come to without a policy. */
stw_status stw_instance_constants(stw_instance *instance, double *value, stw_error *error);

stw_trainer *stw_instance_trainer(stw_instance *instance);      /* of this update */
int64_t stw_instance_evaluations(const stw_instance *instance); /* of all updates */
double stw_instance_first(const stw_instance *instance);        /* value of the best plan of the other methods */
double stw_instance_reference(const stw_instance *instance);    /* value of the plan that the last update was relative to */
const char *stw_instance_label(const stw_instance *instance);

#endif
