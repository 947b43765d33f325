/* sim/score: which of two plans is better, down to the ties. */
#include "sim/score.h"
#include "support/small.h"
#include "test.h"

static const stw_score BASE = {
    .reason = STW_VALID, .value = 2.0, .step_s = 3.0, .sent_bytes = 10, .peak_bytes = 20, .devices = 2};

/* `a` wins, and not the other way round. */
static void check_wins(stw_score a, stw_score b) {
    CHECK(stw_score_is_better(&a, &b));
    CHECK(!stw_score_is_better(&b, &a));
}

TEST(score, ties_go_by_bytes_sent_then_peak_then_devices) {
    stw_score other = BASE;
    CHECK(!stw_score_is_better(&BASE, &other));
    other.devices = 3;
    check_wins(BASE, other);
    other.peak_bytes = 19; /* counts for more than a device */
    check_wins(other, BASE);
    other.sent_bytes = 11; /* and this for more than that */
    check_wins(BASE, other);
    other.step_s = 2.9;
    check_wins(other, BASE);
    other.value = 2.1;
    check_wins(BASE, other);
    other = BASE;
    other.sent_bytes = 0;
    other.reason = STW_INVALID_MEMORY; /* what is not valid wins nothing by that */
    check_wins(BASE, other);
}

/* a on d0 writes 4 bytes, b on d1 reads them; d2 has nothing to do. */
TEST(score, counts_what_a_run_sends_and_holds) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "x", "input", 3) OP(1, "a", "[0]", 4, 2) OP(2, "b", "[1]", 5, 1),
                                       .outputs = "[2]",
                                       .device_count = 3,
                                       .device = "[0,0,1]"});
    const stw_score score = stw_score_of(STW_OBJECTIVE_TIME, s->workspace, &s->result);
    CHECK_NEAR(score.value, 7e-6, 0.0);
    CHECK_EQ_INT(score.sent_bytes, 4);
    CHECK_EQ_INT(score.peak_bytes, s->result.worst_peak_bytes);
    CHECK_EQ_INT(score.devices, 2);
    small_close(s);
}
