/* Machines: the built-in ones, machine files in and out, and what follows from devices and links. */
#define _POSIX_C_SOURCE 200809L /* open_memstream, mkstemp */
#include "machine/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "machine/machine_text.h"
#include "test.h"

static stw_machine *open_machine(const char *name) {
    stw_error error = {0};
    stw_machine *machine = NULL;
    const stw_status status = stw_machine_open(name, &machine, &error);
    CHECK_STR(error.message, "");
    CHECK_EQ_INT(status, STW_OK);
    return machine;
}

static stw_machine *parse(const char *text) {
    stw_error error = {0};
    stw_machine *machine = NULL;
    const stw_status status = stw_machine_parse(text, strlen(text), "m.json", &machine, &error);
    CHECK_STR(error.message, "");
    CHECK_EQ_INT(status, STW_OK);
    return machine;
}

/* The caller frees it. */
static char *text_of(const stw_machine *machine) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) abort();
    stw_json_writer writer;
    stw_json_writer_init(&writer, file);
    stw_machine_write(machine, &writer);
    if (fclose(file) != 0) abort();
    return text;
}

static void check_round_trip(const stw_machine *machine) {
    char *first = text_of(machine);
    stw_machine *again = parse(first);
    if (CHECK(again != NULL)) {
        CHECK(stw_machine_equal(machine, again));
        CHECK_STR(stw_machine_name(again), stw_machine_name(machine));
        char *second = text_of(again);
        CHECK_STR(second, first);
        free(second);
    }
    stw_machine_destroy(again);
    free(first);
}

static void check_link(const stw_machine *machine, int32_t from, int32_t to, double bandwidth, double latency_us,
                       const char *bus) {
    const stw_link *link = stw_machine_link(machine, from, to);
    CHECK_NEAR(link->bandwidth, bandwidth, 0.0);
    CHECK_NEAR(link->latency_us, latency_us, 0.0);
    CHECK_STR(link->bus < 0 ? "" : machine->bus_name[link->bus].p, bus);
}

/* ---- Built-in machines -------------------------------------------------------------------------------------------------------
 */

TEST(machine, families_are_listed) {
    static const char *const expected[] = {"p100xN",      "v100xN",      "a100xN",     "h100xN",   "h200xN",
                                           "h200xN-pcie", "h200xN-host", "cpu+h200xN", "KINDxA+B", "0.1/MACHINE"};
    const int32_t count = (int32_t)(sizeof expected / sizeof expected[0]);
    const char *name, *description;
    for (int32_t i = 0; i < count; i++) {
        if (!CHECK(stw_machine_list(i, &name, &description))) return;
        CHECK_STR(name, expected[i]);
        CHECK(strlen(description) > 10);
    }
    CHECK(!stw_machine_list(count, &name, &description));
    CHECK(!stw_machine_list(-1, &name, &description));
    CHECK(!stw_machine_list(INT32_MAX, &name, &description));
    int32_t measured = 0, assumed = 0;
    for (int32_t i = 0; stw_machine_source(i, &name, &description); i++) {
        const bool known = strstr(description, "measured") != NULL, guess = strstr(description, "assumed") != NULL;
        CHECK(known || guess || strcmp(description, "the vendors'") == 0);
        measured += known, assumed += guess;
    }
    CHECK(measured >= 3 && assumed >= 3);
    CHECK(!stw_machine_source(-1, &name, &description));
}

TEST(machine, kinds_have_their_specifications) {
    static const struct {
        const char *kind;
        int64_t memory;
        double f32, tf32, bf16, bandwidth;
    } expected[] = {
        {"p100", 17066885120, 10.6e12, 0, 21.2e12, 732e9},      {"v100", 16935682048, 15.7e12, 0, 125e12, 898e9},
        {"a100", 85100068864, 19.5e12, 156e12, 312e12, 2039e9}, {"h100", 84942979072, 67e12, 494e12, 989e12, 3352e9},
        {"h200", 151397597184, 67e12, 494e12, 989e12, 4800e9},
    };
    stw_device h200, device;
    CHECK(stw_device_of_kind(STW_STR("h200"), &h200));
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        test_context("%s", expected[i].kind);
        if (!CHECK(stw_device_of_kind(stw_str_of(expected[i].kind), &device))) continue;
        CHECK_STR(device.kind.p, expected[i].kind);
        CHECK_EQ_INT(device.memory_bytes, expected[i].memory);
        CHECK_NEAR(device.flops_f32, expected[i].f32, 0.0);
        CHECK_NEAR(device.flops_tf32, expected[i].tf32, 0.0);
        CHECK_NEAR(device.flops_bf16, expected[i].bf16, 0.0);
        CHECK_NEAR(device.bandwidth, expected[i].bandwidth, 0.0);
        CHECK_NEAR(device.launch_us, h200.launch_us, 0.0);
        CHECK(memcmp(device.efficiency, h200.efficiency, sizeof device.efficiency) == 0);
    }
    test_context("cpu8");
    CHECK(stw_device_of_kind(STW_STR("cpu8"), &device));
    CHECK_EQ_INT(device.memory_bytes, 128000000000);
    CHECK(device.flops_f32 > 1e10 && device.flops_f32 < h200.flops_f32);
    CHECK(device.bandwidth > 1e9 && device.bandwidth < h200.bandwidth);
    for (int32_t c = 0; c < STW_CLASS_COUNT; c++) {
        test_context("%s", stw_op_class_name((stw_op_class)c));
        CHECK(h200.efficiency[c] > 0.0 && h200.efficiency[c] <= 1.0);
        CHECK(device.efficiency[c] > 0.0 && device.efficiency[c] <= 1.0);
    }
    test_context("%s", "");
    CHECK(!stw_device_of_kind(STW_STR("h20"), &device));
    CHECK(!stw_device_of_kind(STW_STR(""), &device));
}

