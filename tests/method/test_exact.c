/* method/exact: on graphs so small that every plan can be tried, the search and the trial of all plans agree to the picosecond.
 *
 * All plans: every device for every op, parameter and buffer; every strict order of the tasks of a device; every ranking of the
 * producers that send something. The simulator says which of them are valid, and what they take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/exact/exact.h"
#include "method/method.h"
#include "support/random.h"
#include "test.h"

enum { MOST_OPS = 7, MOST_PLACED = 12 };

/* ---- all plans ---- */

typedef struct {
    small *s;
    int32_t placed[MOST_PLACED], placed_count; /* ops, parameters, buffers */
    int32_t sender[MOST_PLACED], sender_count; /* producers with a reader on another device */
    int64_t best_ps;                           /* INT64_MAX: no plan is valid */
    int64_t plans;
} trial;

static stw_reason judge(trial *x) {
    stw_evaluation result;
    if (stw_simulate(x->s->simulator, x->s->plan, x->s->workspace, &result, NULL) != STW_OK) exit(2);
    x->plans++;
    if (result.reason == STW_VALID && result.step_ps < x->best_ps) x->best_ps = result.step_ps;
    return result.reason;
}

static void swap(int32_t *a, int32_t *b) {
    const int32_t c = *a;
    *a = *b;
    *b = c;
}

/* Every ranking of the senders from `from` on. */
static void rank_senders(trial *x, int32_t from) {
    if (from >= x->sender_count) {
        for (int32_t k = 0; k < x->sender_count; k++) x->s->plan->priority[x->sender[k]] = -k;
        judge(x);
        return;
    }
    for (int32_t k = from; k < x->sender_count; k++) {
        swap(&x->sender[from], &x->sender[k]);
        rank_senders(x, from + 1);
        swap(&x->sender[from], &x->sender[k]);
    }
}

/* Every order of each device from entry `from` of device d on. What can never proceed is found invalid at the first ranking. */
static void order_tasks(trial *x, int32_t d, int32_t from) {
    stw_plan *plan = x->s->plan;
    if (d == plan->machine->device_count) {
        if (judge(x) != STW_INVALID_ORDER && plan->machine->queues && x->sender_count > 1) rank_senders(x, 0);
        return;
    }
    if (from >= plan->order_count[d]) {
        order_tasks(x, d + 1, 0);
        return;
    }
    for (int32_t k = from; k < plan->order_count[d]; k++) {
        swap(&plan->order[d][from], &plan->order[d][k]);
        order_tasks(x, d, from + 1);
        swap(&plan->order[d][from], &plan->order[d][k]);
    }
}

static void list_senders(trial *x) {
    const stw_graph *graph = x->s->graph;
    const int32_t *device = x->s->plan->device;
    x->sender_count = 0;
    for (int32_t k = 0; k < x->placed_count; k++) {
        const int32_t node = x->placed[k];
        bool sends = false;
        for (int64_t r = graph->reader_start[node]; r < graph->reader_start[node + 1]; r++)
            sends |= device[graph->reader[r].node] != device[node];
        if (sends) x->sender[x->sender_count++] = node;
    }
}

static void place(trial *x, int32_t from) {
    stw_plan *plan = x->s->plan;
    const int32_t D = plan->machine->device_count;
    for (int32_t d = 0; from < x->placed_count && d < D; d++) {
        plan->device[x->placed[from]] = d;
        place(x, from + 1);
    }
    if (from < x->placed_count) return;
    int32_t order[MOST_PLACED];
    for (int32_t d = 0; d < D; d++) {
        int32_t count = 0;
        for (int32_t k = 0; k < x->placed_count; k++) {
            const int32_t node = x->placed[k];
            if (x->s->graph->kind[node] == STW_NODE_OP && plan->device[node] == d) order[count++] = node;
        }
        CHECK_EQ_INT(stw_plan_set_order(plan, d, order, count, NULL), STW_OK);
    }
    /* Colocation and links do not depend on orders: one look is enough. */
    const stw_reason reason = judge(x);
    if (reason == STW_INVALID_COLOCATION || reason == STW_INVALID_LINKS) return;
    list_senders(x);
    order_tasks(x, 0, 0);
}

