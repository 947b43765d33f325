/* Every method in the table, whoever adds one: its plans are valid by a checker that is written here from docs/simulator.md, lack
 * memory and say so, or there is none and a reason; nothing beats `exact` or the lower bounds; and the same seed and number of
 * evaluations give the same plan from any number of threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/method.h"
#include "support/random.h"
#include "test.h"

/* ---- a checker of its own ---- */

enum { MOST_INTERVALS = 4096 };

typedef struct { /* memory held over [from, to) */
    int32_t device;
    int64_t from, to, bytes;
} interval;

typedef struct {
    const stw_simulator *s;
    const stw_graph *graph;
    const stw_machine *machine;
    const stw_plan *plan;
    const stw_timeline *timeline;
    int64_t *start, *end; /* (N) of ops */
    int64_t step;
    interval *held;
    int32_t held_count;
} checker;

static int32_t root_of(const stw_graph *graph, int32_t node) {
    while (graph->kind[node] == STW_NODE_VIEW) node = graph->input[graph->input_start[node]];
    return node;
}

static bool is_op(const stw_graph *graph, int32_t node) { return graph->kind[node] == STW_NODE_OP; }
static bool lives_somewhere(const stw_graph *graph, int32_t node) {
    return is_op(graph, node) || graph->kind[node] == STW_NODE_PARAMETER || graph->kind[node] == STW_NODE_BUFFER;
}

static bool op_reads(const stw_graph *graph, int32_t op, int32_t value) {
    for (int64_t k = graph->input_start[op]; k < graph->input_start[op + 1]; k++) {
        if (root_of(graph, graph->input[k]) == value) return true;
    }
    return false;
}

/* Rule 5: the whole if an op there reads the value itself, else the distinct views. */
static int64_t bytes_for(const checker *c, int32_t value, int32_t device) {
    const stw_graph *graph = c->graph;
    int64_t sum = 0;
    for (int32_t view = 0; view < graph->N; view++) { /* each node once, whoever reads it there */
        if (root_of(graph, view) != value) continue;
        bool read = false;
        for (int32_t op = 0; op < graph->N && !read; op++) {
            if (!is_op(graph, op) || c->plan->device[op] != device) continue;
            for (int64_t k = graph->input_start[op]; k < graph->input_start[op + 1]; k++) read |= graph->input[k] == view;
        }
        if (!read) continue;
        if (view == value) return graph->bytes[value];
        sum += graph->bytes[view];
    }
    return sum < graph->bytes[value] ? sum : graph->bytes[value];
}

/* The transfer of a value to a device, or NULL. */
static const stw_transfer *transfer_to(const checker *c, int32_t value, int32_t device) {
    const stw_transfer *found = NULL;
    for (int32_t k = 0; k < c->timeline->transfer_count; k++) {
        const stw_transfer *transfer = &c->timeline->transfer[k];
        if (transfer->producer != value || transfer->to != device) continue;
        CHECK(found == NULL); /* one at most */
        found = transfer;
    }
    return found;
}

static bool check_entries(const checker *c) {
    const stw_graph *graph = c->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        if (!lives_somewhere(graph, i)) continue;
        if (!CHECK(c->plan->device[i] >= 0 && c->plan->device[i] < c->machine->device_count)) return false;
        CHECK(isfinite(c->plan->priority[i]));
        if (is_op(graph, i)) CHECK_EQ_INT(c->plan->group[i], i); /* it is for plans that fuse nothing */
    }
    return true;
}

static void check_colocation(const checker *c) {
    const stw_graph *graph = c->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->updates[i] >= 0) CHECK_EQ_INT(c->plan->device[i], c->plan->device[graph->updates[i]]);
        if (graph->colocate[i] < 0) continue;
        const int32_t a = root_of(graph, i), b = root_of(graph, graph->colocate[i]);
        if (lives_somewhere(graph, a) && lives_somewhere(graph, b)) CHECK_EQ_INT(c->plan->device[a], c->plan->device[b]);
    }
}

