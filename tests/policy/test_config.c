/* policy/config.c: what makes a network, and what does not. */
#include "policy/bench.h"

TEST(config, presets_and_bounds) {
    stw_policy_config c;
    stw_error error = {0};
    CHECK(!stw_policy_preset("huge", &c));
    const char *presets[] = {"default", "paper", "gdp"};
    for (int i = 0; i < 3; i++) {
        CHECK(stw_policy_preset(presets[i], &c));
        c.unit_columns = 20;
        c.device_columns = 6;
        CHECK(stw_policy_config_check(&c, &error) == STW_OK);
        CHECK_EQ_INT(c.width, i == 0 ? 64 : 128);
        CHECK_EQ_INT(c.segment, i == 0 ? 64 : 128);
        CHECK_EQ_INT(c.identities, 0);
        int32_t *value = NULL, fields = 0;
        while (stw_policy_config_field(fields, &c, &value) != NULL) { /* each has bounds */
            const int32_t before = *value;
            *value = -1;
            CHECK(stw_policy_config_check(&c, &error) == STW_ERROR_INPUT);
            CHECK_CONTAINS(error.message, stw_policy_config_field(fields, NULL, NULL));
            *value = before;
            fields++;
        }
        CHECK_EQ_INT(fields * (int32_t)sizeof(int32_t), sizeof c);
    }
    c.pair_columns = 3;
    CHECK(stw_policy_config_check(&c, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "pair_width is 0 but there are 3 pair_columns");
    c.pair_columns = 0;
    c.heads = 7;
    CHECK(stw_policy_config_check(&c, &error) == STW_ERROR_INPUT);
    CHECK_STR(error.message, "the network's width 128 is not a multiple of its heads 7");
}

/* The largest network that is allowed has room in the table of parameters. */
TEST(config, most_layers_fit) {
    stw_policy_config c = example_config(true, 4);
    c.sage_layers = c.attention_layers = 8;
    c.pair_columns = c.pair_width = c.feedback_columns = c.identities = 2;
    stw_backend *backend = cpu(NULL);
    stw_net *net = NULL;
    stw_error error = {0};
    CHECK(stw_net_create(&c, backend, 1, &net, &error) == STW_OK);
    CHECK_STR(error.message, "");
    stw_net_destroy(net);
    c.width = 7;
    CHECK(stw_net_create(&c, backend, 1, &net, &error) == STW_ERROR_INPUT && net == NULL);
    stw_backend_destroy(backend);
}
