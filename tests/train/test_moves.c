/* train/moves, try_moves and screen: what moves, what is learnt from it, and what the network's favourites are worth. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <stdatomic.h>

#include "train/bench.h"
#include "train/moves.h"

static bench *random_bench(uint64_t seed, int32_t devices, int32_t threads) {
    stw_rng rng = stw_rng_create(seed);
    bench *b = bench_open(random_open(&rng, (random_shape){.nodes = 120, .device_count = devices}), 0, threads);
    random_placement(&rng, b->s->simulator, b->s->plan);
    return b;
}

static int32_t device_of(const bench *b, const int32_t *device, int32_t unit) {
    return device[b->problem.units.member[b->problem.units.start[unit]]];
}

/* ---- moves ---- */

static stw_moves find(bench *b, const int32_t *other, int32_t grouping) {
    stw_moves moves = {0};
    stw_error error = {0};
    CHECK_EQ_INT(stw_moves_find(&b->problem, b->s->plan, other, grouping, &b->arena, &moves, &error), STW_OK);
    CHECK_STR(error.message, "");
    return moves;
}

/* Every group is a move if one of its units moves, and then all of it; else none of it is in any. */
static void check_moves(const bench *b, const int32_t *other, int32_t grouping, const stw_moves *moves) {
    const stw_problem *p = &b->problem;
    const int32_t *group = p->grouping[grouping];
    bool *moved = calloc((size_t)p->M, sizeof *moved), *seen = calloc((size_t)p->M, sizeof *seen);
    for (int32_t m = 0; m < moves->count; m++) {
        const int32_t first = moves->start[m], end = moves->start[m + 1];
        bool wanted = false;
        if (!CHECK(first < end)) continue;
        CHECK(!seen[group[moves->unit[first]]]);
        seen[group[moves->unit[first]]] = true;
        for (int32_t k = first; k < end; k++) {
            const int32_t u = moves->unit[k];
            CHECK(!moved[u] && group[u] == group[moves->unit[first]]);
            moved[u] = true;
            wanted =
                wanted || (device_of(b, other, u) == moves->device[m] && device_of(b, b->s->plan->device, u) != moves->device[m]);
        }
        CHECK(wanted);
    }
    for (int32_t u = 0; u < p->M; u++) {
        CHECK(moved[u] == seen[group[u]]); /* a group whole */
        CHECK(moved[u] || device_of(b, other, u) == device_of(b, b->s->plan->device, u));
    }
    free(seen);
    free(moved);
}

TEST(moves, groups_move_whole_and_those_that_stay_are_none) {
    bench *b = random_bench(3, 4, 1);
    int32_t *other = STW_NEW(&b->arena, int32_t, b->s->graph->N), found = 0, drawn[STW_GROUPINGS] = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        stw_error error = {0};
        int32_t grouping = -1;
        CHECK_EQ_INT(stw_propose(&b->problem, b->s->plan, stw_rng_create(seed), other, &grouping, b->scratch[0], &error), STW_OK);
        if (!CHECK(grouping >= 0 && grouping < STW_GROUPINGS)) break;
        test_context("proposal %d, grouping %d", (int)seed, grouping);
        const stw_moves moves = find(b, other, grouping);
        check_moves(b, other, grouping, &moves);
        found += moves.count;
        drawn[grouping]++;
    }
    test_context("%s", "");
    CHECK(found > 60);
    for (int32_t g = 0; g < STW_GROUPINGS; g++) CHECK(drawn[g] > 0);
    for (int32_t g = 0; g < STW_GROUPINGS; g++) CHECK_EQ_INT(find(b, b->s->plan->device, g).count, 0);
    bench_close(b);
}

TEST(moves, units_that_are_there_already_come_along) {
    bench *b = random_bench(4, 2, 1);
    int32_t *other = STW_NEW(&b->arena, int32_t, b->s->graph->N);
    const int32_t grouping = STW_GROUPINGS - 1; /* bands of the order: several units each, from both devices */
    for (int32_t i = 0; i < b->s->graph->N; i++) other[i] = 1;
    const stw_moves moves = find(b, other, grouping);
    int32_t already = 0;
    check_moves(b, other, grouping, &moves);
    for (int32_t k = 0; k < moves.start[moves.count]; k++) already += device_of(b, b->s->plan->device, moves.unit[k]) == 1;
    CHECK(already > 0);
    for (int32_t m = 0; m < moves.count; m++) CHECK_EQ_INT(moves.device[m], 1);
    bench_close(b);
}