static void check_uniform(const char *kind, int32_t count, const char *suffix, double bandwidth, double latency_us) {
    char name[40];
    snprintf(name, sizeof name, "%sx%d%s", kind, count, suffix);
    test_context("%s", name);
    stw_machine *machine = open_machine(name);
    if (machine == NULL) return;
    CHECK_STR(stw_machine_name(machine), name);
    CHECK_EQ_INT(stw_machine_device_count(machine), count);
    CHECK_EQ_INT(machine->cost_class_count, 1);
    CHECK_EQ_INT(machine->channel_count, count * (count - 1));
    CHECK_EQ_INT(machine->bus_count, 0);
    CHECK(machine->queues && machine->complete);
    for (int32_t d = 0; d < count; d++) {
        char device[40];
        snprintf(device, sizeof device, "%s:%d", kind, d);
        CHECK_STR(stw_machine_device_name(machine, d), device);
        CHECK_STR(machine->device[d].kind.p, kind);
        CHECK(stw_machine_device_memory(machine, d) > 16000000000);
        for (int32_t to = 0; to < count; to++) {
            if (to != d) check_link(machine, d, to, bandwidth, latency_us, "");
        }
    }
    check_round_trip(machine);
    stw_machine_destroy(machine);
    test_context("%s", "");
}

TEST(machine, like_devices_in_one_host) {
    static const struct {
        const char *kind;
        double bandwidth;
    } kinds[] = {{"p100", 80e9}, {"v100", 150e9}, {"a100", 300e9}, {"h100", 450e9}, {"h200", 450e9}};
    static const int32_t counts[] = {1, 2, 3, 8, 10, 64};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
            check_uniform(kinds[k].kind, counts[n], "", kinds[k].bandwidth, 3.0);
        }
    }
    for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) check_uniform("h200", counts[n], "-pcie", 25e9, 10.0);
}

TEST(machine, copies_through_the_host_share_one_bus) {
    stw_machine *machine = open_machine("h200x4-host");
    if (machine == NULL) return;
    CHECK_EQ_INT(machine->device_count, 4);
    CHECK_EQ_INT(machine->bus_count, 1);
    CHECK_EQ_INT(machine->channel_count, 1);
    for (int32_t i = 0; i < 4; i++) {
        for (int32_t j = 0; j < 4; j++) {
            if (i == j) continue;
            check_link(machine, i, j, 55.1e9, 27.0, "host");
            CHECK_EQ_INT(stw_machine_link(machine, i, j)->channel, 0);
        }
    }
    check_round_trip(machine);
    stw_machine_destroy(machine);
    machine = open_machine("h200x1-host");
    CHECK_EQ_INT(machine->channel_count, 0);
    check_round_trip(machine);
    stw_machine_destroy(machine);
}

