#include "method/go/go.h"

#include <stdio.h>

#include "search/fusing.h"

static const double START_SHARE = 0.1; /* of the budget, for initial plans where none are given */

/* ---- the problem ---- */

const stw_policy_settings *stw_go_wish(const stw_search *search) {
    static const stw_policy_settings unset = {.learning_rate = -1.0,
                                              .scorer_rate = -1.0,
                                              .reward = -1,
                                              .glue = -1,
                                              .warm_start = -1,
                                              .device_names = -1,
                                              .unit_count = -1};
    return search->policy != NULL ? search->policy : &unset;
}

stw_status stw_go_prepare(stw_go *g, stw_arena *arena, stw_error *error) {
    const stw_search *search = g->search;
    const int32_t wanted = stw_go_wish(search)->unit_count;
    TRY(stw_list_prepare(search, arena, &g->list, error));
    TRY(stw_problem_build(search->simulator, search->objective, &g->list,
                          wanted >= 0 ? wanted : stw_problem_units(search->simulator->graph->op_count), arena, &g->problem,
                          error));
    g->problem.places = (search->tasks & STW_TASK_PLACEMENT) != 0;
    g->problem.schedules = (search->tasks & STW_TASK_SCHEDULE) != 0 && search->rule < 0;
    g->problem.rule = search->rule;
    return STW_OK;
}

void stw_go_limit(const stw_policy_config *config, stw_problem *problem) {
    if (!stw_go_chooses(config)) return;
    if (config->bare != 0) problem->schedules = problem->fuses = false;
    if (!problem->schedules && problem->rule < 0) problem->rule = STW_RULE_FIFO;
}

stw_status stw_go_open_starts(stw_go *g, stw_error *error) {
    const stw_method *methods[STW_MAX_STARTS], *method;
    int32_t count = 0;
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL && count < STW_MAX_STARTS; k++) {
        if (!(method->traits & STW_METHOD_STEERS) && stw_method_serves(method, g->search->objective, g->search->tasks))
            methods[count++] = method;
    }
    return stw_starts_open(g->search, methods, count, START_SHARE, &g->starts, error);
}

stw_status stw_go_measure_start(stw_go *g, stw_error *error) {
    g->has_first = g->starts.count > 0;
    if (!g->has_first) return STW_OK;
    const double began_s = stw_search_now_s(g->search);
    TRY(stw_search_evaluate(g->search, g->starts.plan[0], 0, &g->first, error));
    g->evaluation_s = stw_search_now_s(g->search) - began_s;
    return STW_OK;
}

/* ---- the end ---- */

void stw_go_write_note(const stw_go *g, const char *without) {
    char *note = g->search->outcome.note;
    const size_t size = sizeof g->search->outcome.note;
    const long long updates = (long long)stw_trainer_updates(g->trainer);
    const char *plural = updates == 1 ? "" : "s";
    stw_score score = {0};
    if (stw_trainer_best(g->trainer, &score) == NULL) return;
    if (updates == 0) {
        snprintf(note, size, "the budget ended before the first update; give it more");
    } else if (g->has_first && g->first.reason == STW_VALID && score.reason == STW_VALID && g->first.value > 0.0) {
        snprintf(note, size, "%lld update%s; %.2f %% better than the initial plan", updates, plural,
                 100.0 * (1.0 - score.value / g->first.value));
    } else {
        snprintf(note, size, "%lld update%s%s", updates, plural, g->has_first ? "" : without);
    }
}

stw_status stw_go_take_best(stw_go *g, stw_plan *plan, stw_error *error) {
    stw_score score = {0};
    const stw_plan *best = stw_trainer_best(g->trainer, &score);
    if (best == NULL) return stw_fail(error, STW_ERROR_NO_PLAN, "no plan was made before the budget ended");
    TRY(stw_plan_assign(plan, best, error));
    const bool published = stw_go_chooses(stw_net_config(stw_trainer_net(g->trainer))); /* then nothing comes after the policy */
    return score.reason == STW_INVALID_MEMORY && !published ? stw_search_repair(g->search, plan, &score, 0, error) : STW_OK;
}

/* ---- the pre-trained policy: its file ---- */

static stw_status read_policy(const stw_policy_settings *wish, stw_arena *arena, stw_pretrained *out, stw_error *error) {
    out->label = wish->policy != NULL ? wish->policy : "the policy that comes with the library";
    if (wish->policy != NULL) return stw_tensor_file_read(wish->policy, arena, &out->file, error);
    if (stw_shipped_policy().length == 0)
        return stw_fail(error, STW_ERROR_NO_PLAN, "this library was built without a policy; name one with --policy");
    return stw_tensor_file_parse(stw_shipped_policy(), out->label, arena, &out->file, error);
}