TEST(moves, applying_one_moves_its_units_and_nothing_else) {
    bench *b = random_bench(5, 3, 1);
    const stw_problem *p = &b->problem;
    const int32_t N = b->s->graph->N;
    int32_t *other = STW_NEW(&b->arena, int32_t, N), tried = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        stw_error error = {0};
        int32_t grouping = -1;
        CHECK_EQ_INT(stw_propose(p, b->s->plan, stw_rng_create(seed), other, &grouping, b->scratch[0], &error), STW_OK);
        const stw_moves moves = find(b, other, grouping);
        for (int32_t m = 0; m < moves.count && m < 5; m++) {
            stw_plan *plan = plan_with(b, NULL);
            bool *mine = calloc((size_t)N, sizeof *mine);
            for (int32_t k = moves.start[m]; k < moves.start[m + 1]; k++)
                for (int32_t i = p->units.start[moves.unit[k]]; i < p->units.start[moves.unit[k] + 1]; i++)
                    mine[p->units.member[i]] = true;
            stw_moves_apply(p, &moves, m, plan);
            for (int32_t i = 0; i < N; i++) CHECK_EQ_INT(plan->device[i], mine[i] ? moves.device[m] : b->s->plan->device[i]);
            stw_plan_join(b->s->simulator, plan);
            CHECK_EQ_INT(score_of(b, plan).reason, STW_VALID);
            free(mine);
            stw_plan_destroy(plan);
            tried++;
        }
    }
    CHECK(tried > 30);
    bench_close(b);
}

TEST(moves, score_is_the_mean_of_the_last_knob) {
    int32_t start[] = {0, 2, 5}, unit[] = {4, 1, 0, 2, 3}, device[] = {1, 0};
    double means[5 * STW_STEER_KNOBS];
    for (int32_t k = 0; k < 5 * STW_STEER_KNOBS; k++) means[k] = k % STW_STEER_KNOBS == STW_MOVE_KNOB ? k / STW_STEER_KNOBS : 100;
    const stw_moves moves = {.count = 2, .start = start, .unit = unit, .device = device};
    CHECK_NEAR(stw_moves_score(&moves, 0, means, STW_STEER_KNOBS), 2.5, 1e-12);
    CHECK_NEAR(stw_moves_score(&moves, 1, means, STW_STEER_KNOBS), 5.0 / 3, 1e-12);
}

/* ---- trials ---- */

static stw_trainer *open_trainer(bench *b, int32_t moves, double rate, bool elite) {
    stw_policy_config config = config_of("default");
    stw_train_settings settings = settings_of("transfer", 9, 10000);
    config.proposal_columns = stw_features_proposal_columns();
    settings.samples = 12;
    settings.proposals = true;
    settings.moves = moves;
    settings.pull = 0.0;
    settings.elite = elite;
    settings.wander = 0.0;
    settings.warm_up = 0;
    settings.rate = settings.rate_end = rate;
    return trainer_of(b, &config, &settings, b->s->plan);
}

static void sample(stw_trainer *t) {
    stw_error error = {0};
    bool over = false;
    CHECK_EQ_INT(stw_trainer_sample(t, &over, &error), STW_OK);
    CHECK_STR(error.message, "");
    CHECK(!over);
}

/* Of the trials at hand, for random means. */
static void check_slopes(stw_trainer *t, stw_rng *rng) {
    const int64_t count = (int64_t)t->problem->M * STW_STEER_KNOBS;
    double *slope = calloc((size_t)count, sizeof *slope), *unused = calloc((size_t)count, sizeof *unused), largest = 0.0;
    for (int64_t k = 0; k < count; k++) t->now->means[k] = 2.0 * stw_rng_normal(rng);
    CHECK(stw_trainer_learn_moves(t, slope) > 0.0);
    for (int64_t k = 0; k < count; k++) {
        const double before = t->now->means[k], by = 1e-5;
        t->now->means[k] = before + by;
        const double more = stw_trainer_learn_moves(t, unused);
        t->now->means[k] = before - by;
        const double less = stw_trainer_learn_moves(t, unused);
        t->now->means[k] = before;
        CHECK_NEAR(slope[k], (more - less) / (2.0 * by), 1e-8);
        if (k % STW_STEER_KNOBS != STW_MOVE_KNOB) CHECK(slope[k] == 0.0);
        largest = fmax(largest, fabs(slope[k]));
    }
    CHECK(largest > 1e-4);
    double *twice = calloc((size_t)count, sizeof *twice); /* it adds */
    for (int32_t n = 0; n < 2; n++) (void)stw_trainer_learn_moves(t, twice);
    for (int64_t k = 0; k < count; k++) CHECK_NEAR(twice[k], 2.0 * slope[k], 1e-15);
    free(twice);
    free(unused);
    free(slope);
}