TEST(machine, host_and_devices) {
    stw_machine *machine = open_machine("cpu+h200x2");
    if (machine == NULL) return;
    CHECK_EQ_INT(machine->device_count, 3);
    CHECK_STR(stw_machine_device_name(machine, 0), "cpu");
    CHECK_STR(machine->device[0].kind.p, "cpu8");
    CHECK_EQ_INT(stw_machine_device_memory(machine, 0), 128000000000);
    CHECK_STR(stw_machine_device_name(machine, 1), "h200:0");
    CHECK_STR(stw_machine_device_name(machine, 2), "h200:1");
    CHECK_EQ_INT(machine->cost_class_count, 2);
    CHECK_EQ_INT(machine->device[0].cost_class, 0);
    CHECK_EQ_INT(machine->device[1].cost_class, 1);
    CHECK_EQ_INT(machine->device[2].cost_class, 1);
    CHECK_EQ_INT(machine->class_device[1], 1);
    CHECK_EQ_INT(machine->channel_count, 6);
    check_link(machine, 0, 2, 55.2e9, 14.0, "");
    check_link(machine, 2, 0, 55.1e9, 13.0, "");
    check_link(machine, 1, 2, 450e9, 3.0, "");
    check_round_trip(machine);
    stw_machine_destroy(machine);
    machine = open_machine("cpu+h200x63");
    CHECK_EQ_INT(stw_machine_device_count(machine), 64);
    stw_machine_destroy(machine);
}

TEST(machine, two_hosts) {
    stw_machine *machine = open_machine("h200x2+2");
    if (machine == NULL) return;
    CHECK_EQ_INT(machine->device_count, 4);
    CHECK_STR(stw_machine_device_name(machine, 3), "h200:3");
    CHECK_EQ_INT(machine->bus_count, 2);
    CHECK_EQ_INT(machine->channel_count, 2 + 4);
    CHECK(machine->complete);
    check_link(machine, 0, 1, 450e9, 3.0, "");
    check_link(machine, 3, 2, 450e9, 3.0, "");
    check_link(machine, 1, 2, 50e9, 20.0, "nic0-1");
    check_link(machine, 2, 1, 50e9, 20.0, "nic1-0");
    CHECK_EQ_INT(stw_machine_link(machine, 0, 2)->channel, stw_machine_link(machine, 1, 3)->channel);
    CHECK(stw_machine_link(machine, 0, 2)->channel != stw_machine_link(machine, 2, 0)->channel);
    check_round_trip(machine);
    stw_machine_destroy(machine);
    machine = open_machine("p100x1+63");
    CHECK_EQ_INT(stw_machine_device_count(machine), 64);
    check_link(machine, 1, 63, 80e9, 3.0, "");
    check_link(machine, 0, 63, 50e9, 20.0, "nic0-1");
    check_round_trip(machine);
    stw_machine_destroy(machine);
}

TEST(machine, those_of_the_first_version_are_the_same_without_charges) {
    static const char *const names[] = {"h200x4", "p100x2", "h200x2-pcie", "h200x2-host", "cpu+h200x2", "v100x1+2"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char name[40];
        snprintf(name, sizeof name, "0.1/%s", names[k]);
        stw_machine *plain = open_machine(name), *charged = open_machine(names[k]);
        if (plain == NULL || charged == NULL) return;
        CHECK(charged->charges && !plain->charges && !stw_machine_equal(plain, charged));
        CHECK_STR(stw_machine_name(plain), name);
        check_round_trip(plain);
        for (int32_t i = 0; i < charged->device_count * charged->device_count; i++) {
            if (charged->link[i].bandwidth <= 0.0) continue;
            CHECK_NEAR(charged->link[i].send_us, 0.2, 0.0);
            CHECK_NEAR(charged->link[i].receive_us, 2.8, 0.0);
            charged->link[i].send_us = charged->link[i].receive_us = 0.0;
        }
        CHECK(stw_machine_equal(plain, charged));
        stw_machine_destroy(plain);
        stw_machine_destroy(charged);
    }
}

/* Tables of version 0.1 are of these files, and so are those that are compared with them. */
TEST(machine, those_of_the_first_version_stay_what_they_were) {
    static const char *const names[] = {"p100x2",      "p100x4",      "p100x8",      "v100x4",      "a100x4",     "h100x4",
                                        "h200x1",      "h200x2",      "h200x4",      "h200x8",      "h200x2+2",   "h200x4+4",
                                        "h200x2-pcie", "h200x4-pcie", "h200x8-pcie", "h200x4-host", "cpu+h200x1", "cpu+h200x2"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char name[40], path[300];
        snprintf(name, sizeof name, "0.1/%s", names[k]);
        snprintf(path, sizeof path, "%s/data/machines/%s.json", STW_SOURCE_DIR, name);
        stw_machine *now = open_machine(name), *then = open_machine(path);
        if (CHECK(now != NULL && then != NULL)) {
            CHECK(stw_machine_equal(now, then));
            CHECK_STR(stw_machine_name(then), name);
        }
        stw_machine_destroy(now);
        stw_machine_destroy(then);
    }
}