static double power(double base, int32_t exponent) {
    double product = 1.0;
    for (int32_t k = 0; k < exponent; k++) product *= base;
    return product;
}

/* Whether the trial of all plans takes long enough to be left out. */
static bool is_too_large(trial *x) {
    const stw_graph *graph = x->s->graph;
    x->placed_count = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP && !stw_node_is_resident(graph->kind[i])) continue;
        if (x->placed_count == MOST_PLACED) return true;
        x->placed[x->placed_count++] = i;
    }
    const double placements = power(x->s->machine->device_count, x->placed_count);
    return graph->op_count > MOST_OPS || graph->op_count < 2 || placements > 750.0;
}

/* ---- exact ---- */

typedef struct {
    int64_t step_ps; /* INT64_MAX: it says that no plan is valid */
    bool proved;
    char text[200]; /* its note, or why there is no plan */
} outcome;

static outcome run_exact(const small *s, const char *evaluations) {
    outcome out = {.step_ps = INT64_MAX};
    stw_options *options;
    stw_result *result;
    stw_candidate candidate;
    if (stw_options_create(&options, NULL) != STW_OK) exit(2);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", evaluations, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "threads", "1", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "tasks", "placement,schedule", NULL), STW_OK);
    CHECK_EQ_INT(stw_compare(s->simulator, "exact", options, NULL, &result, NULL), STW_OK);
    CHECK(stw_result_candidate(result, 0, &candidate));
    snprintf(out.text, sizeof out.text, "%s", candidate.reason == NULL ? candidate.note : candidate.reason);
    out.proved = strncmp(candidate.note, "proved optimal", 14) == 0;
    if (candidate.valid) {
        stw_evaluation evaluation;
        CHECK_EQ_INT(stw_simulate(s->simulator, stw_result_plan(result), s->workspace, &evaluation, NULL), STW_OK);
        CHECK_EQ_INT(evaluation.reason, STW_VALID);
        out.step_ps = evaluation.step_ps;
    }
    stw_result_destroy(result);
    stw_options_destroy(options);
    return out;
}

/* ---- random problems ---- */

typedef enum { AS_IT_IS, TIGHT, CUT, SUDDEN, CHARGED, CHARGED_AND_TIGHT, CHARGED_AND_SUDDEN } twist;

static void take_times(stw_rng *rng, small *s) {
    for (int32_t i = 0; i < s->graph->N; i++) {
        if (stw_rng_below(rng, 2) == 0) s->graph->bytes[i] = 0;
        if (stw_rng_below(rng, 2) == 0) continue;
        for (int32_t c = 0; c < s->machine->cost_class_count; c++) s->costs->us[c][i] = 0.0;
    }
    stw_workspace_destroy(s->workspace);
    stw_simulator_destroy(s->simulator);
    CHECK_EQ_INT(stw_simulator_create(s->costs, &s->simulator, NULL), STW_OK);
    CHECK_EQ_INT(stw_workspace_create(s->simulator, &s->workspace, NULL), STW_OK);
}

/* Tight: memory between a fifth and all of what one device would need for everything, unlike for the devices at times. Cut: some
 * links are missing. Sudden: half of everything takes no time, so that much happens within one instant. Charged: most links take
 * time from the devices; those of half of the machines are alike, so that devices may be exchanged. */
static void add_charges(stw_rng *rng, stw_machine *machine) {
    static const double us[] = {0.0, 0.5, 1.0, 2.0, 3.0};
    const bool same = stw_rng_below(rng, 2) == 0;
    double send_us = 1.0, receive_us = 2.0;
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) {
        if (machine->link[k].bandwidth <= 0.0) continue;
        if (!same) send_us = us[stw_rng_below(rng, 5)], receive_us = us[stw_rng_below(rng, 5)];
        machine->link[k].send_us = send_us;
        machine->link[k].receive_us = receive_us;
    }
    machine->charges = true;
}

