/* sim/load: the load of a device, with and without a host, by hand and against a second way to compute it; and the machine's
 * "host". */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

static void check_loads(const small *s, const double *us) {
    int64_t load[STW_MAX_DEVICES];
    double largest = 0.0;
    stw_workspace_loads_ps(s->workspace, load);
    for (int32_t d = 0; d < s->machine->device_count; d++) {
        test_context("device %d", d);
        CHECK_NEAR((double)load[d] / 1e6, us[d], 1e-9);
        largest = us[d] > largest ? us[d] : largest;
    }
    test_context("%s", "");
    CHECK_NEAR(stw_workspace_largest_load_s(s->workspace) * 1e6, largest, 1e-9);
}

/* a (2 us, 4 bytes) is read on two other devices by b (3 us) and c (1 us); a microsecond per byte. */
#define FAN OP(0, "a", "[]", 4, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[0]", 1, 1)

TEST(load, both_ends_pay) {
    small *s = small_open((small_text){.nodes = FAN, .device_count = 3, .device = "[0,1,2]"});
    check_loads(s, (const double[]){2 + 4 + 4, 3 + 4, 1 + 4});
    small_close(s);
}

TEST(load, a_value_leaves_once_with_a_host) {
    small *s = small_open((small_text){.nodes = FAN, .device_count = 4, .device = "[0,1,2]"});
    s->machine->host = 3;
    small_run(s);
    check_loads(s, (const double[]){2 + 4, 3 + 4, 1 + 4, 0});
    s->machine->host = 2; /* the host itself pays nothing */
    small_run(s);
    check_loads(s, (const double[]){2 + 4, 3 + 4, 1, 0});
    s->machine->host = 0;
    small_run(s);
    check_loads(s, (const double[]){2, 3 + 4, 1 + 4, 0});
    small_close(s);
}

TEST(load, hops_have_times_of_their_own) {
    const char *const links =
        LINK_WITH("d0", "d1", 1e6, 50, "") LINK_WITH("d1", "d0", 1e6, 50, "") LINK_WITH("d0", "d2", 2e6, 5, "")
            LINK_WITH("d2", "d0", 1e6, 1, "") LINK_WITH("d1", "d2", 1e6, 1, "") LINK_WITH("d2", "d1", 4e6, 7, "");
    small *s = small_open((small_text){.nodes = FAN, .device_count = 3, .links = links, .device = "[0,1,1]"});
    check_loads(s, (const double[]){2 + 54, 4 + 54, 0});
    s->machine->host = 2;
    small_run(s);
    check_loads(s, (const double[]){2 + 5 + 2, 4 + 7 + 1, 0});
    small_close(s);
}

/* Four transfers of 2.5e18 ps side by side, for all of which d0 pays: more than 63 bits hold. */
TEST(load, more_than_the_clock_holds) {
    const char *const links = LINK_WITH("d0", "d1", 4e-7, 0, "") LINK_WITH("d0", "d2", 4e-7, 0, "")
        LINK_WITH("d0", "d3", 4e-7, 0, "") LINK_WITH("d0", "d4", 4e-7, 0, "");
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[0]", 1, 1)
                                           OP(3, "d", "[0]", 1, 1) OP(4, "e", "[0]", 1, 1),
                                       .device_count = 5,
                                       .links = links,
                                       .device = "[0,1,2,3,4]"});
    int64_t load[STW_MAX_DEVICES];
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    stw_workspace_loads_ps(s->workspace, load);
    CHECK_EQ_INT(load[0], INT64_MAX);
    CHECK_EQ_INT(load[2], 2500000000001000000);
    CHECK_NEAR(stw_workspace_largest_load_s(s->workspace), (double)INT64_MAX / 1e12, 1.0);
    small_close(s);
}

/* Parts of a value: 2 bytes go to d1, 2 + 3 to d2; each part leaves once. */
TEST(load, parts_leave_once) {
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 8, 1) VIEW(1, "u", 0, 2) VIEW(2, "v", 0, 3) OP(3, "b", "[1]", 1, 1) OP(4, "c", "[1,2]", 1, 1),
        .device_count = 4,
        .device = "[0,0,0,1,2]"});
    check_loads(s, (const double[]){1 + 2 + 5, 1 + 2, 1 + 5, 0});
    s->machine->host = 3;
    small_run(s);
    check_loads(s, (const double[]){1 + 5, 1 + 2, 1 + 5, 0});
    small_close(s);
}

TEST(load, parameters_are_sent_too) {
    small *s = small_open(
        (small_text){.nodes = SOURCE(0, "p", "parameter", 6) OP(1, "a", "[0]", 1, 2), .device_count = 3, .device = "[0,1]"});
    check_loads(s, (const double[]){6, 2 + 6, 0});
    s->machine->host = 2;
    small_run(s);
    check_loads(s, (const double[]){6, 2 + 6, 0});
    small_close(s);
}