TEST(machine, names_that_are_not_built_in) {
    static const char *const names[] = {"",
                                        "h200",
                                        "h200x",
                                        "h200x0",
                                        "h200x65",
                                        "h200x01",
                                        "h200x-1",
                                        "h200x2+",
                                        "h200x2+0",
                                        "h200x33+32",
                                        "H200x2",
                                        "cpu8x2",
                                        "a100x2-pcie",
                                        "v100x2-host",
                                        "cpu+a100x2",
                                        "cpu+h200x64",
                                        "cpu+h200",
                                        "cpu+",
                                        "h200x2+2+2",
                                        "h200x2-pcie ",
                                        " h200x2",
                                        "h200x2-host+1",
                                        "tpu-v3x4",
                                        "cpu+h200x1+1",
                                        "h200x2-charged",
                                        "0.1/",
                                        "0.1/0.1/h200x2",
                                        "0.1h200x2",
                                        "0.2/h200x2",
                                        "cpu+0.1/h200x2",
                                        "h200x99999999999999999999"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        test_context("%s", names[i]);
        stw_error error = {0};
        stw_machine *machine;
        CHECK_EQ_INT(stw_machine_open(names[i], &machine, &error), STW_ERROR_INPUT);
        CHECK(machine == NULL);
        CHECK_CONTAINS(error.message, "is neither a file nor a built-in machine");
    }
    stw_error error = {0};
    stw_machine *machine;
    CHECK_EQ_INT(stw_machine_open("h300x4", &machine, &error), STW_ERROR_INPUT);
    CHECK_STR(
        error.message,
        "'h300x4' is neither a file nor a built-in machine; built in are p100xN, v100xN, a100xN, h100xN, h200xN, "
        "h200xN-pcie, h200xN-host, cpu+h200xN, KINDxA+B, 0.1/MACHINE (1 to 64 devices in all); describe any other in a file "
        "(docs/formats/machine.md) and give its path");
}

/* latency + bytes / bandwidth with the least sum of squared relative errors, as builtin.c says. */
static void fit_transfers(const char *direction, double *latency_us, double *bandwidth) {
    stw_arena arena;
    stw_str text;
    if (stw_arena_create(&arena, NULL) != STW_OK) abort();
    CHECK_EQ_INT(stw_file_read(STW_SOURCE_DIR "/data/transfers.json", &arena, &text, NULL), STW_OK);
    stw_json json;
    stw_json_init(&json, text, &arena, NULL);
    stw_str size, key;
    double s11 = 0, s12 = 0, s22 = 0, r1 = 0, r2 = 0;
    stw_json_object(&json);
    while (stw_json_key(&json, &size)) {
        stw_json_object(&json);
        while (stw_json_key(&json, &key)) {
            double us = 0, bytes = 0;
            stw_json_double(&json, &us);
            if (!stw_str_is(key, direction) || !stw_str_to_double(size, &bytes)) continue;
            s11 += 1 / us / us, s12 += bytes / us / us, s22 += bytes / us * (bytes / us), r1 += 1 / us, r2 += bytes / us;
        }
    }
    CHECK_EQ_INT(stw_json_finish(&json), STW_OK);
    const double determinant = s11 * s22 - s12 * s12;
    *latency_us = (r1 * s22 - r2 * s12) / determinant;
    *bandwidth = 1e6 * determinant / (s11 * r2 - s12 * r1);
    stw_arena_destroy(&arena);
}

TEST(machine, host_links_follow_from_the_measured_copies) {
    stw_machine *machine = open_machine("cpu+h200x1");
    if (machine == NULL) return;
    double latency_us, bandwidth;
    fit_transfers("h2d", &latency_us, &bandwidth);
    CHECK_NEAR(stw_machine_link(machine, 0, 1)->latency_us, latency_us, 0.05);
    CHECK_NEAR(stw_machine_link(machine, 0, 1)->bandwidth, bandwidth, 0.05e9);
    fit_transfers("d2h", &latency_us, &bandwidth);
    CHECK_NEAR(stw_machine_link(machine, 1, 0)->latency_us, latency_us, 0.05);
    CHECK_NEAR(stw_machine_link(machine, 1, 0)->bandwidth, bandwidth, 0.05e9);
    stw_machine_destroy(machine);
}

/* ---- Files -------------------------------------------------------------------------------------------------------------------
 */