static void change(stw_rng *rng, small *s, twist how) {
    stw_machine *machine = s->machine;
    const int32_t D = machine->device_count;
    const int64_t all = s->result.worst_peak_bytes;
    const bool same = stw_rng_below(rng, 2) == 0;
    int64_t bytes = 0;
    for (int32_t d = 0; (how == TIGHT || how == CHARGED_AND_TIGHT) && d < D; d++) {
        if (d == 0 || !same) bytes = all / 5 + stw_rng_below(rng, all - all / 5 + 1);
        machine->device[d].memory_bytes = bytes > 0 ? bytes : 1;
    }
    for (int32_t k = 0; how == CUT && k < D * D; k++) {
        if (stw_rng_below(rng, 2) == 0) continue;
        machine->link[k].bandwidth = 0.0;
        machine->complete = false;
    }
    if (how == SUDDEN || how == CHARGED_AND_SUDDEN) take_times(rng, s);
    if (how >= CHARGED) add_charges(rng, machine);
}

static small *open_problem(stw_rng *rng, int number, twist how) {
    const int32_t devices = number % 6 == 0 ? 1 : number % 6 < 4 ? 2 : 3;
    small *s = random_open(rng, (random_shape){.nodes = 4 + number % 5 + (devices < 3),
                                               .device_count = devices,
                                               .plain = number % 7 == 0,
                                               .wide = number % 4 == 1,
                                               .unlike = number % 3 == 1,
                                               .buses = number % 5 < 3,
                                               .free_links = number % 11 == 0,
                                               .contention = number % 4 == 3 ? "none" : "queue"});
    change(rng, s, how);
    return s;
}

/* No random plan is better, whether it has strict orders or not. */
static void try_random_plans(stw_rng *rng, small *s, int64_t best_ps) {
    for (int k = 0; k < 40; k++) {
        stw_evaluation result;
        random_placement(rng, s->simulator, s->plan);
        random_priorities(rng, s->plan);
        remove_orders(s->plan);
        if (k % 2 == 1) random_orders(rng, s->simulator, s->plan);
        CHECK_EQ_INT(stw_simulate(s->simulator, s->plan, s->workspace, &result, NULL), STW_OK);
        if (result.reason == STW_VALID) CHECK(result.step_ps >= best_ps);
    }
}

typedef struct {
    int tried, without, above_bound;
    int64_t plans;
} tally;

static void check_problem(stw_rng *rng, small *s, tally *sum) {
    trial x = {.s = s, .best_ps = INT64_MAX};
    if (is_too_large(&x)) return;
    const outcome found = run_exact(s, "1000000000");
    place(&x, 0);
    sum->tried++;
    sum->plans += x.plans;
    sum->without += x.best_ps == INT64_MAX;
    CHECK_EQ_INT(found.step_ps, x.best_ps);
    CHECK(x.best_ps == INT64_MAX ? strstr(found.text, "no plan is valid") != NULL : found.proved);
    try_random_plans(rng, s, x.best_ps);
    stw_bounds bounds;
    remove_orders(s->plan);
    CHECK_EQ_INT(stw_lower_bounds(s->simulator, s->plan, &bounds, NULL), STW_OK);
    CHECK(bounds.plan_s <= (double)x.best_ps / 1e12 && bounds.fusion_s <= (double)x.best_ps / 1e12);
    sum->above_bound += (double)x.best_ps / 1e12 > bounds.plan_s * 1.000001;
}