TEST(load, stretched_transfers) {
    small *s = small_open((small_text){.nodes = FAN, .device_count = 4, .device = "[0,1,2]"});
    const double factor[3] = {2.0, 1.0, 1.0};
    const stw_run_options options = {.transfer_factor = factor};
    stw_error error;
    s->machine->host = 3;
    CHECK_EQ_INT(stw_simulator_run(s->simulator, s->plan, &options, s->workspace, &s->result, &error), STW_OK);
    check_loads(s, (const double[]){2 + 8, 3 + 8, 1 + 8, 0});
    small_close(s);
}

/* The same from the graph and the plan alone; ops and data edges only, nothing through views. */
static void expect_loads(const small *s, double *us) {
    const stw_graph *graph = s->graph;
    const stw_machine *machine = s->machine;
    for (int32_t d = 0; d < machine->device_count; d++) us[d] = 0.0;
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t home = s->plan->device[i];
        bool there[STW_MAX_DEVICES] = {false}, leaves = false;
        us[home] += stw_costs_op_us(s->costs, i, home);
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1]; r++)
            there[s->plan->device[graph->reader[r].node]] = true;
        for (int32_t d = 0; d < machine->device_count; d++) {
            if (!there[d] || d == home) continue;
            leaves = true;
            const stw_link *direct = stw_machine_link(machine, home, d);
            if (machine->host < 0) {
                us[d] += direct->latency_us + (double)graph->bytes[i] / direct->bandwidth * 1e6;
                us[home] += direct->latency_us + (double)graph->bytes[i] / direct->bandwidth * 1e6;
            } else if (d != machine->host) {
                const stw_link *down = stw_machine_link(machine, machine->host, d);
                us[d] += down->latency_us + (double)graph->bytes[i] / down->bandwidth * 1e6;
            }
        }
        if (machine->host < 0 || !leaves || home == machine->host) continue;
        const stw_link *up = stw_machine_link(machine, home, machine->host);
        us[home] += up->latency_us + (double)graph->bytes[i] / up->bandwidth * 1e6;
    }
}

TEST(load, random_problems) {
    stw_rng rng = stw_rng_create(5);
    int64_t transfers = 0;
    for (int round = 0; round < 60; round++) {
        small *s = random_open(&rng, (random_shape){.nodes = 30, .device_count = 4, .plain = true, .unlike = round % 2 == 0});
        for (int32_t host = -1; host < 4; host++) {
            double us[STW_MAX_DEVICES];
            random_placement(&rng, s->simulator, s->plan);
            s->machine->host = host;
            small_run(s);
            expect_loads(s, us);
            int64_t load[STW_MAX_DEVICES];
            stw_workspace_loads_ps(s->workspace, load);
            for (int32_t d = 0; d < 4; d++) CHECK_NEAR((double)load[d] / 1e6, us[d], 1e-4 + 1e-9 * us[d]);
            transfers += s->result.transfer_count;
        }
        small_close(s);
    }
    CHECK(transfers > 1000); /* or it was no test */
}

/* ---- the machine's host ---- */

static stw_machine *machine_of(const char *host, const char *links, stw_error *error) {
    char text[2000];
    stw_machine *machine = NULL;
    snprintf(text, sizeof text,
             "{'format':'machine','version':1,%s'devices':[{'name':'a','kind':'h200'},{'name':'b','kind':'h200'}],'links':[%s]}",
             host, links);
    char *quoted = small_quote(text);
    *error = (stw_error){0};
    (void)!stw_machine_parse(quoted, strlen(quoted), "m.json", &machine, error);
    free(quoted);
    return machine;
}

#define BOTH_WAYS                                                       \
    "{'from':'a','to':'b','bandwidth_bytes_per_s':1e9,'latency_us':0}," \
    "{'from':'b','to':'a','bandwidth_bytes_per_s':1e9,'latency_us':0}"

TEST(host, read_written_and_compared) {
    stw_error error;
    stw_machine *plain = machine_of("", BOTH_WAYS, &error), *hosted = machine_of("'host':'b',", BOTH_WAYS, &error), *again = NULL;
    if (!CHECK(plain != NULL && hosted != NULL)) return;
    CHECK_EQ_INT(plain->host, -1);
    CHECK_EQ_INT(hosted->host, 1);
    CHECK(!stw_machine_equal(plain, hosted));
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    stw_json_writer writer;
    stw_json_writer_init(&writer, file);
    stw_machine_write(hosted, &writer);
    fclose(file);
    CHECK_EQ_INT(stw_machine_parse(text, size, "again", &again, &error), STW_OK);
    CHECK(again != NULL && stw_machine_equal(hosted, again));
    free(text);
    stw_machine_destroy(plain);
    stw_machine_destroy(hosted);
    stw_machine_destroy(again);
}

TEST(host, refusals) {
    stw_error error;
    CHECK(machine_of("'host':'x',", BOTH_WAYS, &error) == NULL);
    CHECK_CONTAINS(error.message, "host: no device is called 'x'");
    CHECK(machine_of("'host':3,", BOTH_WAYS, &error) == NULL);
    CHECK_CONTAINS(error.message, "host must be a string");
    CHECK(machine_of("'host':'b',", "{'from':'a','to':'b','bandwidth_bytes_per_s':1e9,'latency_us':0}", &error) == NULL);
    CHECK_CONTAINS(error.message, "host 'b' needs links to and from 'a'");
}