TEST(machine, known_kinds_need_only_a_name) {
    stw_machine *machine = parse(HEAD "\"devices\":[{\"name\":\"x\",\"kind\":\"a100\"}]}");
    if (machine == NULL) return;
    stw_device a100;
    CHECK(stw_device_of_kind(STW_STR("a100"), &a100));
    const stw_device *device = &machine->device[0];
    CHECK_STR(device->name.p, "x");
    CHECK_EQ_INT(device->memory_bytes, a100.memory_bytes);
    CHECK_NEAR(device->launch_us, a100.launch_us, 0.0);
    CHECK_NEAR(device->flops_f32, a100.flops_f32, 0.0);
    CHECK_NEAR(device->flops_tf32, a100.flops_tf32, 0.0);
    CHECK_NEAR(device->flops_bf16, a100.flops_bf16, 0.0);
    CHECK_NEAR(device->bandwidth, a100.bandwidth, 0.0);
    CHECK(memcmp(device->efficiency, a100.efficiency, sizeof a100.efficiency) == 0);
    CHECK_STR(stw_machine_name(machine), "");
    CHECK(machine->queues && machine->complete);
    CHECK_EQ_INT(machine->channel_count, 0);
    stw_machine_destroy(machine);
}

TEST(machine, every_field_is_read_in_any_order) {
    stw_machine *machine = parse(
        "{\"links\":[{\"bus\":\"p\",\"latency_us\":7.5,\"bandwidth_bytes_per_s\":2e9,\"to\":\"a\",\"from\":\"b\",\"note\":1}],"
        "\"contention\":\"none\",\"name\":\"odd\",\"note\":{\"devices\":[3,null,true]},\"devices\":["
        "{\"fuses_epilogue\":[\"matmul\",\"convolution\",\"matmul\"],\"efficiency\":{\"sort\":1,\"matmul\":0.25},"
        "\"latency_us\":{\"reduce\":0.75,\"shape\":0},\"bandwidth_bytes_per_s\":5e11,"
        "\"flops_per_s\":{\"bf16\":3e13,\"fp4\":1,\"f32\":1e13},\"launch_us\":0,"
        "\"memory_bytes\":1.5e9,\"kind\":\"y\",\"name\":\"a\"},{\"kind\":\"h200\",\"name\":\"b\",\"efficiency\":{}}],"
        "\"version\":1,\"format\":\"machine\"}");
    if (machine == NULL) return;
    stw_device h200;
    CHECK(stw_device_of_kind(STW_STR("h200"), &h200));
    const stw_device *a = &machine->device[0];
    CHECK_STR(stw_machine_name(machine), "odd");
    CHECK(!machine->queues && !machine->complete);
    CHECK_EQ_INT(a->memory_bytes, 1500000000);
    CHECK_NEAR(a->launch_us, 0.0, 0.0);
    CHECK_NEAR(a->flops_f32, 1e13, 0.0);
    CHECK_NEAR(a->flops_tf32, 0.0, 0.0);
    CHECK_NEAR(a->flops_bf16, 3e13, 0.0);
    CHECK_NEAR(a->bandwidth, 5e11, 0.0);
    for (int32_t c = 0; c < STW_CLASS_COUNT; c++) {
        CHECK_NEAR(a->efficiency[c], c == STW_CLASS_SORT ? 1.0 : c == STW_CLASS_MATMUL ? 0.25 : h200.efficiency[c], 0.0);
        CHECK_NEAR(a->latency_us[c], c == STW_CLASS_REDUCE ? 0.75 : 0.0, 0.0);
        CHECK_EQ_INT(a->fuses_epilogue[c], c == STW_CLASS_MATMUL || c == STW_CLASS_CONVOLUTION);
    }
    CHECK_EQ_INT(machine->cost_class_count, 2);
    check_link(machine, 1, 0, 2e9, 7.5, "p");
    check_link(machine, 0, 1, 0.0, 0.0, "");
    CHECK_EQ_INT(stw_machine_link(machine, 0, 1)->channel, -1);
    check_round_trip(machine);
    stw_machine_destroy(machine);
}

TEST(machine, links_may_charge_and_have_rates_by_size) {
    stw_machine *machine = parse(HEAD A_AND_B
                                 ",\"links\":[{\"from\":\"a\",\"to\":\"b\",\"latency_us\":1,\"receive_us\":2.5,"
                                 "\"bandwidth_bytes_per_s\":[[65536,8e9],[1048576,2.1e10]],\"send_us\":0.5},"
                                 "{\"from\":\"b\",\"to\":\"a\",\"latency_us\":1,\"bandwidth_bytes_per_s\":1e9}]}");
    if (machine == NULL) return;
    const stw_link *link = stw_machine_link(machine, 0, 1), *back = stw_machine_link(machine, 1, 0);
    CHECK_NEAR(link->send_us, 0.5, 0.0);
    CHECK_NEAR(link->receive_us, 2.5, 0.0);
    CHECK_EQ_INT(link->rate_count, 2);
    CHECK_NEAR(link->rates[0].bytes, 65536.0, 0.0);
    CHECK_NEAR(link->rates[0].rate, 8e9, 0.0);
    CHECK_NEAR(link->bandwidth, 2.1e10, 0.0); /* of large transfers */
    CHECK(machine->charges && back->rates == NULL);
    CHECK_NEAR(back->send_us + back->receive_us, 0.0, 0.0);
    CHECK(stw_machine_warning(machine) == NULL);
    check_round_trip(machine);
    stw_machine_destroy(machine);
}