static tally check_problems(uint64_t seed, int count, twist how) {
    const stw_rng seeds = stw_rng_create(seed);
    tally sum = {0};
    for (int number = 0; number < count; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        test_context("seed %d, problem %d", (int)seed, number);
        small *s = open_problem(&rng, number, how);
        check_problem(&rng, s, &sum);
        small_close(s);
    }
    test_context("%s", "");
    printf("  %d problems, %d without a valid plan, %d above the lower bound, %lld plans tried\n", sum.tried, sum.without,
           sum.above_bound, (long long)sum.plans);
    return sum;
}

TEST(exact, equals_the_trial_of_all_plans) {
    const tally sum = check_problems(301, test_cases(600), AS_IT_IS);
    CHECK(sum.tried > test_cases(200) && sum.without == 0 && sum.above_bound > test_cases(50));
}

TEST(exact, equals_it_when_memory_is_tight) {
    const tally sum = check_problems(302, test_cases(600), TIGHT);
    CHECK(sum.tried > test_cases(200) && sum.without > test_cases(20) && sum.tried - sum.without > test_cases(100));
}

TEST(exact, equals_it_when_links_are_missing) {
    const tally sum = check_problems(303, test_cases(200), CUT);
    CHECK(sum.tried > test_cases(60) && sum.without == 0);
}

TEST(exact, equals_it_when_much_takes_no_time) {
    const tally sum = check_problems(304, test_cases(300), SUDDEN);
    CHECK(sum.tried > test_cases(100) && sum.without == 0);
}

TEST(exact, equals_it_with_charges) {
    const tally sum = check_problems(305, test_cases(1000), CHARGED);
    CHECK(sum.tried > test_cases(500) && sum.without == 0);
}

TEST(exact, equals_it_with_charges_when_memory_is_tight) {
    const tally sum = check_problems(306, test_cases(600), CHARGED_AND_TIGHT);
    CHECK(sum.tried > test_cases(300) && sum.without > test_cases(20));
}

TEST(exact, equals_it_with_charges_when_much_takes_no_time) {
    const tally sum = check_problems(307, test_cases(400), CHARGED_AND_SUDDEN);
    CHECK(sum.tried > test_cases(200) && sum.without == 0);
}

/* ---- by hand ---- */

static void check_times(stw_exact *x, const double expected_us[3]) {
    stw_arena arena;
    stw_exact_model model;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_exact_build(x, &arena, &model, NULL), STW_OK);
    for (int32_t t = 0; t < 3; t++) CHECK_NEAR((double)model.activity[t].ps / 1e6, expected_us[t], 0.0);
    stw_arena_destroy(&arena);
}

TEST(exact, bounds_with_charges_that_are_settled) {
    /* a on d0 is read by b and c. While b is open, c on d1 does not pay to receive: b may come there and take that over. */
    const char *charged = ",'send_us':1,'receive_us':2";
    char links[400];
    snprintf(links, sizeof links,
             "{'from':'d0','to':'d1','bandwidth_bytes_per_s':1e6,'latency_us':0%s},"
             "{'from':'d1','to':'d0','bandwidth_bytes_per_s':1e6,'latency_us':0%s},",
             charged, charged);
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 1, 5) OP(1, "b", "[0]", 1, 6) OP(2, "c", "[0]", 1, 7), .device_count = 2, .links = links});
    int32_t device[] = {0, -1, 1}, order[] = {0, 1, 2};
    stw_exact x = {.s = s->simulator, .tasks = &s->simulator->unfused, .device = device, .task_order = order, .roomy = true};
    check_times(&x, (double[]){6, 6, 7});
    device[1] = 0; /* nobody else can: c pays */
    check_times(&x, (double[]){6, 6, 9});
    device[1] = 1; /* b does, and c no more */
    check_times(&x, (double[]){6, 8, 7});
    device[1] = 1, device[2] = -1; /* the smaller id is placed: it will not change */
    check_times(&x, (double[]){6, 8, 7});
    device[0] = -1; /* where it comes from is open: nobody pays */
    check_times(&x, (double[]){5, 6, 7});
    small_close(s);
}

