/* method: proposals of annealing: whoever watches hears of every move that could be proposed; with a scorer that knows what it
 * wants most moves are such; whether they pay is decided by counts; threads change nothing; blind means blind. */
#include "method/annealing.h"

typedef struct {
    int64_t tried[2], chains; /* [1] proposed; a bit for each chain */
    double gain, score[2];
    int64_t wrong;
    const stw_scorer *scorer;
} heard;

/* One chain after the other: with one thread nobody else writes. */
static void hear_of(void *context, int32_t chain, const float *feature, double gain, bool proposed) {
    heard *h = context;
    h->tried[proposed]++;
    h->chains |= 1 << chain;
    h->gain += gain;
    h->wrong += gain < 0.0 || gain > 1.0 || feature[STW_MOVE_HAS_size] <= 0.0f;
    if (h->scorer != NULL) h->score[proposed] += (double)stw_scorer_score(h->scorer, feature, NULL);
}

/* Wants as little to be sent as can be. */
static stw_scorer averse(void) {
    stw_scorer s = {0};
    for (int c = 0; c < STW_MOVE_FEATURES; c++) s.scale[c] = 1.0f;
    s.weight[STW_MOVE_HAS_sent_change * STW_SCORER_HIDDEN] = 1.0f;
    s.weight[STW_SCORER_BIAS] = 10.0f; /* above 0, so that the slope does not matter */
    s.weight[STW_SCORER_OUT] = -1.0f;
    return s;
}

static small *large_problem(uint64_t seed) {
    stw_rng rng = stw_rng_create(seed);
    small *s = random_open(&rng, (random_shape){.nodes = 200, .device_count = 3});
    random_placement(&rng, s->simulator, s->plan);
    small_run(s);
    return s;
}

TEST(proposals, are_what_the_scorer_wants) {
    small *s = large_problem(831);
    const stw_scorer scorer = averse();
    heard h = {.scorer = &scorer}, blind = {.scorer = &scorer};
    const stw_proposals proposals = {.scorer = &scorer, .tried = hear_of, .context = &h};
    const stw_proposals watched = {.tried = hear_of, .context = &blind};
    outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 600, .proposals = &proposals});
    stw_plan_destroy(o.plan);
    o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 600, .proposals = &watched});
    stw_plan_destroy(o.plan);
    CHECK_EQ_INT(h.wrong + blind.wrong, 0);
    CHECK_EQ_INT(h.chains, (1 << STW_ANNEAL_CHAINS) - 1);
    CHECK_EQ_INT(blind.tried[1], 0);
    CHECK(blind.tried[0] > 350 && blind.gain > 0.0);
    CHECK(h.tried[1] > 4 * h.tried[0] && h.tried[0] > 20); /* a share stays blind */
    CHECK(h.score[1] / (double)h.tried[1] > h.score[0] / (double)h.tried[0] + 0.5);
    small_close(s);
}

TEST(proposals, do_not_depend_on_threads) {
    for (uint64_t seed = 832; seed < 835; seed++) {
        small *s = large_problem(seed);
        const stw_policy_settings learns = {.scorer_rate = STW_LEARNER_RATE}, *policy = seed == 832 ? NULL : &learns;
        const outcome one = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 900, .policy = policy});
        for (int32_t threads = 2; threads <= 3; threads++) {
            const outcome more =
                anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 900, .threads = threads, .policy = policy});
            CHECK(are_placed_alike(one.plan, more.plan));
            CHECK(have_equal_priorities(one.plan, more.plan));
            CHECK_EQ_INT(one.evaluations, more.evaluations);
            stw_plan_destroy(more.plan);
        }
        stw_plan_destroy(one.plan);
        small_close(s);
    }
}

/* Shuffled, a candidate is chosen for what is known of another; without proposals nothing is drawn for them. */
TEST(proposals, controls_are_other_searches) {
    small *s = large_problem(836);
    const stw_policy_settings blind = {.no_proposals = true}, shuffled = {.shuffled = true};
    const stw_proposals none = {0};
    const outcome own = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 400});
    const outcome control = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 400, .policy = &shuffled});
    const outcome off = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 400, .policy = &blind});
    const outcome without = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 400, .proposals = &none});
    CHECK(!are_placed_alike(own.plan, control.plan));
    CHECK(!are_placed_alike(own.plan, off.plan));
    CHECK(are_placed_alike(off.plan, without.plan) && have_equal_priorities(off.plan, without.plan));
    stw_plan_destroy(own.plan);
    stw_plan_destroy(control.plan);
    stw_plan_destroy(off.plan);
    stw_plan_destroy(without.plan);
    small_close(s);
}