/* Times of the tasks: each once, with its duration, after what it needs. */
static void check_task(const checker *c, int32_t op) {
    const stw_graph *graph = c->graph;
    const int32_t device = c->plan->device[op];
    CHECK_EQ_INT(c->end[op] - c->start[op], llround(stw_costs_op_us(c->s->costs, op, device) * 1e6));
    for (int64_t k = graph->input_start[op]; k < graph->input_start[op + 1]; k++) {
        const int32_t value = root_of(graph, graph->input[k]);
        if (!lives_somewhere(graph, value)) continue;
        const int64_t there = is_op(graph, value) ? c->end[value] : 0;
        if (c->plan->device[value] == device) {
            CHECK(c->start[op] >= there);
            continue;
        }
        const stw_link *link = stw_machine_link(c->machine, c->plan->device[value], device);
        const stw_transfer *transfer = transfer_to(c, value, device);
        if (!CHECK(link->bandwidth > 0.0) || !CHECK(transfer != NULL)) continue;
        const int64_t bytes = bytes_for(c, value, device);
        CHECK_EQ_INT(transfer->bytes, bytes);
        CHECK_EQ_INT(transfer->end_ps - transfer->start_ps,
                     llround(link->latency_us * 1e6 + (double)bytes / link->bandwidth * 1e12));
        CHECK(transfer->start_ps >= there && transfer->end_ps <= c->start[op]);
    }
    for (int64_t k = graph->wait_start[op]; k < graph->wait_start[op + 1]; k++) CHECK(c->end[graph->wait[k]] <= c->start[op]);
    for (int32_t k = 0; k < c->timeline->transfer_count; k++) {
        if (graph->updates[op] == c->timeline->transfer[k].producer) CHECK(c->timeline->transfer[k].end_ps <= c->start[op]);
    }
}

static bool overlap(int64_t a_from, int64_t a_to, int64_t b_from, int64_t b_to) { return a_from < b_to && b_from < a_to; }

/* A device runs one task at a time, a channel carries one transfer. */
static void check_one_at_a_time(const checker *c) {
    const stw_graph *graph = c->graph;
    for (int32_t a = 0; a < graph->N; a++) {
        for (int32_t b = 0; b < a && is_op(graph, a); b++) {
            if (!is_op(graph, b) || c->plan->device[a] != c->plan->device[b]) continue;
            CHECK(!overlap(c->start[a], c->end[a], c->start[b], c->end[b]));
        }
    }
    for (int32_t i = 0; c->machine->queues && i < c->timeline->transfer_count; i++) {
        for (int32_t j = 0; j < i; j++) {
            const stw_transfer *x = &c->timeline->transfer[i], *y = &c->timeline->transfer[j];
            if (stw_machine_link(c->machine, x->from, x->to)->channel != stw_machine_link(c->machine, y->from, y->to)->channel)
                continue;
            CHECK(!overlap(x->start_ps, x->end_ps, y->start_ps, y->end_ps));
        }
    }
}

/* ---- rules 8 to 11 ---- */

static void hold(checker *c, int32_t device, int64_t from, int64_t to, int64_t bytes) {
    if (from >= to || bytes == 0) return;
    if (c->held_count == MOST_INTERVALS) exit(2);
    c->held[c->held_count++] = (interval){device, from, to, bytes};
}

/* The end of the last op on a device that reads a value; -1: there is none. */
static int64_t last_reader(const checker *c, int32_t value, int32_t device) {
    int64_t last = -1;
    for (int32_t op = 0; op < c->graph->N; op++) {
        if (!is_op(c->graph, op) || c->plan->device[op] != device || !op_reads(c->graph, op, value)) continue;
        if (c->end[op] > last) last = c->end[op];
    }
    return last;
}

static bool is_output(const stw_graph *graph, int32_t value) {
    for (int32_t k = 0; k < graph->output_count; k++) {
        if (root_of(graph, graph->output[k]) == value) return true;
    }
    return false;
}

static void hold_output(checker *c, int32_t op) {
    const int32_t home = c->plan->device[op];
    int64_t to = c->end[op];
    const int64_t reader = last_reader(c, op, home);
    if (c->graph->updates[op] >= 0) return;
    if (reader > to) to = reader;
    for (int32_t d = 0; d < c->machine->device_count; d++) {
        const stw_transfer *transfer = d == home ? NULL : transfer_to(c, op, d);
        if (transfer != NULL && transfer->end_ps > to) to = transfer->end_ps;
    }
    hold(c, home, c->start[op], is_output(c->graph, op) ? c->step : to, c->graph->bytes[op]);
}