TEST(exact, by_hand) {
    /* a and b at the same time; c reads both, one of them from the other device for 1 us. On one device: 9. */
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 1, 4) OP(1, "b", "[]", 1, 3) OP(2, "c", "[0,1]", 1, 2), .device_count = 2});
    outcome found = run_exact(s, "1000000");
    CHECK_EQ_INT(found.step_ps, 6000000);
    CHECK(found.proved);
    small_close(s);
}

#define SPEEDS(id, name, inputs, bytes, h200, cpu8, more) \
    NODE(id, name, "relu", inputs, bytes, ",'us':{'h200':" #h200 ",'cpu8':" #cpu8 "}" more)
#define CPU_AND_H200 DEVICE("d0", "cpu8", 99) DEVICE("d1", "h200", 99)

TEST(exact, waits_where_waiting_is_better) {
    /* Speeds leave one device for each op. d0: p [0,2), which is sent [2,4). d1: q [4,5) BEFORE x [5,17), though x could begin at
     * 0. q is sent [5,6), and r takes d0 [6,26). With x first, q could not begin before 12. */
    small *s = small_open((small_text){.nodes = SPEEDS(0, "p", "[]", 2, 100, 2, "") SPEEDS(1, "q", "[0]", 1, 1, 100, "")
                                           SPEEDS(2, "r", "[1]", 1, 100, 20, "") SPEEDS(3, "x", "[]", 1, 12, 100, ""),
                                       .devices = CPU_AND_H200,
                                       .device_count = 2});
    const outcome found = run_exact(s, "1000000");
    CHECK_EQ_INT(found.step_ps, 26000000);
    CHECK(found.proved);
    small_close(s);
}

TEST(exact, decides_which_transfer_goes_first) {
    /* The updates are quick on d0 alone, so both parameters are there; their readers are quick on d1 alone. w2 goes first, [0,2),
     * since r2 takes long: [2,12). w1 follows [2,5), r1 [12,13). The updates wait for the readers: u2 [12,13), u1 [13,14). The
     * other way round r2 would begin at 5. */
    small *s = small_open((small_text){.nodes = SOURCE(0, "w1", "parameter", 3) SOURCE(1, "w2", "parameter", 2)
                                           SPEEDS(2, "r1", "[0]", 1, 1, 100, "") SPEEDS(3, "r2", "[1]", 1, 10, 100, "")
                                               SPEEDS(4, "u1", "[0]", 3, 100, 1, ",'updates':0")
                                                   SPEEDS(5, "u2", "[1]", 2, 100, 1, ",'updates':1"),
                                       .devices = CPU_AND_H200,
                                       .device_count = 2});
    const outcome found = run_exact(s, "1000000");
    CHECK_EQ_INT(found.step_ps, 14000000);
    CHECK(found.proved);
    small_close(s);
}

TEST(exact, copies_on_a_bus_go_by_device_number) {
    /* Three devices alike on one bus, but not to be exchanged: copies of a, 4 us each, go to the device of the smaller number
     * first, whatever the plan. a [0,1) and z are together; "long" must be on the first of the other two: [5,25), "short" after
     * it [9,27). The other way round it would be 29. */
    const char *const bus = ",'bus':'b'";
    char links[1000] = "";
    size_t length = 0;
    for (int k = 0; k < 9; k++) {
        if (k / 3 == k % 3) continue;
        length += (size_t)snprintf(links + length, sizeof links - length,
                                   "{'from':'d%d','to':'d%d','bandwidth_bytes_per_s':1e6,'latency_us':0%s},", k / 3, k % 3, bus);
    }
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 4, 1) OP(1, "short", "[0]", 1, 18) OP(2, "long", "[0]", 1, 20)
                                           OP_WITH(3, "z", "[]", 1, 20, ",'colocate':0"),
                                       .device_count = 3,
                                       .links = links});
    const outcome found = run_exact(s, "1000000");
    CHECK_EQ_INT(found.step_ps, 27000000);
    CHECK(found.proved);
    small_close(s);
}