TEST(machine, unknown_keys_of_a_link_are_remarked_on) {
    stw_machine *machine = parse(HEAD A_AND_B
                                 ",\"links\":[{\"from\":\"a\",\"to\":\"b\",\"latency_us\":1,"
                                 "\"bandwidth_bytes_per_s\":1e9,\"send_uss\":3,\"x\":[1]}]}");
    if (machine == NULL) return;
    CHECK(!machine->charges);
    CHECK_STR(
        stw_machine_warning(machine),
        "machine: links[0] 'a' -> 'b' has the key 'send_uss', which is not known and counts for nothing; there are from, to, "
        "bandwidth_bytes_per_s, latency_us, send_us, receive_us, bus");
    stw_machine_destroy(machine);
}

TEST(machine, names_may_hold_anything_printable_or_not) {
    stw_machine *machine =
        parse(HEAD
              "\"name\":\"\\u00e9\\n\",\"devices\":[{\"name\":\"a\\\"\\\\\\ud83d\\ude00\",\"kind\":\"\\/\",\"memory_bytes\":0,"
              "\"launch_us\":1,\"flops_per_s\":{\"f32\":1},\"bandwidth_bytes_per_s\":0.1,\"efficiency\":{}},"
              "{\"name\":\"\\t\",\"kind\":\"h200\"}],\"links\":[{\"from\":\"\\u0009\",\"to\":\"a\\\"\\\\\\ud83d\\ude00\","
              "\"bandwidth_bytes_per_s\":1e-3,\"latency_us\":0.30000000000000004,\"bus\":\"\\u0001\"}]}");
    if (machine == NULL) return;
    CHECK_STR(stw_machine_name(machine), "\xc3\xa9\n");
    CHECK_STR(stw_machine_device_name(machine, 0), "a\"\\\xf0\x9f\x98\x80");
    CHECK_STR(stw_machine_device_name(machine, 1), "\t");
    check_round_trip(machine);
    stw_machine_destroy(machine);
}

TEST(machine, machine_within_another_object) {
    static const char text[] = "[" HEAD "\"links\":[]," A_AND_B "}, 7]";
    stw_arena arena;
    stw_error error = {0};
    if (stw_arena_create(&arena, &error) != STW_OK) abort();
    stw_json json;
    stw_json_init(&json, STW_STR(text), &arena, &error);
    stw_machine *machine;
    int64_t seven = 0;
    CHECK(stw_json_array(&json) && stw_json_item(&json));
    CHECK_EQ_INT(stw_machine_read(&json, &machine, &error), STW_OK);
    CHECK(stw_json_item(&json) && stw_json_int64(&json, &seven));
    CHECK(!stw_json_item(&json));
    CHECK_EQ_INT(stw_json_finish(&json), STW_OK);
    CHECK_EQ_INT(seven, 7);
    stw_arena_destroy(&arena); /* the machine keeps its own strings */
    CHECK_STR(stw_machine_device_name(machine, 1), "b");
    stw_machine_destroy(machine);
}

TEST(machine, example_of_the_documentation) {
    stw_arena arena;
    stw_str page;
    if (stw_arena_create(&arena, NULL) != STW_OK) abort();
    CHECK_EQ_INT(stw_file_read(STW_SOURCE_DIR "/docs/formats/machine.md", &arena, &page, NULL), STW_OK);
    const char *begin = strstr(page.p, "```json\n");
    if (!CHECK(begin != NULL)) return;
    begin += strlen("```json\n");
    char *end = strstr(begin, "```");
    if (!CHECK(end != NULL)) return;
    *end = '\0';
    stw_machine *machine = parse(begin);
    if (machine != NULL) {
        CHECK_STR(stw_machine_name(machine), "workstation");
        CHECK_EQ_INT(stw_machine_device_count(machine), 3);
        CHECK_EQ_INT(machine->channel_count, 4);
        CHECK(!machine->complete);
        check_round_trip(machine);
    }
    for (int32_t c = 0; c < STW_CLASS_COUNT; c++) { /* the page lists the classes */
        char quoted[40];
        snprintf(quoted, sizeof quoted, "`%s`", stw_op_class_name((stw_op_class)c));
        CHECK_CONTAINS(end + 1, quoted);
    }
    const char *family, *description;
    for (int32_t i = 0; stw_machine_list(i, &family, &description); i++) CHECK_CONTAINS(end + 1, family);
    stw_machine_destroy(machine);
    stw_arena_destroy(&arena);
}

