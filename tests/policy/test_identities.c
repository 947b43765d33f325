/* policy/: rows with a vector of their own make a network for one graph; without them it is for any. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "policy/bench.h"

/* A network for one graph takes no other, and a pass keeps the input that it had. */
TEST(network, refuses_other_numbers_of_rows) {
    for (int32_t device = 0; device < 2; device++) {
        stw_policy_config c = example_config(device == 1, 4);
        c.identities = 11;
        bench b;
        open_bench(&b, &c, cpu(NULL), 11, 1);
        double before[11 * STW_STEER_KNOBS] = {0}, after[11 * STW_STEER_KNOBS] = {0};
        CHECK(stw_pass_placement(b.pass, before, NULL) == STW_OK);
        for (int32_t M = 10; M <= 12; M += 2) {
            example other = example_make(&c, M, 3, 1, 7);
            char message[80];
            snprintf(message, sizeof message, "%d rows; this policy was made for one graph, of 11 rows", M);
            stw_error error = {0};
            CHECK(stw_pass_set_input(b.pass, &other.input, &error) == STW_ERROR_INPUT);
            CHECK_STR(error.message, message);
            example_free(&other);
        }
        CHECK(stw_pass_placement(b.pass, after, NULL) == STW_OK);
        CHECK(memcmp(before, after, sizeof before) == 0);
        close_bench(&b);
    }
}

/* A network for any graph takes one after another, of different numbers of rows. */
TEST(network, takes_any_number_of_rows_without_identities) {
    const stw_policy_config c = example_config(false, 4);
    bench b;
    open_bench(&b, &c, cpu(NULL), 11, 1);
    for (int32_t M = 10; M <= 12; M += 2) {
        example other = example_make(&c, M, 3, 1, 7);
        double out[12 * STW_STEER_KNOBS];
        CHECK(stw_pass_set_input(b.pass, &other.input, NULL) == STW_OK);
        CHECK(stw_pass_placement(b.pass, out, NULL) == STW_OK);
        example_free(&other);
    }
    close_bench(&b);
}

/* They begin as normal numbers of deviation 0.5, and there are none without the setting. */
TEST(network, identities_begin_unlike) {
    stw_policy_config c = example_config(false, 4);
    stw_backend *backend = oracle();
    stw_net *net = NULL;
    CHECK(stw_net_create(&c, backend, 3, &net, NULL) == STW_OK);
    CHECK(stw_parameters_find(stw_net_parameters(net), "input.identity") < 0);
    stw_net_destroy(net);
    c.identities = 2000;
    CHECK(stw_net_create(&c, backend, 3, &net, NULL) == STW_OK);
    const stw_parameters *p = stw_net_parameters(net);
    const int32_t index = stw_parameters_find(p, "input.identity"), count = c.identities * c.width;
    CHECK(index >= 0 && p->entry[index].rows == c.identities && p->entry[index].cols == c.width);
    const double *value = stw_parameter_value(p, index);
    double sum = 0.0, square = 0.0;
    for (int32_t i = 0; i < count; i++) {
        sum += value[i] / count;
        square += value[i] * value[i] / count;
    }
    CHECK_NEAR(sum, 0.0, 0.02);
    CHECK_NEAR(sqrt(square), 0.5, 0.01);
    stw_net_destroy(net);
    stw_backend_destroy(backend);
}
