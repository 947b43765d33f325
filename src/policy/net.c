#include "policy/net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Starts, as multiples of 1 / sqrt(inputs): variance 1 stays 1 through a linear layer, and through one with a relu. */
static const double LINEAR = 1.7320508075688772, RELU = 2.449489742783178;
static const double SMALL = 0.05; /* of a head, so that training begins near the plain decision */

/* The pieces of the input lie side by side: each starts as a part of one wide layer. */
static stw_linear_layer piece(stw_net *net, const char *name, int32_t in, int32_t all, bool first, bool last) {
    return stw_linear_declare(&net->p, name, in, net->config.width, first, last, RELU * sqrt((double)in / all));
}

static void declare_input(stw_net *net) {
    const stw_policy_config *c = &net->config;
    const int32_t pair = c->pair_columns > 0 ? c->pair_width : 0;
    const int32_t all = c->unit_columns + c->feedback_columns + c->proposal_columns + c->operator_width + pair;
    net->operator_table =
        stw_parameters_declare(&net->p, c->operators, c->operator_width, STW_START_NORMAL, 1.0, "operator.table");
    if (pair > 0) net->pool = stw_linear_declare(&net->p, "pair.pool", c->pair_columns, pair, true, true, RELU);
    net->unit = piece(net, "input.unit", c->unit_columns, all, true, false);
    if (c->feedback_columns > 0) net->feedback = piece(net, "input.feedback", c->feedback_columns, all, false, false);
    if (pair > 0) net->pair = piece(net, "input.pair", pair, all, false, false);
    if (c->proposal_columns > 0) net->proposal = piece(net, "input.proposal", c->proposal_columns, all, false, false);
    if (c->identities > 0)
        net->identity = stw_parameters_declare(&net->p, c->identities, c->width, STW_START_NORMAL, 0.5, "input.identity");
    net->operator_ = piece(net, "input.operator", c->operator_width, all, false, true);
}

static void declare_trunk(stw_net *net) {
    const stw_policy_config *c = &net->config;
    char name[32];
    for (int32_t l = 0; l < c->sage_layers; l++) {
        snprintf(name, sizeof name, "sage.%d", l);
        net->sage[l] = stw_sage_declare(&net->p, name, c->width, c->width);
    }
    for (int32_t l = 0; l < c->attention_layers; l++) {
        snprintf(name, sizeof name, "modulation.%d", l);
        if (c->modulation != 0) net->modulation[l] = stw_linear_declare(&net->p, name, c->width, c->width, true, false, 0.0);
        snprintf(name, sizeof name, "attention.%d", l);
        net->attention[l] = stw_attention_declare(&net->p, name, c->width, c->inner, c->heads);
    }
}

static void declare_tasks(stw_net *net) {
    const stw_policy_config *c = &net->config;
    stw_parameters *p = &net->p;
    const bool steer = c->placement == STW_PLACEMENT_STEER;
    if (c->bare != 0) return;
    net->task_self = stw_linear_declare(p, "task.self", c->width, c->width, true, false, LINEAR);
    net->task_action = stw_linear_declare(p, "task.action", c->width, c->width, false, false, LINEAR);
    net->task_norm = stw_norm_declare(p, "task.norm", c->width);
    net->task_block = stw_attention_declare(p, "task.block", c->width, 0, c->heads);
    net->action = stw_linear_declare(p, "action", steer ? STW_STEER_KNOBS : c->score_width, c->width, true, false, LINEAR);
    if (c->fusion == STW_FUSION_HEAD_NUDGE)
        net->fusion_action = stw_linear_declare(p, "action.fusion", 1, c->width, true, false, LINEAR);
    if (c->fusion == STW_FUSION_HEAD_CLASS)
        net->fusion_table = stw_parameters_declare(p, c->fusion_classes, c->width, STW_START_NORMAL, 1.0, "action.fusion.table");
    if (c->drafts > 1)
        net->schedule_table = stw_parameters_declare(p, c->classes, c->width, STW_START_NORMAL, 1.0, "action.schedule.table");
}

static void declare_heads(stw_net *net) {
    const stw_policy_config *c = &net->config;
    stw_parameters *p = &net->p;
    if (c->placement == STW_PLACEMENT_STEER) {
        net->steer = stw_linear_declare(p, "head.steer", c->width, STW_STEER_KNOBS, false, false, LINEAR);
        net->steer_own = stw_linear_declare(p, "head.steer.own", c->width, STW_STEER_KNOBS, false, false, LINEAR);
        net->steer_common = stw_linear_declare(p, "common.steer", c->width, 2 * STW_STEER_KNOBS, true, false, 0.0);
    } else {
        net->query[0] = stw_linear_declare(p, "head.query.0", c->width, c->score_width, true, true, RELU);
        net->query[1] = stw_linear_declare(p, "head.query.1", c->score_width, c->score_width, true, false, SMALL);
        net->device[0] = stw_linear_declare(p, "head.device.0", c->device_columns, c->score_width, true, true, RELU);
        net->device[1] = stw_linear_declare(p, "head.device.1", c->score_width, c->score_width, true, false, LINEAR);
        if (c->device_names > 0)
            net->device_names =
                stw_parameters_declare(p, c->device_names, c->score_width, STW_START_NORMAL, 1.0, "head.device.names");
    }
    if (c->bare != 0) return;
    if (c->schedule == STW_SCHEDULE_NUDGE) {
        net->nudge = stw_linear_declare(p, "head.nudge", c->width, 1, false, false, LINEAR);
        net->nudge_common = stw_linear_declare(p, "common.nudge", c->width, 2, true, false, 0.0);
    } else {
        net->class_ = stw_linear_declare(p, "head.class", c->width, c->classes, true, false, SMALL);
    }
    if (c->fusion == STW_FUSION_HEAD_NUDGE) {
        net->fusion = stw_linear_declare(p, "head.fusion", c->width, 1, false, false, LINEAR);
        net->fusion_own = stw_linear_declare(p, "head.fusion.own", c->width, 1, false, false, LINEAR);
        net->fusion_common = stw_linear_declare(p, "common.fusion", c->width, 2, true, false, 0.0);
    } else if (c->fusion == STW_FUSION_HEAD_CLASS) {
        net->fusion = stw_linear_declare(p, "head.fusion", c->width, c->fusion_classes, true, false, SMALL);
    }
}

stw_status stw_net_create(const stw_policy_config *config, stw_backend *backend, uint64_t seed, stw_net **out, stw_error *error) {
    *out = NULL;
    TRY(stw_policy_config_check(config, error));
    stw_net *net = calloc(1, sizeof *net);
    if (net == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (the network)");
    net->config = *config;
    net->backend = net->p.backend = backend;
    declare_input(net);
    declare_trunk(net);
    declare_tasks(net);
    declare_heads(net);
    const stw_rng rng = stw_rng_create(seed);
    const stw_status status = stw_parameters_allocate(&net->p, &rng, error);
    if (status != STW_OK) {
        stw_net_destroy(net);
        return status;
    }
    *out = net;
    return STW_OK;
}

void stw_net_destroy(stw_net *net) {
    if (net == NULL) return;
    stw_parameters_release(&net->p);
    free(net);
}

const stw_policy_config *stw_net_config(const stw_net *net) { return &net->config; }
stw_parameters *stw_net_parameters(stw_net *net) { return &net->p; }