static void hold_all(checker *c) {
    const stw_graph *graph = c->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_VIEW) continue;
        if (is_op(graph, i)) hold_output(c, i);
        if (graph->kind[i] == STW_NODE_PARAMETER || graph->kind[i] == STW_NODE_BUFFER)
            hold(c, c->plan->device[i], 0, c->step, graph->bytes[i]);
        if (lives_somewhere(graph, i)) continue;
        for (int32_t d = 0; d < c->machine->device_count; d++) hold(c, d, 0, last_reader(c, i, d), graph->bytes[i]);
    }
    for (int32_t k = 0; k < c->timeline->transfer_count; k++) {
        const stw_transfer *transfer = &c->timeline->transfer[k];
        hold(c, transfer->to, transfer->start_ps, last_reader(c, transfer->producer, transfer->to),
             bytes_for(c, transfer->producer, transfer->to));
    }
}

/* Memory only grows where something begins. */
static int64_t peak_of(const checker *c, int32_t device) {
    int64_t peak = 0;
    for (int32_t k = 0; k < c->held_count; k++) {
        int64_t sum = 0;
        for (int32_t j = 0; j < c->held_count; j++) {
            if (c->held[j].device == device && c->held[j].from <= c->held[k].from && c->held[k].from < c->held[j].to)
                sum += c->held[j].bytes;
        }
        if (sum > peak) peak = sum;
    }
    return peak;
}

/* Everything above; returns whether the memory suffices. */
static bool check_run(checker *c, const stw_evaluation *result) {
    const stw_timeline *timeline = c->timeline;
    bool fits = true;
    int32_t tasks = 0;
    for (int32_t t = 0; t < timeline->tasks->T; t++) {
        const int32_t op = timeline->tasks->task_node[t];
        c->start[op] = timeline->start_ps[t];
        c->end[op] = timeline->end_ps[t];
        if (c->end[op] > c->step) c->step = c->end[op];
        tasks++;
    }
    CHECK_EQ_INT(tasks, c->graph->op_count);
    CHECK_EQ_INT(c->step, result->step_ps);
    check_colocation(c);
    for (int32_t i = 0; i < c->graph->N; i++) {
        if (is_op(c->graph, i)) check_task(c, i);
    }
    check_one_at_a_time(c);
    hold_all(c);
    for (int32_t d = 0; d < c->machine->device_count; d++) {
        const int64_t peak = peak_of(c, d);
        CHECK_EQ_INT(peak, result->peak_bytes[d]);
        fits &= peak <= c->machine->device[d].memory_bytes;
    }
    return fits;
}

/* Judges a plan: valid or lacking memory, and nothing else. Returns its step in ps; INT64_MAX if it lacks memory. */
static int64_t check_plan(small *s, const stw_plan *plan) {
    stw_evaluation result;
    checker c = {.s = s->simulator, .graph = s->graph, .machine = s->machine, .plan = plan};
    if (!check_entries(&c)) return INT64_MAX;
    if (!CHECK_EQ_INT(stw_simulate(s->simulator, plan, s->workspace, &result, NULL), STW_OK)) return INT64_MAX;
    if (!CHECK(result.reason == STW_VALID || result.reason == STW_INVALID_MEMORY)) return INT64_MAX;
    c.timeline = &s->workspace->timeline;
    c.start = calloc((size_t)s->graph->N + 1, sizeof *c.start);
    c.end = calloc((size_t)s->graph->N + 1, sizeof *c.end);
    c.held = calloc(MOST_INTERVALS, sizeof *c.held);
    if (c.start == NULL || c.end == NULL || c.held == NULL) exit(2);
    const bool fits = check_run(&c, &result);
    CHECK_EQ_INT(fits, result.reason == STW_VALID);
    free(c.start);
    free(c.end);
    free(c.held);
    return result.reason == STW_VALID ? result.step_ps : INT64_MAX;
}

/* ---- running ---- */

/* The checker knows nothing of groups: unless a test sets the tasks, fusion is not among them. */
static stw_options *options_of(const char *evaluations, const char *threads) {
    stw_options *options;
    if (stw_options_create(&options, NULL) != STW_OK) exit(2);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", evaluations, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "threads", threads, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "seed", "7", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "tasks", "placement,schedule", NULL), STW_OK);
    return options;
}

typedef struct {
    const char *evaluations, *threads, *objective;
} setting;