TEST(machine, open_reads_a_file) {
    char path[] = "/tmp/stowage-test-XXXXXX";
    const int descriptor = mkstemp(path);
    if (!CHECK(descriptor >= 0)) return;
    stw_machine *machine = open_machine("cpu+h200x2");
    char *text = text_of(machine);
    CHECK_EQ_INT(write(descriptor, text, strlen(text)), (int64_t)strlen(text));
    stw_machine *again = open_machine(path);
    CHECK(again != NULL && stw_machine_equal(machine, again));
    stw_machine_destroy(again);
    CHECK_EQ_INT(ftruncate(descriptor, 20), 0);
    stw_error error = {0};
    CHECK_EQ_INT(stw_machine_open(path, &again, &error), STW_ERROR_INPUT);
    CHECK(again == NULL);
    CHECK(strncmp(error.message, path, strlen(path)) == 0);
    CHECK_CONTAINS(error.message, ": line 1, column ");
    CHECK_EQ_INT(stw_machine_open(path, &again, NULL), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_machine_open("/tmp", &again, &error), STW_ERROR_INPUT);
    CHECK_STR(error.message, "/tmp: is a directory; name a file in it");
    close(descriptor);
    unlink(path);
    free(text);
    stw_machine_destroy(machine);
}

/* ---- Sizes ---- */

/* `count` devices of a known kind and all links, each with a bus of its own. */
static char *large_file(int32_t count) {
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) abort();
    fputs(HEAD "\"devices\":[", file);
    for (int32_t i = 0; i < count; i++) fprintf(file, "%s{\"name\":\"d%d\",\"kind\":\"v100\"}", i == 0 ? "" : ",", i);
    fputs("],\"links\":[", file);
    for (int32_t i = 0; i < count; i++) {
        for (int32_t j = 0; j < count; j++) {
            if (i == j) continue;
            fprintf(file, "%s{\"from\":\"d%d\",\"to\":\"d%d\"," REST ",\"bus\":\"%d-%d\"}", i + j == 1 && i == 0 ? "" : ",", i, j,
                    i, j);
        }
    }
    fputs("]}", file);
    fclose(file);
    return text;
}