TEST(try_moves, gradient_agrees_with_differences) {
    bench *b = random_bench(6, 3, 1);
    stw_trainer *t = open_trainer(b, 13, 1e-3, false);
    const stw_score score = score_of(b, b->s->plan);
    stw_rng rng = stw_rng_create(1);
    stw_error error = {0};
    int32_t all = 0, several = 0, large = 0, helps = 0;
    for (int32_t round = 0; round < 8; round++) {
        test_context("round %d", round);
        CHECK_EQ_INT(stw_trainer_restart(t, b->s->plan, &score, 0, round, &error), STW_OK);
        sample(t);
        if (t->moves.count == 0) continue;
        CHECK_EQ_INT(t->tried, 13);
        for (int32_t k = 0; k < t->tried; k++) {
            const int32_t move = t->trial[k].move[0];
            several += t->trial[k].count > 1;
            large += t->moves.start[move + 1] - t->moves.start[move] > 1;
            helps += t->trial[k].score.value < t->reference;
            all++;
        }
        check_slopes(t, &rng);
    }
    test_context("%s", "");
    CHECK(several > 0 && several < all && large > 10 && large < all && helps > 0 &&
          helps < all); /* all cases of the loss occur */
    stw_trainer_destroy(t);
    bench_close(b);
}

/* Largest gradient of the knob, of what the last update finds. */
static double knob_gradient(const stw_trainer *t, int32_t knob) {
    double largest = 0.0;
    for (int64_t u = 0; u < t->problem->M; u++) largest = fmax(largest, fabs(t->now->d_placement[u * t->P + knob]));
    return largest;
}

/* What is tried move by move is learnt from that alone: PPO has nothing to say, in no epoch and not by the elite. */
TEST(try_moves, samples_say_nothing_about_moves) {
    for (int32_t elite = 0; elite < 2; elite++) {
        bench *b = random_bench(7, 3, 1);
        stw_trainer *t = open_trainer(b, 8, 1e-2, elite == 1);
        stw_error error = {0};
        test_context("elite: %d", elite);
        for (int32_t update = 0; update < 3; update++) {
            sample(t);
            t->tried = 0;
            for (int32_t epoch = 0; epoch < 2; epoch++) {
                stw_parameters_zero_gradient(stw_net_parameters(t->net));
                CHECK_EQ_INT(stw_trainer_add_gradient(t, epoch, &error), STW_OK);
                CHECK(knob_gradient(t, STW_MOVE_KNOB) < 1e-15);
                for (int32_t knob = 0; knob < STW_MOVE_KNOB; knob++) CHECK(knob_gradient(t, knob) > 1e-6);
                (void)stw_parameters_update(stw_net_parameters(t->net), 1e-2, 1.0);
            }
        }
        sample(t); /* with trials: what these say, and nothing else */
        CHECK_EQ_INT(t->tried, 8);
        stw_parameters_zero_gradient(stw_net_parameters(t->net));
        CHECK_EQ_INT(stw_trainer_add_gradient(t, 0, &error), STW_OK);
        double *said = calloc((size_t)b->problem.M * STW_STEER_KNOBS, sizeof *said), largest = 0.0;
        (void)stw_trainer_learn_moves(t, said);
        for (int64_t k = STW_MOVE_KNOB; k < (int64_t)b->problem.M * STW_STEER_KNOBS; k += STW_STEER_KNOBS) {
            CHECK_NEAR(t->now->d_placement[k], said[k], 1e-15);
            largest = fmax(largest, fabs(said[k]));
        }
        CHECK(largest > 1e-4);
        free(said);
        stw_trainer_destroy(t);
        bench_close(b);
    }
    test_context("%s", "");
}