/* *refused: the method does not serve the objective. NULL: it made no plan, and said why. */
static stw_plan *run_for(const small *s, const char *method, setting how, bool *refused) {
    stw_options *options = options_of(how.evaluations, how.threads);
    stw_plan *plan = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_options_set(options, "objective", how.objective, NULL), STW_OK);
    const stw_status status = stw_method_run(method, s->simulator, options, &plan, &error);
    if (CHECK(status == STW_OK || status == STW_ERROR_NO_PLAN) && status == STW_ERROR_NO_PLAN) CHECK(strlen(error.message) > 10);
    CHECK((status == STW_OK) == (plan != NULL));
    *refused = status == STW_ERROR_NO_PLAN && strstr(error.message, "objective") != NULL;
    stw_options_destroy(options);
    return plan;
}

/* For the step time, or for the first objective that the method serves; then with few evaluations, since `balance` makes
 * thousands of moves for each. */
static stw_plan *run(const small *s, const char *method, const char *evaluations, const char *threads) {
    static const char *const objectives[] = {"time", "throughput", "memory"};
    stw_plan *plan = NULL;
    bool refused = true;
    for (int k = 0; k < 3 && refused; k++) {
        plan = run_for(s, method, (setting){k == 0 ? evaluations : "4", threads, objectives[k]}, &refused);
    }
    CHECK(!refused);
    return plan;
}

/* ---- problems ---- */

static small *open_problem(stw_rng *rng, int number) {
    const bool large = number % 4 == 3;
    return random_open(rng, (random_shape){.nodes = large ? 40 + number % 30 : 3 + number % 13,
                                           .device_count = 1 + number % 4,
                                           .plain = number % 7 == 0,
                                           .wide = number % 6 == 1,
                                           .unlike = number % 3 == 1,
                                           .buses = number % 5 < 2,
                                           .free_links = number % 11 == 0,
                                           .model = large && number % 8 == 3,
                                           .contention = number % 4 == 2 ? "none" : "queue"});
}

/* What an op needs at least, wherever it runs: its inputs and its output. */
static int64_t largest_op(const stw_graph *graph) {
    int64_t largest = 1;
    for (int32_t op = 0; op < graph->N; op++) {
        int64_t bytes = graph->bytes[op];
        if (!is_op(graph, op)) continue;
        for (int32_t value = 0; value < graph->N; value++) {
            if (graph->kind[value] != STW_NODE_VIEW && op_reads(graph, op, value)) bytes += graph->bytes[value];
        }
        if (bytes > largest) largest = bytes;
    }
    return largest;
}

/* Memory between the largest op and everything on one device, whose peak the problem was opened with. */
static void tighten(stw_rng *rng, small *s) {
    const int64_t least = largest_op(s->graph), most = s->result.worst_peak_bytes;
    for (int32_t d = 0; d < s->machine->device_count; d++) {
        s->machine->device[d].memory_bytes = most > least ? least + stw_rng_below(rng, most - least + 1) : least;
    }
}

/* ---- every method on every problem ---- */

/* The methods, but for rivals: they have tests of their own, and networks that are slow on so many problems. */
static const stw_method *method_at(int32_t index) {
    const stw_method *method;
    int32_t seen = 0;
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL; k++) {
        if (method->kind != STW_METHOD_RIVAL && seen++ == index) return method;
    }
    return NULL;
}

enum { MOST_METHODS = 64, SMALL_OPS = 12 };

typedef struct {
    int valid[MOST_METHODS], lacking[MOST_METHODS], none[MOST_METHODS], optimal[MOST_METHODS];
    int problems, solved, unsolvable;
} tally;

/* What no plan can beat: by `exact` on small graphs, INT64_MAX if it proves that nothing is valid; else by the lower bounds. */
static int64_t least_step(small *s, tally *sum, bool *solved) {
    stw_bounds bounds;
    stw_options *options = options_of("20000", "1");
    stw_result *result;
    stw_candidate candidate;
    CHECK_EQ_INT(stw_lower_bounds(s->simulator, s->plan, &bounds, NULL), STW_OK);
    int64_t least = (int64_t)ceil(bounds.plan_s * 1e12);
    *solved = false;
    if (s->graph->op_count <= SMALL_OPS &&
        CHECK_EQ_INT(stw_compare(s->simulator, "exact", options, NULL, &result, NULL), STW_OK)) {
        CHECK(stw_result_candidate(result, 0, &candidate));
        if (candidate.valid && strncmp(candidate.note, "proved optimal", 14) == 0) {
            const int64_t step = check_plan(s, stw_result_plan(result));
            CHECK(step >= least);
            least = step;
            *solved = true;
        } else if (!candidate.valid && strstr(candidate.reason, "no plan is valid") != NULL) {
            least = INT64_MAX;
            *solved = true;
        }
        stw_result_destroy(result);
    }
    sum->solved += *solved;
    sum->unsolvable += *solved && least == INT64_MAX;
    stw_options_destroy(options);
    return least;
}

