/* The file of a pre-trained policy. */
#include "method/go/go.h"

static stw_status read(const stw_policy_settings *wish, stw_arena *arena, stw_pretrained *out, stw_error *error) {
    out->label = wish->policy != NULL ? wish->policy : "the policy that comes with the library";
    if (wish->policy != NULL) return stw_tensor_file_read(wish->policy, arena, &out->file, error);
    if (stw_shipped_policy().length == 0)
        return stw_fail(error, STW_ERROR_NO_PLAN, "this library was built without a policy; name one with --policy");
    return stw_tensor_file_parse(stw_shipped_policy(), out->label, arena, &out->file, error);
}

static stw_status check_columns(const stw_policy_config *c, stw_error *error) {
    const struct {
        const char *name;
        int32_t stated, known;
    } number[] = {{"feature_version", c->feature_version, STW_FEATURE_VERSION},
                  {"unit_columns", c->unit_columns, stw_feature_count(STW_FEATURES_UNIT)},
                  {"feedback_columns", c->feedback_columns, stw_feature_count(STW_FEATURES_FEEDBACK)},
                  {"device_columns", c->device_columns, stw_feature_count(STW_FEATURES_DEVICE)},
                  {"pair_columns", c->pair_columns, stw_feature_count(STW_FEATURES_PAIR)},
                  {"proposal_columns", c->proposal_columns, stw_features_proposal_columns()}};
    for (size_t k = 0; k < sizeof number / sizeof number[0]; k++) {
        if (number[k].stated != number[k].known)
            return stw_fail(error, STW_ERROR_INPUT,
                            "was made for other features than this program's: %s is %d there and %d here; train it again",
                            number[k].name, number[k].stated, number[k].known);
    }
    return STW_OK;
}

static stw_status check(const char *method, stw_pretrained *p, stw_error *error) {
    int64_t updates = 0, schedules = 1, reinforced = 1;
    TRY(stw_net_config_of(&p->file, &p->config, error));
    if (p->config.identities > 0 || !stw_tensor_file_dimension(&p->file, "pretrain.update", &updates))
        return stw_fail(error, STW_ERROR_INPUT, "this policy is for one graph; %s needs one made with --corpus", method);
    if (p->config.placement != STW_PLACEMENT_STEER || p->config.fusion != STW_FUSION_HEAD_NONE)
        return stw_fail(error, STW_ERROR_INPUT, "%s needs a policy that steers and does not fuse; train it with --corpus",
                        method);
    TRY(check_columns(&p->config, error));
    (void)stw_tensor_file_dimension(&p->file, "pretrain.schedules", &schedules);
    (void)stw_tensor_file_dimension(&p->file, "pretrain.reinforced", &reinforced);
    p->schedules = schedules != 0;
    p->reinforced = reinforced != 0;
    return STW_OK;
}

/* The file that was asked for, or the one that comes with the library, checked. `*out` lives in the arena. */
static stw_status open_checked(const stw_search *search, const char *method, stw_arena *arena, stw_pretrained *out,
                               stw_error *error) {
    const stw_policy_settings *wish = stw_go_wish(search);
    *out = (stw_pretrained){0};
    if (wish->no_policy)
        return stw_fail(error, STW_ERROR_INPUT, "%s needs a policy; leave out --policy none, or name a file", method);
    TRY(read(wish, arena, out, error));
    const stw_status status = check(method, out, error);
    if (status != STW_OK) stw_error_prefix(error, out->label);
    return status;
}

stw_status stw_pretrained_check(const stw_policy_settings *wish, stw_error *error) {
    stw_arena arena;
    stw_pretrained policy = {0};
    if (wish->policy == NULL) return STW_OK;
    TRY(stw_arena_create(&arena, error));
    stw_status status = read(wish, &arena, &policy, error);
    if (status == STW_OK) {
        status = check("go-zero", &policy, error);
        if (status != STW_OK) stw_error_prefix(error, policy.label);
    }
    stw_arena_destroy(&arena);
    return status;
}

stw_status stw_pretrained_net(const stw_pretrained *policy, stw_backend *backend, stw_arena scratch, stw_net **out,
                              stw_error *error) {
    TRY(stw_net_create(&policy->config, backend, 1, out, error)); /* all values are read */
    const stw_status status = stw_net_load(*out, &policy->file, scratch, error);
    if (status == STW_OK) return STW_OK;
    stw_error_prefix(error, policy->label);
    stw_net_destroy(*out);
    *out = NULL;
    return status;
}

stw_status stw_go_run_pretrained(stw_search *search, const char *method, stw_go_work *work, stw_plan *plan, stw_error *error) {
    stw_arena arena = search->arena;
    stw_pretrained *policy;
    stw_go *g;
    STW_TRY_NEW(&arena, g, 1, error);
    STW_TRY_NEW(&arena, policy, 1, error);
    g->search = search;
    TRY(open_checked(search, method, &arena, policy, error));
    TRY(stw_go_prepare(g, &arena, error));
    g->problem.polishes = g->problem.schedules;
    g->problem.schedules = g->problem.schedules && policy->schedules;
    if (g->problem.M == 0 || (!g->problem.places && !g->problem.schedules)) return stw_starts_keep_placement(search, plan, error);
    const stw_arena before = search->arena;
    search->arena = arena; /* what runs within this method must not overwrite it */
    const stw_status status = work(g, policy, plan, error);
    search->arena = before;
    stw_trainer_destroy(g->trainer);
    stw_starts_close(&g->starts);
    return status;
}
