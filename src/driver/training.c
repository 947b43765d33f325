/* stw_train: a policy for one graph on one machine, into a file. */
#include <string.h>

#include "base/file.h"
#include "driver/runner.h"

/* The policy's own budget is the number of updates, if there is one; else it is that of any search. */
static stw_status prepare(stw_runner *r, const stw_options *options, stw_error *error) {
    stw_policy_settings *policy = &r->settings.policy;
    const char *file = options == NULL ? NULL : stw_options_get(options, "output");
    const char *resume = options == NULL ? NULL : stw_options_get(options, "resume");
    if (file == NULL) return stw_fail(error, STW_ERROR_INPUT, "training needs a file for the policy: set output");
    if (strcmp(file, "-") == 0) return stw_fail(error, STW_ERROR_INPUT, "a policy cannot be written to standard output");
    policy->file = file;
    policy->resume = resume != NULL && strcmp(resume, "yes") == 0;
    if (policy->updates > 0) {
        r->settings.budget_s = 0.0;
        r->settings.evaluations = 0;
    } else if (policy->resume) {
        return stw_fail(error, STW_ERROR_INPUT, "resuming needs the number of updates that the training was begun with");
    }
    return STW_OK;
}

static stw_status train(stw_runner *r, const stw_options *options, stw_result *result, stw_error *error) {
    TRY(prepare(r, options, error));
    TRY(stw_runner_bound(r, result, error));
    TRY(stw_runner_run(r, &stw_method_go_one, r->settings.rule, stw_runner_share(r, 1.0), false, result, error));
    if (result->best < 0) stw_runner_say_what_lacks(r, result);
    return STW_OK;
}

stw_status stw_train(const stw_simulator *simulator, const stw_options *options, const stw_watch *watch, stw_result **out,
                     stw_error *error) {
    STW_NEED(simulator);
    STW_NEED(out);
    stw_runner *runner;
    stw_result *result;
    *out = NULL;
    TRY(stw_runner_open(simulator, options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, watch, NULL, &runner, &result, error));
    stw_status status = stw_runner_prepare(runner, NULL, error);
    if (status == STW_OK) status = stw_runner_settle(runner, train(runner, options, result, error), result, error);
    if (status == STW_OK) stw_runner_finish(runner, result);
    return stw_runner_close(runner, status, result, out);
}