static void run_all(small *s, tally *sum) {
    const stw_method *method;
    bool solved = false;
    const int64_t least = least_step(s, sum, &solved);
    sum->problems++;
    for (int32_t k = 0; (method = method_at(k)) != NULL && k < MOST_METHODS; k++) {
        stw_plan *plan = run(s, method->name, "200", "2");
        if (plan == NULL) {
            sum->none[k]++;
            continue;
        }
        const int64_t step = check_plan(s, plan);
        CHECK(step >= least);
        sum->optimal[k] += solved && step == least && least < INT64_MAX;
        if (step < INT64_MAX) {
            sum->valid[k]++;
        } else {
            sum->lacking[k]++;
        }
        stw_plan_destroy(plan);
    }
}

static void run_problems(uint64_t seed, int count, bool tight, tally *sum) {
    const stw_rng seeds = stw_rng_create(seed);
    for (int number = 0; number < count; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        test_context("seed %d, problem %d", (int)seed, number);
        if (tight) tighten(&rng, s);
        run_all(s, sum);
        small_close(s);
    }
    test_context("%s", "");
    printf("  %d problems, %d solved by exact, %d of these without a valid plan\n", sum->problems, sum->solved, sum->unsolvable);
    const stw_method *method;
    for (int32_t k = 0; (method = method_at(k)) != NULL; k++) {
        printf("  %-10s %4d valid (%d proved optimal), %d lacking memory, %d none\n", method->name, sum->valid[k],
               sum->optimal[k], sum->lacking[k], sum->none[k]);
    }
}

TEST(all_methods, plans_are_valid_where_memory_suffices) {
    const stw_method *method;
    tally sum = {0};
    run_problems(401, test_cases(80), false, &sum);
    CHECK(8 * sum.solved > 3 * sum.problems && sum.unsolvable == 0);
    for (int32_t k = 0; (method = method_at(k)) != NULL; k++) {
        test_context("%s", method->name);
        CHECK_EQ_INT(sum.lacking[k], 0);
        if (method->kind != STW_METHOD_EXACT) CHECK_EQ_INT(sum.valid[k], sum.problems);
    }
    test_context("%s", "");
}

TEST(all_methods, plans_are_valid_or_say_what_they_lack_where_memory_is_tight) {
    const stw_method *method;
    tally sum = {0};
    run_problems(402, test_cases(80), true, &sum);
    CHECK(8 * sum.solved > 3 * sum.problems && sum.solved > sum.unsolvable + sum.problems / 6);
    for (int32_t k = 0; (method = method_at(k)) != NULL; k++) {
        test_context("%s", method->name);
        CHECK(sum.valid[k] > sum.problems / 10 && sum.valid[k] < sum.problems);
    }
    test_context("%s", "");
}

TEST(all_methods, other_objectives) {
    const stw_rng seeds = stw_rng_create(405);
    const stw_method *method;
    int valid = 0, others = 0;
    for (int number = 0; number < 24; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        if (number % 2 == 1) tighten(&rng, s);
        for (int32_t k = 0; (method = method_at(k)) != NULL; k++) {
            test_context("problem %d, %s", number, method->name);
            bool refused;
            stw_plan *plan = run_for(s, method->name, (setting){"12", "2", number % 4 < 2 ? "memory" : "throughput"}, &refused);
            const bool is_valid = plan != NULL && check_plan(s, plan) < INT64_MAX;
            valid += is_valid;
            others += !is_valid;
            stw_plan_destroy(plan);
        }
        small_close(s);
    }
    test_context("%s", "");
    printf("  %d valid plans, %d lacking memory or none\n", valid, others);
    CHECK(valid > 3 * others);
}

/* ---- threads ---- */

