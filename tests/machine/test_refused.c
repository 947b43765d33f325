/* Machine files that are refused, each with the words that say what, where, the value and the remedy. */
#include <stdlib.h>
#include <string.h>

#include "machine/machine.h"
#include "machine/machine_text.h"
#include "test.h"

#define DEVICE(fields) HEAD "\"devices\":[{\"name\":\"a\",\"kind\":\"h200\"," fields "}]}"
#define OTHER(fields)  HEAD "\"devices\":[{\"name\":\"a\",\"kind\":\"z\"," fields "}]}"
#define LINK(fields)   HEAD A_AND_B ",\n\"links\":[{" fields "}]}"
#define CLASSES                                                                                                                 \
    "matmul, convolution, attention, normalization, pooling, recurrent, elementwise, broadcast, reduce, shape, alias, gather, " \
    "scatter, random, sort, collective, control, opaque"

static const struct {
    const char *text, *message;
} refused[] = {
    {"", "line 1, column 1: the text ends where an object should be"},
    {"[]", "line 1, column 1: machine: a machine must be an object"},
    {"{}", "line 1, column 1: machine: \"format\" is missing; every machine file has it"},
    {"{\"format\":\"machine\",\"version\":1}", "line 1, column 1: machine: \"devices\" is missing; every machine file has it"},
    {"{\"format\":\"opgraph\",\"version\":1,\"nodes\":[]}",
     "line 1, column 11: machine: format is 'opgraph'; it must be \"machine\""},
    {"{\"format\":3}", "line 1, column 11: machine: format must be a string"},
    {"{\"format\":\"machine\",\"version\":2}", "line 1, column 31: machine: version is 2; this program reads version 1"},
    {"{\"format\":\"machine\",\"version\":\"1\"}", "line 1, column 31: machine: version must be a number"},
    {"{\"version\":1," A_AND_B "}", "line 1, column 1: machine: \"format\" is missing; every machine file has it"},
    {"{\"format\":\"machine\"," A_AND_B "}", "line 1, column 1: machine: \"version\" is missing; every machine file has it"},
    {HEAD A_AND_B ",\"version\":1}", "line 1, column 109: machine: \"version\" is given twice; keep one"},
    {HEAD A_AND_B "} x", "line 1, column 100: text after the end of the JSON value; remove it"},
    {HEAD "\"name\":5," A_AND_B "}", "line 1, column 40: machine: name must be a string"},
    {HEAD "\"name\":\"a\\u0000b\"," A_AND_B "}", "line 1, column 40: machine: name contains the character \\u0000; remove it"},
    {HEAD "\"contention\":\"fair\"," A_AND_B "}",
     "line 1, column 46: machine: contention is 'fair'; it must be \"queue\" or \"none\""},
    {HEAD "\"contention\":true," A_AND_B "}", "line 1, column 46: machine: contention must be a string"},
    {HEAD "\"devices\":{}}", "line 1, column 43: machine: devices must be an array"},
    {HEAD "\"devices\":[]}", "line 1, column 45: machine: devices is empty; give at least one"},
    {HEAD "\"devices\":[7]}", "line 1, column 44: devices[0]: a device must be an object"},
    {HEAD "\"devices\":[{}]}", "line 1, column 44: devices[0]: \"name\" is missing; every device has one"},
    {HEAD "\"devices\":[{\"name\":\"a\"}]}", "line 1, column 44: devices[0] 'a': \"kind\" is missing; every device has one"},
    {HEAD "\"devices\":[{\"name\":\"\",\"kind\":\"h200\"}]}",
     "line 1, column 52: devices[0]: name is empty; give at least one character"},
    {HEAD "\"devices\":[{\"name\":1,\"kind\":\"h200\"}]}", "line 1, column 52: devices[0]: name must be a string"},
    {HEAD "\"devices\":[{\"name\":\"a\",\"kind\":\"\"}]}",
     "line 1, column 63: devices[0] 'a': kind is empty; give at least one character"},
    {HEAD "\"devices\":[{\"name\":\"a\",\"kind\":null}]}", "line 1, column 63: devices[0] 'a': kind must be a string"},
    {HEAD "\"devices\":[{\"name\":\"a\",\"kind\":\"h200\"},\n  {\"kind\":\"h200\", \"name\": \"a\"}]}",
     "line 2, column 27: devices[1]: the name 'a' is already that of devices[0]; names must differ"},
    {DEVICE("\"kind\":\"h200\""), "line 1, column 77: devices[0] 'a': \"kind\" is given twice; keep one"},
    {DEVICE("\"memory_bytes\":-1"), "line 1, column 85: devices[0] 'a': memory_bytes is -1; give 0 or more whole bytes"},
    {DEVICE("\"memory_bytes\":1.5"), "line 1, column 85: devices[0] 'a': memory_bytes is 1.5; give 0 or more whole bytes"},
    {DEVICE("\"memory_bytes\":1e30"), "line 1, column 85: devices[0] 'a': memory_bytes is 1e30; give 0 or more whole bytes"},
    {DEVICE("\"memory_bytes\":\"16GB\""), "line 1, column 85: devices[0] 'a': memory_bytes must be a number"},
    {DEVICE("\"launch_us\":-0.5"), "line 1, column 82: devices[0] 'a': launch_us is -0.5; give 0 or more (at most 2e12)"},
    {DEVICE("\"launch_us\":2.1e12"), "line 1, column 82: devices[0] 'a': launch_us is 2.1e12; give 0 or more (at most 2e12)"},
    {DEVICE("\"launch_us\":1e999"), "line 1, column 82: devices[0] 'a': launch_us is 1e999; give 0 or more (at most 2e12)"},
    {DEVICE("\"launch_us\":null"), "line 1, column 82: devices[0] 'a': launch_us must be a number"},
    {DEVICE("\"flops_per_s\":1e13"), "line 1, column 84: devices[0] 'a': flops_per_s must be an object"},
    {DEVICE("\"flops_per_s\":{\"tf32\":1e13}"),
     "line 1, column 84: devices[0] 'a': \"f32\" is missing; flops_per_s needs at least this peak"},
    {DEVICE("\"flops_per_s\":{\"f32\":0}"),
     "line 1, column 91: devices[0] 'a': flops_per_s.f32 is 0; give a number above 0 (1e-100 to 1e100)"},
    {DEVICE("\"flops_per_s\":{\"f32\":1,\"bf16\":-2}"),
     "line 1, column 100: devices[0] 'a': flops_per_s.bf16 is -2; give a number above 0 (1e-100 to 1e100)"},
    {DEVICE("\"flops_per_s\":{\"f32\":1,\"f32\":2}"), "line 1, column 99: devices[0] 'a': \"f32\" is given twice; keep one"},
    {DEVICE("\"bandwidth_bytes_per_s\":0"),
     "line 1, column 94: devices[0] 'a': bandwidth_bytes_per_s is 0; give a number above 0 (1e-100 to 1e100)"},
    {DEVICE("\"bandwidth_bytes_per_s\":1e-300"),
     "line 1, column 94: devices[0] 'a': bandwidth_bytes_per_s is 1e-300; give a number above 0 (1e-100 to 1e100)"},
    {DEVICE("\"efficiency\":[]"), "line 1, column 83: devices[0] 'a': efficiency must be an object"},
    {DEVICE("\"efficiency\":{\"matmul\":0}"),
     "line 1, column 93: devices[0] 'a': efficiency.matmul is 0; give a share above 0 and at most 1"},
    {DEVICE("\"efficiency\":{\"matmul\":1.01}"),
     "line 1, column 93: devices[0] 'a': efficiency.matmul is 1.01; give a share above 0 and at most 1"},
    {DEVICE("\"efficiency\":{\"matmul\":\"high\"}"), "line 1, column 93: devices[0] 'a': efficiency.matmul must be a number"},
    {DEVICE("\"efficiency\":{\"matmul\":0.5,\"matmul\":0.5}"),
     "line 1, column 106: devices[0] 'a': \"efficiency.matmul\" is given twice; keep one"},
    {DEVICE("\"latency_us\":{\"matmul\":-1}"),
     "line 1, column 93: devices[0] 'a': latency_us.matmul is -1; give 0 or more (at most 2e12)"},
    {DEVICE("\"latency_us\":{\"matmul\":0,\"matmul\":0}"),
     "line 1, column 104: devices[0] 'a': \"latency_us.matmul\" is given twice; keep one"},
    {DEVICE("\"efficiency\":{\"conv\":0.5}"),
     "line 1, column 91: devices[0] 'a': efficiency: no operator class is called 'conv'; there are " CLASSES},
    {DEVICE("\"fuses_epilogue\":\"matmul\""), "line 1, column 87: devices[0] 'a': fuses_epilogue must be an array"},
    {DEVICE("\"fuses_epilogue\":[1]"), "line 1, column 88: devices[0] 'a': a class in fuses_epilogue must be a string"},
    {DEVICE("\"fuses_epilogue\":[\"matmul\",\"gemm\"]"),
     "line 1, column 97: devices[0] 'a': fuses_epilogue: no operator class is called 'gemm'; there are " CLASSES},
    {OTHER("\"launch_us\":1"),
     "line 1, column 44: devices[0] 'a': \"memory_bytes\" is missing; give it, since 'z' is not a built-in kind"},
    {OTHER("\"memory_bytes\":1,\"flops_per_s\":{\"f32\":1},\"bandwidth_bytes_per_s\":1,\"efficiency\":{}"),
     "line 1, column 44: devices[0] 'a': \"launch_us\" is missing; give it, since 'z' is not a built-in kind"},
    {OTHER("\"memory_bytes\":1,\"launch_us\":1,\"bandwidth_bytes_per_s\":1,\"efficiency\":{}"),
     "line 1, column 44: devices[0] 'a': \"flops_per_s\" is missing; give it, since 'z' is not a built-in kind"},
    {OTHER("\"memory_bytes\":1,\"launch_us\":1,\"flops_per_s\":{\"f32\":1},\"efficiency\":{}"),
     "line 1, column 44: devices[0] 'a': \"bandwidth_bytes_per_s\" is missing; give it, since 'z' is not a built-in kind"},
    {OTHER("\"memory_bytes\":1,\"launch_us\":1,\"flops_per_s\":{\"f32\":1},\"bandwidth_bytes_per_s\":1"),
     "line 1, column 44: devices[0] 'a': \"efficiency\" is missing; give it, since 'z' is not a built-in kind"},
    {HEAD A_AND_B ",\"links\":3}", "line 1, column 107: machine: links must be an array"},
    {HEAD A_AND_B ",\"links\":[3]}", "line 1, column 108: links[0]: a link must be an object"},
    {LINK(""), "line 2, column 10: links[0]: \"from\" is missing; every link has one"},
    {LINK("\"from\":\"a\"," REST), "line 2, column 10: links[0]: \"to\" is missing; every link has one"},
    {LINK(FROM_A_TO_B "\"latency_us\":1"),
     "line 2, column 10: links[0] 'a' -> 'b': \"bandwidth_bytes_per_s\" is missing; every link has one"},
    {LINK(FROM_A_TO_B "\"bandwidth_bytes_per_s\":1"),
     "line 2, column 10: links[0] 'a' -> 'b': \"latency_us\" is missing; every link has one"},
    {LINK("\"from\":\"a\",\"to\": \"c\"," REST),
     "line 2, column 28: links[0]: to: no device is called 'c'; use a name from \"devices\""},
    {LINK("\"from\":0,\"to\":1," REST), "line 2, column 18: links[0]: from must be a string"},
    {LINK("\"from\":\"b\",\"to\":\"b\"," REST),
     "line 2, column 10: links[0] 'b' -> 'b': a link from a device to itself; remove it"},
    {LINK(FROM_A_TO_B REST "},{" FROM_A_TO_B REST), "line 2, column 75: links[1] 'a' -> 'b': this link is given twice; keep one"},
    {LINK(FROM_A_TO_B REST ",\"from\":\"b\""), "line 2, column 81: links[0] 'a' -> 'b': \"from\" is given twice; keep one"},
    {LINK(FROM_A_TO_B "\"bandwidth_bytes_per_s\":0"),
     "line 2, column 55: links[0] 'a' -> 'b': bandwidth_bytes_per_s is 0; give a number above 0 (1e-100 to 1e100)"},
    {LINK(FROM_A_TO_B "\"bandwidth_bytes_per_s\":-1e9"),
     "line 2, column 55: links[0] 'a' -> 'b': bandwidth_bytes_per_s is -1e9; give a number above 0 (1e-100 to 1e100)"},
    {LINK(FROM_A_TO_B "\"latency_us\":-1"),
     "line 2, column 44: links[0] 'a' -> 'b': latency_us is -1; give 0 or more (at most 2e12)"},
    {LINK(FROM_A_TO_B "\"latency_us\":\"1us\""), "line 2, column 44: links[0] 'a' -> 'b': latency_us must be a number"},
    {LINK(FROM_A_TO_B REST ",\"send_us\":-1"),
     "line 2, column 84: links[0] 'a' -> 'b': send_us is -1; give 0 or more (at most 2e12)"},
    {LINK(FROM_A_TO_B REST ",\"receive_us\":1e999"),
     "line 2, column 87: links[0] 'a' -> 'b': receive_us is 1e999; give 0 or more (at most 2e12)"},
    {LINK(FROM_A_TO_B REST ",\"send_us\":3e12"),
     "line 2, column 84: links[0] 'a' -> 'b': send_us is 3e12; give 0 or more (at most 2e12)"},
    {LINK(FROM_A_TO_B REST ",\"receive_us\":null"), "line 2, column 87: links[0] 'a' -> 'b': receive_us must be a number"},
    {LINK(FROM_A_TO_B REST ",\"send_us\":1,\"send_us\":1"),
     "line 2, column 96: links[0] 'a' -> 'b': \"send_us\" is given twice; keep one"},
    {LINK(FROM_A_TO_B "\"bandwidth_bytes_per_s\":{}"),
     "line 2, column 55: links[0] 'a' -> 'b': bandwidth_bytes_per_s must be a number, or an array of points [bytes, bytes per "
     "second]"},
    {LINK(FROM_A_TO_B "\"bandwidth_bytes_per_s\":[]"),
     "line 2, column 57: links[0] 'a' -> 'b': bandwidth_bytes_per_s is empty; give at least one point"},
    {LINK(FROM_A_TO_B "\"bandwidth_bytes_per_s\":[1e9]"),
     "line 2, column 56: links[0] 'a' -> 'b': a point of bandwidth_bytes_per_s must be an array"},
    {LINK(FROM_A_TO_B "\"bandwidth_bytes_per_s\":[[1]]"),
     "line 2, column 56: links[0] 'a' -> 'b': a point of bandwidth_bytes_per_s is [bytes, bytes per second]"},
    {LINK(FROM_A_TO_B "\"bandwidth_bytes_per_s\":[[1,2,3]]"),
     "line 2, column 56: links[0] 'a' -> 'b': a point of bandwidth_bytes_per_s is [bytes, bytes per second]"},
    {LINK(FROM_A_TO_B "\"bandwidth_bytes_per_s\":[[0,1e9]]"),
     "line 2, column 57: links[0] 'a' -> 'b': a size in bandwidth_bytes_per_s is 0; give a number above 0 (1e-100 to 1e100)"},
    {LINK(FROM_A_TO_B "\"bandwidth_bytes_per_s\":[[1,-1e9]]"),
     "line 2, column 59: links[0] 'a' -> 'b': a rate in bandwidth_bytes_per_s is -1e9; give a number above 0 (1e-100 to 1e100)"},
    {LINK(FROM_A_TO_B "\"bandwidth_bytes_per_s\":[[64,1e9],[64,2e9]]"),
     "line 2, column 65: links[0] 'a' -> 'b': bandwidth_bytes_per_s has 64 bytes behind 64; give its sizes in ascending order"},
    {LINK(FROM_A_TO_B "\"bandwidth_bytes_per_s\":[[64,1e9],[128,4e9]]"),
     "line 2, column 65: links[0] 'a' -> 'b': bandwidth_bytes_per_s has 128 bytes take less time than 64; lower its rate, or "
     "leave the point out"},
    {LINK(FROM_A_TO_B REST ",\"bus\":\"\""), "line 2, column 80: links[0] 'a' -> 'b': bus is empty; give at least one character"},
    {LINK(FROM_A_TO_B REST ",\"bus\":7"), "line 2, column 80: links[0] 'a' -> 'b': bus must be a string"},
    {HEAD A_AND_B ",\"x\":[[[[1,]]]]}", "line 1, column 109: nothing follows this ','"},
};