static stw_status check_columns(const stw_policy_config *c, stw_error *error) {
    const bool sees_plans = !stw_go_chooses(c);
    const struct {
        const char *name;
        int32_t stated, known;
    } number[] = {{"feature_version", c->feature_version, STW_FEATURE_VERSION},
                  {"unit_columns", c->unit_columns, stw_feature_count(STW_FEATURES_UNIT)},
                  {"feedback_columns", c->feedback_columns, sees_plans ? stw_feature_count(STW_FEATURES_FEEDBACK) : 0},
                  {"device_columns", c->device_columns, stw_feature_count(STW_FEATURES_DEVICE)},
                  {"pair_columns", c->pair_columns, sees_plans ? stw_feature_count(STW_FEATURES_PAIR) : 0},
                  {"proposal_columns", c->proposal_columns, sees_plans ? stw_features_proposal_columns() : 0}};
    for (size_t k = 0; k < sizeof number / sizeof number[0]; k++) {
        if (number[k].stated != number[k].known)
            return stw_fail(error, STW_ERROR_INPUT,
                            "was made for other features than this program's: %s is %d there and %d here; train it again",
                            number[k].name, number[k].stated, number[k].known);
    }
    return STW_OK;
}

static stw_status check_policy(const char *method, stw_pretrained *p, stw_error *error) {
    int64_t updates = 0, schedules = 1, reinforced = 1;
    TRY(stw_net_config_of(&p->file, &p->config, error));
    if (p->config.identities > 0 || !stw_tensor_file_dimension(&p->file, "pretrain.update", &updates))
        return stw_fail(error, STW_ERROR_INPUT, "this policy is for one graph; %s needs one made with --corpus", method);
    if (!stw_go_chooses(&p->config) && p->config.fusion != STW_FUSION_HEAD_NONE)
        return stw_fail(error, STW_ERROR_INPUT, "%s needs a policy that does not fuse where it steers; train it with --corpus",
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
    TRY(read_policy(wish, arena, out, error));
    const stw_status status = check_policy(method, out, error);
    if (status != STW_OK) stw_error_prefix(error, out->label);
    return status;
}

/* What kind of policy it is, without all of it. A file that cannot be read is told of when it is used. */
static bool peek(const stw_policy_settings *wish, stw_pretrained *out) {
    stw_arena arena;
    int64_t reinforced = 1;
    *out = (stw_pretrained){0};
    if (stw_arena_create(&arena, NULL) != STW_OK) return false;
    const bool read =
        read_policy(wish, &arena, out, NULL) == STW_OK && stw_net_config_of(&out->file, &out->config, NULL) == STW_OK;
    if (read) (void)stw_tensor_file_dimension(&out->file, "pretrain.reinforced", &reinforced);
    out->reinforced = reinforced != 0;
    stw_arena_destroy(&arena);
    return read;
}

static bool file_chooses(const stw_policy_settings *wish) {
    stw_pretrained policy;
    return wish->policy != NULL && peek(wish, &policy) && stw_go_chooses(&policy.config);
}

bool stw_go_tunes_scorer(const stw_policy_settings *wish, stw_objective objective, unsigned tasks, const stw_pretrained *policy) {
    stw_pretrained peeked;
    if (wish->updates > 0 || wish->no_proposals || objective != STW_OBJECTIVE_TIME || !(tasks & STW_TASK_PLACEMENT)) return false;
    if (policy == NULL && !peek(wish, &peeked)) return false;
    if (policy == NULL) policy = &peeked;
    return !stw_go_chooses(&policy->config) && !policy->reinforced;
}

bool stw_go_is_published(const stw_search *search, const stw_method *method) {
    const stw_policy_settings *wish = stw_go_wish(search);
    stw_policy_config config;
    if (method->kind == STW_METHOD_POLICY) return file_chooses(wish);
    return wish->preset[0] != '\0' && stw_policy_preset(wish->preset, &config) && stw_go_chooses(&config);
}

stw_status stw_pretrained_check(const stw_policy_settings *wish, stw_error *error) {
    stw_arena arena;
    stw_pretrained policy = {0};
    if (wish->policy == NULL) return STW_OK;
    TRY(stw_arena_create(&arena, error));
    stw_status status = read_policy(wish, &arena, &policy, error);
    if (status == STW_OK) {
        status = check_policy("go-zero", &policy, error);
        if (status != STW_OK) stw_error_prefix(error, policy.label);
    }
    stw_arena_destroy(&arena);
    return status;
}

/* ---- the pre-trained policy: its runs ---- */

stw_status stw_go_published(stw_go *g, const stw_pretrained *policy, int32_t samples, stw_error *error) {
    const char *preset = policy->config.bare != 0 ? "gdp" : "paper";
    if (!stw_train_preset(preset, &g->settings)) return stw_fail(error, STW_ERROR_INPUT, "there is no preset '%s'", preset);
    g->settings.seed = g->search->seed;
    g->settings.samples = samples;
    g->settings.shuffled = stw_go_wish(g->search)->shuffled;
    return STW_OK;
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
    g->problem.fuses = policy->config.fusion != STW_FUSION_HEAD_NONE && (search->tasks & STW_TASK_FUSION) != 0 &&
                       (search->fusing == NULL || search->fusing->rule < 0);
    stw_go_limit(&policy->config, &g->problem);
    if (g->problem.M == 0 || (!g->problem.places && !g->problem.schedules)) return stw_starts_keep_placement(search, plan, error);
    const stw_arena before = search->arena;
    search->arena = arena; /* what runs within this method must not overwrite it */
    const stw_status status = work(g, policy, plan, error);
    search->arena = before;
    stw_trainer_destroy(g->trainer);
    stw_starts_close(&g->starts);
    return status;
}