static void check_equal(const stw_plan *a, const stw_plan *b) {
    if (!CHECK((a == NULL) == (b == NULL)) || a == NULL) return;
    const size_t N = (size_t)a->graph->N;
    CHECK(memcmp(a->device, b->device, N * sizeof *a->device) == 0);
    CHECK(memcmp(a->priority, b->priority, N * sizeof *a->priority) == 0);
    CHECK(memcmp(a->group, b->group, N * sizeof *a->group) == 0);
    for (int32_t d = 0; d < a->machine->device_count; d++) {
        if (!CHECK((a->order[d] == NULL) == (b->order[d] == NULL)) || a->order[d] == NULL) continue;
        if (!CHECK_EQ_INT(a->order_count[d], b->order_count[d]) || a->order_count[d] == 0) continue;
        CHECK(memcmp(a->order[d], b->order[d], (size_t)a->order_count[d] * sizeof *a->order[d]) == 0);
    }
}

static void compare_threads(const small *s) {
    const stw_method *method;
    for (int32_t k = 0; (method = method_at(k)) != NULL; k++) {
        stw_plan *one = run(s, method->name, "150", "1"), *two = run(s, method->name, "150", "2");
        stw_plan *eight = run(s, method->name, "150", "8");
        check_equal(one, two);
        check_equal(one, eight);
        stw_plan_destroy(one);
        stw_plan_destroy(two);
        stw_plan_destroy(eight);
    }
}

static stw_result *optimize(const small *s, const char *tasks, const char *threads) {
    stw_options *options = options_of("400", threads);
    stw_result *result = NULL;
    CHECK_EQ_INT(stw_options_set(options, "tasks", tasks, NULL), STW_OK);
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, NULL), STW_OK);
    stw_options_destroy(options);
    return result;
}

static void compare_optimize(const small *s, const char *tasks) {
    stw_result *one = optimize(s, tasks, "1"), *other[2] = {optimize(s, tasks, "2"), optimize(s, tasks, "8")};
    for (int k = 0; k < 2; k++) {
        stw_candidate a, b;
        if (one == NULL || other[k] == NULL) continue;
        check_equal(stw_result_plan(one), stw_result_plan(other[k]));
        CHECK_EQ_INT(stw_result_best(one), stw_result_best(other[k]));
        for (int32_t c = 0; stw_result_candidate(one, c, &a); c++) {
            if (!CHECK(stw_result_candidate(other[k], c, &b))) break;
            CHECK_STR(a.method, b.method);
            CHECK_STR(a.note, b.note);
            CHECK_EQ_INT(a.valid, b.valid);
            CHECK_EQ_INT(a.evaluations, b.evaluations);
            CHECK(a.step_s == b.step_s || (isnan(a.step_s) && isnan(b.step_s)));
        }
        stw_result_destroy(other[k]);
    }
    stw_result_destroy(one);
}

TEST(all_methods, number_of_threads_changes_nothing) {
    const stw_rng seeds = stw_rng_create(403);
    for (int number = 0; number < test_cases(16); number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        test_context("problem %d", number);
        if (number % 2 == 1) tighten(&rng, s);
        compare_threads(s);
        compare_optimize(s, number % 4 < 2 ? "placement,schedule,fusion" : "placement,schedule");
        small_close(s);
    }
    test_context("%s", "");
}

/* The best of all candidates, and never worse than the default. */
TEST(all_methods, optimize_is_the_best_of_its_candidates) {
    const stw_rng seeds = stw_rng_create(404);
    int without = 0, better = 0;
    for (int number = 0; number < 30; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        test_context("problem %d", number);
        if (number % 2 == 1) tighten(&rng, s);
        stw_result *result = optimize(s, "placement,schedule", "2");
        if (result == NULL) continue;
        const stw_plan *plan = stw_result_plan(result);
        const int64_t step = plan == NULL ? INT64_MAX : check_plan(s, plan);
        stw_candidate candidate;
        if (plan == NULL) CHECK(strlen(stw_result_lacking(result)) > 10);
        for (int32_t c = 0; stw_result_candidate(result, c, &candidate); c++) {
            if (!candidate.valid) continue;
            CHECK(llround(candidate.step_s * 1e12) >= step);
            better += c == 0 && llround(candidate.step_s * 1e12) > step;
        }
        without += plan == NULL;
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
    printf("  better than the default on %d of 30, without a plan on %d\n", better, without);
    CHECK(better >= 5 && without < 15);
}