/* Without trials the knob is explored and learnt like the others. */
TEST(try_moves, without_them_samples_take_the_proposal) {
    bench *b = random_bench(7, 3, 1);
    stw_trainer *t = open_trainer(b, 0, 1e-2, false);
    stw_error error = {0};
    sample(t);
    CHECK_EQ_INT(t->tried, 0);
    CHECK(t->round.other != NULL && t->moves.count == 0);
    CHECK_EQ_INT(stw_trainer_add_gradient(t, 0, &error), STW_OK);
    CHECK(knob_gradient(t, STW_MOVE_KNOB) > 1e-6);
    stw_trainer_destroy(t);
    bench_close(b);
}

/* Logistic loss of all moves of the round, each alone, every one counting the same. */
static double loss_of_all(bench *b, stw_trainer *t) {
    stw_error error = {0};
    double loss = 0.0;
    CHECK_EQ_INT(stw_trainer_run_placement(t, 1, &error), STW_OK);
    for (int32_t m = 0; m < t->moves.count; m++) {
        stw_plan *plan = plan_with(b, t->origin->device);
        stw_moves_apply(&b->problem, &t->moves, m, plan);
        stw_plan_join(b->s->simulator, plan);
        const bool helps = score_of(b, plan).value < t->reference;
        const double z = stw_moves_score(&t->moves, m, t->now->means, t->P);
        loss += log1p(exp(helps ? -z : z)) / t->moves.count;
        stw_plan_destroy(plan);
    }
    return loss;
}

/* One round, one proposal: which of its moves help can be learnt by heart. */
static void train_on_moves(double rate, double *before, double *after) {
    enum { UPDATES = 120 };
    bench *b = random_bench(10, 3, 2);
    stw_trainer *t = open_trainer(b, 13, rate, false);
    stw_error error = {0};
    CHECK_EQ_INT(stw_trainer_begin(t, &error), STW_OK);
    CHECK(t->moves.count >= 8);
    *before = loss_of_all(b, t);
    for (int32_t k = 0; k < UPDATES; k++) {
        bool over = false;
        CHECK_EQ_INT(stw_trainer_step(t, &over, &error), STW_OK);
    }
    CHECK_EQ_INT(t->round_index, 0);
    *after = loss_of_all(b, t);
    stw_trainer_destroy(t);
    bench_close(b);
}

TEST(try_moves, which_moves_help_is_learnt_and_not_without_learning) {
    double before = 0.0, after = 0.0, idle_before = 0.0, idle_after = 0.0;
    train_on_moves(4e-3, &before, &after);
    train_on_moves(0.0, &idle_before, &idle_after);
    CHECK(idle_after == idle_before && idle_before == before);
    CHECK(after < 0.6 * before);
}

/* ---- screening ---- */

static bool same_devices(const stw_plan *a, const stw_plan *b) {
    return memcmp(a->device, b->device, (size_t)a->graph->N * sizeof *a->device) == 0;
}

enum { ROUNDS = 4, PROPOSALS = 6, TRIES = 10 };

/* Rounds of screening from a random plan; leaves the best plan in the bench's. */
static stw_score screen(bench *b, bool polishes) {
    stw_trainer *t = open_trainer(b, 8, 0.0, false);
    stw_error error = {0};
    stw_score score = score_of(b, b->s->plan);
    b->problem.polishes = polishes;
    if (polishes) b->problem.rule = -1;
    for (int32_t round = 0; round < ROUNDS; round++) {
        const int64_t counted = t->evaluations;
        const long long before = atomic_load(&b->search.evaluations);
        int32_t tried = -1;
        stw_score now = {0};
        test_context("round %d", round);
        CHECK_EQ_INT(stw_trainer_screen(t, PROPOSALS, TRIES, &tried, &error), STW_OK);
        CHECK_STR(error.message, "");
        const int64_t asked = (int64_t)(atomic_load(&b->search.evaluations) - before); /* plans that were evaluated */
        CHECK(tried >= TRIES && tried <= TRIES + 1);
        CHECK_EQ_INT(t->evaluations - counted, asked);
        if (polishes) {
            CHECK(asked >= 1 + tried);
        } else {
            CHECK_EQ_INT(asked, 1 + tried);       /* and the plan that the round is relative to */
            for (int32_t k = 0; k < tried; k++) { /* no plan twice */
                for (int32_t other = 0; other < k; other++) CHECK(!same_devices(t->plan[other], t->plan[k]));
            }
        }
        const stw_plan *best = stw_trainer_best(t, &now);
        CHECK(!stw_score_is_better(&score, &now));
        const stw_score again = score_of(b, best);
        CHECK(again.value == now.value && again.reason == STW_VALID);
        score = now;
    }
    test_context("%s", "");
    need(stw_plan_assign(b->s->plan, stw_trainer_best(t, NULL), &error), &error);
    stw_trainer_destroy(t);
    return score;
}