/* ---- limits ---- */

static small *open_wide(int32_t ops) {
    stw_rng rng = stw_rng_create(77);
    return random_open(&rng, (random_shape){.nodes = ops, .device_count = 3, .plain = true});
}

TEST(exact, says_when_a_graph_is_too_large) {
    small *s = open_wide(41);
    stw_plan *plan;
    stw_error error;
    CHECK_EQ_INT(stw_method_run("exact", s->simulator, NULL, &plan, &error), STW_ERROR_NO_PLAN);
    CHECK_CONTAINS(error.message, "exact is for graphs of at most 40 ops; this one has 41");
    small_close(s);
}

TEST(exact, serves_the_step_time_only) {
    small *s = open_wide(3);
    stw_options *options;
    stw_plan *plan;
    stw_error error;
    if (!CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK)) return;
    CHECK_EQ_INT(stw_options_set(options, "objective", "memory", NULL), STW_OK);
    CHECK_EQ_INT(stw_method_run("exact", s->simulator, options, &plan, &error), STW_ERROR_NO_PLAN);
    CHECK_CONTAINS(error.message, "step time only");
    stw_options_destroy(options);
    small_close(s);
}

TEST(exact, says_when_the_budget_ended) {
    small *s = open_wide(40);
    const outcome first = run_exact(s, "50"), again = run_exact(s, "50"), later = run_exact(s, "500");
    CHECK(!first.proved && !later.proved);
    CHECK_CONTAINS(first.text, "not proved");
    CHECK(first.step_ps < INT64_MAX);
    CHECK_EQ_INT(first.step_ps, again.step_ps);
    CHECK_STR(first.text, again.text);
    CHECK(later.step_ps <= first.step_ps);
    small_close(s);
}

/* `optimize` leaves to searches what cannot be proved in time, and does so after the same nodes again; `exact` by itself goes on.
 */
TEST(exact, gives_up_where_the_proof_is_too_slow) {
    small *s = open_wide(40);
    int64_t nodes = 0;
    for (int k = 0; k < 2; k++) {
        stw_options *options;
        stw_result *result;
        stw_candidate candidate = {0};
        if (stw_options_create(&options, NULL) != STW_OK) exit(2);
        CHECK_EQ_INT(stw_options_set(options, "evaluations", "60000", NULL), STW_OK);
        CHECK_EQ_INT(stw_options_set(options, "threads", k == 0 ? "1" : "3", NULL), STW_OK);
        CHECK_EQ_INT(stw_options_set(options, "tasks", "placement,schedule", NULL), STW_OK);
        CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, NULL), STW_OK);
        for (int32_t i = 0; stw_result_candidate(result, i, &candidate) && strcmp(candidate.method, "exact") != 0; i++) {
        }
        CHECK_CONTAINS(candidate.note, "not proved optimal: too slow for the budget");
        CHECK(candidate.evaluations < 15000); /* of the 18000 that it may make */
        CHECK(candidate.evaluations > 0);
        CHECK(k == 0 || candidate.evaluations == nodes);
        nodes = candidate.evaluations;
        stw_result_destroy(result);
        stw_options_destroy(options);
    }
    CHECK_CONTAINS(run_exact(s, "18000").text, "not proved optimal: the budget ended");
    small_close(s);
}

TEST(exact, nothing_to_do_and_nothing_that_can_be_done) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "w", "parameter", 5), .device_count = 2});
    const outcome found = run_exact(s, "10");
    CHECK_EQ_INT(found.step_ps, 0);
    CHECK(found.proved);
    small_close(s);
    s = small_open(
        (small_text){.nodes = SOURCE(0, "w", "parameter", 5) OP(1, "a", "[]", 0, 1), .devices = DEVICE("d0", "h200", 4)});
    CHECK_CONTAINS(run_exact(s, "10").text, "no plan is valid");
    small_close(s);
}
