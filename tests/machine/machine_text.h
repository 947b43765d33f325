/* Parts that the texts of machines in tests are put together from. */
#ifndef STW_TESTS_MACHINE_TEXT_H
#define STW_TESTS_MACHINE_TEXT_H

#define HEAD        "{\"format\":\"machine\",\"version\":1,"
#define A_AND_B     "\"devices\":[{\"name\":\"a\",\"kind\":\"h200\"},{\"name\":\"b\",\"kind\":\"h200\"}]"
#define FROM_A_TO_B "\"from\":\"a\",\"to\":\"b\","
#define REST        "\"bandwidth_bytes_per_s\":1e9,\"latency_us\":1"

#endif