TEST(machine, sixty_four_devices_and_no_more) {
    char *text = large_file(64);
    stw_machine *machine = parse(text);
    if (machine != NULL) {
        CHECK_EQ_INT(stw_machine_device_count(machine), 64);
        CHECK_EQ_INT(machine->channel_count, 64 * 63);
        CHECK_EQ_INT(machine->bus_count, 64 * 63);
        CHECK(machine->complete);
        check_round_trip(machine);
    }
    stw_machine_destroy(machine);
    free(text);
    text = large_file(65);
    stw_error error = {0};
    CHECK_EQ_INT(stw_machine_parse(text, strlen(text), "m.json", &machine, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "machine: more than 64 devices; leave some out");
    free(text);
}

/* ---- What follows
 * ---------------------------------------------------------------------------------------------------------------- */

TEST(machine, channels_follow_the_link_matrix) {
    static const char links[] =
        A_AND_B ",\"links\":[{\"from\":\"b\",\"to\":\"a\"," REST ",\"bus\":\"p\"},{" FROM_A_TO_B REST ",\"bus\":\"p\"}]}";
    char text[600];
    snprintf(text, sizeof text, HEAD "%s", links);
    stw_machine *queue = parse(text);
    snprintf(text, sizeof text, HEAD "\"contention\":\"none\",%s", links);
    stw_machine *none = parse(text);
    if (queue == NULL || none == NULL) return;
    CHECK_EQ_INT(queue->channel_count, 1);
    CHECK_EQ_INT(stw_machine_link(queue, 0, 1)->channel, 0);
    CHECK_EQ_INT(stw_machine_link(queue, 1, 0)->channel, 0);
    CHECK_EQ_INT(none->channel_count, 2); /* buses are ignored */
    CHECK_EQ_INT(stw_machine_link(none, 0, 1)->channel, 0);
    CHECK_EQ_INT(stw_machine_link(none, 1, 0)->channel, 1);
    CHECK(!stw_machine_equal(queue, none));
    stw_machine_destroy(queue);
    stw_machine_destroy(none);
}

TEST(machine, equal_means_equal_evaluations) {
    stw_machine *a = open_machine("h200x2+2");
    stw_machine *b = open_machine("h200x2+2");
    if (a == NULL || b == NULL) return;
    b->name = STW_STR("another name");
    b->bus_name[0] = STW_STR("another bus");
    CHECK(stw_machine_equal(a, b));
#define DIFFERS(field, value)                   \
    do {                                        \
        const stw_machine kept = *b;            \
        const stw_device device = b->device[3]; \
        const stw_link link = b->link[1];       \
        (field) = (value);                      \
        CHECK(!stw_machine_equal(a, b));        \
        *b = kept;                              \
        b->device[3] = device;                  \
        b->link[1] = link;                      \
        CHECK(stw_machine_equal(a, b));         \
    } while (0)
    DIFFERS(b->queues, false);
    DIFFERS(b->device_count, 3);
    DIFFERS(b->device[3].name, STW_STR("x"));
    DIFFERS(b->device[3].kind, STW_STR("h100"));
    DIFFERS(b->device[3].memory_bytes, 5);
    DIFFERS(b->device[3].launch_us, 9.0);
    DIFFERS(b->device[3].flops_f32, 9.0);
    DIFFERS(b->device[3].flops_tf32, 9.0);
    DIFFERS(b->device[3].flops_bf16, 9.0);
    DIFFERS(b->device[3].bandwidth, 9.0);
    DIFFERS(b->device[3].efficiency[STW_CLASS_OPAQUE], 0.125);
    DIFFERS(b->device[3].latency_us[STW_CLASS_OPAQUE], 0.125);
    DIFFERS(b->device[3].fuses_epilogue[STW_CLASS_MATMUL], true);
    DIFFERS(b->link[1].bandwidth, 9.0);
    DIFFERS(b->link[1].latency_us, 9.0);
    DIFFERS(b->link[1].send_us, 9.0);
    DIFFERS(b->link[1].receive_us, 9.0);
    static const stw_rate some[] = {{64.0, 1e9}}, others[] = {{64.0, 2e9}};
    a->link[1].rates = b->link[1].rates = some;
    a->link[1].rate_count = b->link[1].rate_count = 1;
    DIFFERS(b->link[1].rates, others);
    DIFFERS(b->link[1].rate_count, 0);
    DIFFERS(b->link[1].channel, 9);
#undef DIFFERS
    stw_machine_destroy(a);
    stw_machine_destroy(b);
}

TEST(machine, cost_classes_tell_devices_apart) {
    stw_machine *machine = open_machine("h200x5");
    if (machine == NULL) return;
    machine->device[1].launch_us += 1.0;
    machine->device[2].memory_bytes /= 2; /* plays no part */
    machine->device[3].fuses_epilogue[STW_CLASS_MATMUL] = true;
    machine->device[4].launch_us += 1.0;
    CHECK_EQ_INT(stw_machine_finish(machine, NULL), STW_OK);
    static const int32_t expected[] = {0, 1, 0, 2, 1}, first[] = {0, 1, 3};
    CHECK_EQ_INT(machine->cost_class_count, 3);
    for (int32_t d = 0; d < 5; d++) CHECK_EQ_INT(machine->device[d].cost_class, expected[d]);
    for (int32_t c = 0; c < 3; c++) CHECK_EQ_INT(machine->class_device[c], first[c]);
    stw_machine_destroy(machine);
}

TEST(machine, memory_is_set_for_all) {
    stw_machine *machine = open_machine("cpu+h200x2");
    if (machine == NULL) return;
    stw_error error = {0};
    CHECK_EQ_INT(stw_machine_set_memory(machine, 4000000000, &error), STW_OK);
    for (int32_t d = 0; d < 3; d++) CHECK_EQ_INT(stw_machine_device_memory(machine, d), 4000000000);
    CHECK_EQ_INT(stw_machine_set_memory(machine, -1, &error), STW_ERROR_INPUT);
    CHECK_STR(error.message, "memory of -1 bytes; give 0 or more, such as 4GB");
    CHECK_EQ_INT(stw_machine_device_memory(machine, 2), 4000000000);
    CHECK(stw_machine_device_name(machine, 3) == NULL && stw_machine_device_name(machine, -1) == NULL);
    CHECK_EQ_INT(stw_machine_device_memory(machine, 3), 0);
    stw_machine_destroy(machine);
    stw_machine_destroy(NULL);
}

TEST(machine, creation_checks_the_count) {
    stw_machine *machine;
    stw_error error = {0};
    CHECK_EQ_INT(stw_machine_create(0, &machine, &error), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_machine_create(65, &machine, &error), STW_ERROR_INPUT);
    CHECK_STR(error.message, "a machine of 65 devices; 1 to 64 are possible");
    CHECK(machine == NULL);
}