TEST(machine, wrong_files_are_refused_in_words) {
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        test_context("%s", refused[i].text);
        stw_error error = {0};
        stw_machine *machine;
        CHECK_EQ_INT(stw_machine_parse(refused[i].text, strlen(refused[i].text), "m.json", &machine, &error), STW_ERROR_INPUT);
        CHECK(machine == NULL);
        if (CHECK(strncmp(error.message, "m.json: ", 8) == 0)) CHECK_STR(error.message + 8, refused[i].message);
        CHECK_EQ_INT(stw_machine_parse(refused[i].text, strlen(refused[i].text), "m.json", &machine, NULL), STW_ERROR_INPUT);
    }
}

TEST(machine, every_truncation_is_refused_with_its_place) {
    static const char text[] = HEAD
        "\"name\":\"m\\u00e9\",\"contention\":\"queue\",\n\"devices\":[{\"name\":\"a\",\"kind\":\"k\",\"memory_bytes\":16e9,"
        "\"launch_us\":2.5,\"flops_per_s\":{\"f32\":1e13,\"tf32\":8e13},\"bandwidth_bytes_per_s\":9e11,\"efficiency\":"
        "{\"matmul\":0.5},\"fuses_epilogue\":[\"matmul\"]},{\"name\":\"b\",\"kind\":\"cpu8\"}],\n\"links\":[{" FROM_A_TO_B REST
        ",\"bus\":\"x\"}]}";
    const size_t size = strlen(text);
    for (size_t length = 0; length < size; length++) {
        test_context("%zu bytes", length);
        char *part = malloc(length > 0 ? length : 1); /* exactly so long, for the address sanitizer */
        if (part == NULL) abort();
        memcpy(part, text, length);
        stw_error error = {0};
        stw_machine *machine;
        CHECK_EQ_INT(stw_machine_parse(part, length, "m.json", &machine, &error), STW_ERROR_INPUT);
        CHECK(machine == NULL);
        CHECK(strncmp(error.message, "m.json: line ", 13) == 0);
        CHECK_CONTAINS(error.message, ", column ");
        free(part);
    }
    test_context("%s", "");
    stw_error error = {0};
    stw_machine *machine;
    CHECK_EQ_INT(stw_machine_parse(text, size, "m.json", &machine, &error), STW_OK); /* nothing but its end was amiss */
    stw_machine_destroy(machine);
    CHECK_EQ_INT(stw_machine_parse(NULL, 0, "m.json", &machine, &error), STW_ERROR_INPUT);
}