TEST(screen, never_worse_and_as_many_evaluations_as_it_says) {
    int32_t better = 0;
    for (uint64_t seed = 20; seed < 26; seed++) {
        bench *b = random_bench(seed, 3, 1);
        const double start = score_of(b, b->s->plan).value;
        better += screen(b, seed % 2 == 1).value < start;
        bench_close(b);
    }
    CHECK(better >= 5); /* a random placement has much to gain */
}

TEST(screen, threads_change_nothing) {
    for (uint64_t seed = 30; seed < 33; seed++) {
        bench *one = random_bench(seed, 4, 1), *two = random_bench(seed, 4, 2);
        const stw_score a = screen(one, true), z = screen(two, true);
        CHECK(a.value == z.value);
        CHECK(same_devices(one->s->plan, two->s->plan));
        CHECK(memcmp(one->s->plan->priority, two->s->plan->priority, (size_t)one->s->graph->N * sizeof *one->s->plan->priority) ==
              0);
        bench_close(one);
        bench_close(two);
    }
}

/* Two rounds from the same plan: what failed in the first is not tried in the second. */
TEST(screen, does_not_repeat_what_failed) {
    for (uint64_t seed = 20; seed < 26; seed++) {
        bench *b = random_bench(seed, 2, 1);
        stw_error error = {0};
        stw_trainer *t = open_trainer(b, 8, 0.0, false);
        int32_t tried = 0;
        CHECK_EQ_INT(stw_trainer_screen(t, PROPOSALS, TRIES, &tried, &error), STW_OK);
        stw_plan *failed[TRIES] = {NULL};
        for (int32_t k = 0; k < TRIES; k++) {
            need(stw_plan_create(b->s->graph, b->s->machine, &failed[k], &error), &error);
            need(stw_plan_assign(failed[k], t->plan[k], &error), &error);
        }
        const stw_score start = score_of(b, b->s->plan);
        need(stw_plan_assign(t->best, b->s->plan, &error), &error); /* back to where it began, but it remembers */
        t->best_score = start;
        CHECK_EQ_INT(stw_trainer_screen(t, PROPOSALS, TRIES, &tried, &error), STW_OK);
        CHECK(tried > 0);
        for (int32_t k = 0; k < TRIES && k < tried; k++) {
            for (int32_t old = 0; old < TRIES; old++) {
                const stw_score score = score_of(b, failed[old]);
                if (!stw_score_is_better(&score, &start)) CHECK(!same_devices(failed[old], t->plan[k]));
            }
        }
        for (int32_t k = 0; k < TRIES; k++) stw_plan_destroy(failed[k]);
        stw_trainer_destroy(t);
        bench_close(b);
    }
}

/* There are as many plans to try in as samples, and one for all together. */
TEST(screen, tries_no_more_than_there_is_room_for) {
    bench *b = random_bench(41, 3, 1);
    stw_error error = {0};
    int32_t tried = -1;
    stw_trainer *t = open_trainer(b, 8, 0.0, false);
    CHECK_EQ_INT(stw_trainer_screen(t, PROPOSALS, 100, &tried, &error), STW_OK);
    CHECK(tried >= t->settings.samples && tried <= t->settings.samples + 1);
    stw_trainer_destroy(t);
    bench_close(b);
}

/* All on one device and nowhere else to go: nothing is tried. */
TEST(screen, without_moves_nothing_is_tried) {
    bench *b = random_bench(40, 2, 1);
    stw_error error = {0};
    int32_t tried = -1;
    memset(b->s->plan->device, 0, (size_t)b->s->graph->N * sizeof *b->s->plan->device);
    b->list.linked = 1;
    stw_trainer *t = open_trainer(b, 8, 0.0, false);
    CHECK_EQ_INT(stw_trainer_screen(t, PROPOSALS, TRIES, &tried, &error), STW_OK);
    CHECK_EQ_INT(tried, 0);
    stw_trainer_destroy(t);
    t = open_trainer(b, 8, 1e-3, false);
    sample(t); /* nor by an update */
    CHECK_EQ_INT(t->tried, 0);
    stw_trainer_destroy(t);
    bench_close(b);
}
