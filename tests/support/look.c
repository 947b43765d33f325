#include "support/look.h"

#include <stdio.h>
#include <string.h>

#include "policy/net.h"

typedef struct {
    const void *at;
    int32_t rows, cols;
} view;

/* The layer that `name` = "<kind>.<number>" means, or -1. */
static int32_t layer_of(const char *name, const char *kind, int32_t layers) {
    char expected[32];
    for (int32_t l = 0; l < layers; l++) {
        snprintf(expected, sizeof expected, "%s.%d", kind, l);
        if (strcmp(name, expected) == 0) return l;
    }
    return -1;
}

/* "draft.<number>.": of that draft; without it, of the one that ran last. */
static const stw_draft_kept *draft_of(const stw_pass *pass, const char **name) {
    if (strncmp(*name, "draft.", 6) != 0 || (*name)[6] < '0' || (*name)[6] >= '0' + STW_MOST_DRAFTS) return pass->now;
    const int32_t number = (*name)[6] - '0';
    *name += 8;
    return &pass->draft[number];
}

static bool find_of_task(const stw_pass *pass, const char *name, view *out) {
    const stw_policy_config *c = &pass->net->config;
    const stw_draft_kept *draft = draft_of(pass, &name);
    const struct {
        const char *name;
        const stw_task_kept *task;
        int32_t width;
        bool spread;
    } tasks[] = {{"fusion", &draft->fusion, stw_pass_fusion_width(pass), c->fusion == STW_FUSION_HEAD_NUDGE},
                 {"placement", &draft->placement, stw_pass_placement_width(pass), c->placement == STW_PLACEMENT_STEER},
                 {"schedule", &draft->schedule, stw_pass_schedule_width(pass), c->schedule == STW_SCHEDULE_NUDGE}};
    for (size_t k = 0; k < sizeof tasks / sizeof tasks[0]; k++) {
        const size_t length = strlen(tasks[k].name);
        const int32_t rows = tasks[k].task->sequences * pass->input.M;
        if (strncmp(name, tasks[k].name, length) != 0 || rows == 0) continue;
        if (strcmp(name + length, ".hidden") == 0) *out = (view){tasks[k].task->block.y, rows, c->width};
        if (strcmp(name + length, ".out") == 0 || (strcmp(name + length, ".raw") == 0 && tasks[k].spread))
            *out = (view){tasks[k].task->out, rows, tasks[k].width};
    }
    return out->at != NULL;
}

static bool find(const stw_pass *pass, const char *name, view *out) {
    const stw_policy_config *c = &pass->net->config;
    const int32_t M = pass->input.M, sage = layer_of(name, "sage", c->sage_layers);
    const int32_t attention = layer_of(name, "attention", c->attention_layers);
    *out = (view){NULL, M, c->width};
    if (strcmp(name, "input") == 0) out->at = pass->x0;
    if (sage >= 0) out->at = pass->sage[sage].y;
    if (attention >= 0) out->at = pass->attention[attention].y;
    if (strcmp(name, "graph") == 0) *out = (view){pass->graph, 1, c->width};
    return out->at != NULL || find_of_task(pass, name, out);
}

bool stw_pass_look(const stw_pass *pass, const char *name, int32_t *rows, int32_t *cols, double *out, stw_arena scratch) {
    view v = {0};
    const bool ran = stw_net_fuses(pass->net) ? pass->draft[0].fusion.sequences > 0 : pass->draft[0].placement.sequences > 0;
    if (!ran || !find(pass, name, &v)) return false;
    *rows = v.rows;
    *cols = v.cols;
    if (out == NULL) return true;
    stw_pass copy = *pass; /* because the heads' last step uses the tape of a layer */
    copy.scratch = scratch;
    if (strcmp(name, "fusion.out") == 0) return stw_fusion_on_host(&copy, out, NULL) == STW_OK;
    if (strcmp(name, "placement.out") == 0) return stw_placement_on_host(&copy, out, NULL) == STW_OK;
    if (strcmp(name, "schedule.out") == 0) return stw_schedule_on_host(&copy, out, NULL) == STW_OK;
    stw_reals_out(pass->net->backend, out, v.at, (int64_t)v.rows * v.cols, scratch);
    return true;
}
