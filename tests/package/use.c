/* A program of somebody else: finds a plan for the graph that its argument names, prints versions and step time. C++ too:
 * use.cpp. */
#include <stdio.h>
#include <stowage.h>

int main(int count, char **argument) {
    stw_error error;
    stw_options *options;
    stw_session *session;
    stw_result *result;
    stw_candidate best;
    if (count != 2) return 2;
    if (stw_options_create(&options, &error) != STW_OK || stw_options_set(options, "machine", "h200x2", &error) != STW_OK ||
        stw_options_set(options, "evaluations", "20", &error) != STW_OK ||
        stw_session_open(argument[1], options, &session, &error) != STW_OK ||
        stw_optimize(stw_session_simulator(session), options, NULL, &result, &error) != STW_OK) {
        puts(error.message);
        return 1;
    }
    if (!stw_result_candidate(result, stw_result_best(result), &best)) return 1;
    printf("%s %s %.3f us\n", STW_VERSION, stw_version(), 1e6 * best.step_s);
    stw_result_destroy(result);
    stw_session_destroy(session);
    stw_options_destroy(options);
    return 0;
}
