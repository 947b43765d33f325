/* `shortlist`: how many evaluations it takes, that it keeps the best of its steps, which list goes with which links; and
 * `optimize` with it. */
#include "method/shortlist/shortlist.h"

#include <math.h>

#include "method/whole_search.h"

static double step_of(const problem *p, const char *methods, const char *evaluations) {
    stw_result *result = compare(p->simulator, methods, options_of("evaluations", evaluations, NULL));
    const double value = result != NULL && result->best >= 0 ? result->entry[result->best]->score.value : 0.0;
    stw_result_destroy(result);
    return value;
}

TEST(shortlist, a_step_is_an_evaluation) {
    static const int64_t asked[] = {1, 3, 9, 40};
    problem p = open_graph("rnnlm-2", "0.1/h200x2-pcie");
    double before = INFINITY;
    for (int k = 0; k < 4; k++) {
        char count[8];
        snprintf(count, sizeof count, "%d", (int)asked[k]);
        test_context("%s", count);
        stw_result *result = compare(p.simulator, "shortlist", options_of("evaluations", count, NULL));
        if (result != NULL && CHECK_EQ_INT(result->count, 1)) {
            CHECK_EQ_INT(result->entry[0]->candidate.evaluations, asked[k] < 12 ? asked[k] : 12); /* there are no more steps */
            CHECK(result->entry[0]->score.value <= before);
            before = result->entry[0]->score.value;
        }
        stw_result_destroy(result);
    }
    test_context("%s", "");
    CHECK(step_of(&p, "shortlist", "40") < step_of(&p, "etf", "40"));
    close_graph(p);
}

TEST(shortlist, slow_links_and_fast_ones) {
    problem slow = open_graph("rnnlm-2", "0.1/h200x2-pcie"), fast = open_graph("rnnlm-2", "0.1/h200x2"),
            one = open_graph("rnnlm-2", "h200x1");
    CHECK_NEAR(stw_shortlist_hop_us(slow.simulator->machine), 10.0 + 1048576.0 / 25e3, 1e-6);
    CHECK_NEAR(stw_shortlist_hop_us(fast.simulator->machine), 3.0 + 1048576.0 / 450e3, 1e-6);
    CHECK_NEAR(stw_shortlist_hop_us(one.simulator->machine), 0.0, 0.0);
    close_graph(slow);
    close_graph(fast);
    close_graph(one);
}

/* All that is counted is within what was asked for; from 101 on the other methods run. */
TEST(shortlist, optimize_keeps_to_its_evaluations) {
    static const char *const asked[] = {"10", "30", "101"};
    problem p = open_graph("rnnlm-2", "0.1/h200x2-pcie");
    for (int k = 0; k < 3; k++) {
        test_context("%s", asked[k]);
        stw_result *result = optimize(p.simulator, options_of("evaluations", asked[k], ALL_TASKS, NULL), NULL);
        if (result != NULL && CHECK(result->count > 2)) {
            int64_t sum = 0;
            for (int32_t e = 0; e < result->count; e++) sum += result->entry[e]->candidate.evaluations;
            check_result(p.simulator, result);
            CHECK_STR(result->entry[2]->candidate.method, k < 2 ? "shortlist" : "etf");
            if (k == 0) CHECK_EQ_INT(sum, 10);
        }
        stw_result_destroy(result);
    }
    test_context("%s", "");
    close_graph(p);
}

TEST(shortlist, any_number_of_threads) {
    problem p = open_graph("wavenet-2x9", "0.1/h200x2-pcie");
    double value[2] = {0};
    for (int k = 0; k < 2; k++) {
        stw_result *result =
            optimize(p.simulator, options_of("evaluations", "60", "threads", k == 0 ? "1" : "3", ALL_TASKS, NULL), NULL);
        if (result != NULL) value[k] = result->entry[result->best]->score.value;
        stw_result_destroy(result);
    }
    CHECK(value[0] > 0.0);
    CHECK_NEAR(value[0], value[1], 0.0);
    close_graph(p);
}