/* Where a rate is asked for; else the scorer stays as it was trained. */
TEST(proposals, learn_on_from_what_is_tried) {
    for (uint64_t seed = 837; seed < 840; seed++) {
        small *s = large_problem(seed);
        stw_scorer shipped;
        CHECK(stw_scorer_shipped(&shipped));
        const stw_proposals fixed = {.scorer = &shipped}, learning = {.scorer = &shipped, .rate = STW_LEARNER_RATE};
        const stw_policy_settings unset = {.learning_rate = -1.0, .scorer_rate = -1.0},
                                  wanted = {.scorer_rate = STW_LEARNER_RATE};
        const outcome own = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 600, .policy = &wanted});
        const outcome same = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 600, .proposals = &learning});
        const outcome off = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 600, .policy = &unset});
        const outcome without = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 600, .proposals = &fixed});
        CHECK(are_placed_alike(own.plan, same.plan) && have_equal_priorities(own.plan, same.plan));
        CHECK(are_placed_alike(off.plan, without.plan) && have_equal_priorities(off.plan, without.plan));
        CHECK(!are_placed_alike(own.plan, off.plan));
        stw_plan_destroy(own.plan);
        stw_plan_destroy(same.plan);
        stw_plan_destroy(off.plan);
        stw_plan_destroy(without.plan);
        small_close(s);
    }
}

/* Where there are many evaluations, or where there is none to count, the scorer stays as it was trained. */
TEST(proposals, learn_where_evaluations_are_few) {
    small *s = large_problem(841);
    stw_scorer shipped;
    CHECK(stw_scorer_shipped(&shipped));
    const stw_proposals fixed = {.scorer = &shipped}, learning = {.scorer = &shipped, .rate = STW_LEARNER_RATE};
    const outcome one = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 2000, .proposals = &learning});
    const outcome other = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 2000, .proposals = &fixed});
    const outcome timed = anneal(s, (setting){.tasks = BOTH, .rule = -1, .seconds = 0.1, .threads = 3, .proposals = &learning});
    CHECK(are_placed_alike(one.plan, other.plan) && have_equal_priorities(one.plan, other.plan));
    CHECK(timed.after.reason == STW_VALID && timed.after.value <= timed.before.value);
    stw_plan_destroy(one.plan);
    stw_plan_destroy(other.plan);
    stw_plan_destroy(timed.plan);
    small_close(s);
}

/* ---- whether it pays ---- */

static stw_tally of(double blind, double blind_gain, double proposed, double gain) {
    return (stw_tally){.tries = {blind, proposed}, .gain = {blind_gain, gain}};
}

TEST(proposals, pause_where_blind_moves_gain_more) {
    stw_verdict v = {0};
    stw_tally new = of(60, 1.0, 400, 0.1);
    CHECK(stw_anneal_pays(&v, &new, 1.0, 1.0)); /* too few to say */
    CHECK(new.tries[0] == 0.0 && new.gain[1] == 0.0);
    new = of(60, 1.0, 400, 0.1);
    CHECK(!stw_anneal_pays(&v, &new, 1.0, 1.0));
    for (int round = 1; round < 6; round++) {
        new = of(0, 0, 0, 0);
        CHECK(!stw_anneal_pays(&v, &new, 1.0, 1.0));
    }
    new = of(0, 0, 0, 0);
    CHECK(stw_anneal_pays(&v, &new, 1.0, 1.0)); /* a new trial, which begins with nothing known */
    new = of(60, 1.0, 400, 0.1);
    CHECK(stw_anneal_pays(&v, &new, 1.0, 1.0));
}

TEST(proposals, must_gain_what_they_cost) {
    stw_verdict cheap = {0}, dear = {0};
    stw_tally new = of(100, 1.0, 700, 9.0); /* a try gains 0.010, a proposed one 0.013 */
    CHECK(stw_anneal_pays(&cheap, &new, 1.0, 1.0));
    new = of(100, 1.0, 700, 9.0);
    CHECK(!stw_anneal_pays(&dear, &new, 1.0, 1.6));
    /* A chain of four at a time forgets and waits a quarter as fast. */
    for (int turn = 1; turn < 24; turn++) {
        new = of(0, 0, 0, 0);
        CHECK(!stw_anneal_pays(&dear, &new, 0.25, 1.6));
    }
    new = of(0, 0, 0, 0);
    CHECK(stw_anneal_pays(&dear, &new, 0.25, 1.6));
}
