/* sim: what must hold for every plan, on random graphs, machines and plans. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/random.h"
#include "test.h"

enum { PROBLEMS = 300, PLANS = 4 };

/* The shapes take turns. */
static small *open_problem(stw_rng *rng, int number) {
    return random_open(rng, (random_shape){.nodes = (int32_t)stw_rng_below(rng, 40),
                                           .device_count = 1 + number % 5,
                                           .plain = number % 7 == 0,
                                           .unlike = number % 2 == 1,
                                           .buses = number % 3 == 0,
                                           .model = number % 4 == 0,
                                           .contention = number % 6 == 5 ? "none" : "queue"});
}

static void random_plan(stw_rng *rng, small *s, int plan) {
    unfuse_and_free(s->plan);
    random_placement(rng, s->simulator, s->plan);
    random_priorities(rng, s->plan);
    if (plan % 2 == 1) random_groups(rng, s->simulator, s->plan, 20);
    if (plan >= 2) random_orders(rng, s->simulator, s->plan);
}

typedef void law(stw_rng *rng, small *s);

/* Runs the law on PLANS plans of each of PROBLEMS problems. */
static void for_all(uint64_t seed, law *check) {
    const stw_rng seeds = stw_rng_create(seed);
    for (int number = 0; number < PROBLEMS; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        for (int plan = 0; plan < PLANS; plan++) {
            test_context("seed %llu, problem %d, plan %d", (unsigned long long)seed, number, plan);
            random_plan(&rng, s, plan);
            small_run(s);
            CHECK_EQ_INT(s->result.reason, STW_VALID);
            check(&rng, s);
        }
        small_close(s);
    }
    test_context("%s", "");
}

/* ---- bounds ---- */

/* Picoseconds of an op on the device that is best at it. */
static int64_t best_ps(const small *s, int32_t op) {
    double least = stw_costs_op_us(s->costs, op, 0);
    for (int32_t d = 1; d < s->machine->device_count; d++) least = fmin(least, stw_costs_op_us(s->costs, op, d));
    return stw_cost_us_to_ps(least);
}

static int64_t critical_path(const small *s, int64_t *work) {
    const stw_graph *graph = s->graph;
    int64_t *end = calloc((size_t)graph->N + 1, sizeof *end), longest = 0;
    *work = 0;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
            if (end[graph->read[e].node] > end[op]) end[op] = end[graph->read[e].node];
        }
        for (int64_t w = graph->wait_start[op]; w < graph->wait_start[op + 1]; w++) {
            if (end[graph->wait[w]] > end[op]) end[op] = end[graph->wait[w]];
        }
        end[op] += best_ps(s, op);
        *work += best_ps(s, op);
        if (end[op] > longest) longest = end[op];
    }
    free(end);
    return longest;
}

static bool is_fused(const stw_plan *plan) {
    for (int32_t k = 0; k < plan->graph->op_count; k++) {
        if (plan->group[plan->graph->topological[k]] != plan->graph->topological[k]) return true;
    }
    return false;
}

static void check_bounds(stw_rng *rng, small *s) {
    (void)rng;
    stw_bounds bounds;
    CHECK_EQ_INT(stw_lower_bounds(s->simulator, s->plan, &bounds, NULL), STW_OK);
    CHECK(bounds.plan_s * 1e12 <= (double)s->result.step_ps);
    CHECK(bounds.fusion_s * 1e12 <= (double)s->result.step_ps);
    CHECK(bounds.plan_s >= 0.0 && bounds.fusion_s >= 0.0);
    if (is_fused(s->plan)) return;
    int64_t work;
    const int64_t path = critical_path(s, &work);
    CHECK(s->result.step_ps >= path);
    CHECK(s->result.step_ps >= (work + s->machine->device_count - 1) / s->machine->device_count);
    /* The bound contains both, but for a safety margin of a part in 10^12. */
    CHECK(bounds.plan_s * 1e12 >= (double)path * (1.0 - 1e-11));
    if (s->machine->cost_class_count == 1) CHECK(bounds.plan_s * 1e12 * s->machine->device_count >= (double)work * (1.0 - 1e-11));
}

TEST(invariants, no_plan_beats_the_bounds) { for_all(11, check_bounds); }

/* ---- devices ---- */

static void check_devices(stw_rng *rng, small *s) {
    (void)rng;
    const stw_timeline *timeline = &s->workspace->timeline;
    int64_t busy[STW_MAX_DEVICES] = {0}, all = 0;
    for (int32_t t = 0; t < timeline->tasks->T; t++) {
        busy[timeline->device[t]] += timeline->end_ps[t] - timeline->start_ps[t];
        all += timeline->end_ps[t] - timeline->start_ps[t];
    }
    for (int32_t d = 0; d < s->machine->device_count; d++) {
        CHECK_EQ_INT(s->result.busy_ps[d], busy[d]);
        CHECK(busy[d] <= s->result.step_ps);
    }
    if (s->machine->device_count == 1) {
        CHECK_EQ_INT(s->result.step_ps, all);
        CHECK_EQ_INT(s->result.transfer_count, 0);
    }
    for (int32_t k = 0; k < timeline->transfer_count; k++) {
        const stw_transfer *transfer = &timeline->transfer[k];
        CHECK(transfer->ready_ps <= transfer->start_ps && transfer->end_ps <= s->result.step_ps);
        CHECK_EQ_INT(transfer->end_ps - transfer->start_ps,
                     stw_cost_transfer_ps(stw_machine_link(s->machine, transfer->from, transfer->to), transfer->bytes));
        if (!s->machine->queues) CHECK_EQ_INT(transfer->start_ps, transfer->ready_ps);
    }
}

TEST(invariants, one_device_takes_the_sum_of_all) { for_all(12, check_devices); }

/* ---- memory ---- */

/* What is held for the whole step on a device, or from somewhere to its end. */
static int64_t held_at_the_end(const small *s, int32_t device) {
    const stw_tasks *tasks = s->workspace->timeline.tasks;
    int64_t bytes = 0;
    for (int32_t i = 0; i < s->graph->N; i++) {
        if (s->plan->device[i] != device) continue;
        const bool kept =
            s->graph->kind[i] == STW_NODE_OP && s->graph->kept[i] && s->graph->updates[i] < 0 && tasks->task_of[i] >= 0;
        if (kept || stw_node_is_resident(s->graph->kind[i])) bytes += s->graph->bytes[i];
    }
    return bytes;
}

static void check_memory(stw_rng *rng, small *s) {
    (void)rng;
    const stw_timeline *timeline = &s->workspace->timeline;
    int64_t held[STW_MAX_DEVICES] = {0}, peak[STW_MAX_DEVICES] = {0}, peak_ps[STW_MAX_DEVICES] = {0};
    for (int64_t k = 0; k < timeline->change_count; k++) {
        const stw_memory_change *change = &timeline->change[k];
        const bool last = k + 1 == timeline->change_count || timeline->change[k + 1].time_ps > change->time_ps;
        CHECK(k == 0 || timeline->change[k - 1].time_ps <= change->time_ps);
        CHECK(change->time_ps >= 0 && change->time_ps <= s->result.step_ps);
        held[change->device] += change->bytes;
        CHECK(held[change->device] >= 0);
        for (int32_t d = 0; last && change->time_ps < s->result.step_ps && d < s->machine->device_count; d++) {
            if (held[d] <= peak[d]) continue;
            peak[d] = held[d];
            peak_ps[d] = change->time_ps;
        }
    }
    for (int32_t d = 0; d < s->machine->device_count; d++) {
        CHECK_EQ_INT(held[d], held_at_the_end(s, d));
        CHECK_EQ_INT(s->result.peak_bytes[d], peak[d]);
        CHECK_EQ_INT(timeline->peak_ps[d], peak_ps[d]);
    }
}

TEST(invariants, changes_of_memory_add_up) { for_all(13, check_memory); }

/* ---- determinism ---- */

static void check_repeat(stw_rng *rng, small *s) {
    const stw_run_options options = {.record_memory = true};
    const uint64_t hash = hash_run(s->workspace, &s->result);
    stw_workspace *fresh;
    stw_evaluation result;
    stw_plan *other;
    small_run(s);
    CHECK(hash_run(s->workspace, &s->result) == hash);
    if (!CHECK_EQ_INT(stw_workspace_create(s->simulator, &fresh, NULL), STW_OK)) return;
    CHECK_EQ_INT(stw_simulator_run(s->simulator, s->plan, &options, fresh, &result, NULL), STW_OK);
    CHECK(hash_run(fresh, &result) == hash);
    /* Other plans in between, an illegal one among them, leave nothing behind. */
    CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &other, NULL), STW_OK);
    for (int k = 0; k < 3; k++) {
        random_placement(rng, s->simulator, other);
        if (k < 2) random_groups(rng, s->simulator, other, 5);
        for (int32_t i = 0; k == 2 && i < s->graph->N; i++) other->group[i] = -1; /* nothing is written */
        CHECK_EQ_INT(stw_simulator_run(s->simulator, other, &options, fresh, &result, NULL), STW_OK);
        CHECK(k < 2 || s->graph->op_count == 0 || result.reason == STW_INVALID_GROUPS);
    }
    CHECK_EQ_INT(stw_simulator_run(s->simulator, s->plan, &options, fresh, &result, NULL), STW_OK);
    CHECK(hash_run(fresh, &result) == hash);
    /* Without the record of memory all else is the same. */
    const int64_t step = result.step_ps, worst = result.worst_peak_bytes;
    CHECK_EQ_INT(stw_simulate(s->simulator, s->plan, fresh, &result, NULL), STW_OK);
    CHECK_EQ_INT(result.step_ps, step);
    CHECK_EQ_INT(result.worst_peak_bytes, worst);
    CHECK_EQ_INT(fresh->timeline.change_count, 0);
    stw_plan_destroy(other);
    stw_workspace_destroy(fresh);
}

/* A limit that the step keeps changes nothing; one picosecond less, and the run gives up. */
static void check_stop(stw_rng *rng, small *s) {
    (void)rng;
    const int64_t step_ps = s->result.step_ps;
    const uint64_t hash = hash_run(s->workspace, &s->result);
    stw_error error;
    stw_evaluation result;
    if (step_ps < 2) return;
    const stw_run_options enough = {.stop_ps = step_ps, .record_memory = true}, less = {.stop_ps = step_ps - 1};
    CHECK_EQ_INT(stw_simulator_run(s->simulator, s->plan, &enough, s->workspace, &result, &error), STW_OK);
    CHECK(hash_run(s->workspace, &result) == hash);
    CHECK_EQ_INT(stw_simulator_run(s->simulator, s->plan, &less, s->workspace, &result, &error), STW_OK);
    CHECK_EQ_INT(result.reason, STW_INVALID_OVERFLOW);
    CHECK_CONTAINS(result.message, "may take");
    CHECK(result.peak_bytes == NULL);
}

TEST(invariants, a_run_may_be_given_up) { for_all(19, check_stop); }

TEST(invariants, same_input_same_bytes) { for_all(14, check_repeat); }

/* ---- monotony: only with all orders held fixed and without queues; otherwise there are Graham's anomalies ---- */

static int64_t step_with(const small *s, const stw_simulator *simulator, const int64_t *duration_ps, stw_workspace *workspace) {
    const stw_run_options options = {.duration_ps = duration_ps};
    stw_evaluation result;
    CHECK_EQ_INT(stw_simulator_run(simulator, s->plan, &options, workspace, &result, NULL), STW_OK);
    CHECK_EQ_INT(result.reason, STW_VALID);
    return result.step_ps;
}

static void cheapen_ops(stw_rng *rng, const small *s, int64_t *duration_ps) {
    const stw_timeline *timeline = &s->workspace->timeline;
    for (int32_t t = 0; t < timeline->tasks->T; t++) {
        const int64_t full = timeline->end_ps[t] - timeline->start_ps[t];
        duration_ps[timeline->tasks->task_node[t]] = stw_rng_uniform(rng) < 0.5 ? full : stw_rng_below(rng, full + 1);
    }
}

/* The step on the same machine with some links faster. */
static void check_faster_links(stw_rng *rng, small *s) {
    stw_simulator *simulator;
    stw_workspace *workspace;
    const int32_t D = s->machine->device_count;
    const size_t size = (size_t)(D * D) * sizeof(stw_link);
    stw_link *slow = malloc(size);
    memcpy(slow, s->machine->link, size);
    for (int32_t k = 0; k < D * D; k++) {
        if (stw_rng_uniform(rng) < 0.5) s->machine->link[k].bandwidth *= 1.0 + 3.0 * stw_rng_uniform(rng);
        if (stw_rng_uniform(rng) < 0.5) s->machine->link[k].latency_us *= stw_rng_uniform(rng);
    }
    CHECK_EQ_INT(stw_simulator_create(s->costs, &simulator, NULL), STW_OK);
    CHECK_EQ_INT(stw_workspace_create(simulator, &workspace, NULL), STW_OK);
    CHECK(step_with(s, simulator, NULL, workspace) <= s->result.step_ps);
    stw_workspace_destroy(workspace);
    stw_simulator_destroy(simulator);
    memcpy(s->machine->link, slow, size);
    free(slow);
}

TEST(invariants, cheaper_never_longer_with_orders_fixed) {
    const stw_rng seeds = stw_rng_create(15);
    for (int number = 0; number < PROBLEMS; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(
            &rng,
            (random_shape){
                .nodes = 30, .device_count = 1 + number % 5, .unlike = number % 2 == 1, .contention = "none", .buses = true});
        int64_t *duration_ps = calloc((size_t)s->graph->N, sizeof *duration_ps);
        stw_workspace *workspace;
        CHECK_EQ_INT(stw_workspace_create(s->simulator, &workspace, NULL), STW_OK);
        for (int plan = 2; plan < 4; plan++) {
            test_context("problem %d, plan %d", number, plan);
            random_plan(&rng, s, plan);
            small_run(s);
            CHECK_EQ_INT(s->result.reason, STW_VALID);
            for (int k = 0; k < 3; k++) {
                cheapen_ops(&rng, s, duration_ps);
                CHECK(step_with(s, s->simulator, duration_ps, workspace) <= s->result.step_ps);
                check_faster_links(&rng, s);
            }
        }
        stw_workspace_destroy(workspace);
        free(duration_ps);
        small_close(s);
    }
    test_context("%s", "");
}

/* ---- relabelling ---- */

/* The same plan with devices renamed: on like devices with like links nothing but the names changes. */
static void check_relabelled(stw_rng *rng, small *s) {
    const int32_t D = s->machine->device_count;
    int32_t to[STW_MAX_DEVICES];
    int64_t peak[STW_MAX_DEVICES], step = s->result.step_ps;
    stw_plan *plan;
    memcpy(peak, s->result.peak_bytes, (size_t)D * sizeof *peak);
    for (int32_t d = 0; d < D; d++) {
        const int32_t k = (int32_t)stw_rng_below(rng, d + 1);
        to[d] = to[k];
        to[k] = d;
    }
    if (!CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &plan, NULL), STW_OK)) return;
    for (int32_t i = 0; i < s->graph->N; i++) {
        plan->device[i] = to[s->plan->device[i]];
        plan->priority[i] = s->plan->priority[i];
        plan->group[i] = s->plan->group[i];
    }
    for (int32_t d = 0; d < D; d++) {
        const int32_t count = s->plan->order[d] == NULL ? -1 : s->plan->order_count[d];
        CHECK_EQ_INT(stw_plan_set_order(plan, to[d], s->plan->order[d], count, NULL), STW_OK);
    }
    stw_plan *const old = s->plan;
    s->plan = plan;
    small_run(s);
    CHECK_EQ_INT(s->result.step_ps, step);
    for (int32_t d = 0; d < D; d++) CHECK_EQ_INT(s->result.peak_bytes[to[d]], peak[d]);
    s->plan = old;
    stw_plan_destroy(plan);
}

TEST(invariants, like_devices_may_be_relabelled) {
    const stw_rng seeds = stw_rng_create(16);
    for (int number = 0; number < PROBLEMS; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(
            &rng, (random_shape){.nodes = 40, .device_count = 2 + number % 5, .contention = number % 2 ? "none" : "queue"});
        for (int plan = 0; plan < PLANS; plan++) {
            test_context("problem %d, plan %d", number, plan);
            random_plan(&rng, s, plan);
            small_run(s);
            check_relabelled(&rng, s);
        }
        small_close(s);
    }
    test_context("%s", "");
}

/* ---- queues: nothing idles while something waits for it, and nothing is overtaken ---- */

typedef struct { /* a task on its device, or a transfer on its channel */
    int64_t ready_ps, start_ps, end_ps;
    double priority;
    int32_t queue, id, to;
} item;

static bool comes_before(const item *a, const item *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->ready_ps != b->ready_ps) return a->ready_ps < b->ready_ps;
    return a->id != b->id ? a->id < b->id : a->to < b->to;
}

/* What is ready strictly before another begins must not be the better choice of the two. At the very moment it may be, since a
 * transfer that takes no time ends after devices have chosen. */
static void check_queues(const item *all, int32_t count) {
    for (int32_t k = 0; k < count; k++) {
        const item *waiting = &all[k];
        int64_t covered = 0;
        for (int32_t j = 0; j < count && waiting->start_ps > waiting->ready_ps; j++) {
            const item *other = &all[j];
            if (other->queue != waiting->queue || j == k) continue;
            const int64_t from = other->start_ps > waiting->ready_ps ? other->start_ps : waiting->ready_ps;
            const int64_t to = other->end_ps < waiting->start_ps ? other->end_ps : waiting->start_ps;
            if (to > from) covered += to - from;
            if (other->start_ps > waiting->ready_ps && other->start_ps < waiting->start_ps) CHECK(!comes_before(waiting, other));
        }
        CHECK_EQ_INT(covered, waiting->start_ps - waiting->ready_ps);
    }
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* When a value is on a device. */
static int64_t there_ps(const stw_timeline *timeline, int32_t value, int32_t device) {
    const stw_tasks *tasks = timeline->tasks;
    if (tasks->value_flags[value] & STW_VALUE_EVERYWHERE) return 0;
    for (int32_t k = 0; k < timeline->transfer_count; k++) {
        const stw_transfer *transfer = &timeline->transfer[k];
        if (transfer->producer == tasks->value_node[value] && transfer->to == device) return transfer->end_ps;
    }
    return tasks->value_task[value] < 0 ? 0 : timeline->end_ps[tasks->value_task[value]];
}

static int32_t list_tasks(const small *s, item *out) {
    const stw_timeline *timeline = &s->workspace->timeline;
    const stw_tasks *tasks = timeline->tasks;
    for (int32_t t = 0; t < tasks->T; t++) {
        const int32_t node = tasks->task_node[t];
        out[t] = (item){0, timeline->start_ps[t], timeline->end_ps[t], s->plan->priority[node], timeline->device[t], node, 0};
        for (int32_t k = tasks->input_start[t]; k < tasks->input_start[t + 1]; k++) {
            out[t].ready_ps = later(out[t].ready_ps, there_ps(timeline, tasks->slot_value[k], timeline->device[t]));
        }
        for (int32_t k = 0; s->graph->updates[node] >= 0 && k < timeline->transfer_count; k++) {
            if (timeline->transfer[k].producer == s->graph->updates[node]) {
                out[t].ready_ps = later(out[t].ready_ps, timeline->transfer[k].end_ps);
            }
        }
    }
    for (int32_t t = 0; t < tasks->T; t++) {
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            out[tasks->waiter[w]].ready_ps = later(out[tasks->waiter[w]].ready_ps, timeline->end_ps[t]);
        }
    }
    for (int32_t t = 0; t < tasks->T; t++) CHECK(out[t].ready_ps <= out[t].start_ps);
    return tasks->T;
}

static int32_t list_transfers(const small *s, item *out) {
    const stw_timeline *timeline = &s->workspace->timeline;
    for (int32_t k = 0; k < timeline->transfer_count; k++) {
        const stw_transfer *t = &timeline->transfer[k];
        const int32_t channel = stw_machine_link(s->machine, t->from, t->to)->channel;
        out[k] = (item){t->ready_ps, t->start_ps, t->end_ps, s->plan->priority[t->producer], channel, t->producer, t->to};
    }
    return timeline->transfer_count;
}

TEST(invariants, queues_never_idle_and_nothing_overtakes) {
    const stw_rng seeds = stw_rng_create(17);
    int64_t most = 0;
    for (int number = 0; number < 60; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(
            &rng,
            (random_shape){
                .nodes = 380, .device_count = 1 + number % 3, .wide = true, .unlike = number % 2 == 1, .buses = number % 4 >= 2});
        item *all = calloc((size_t)s->graph->N * 4, sizeof *all);
        test_context("problem %d", number);
        random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        small_run(s);
        const int32_t count = list_tasks(s, all);
        check_queues(all, count);
        int64_t waiting = 0; /* at the first moment */
        for (int32_t t = 0; t < count; t++) waiting += all[t].ready_ps == 0;
        most = later(most, waiting);
        check_queues(all, list_transfers(s, all));
        free(all);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(most > 100);
}

/* ---- the generator itself ---- */

TEST(invariants, problems_have_what_they_should) {
    const stw_rng seeds = stw_rng_create(11);
    int fused = 0, ordered = 0, sent = 0, queued = 0, updates = 0, unlike = 0;
    for (int number = 0; number < PROBLEMS; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        for (int32_t i = 0; i < s->graph->N; i++) updates += s->graph->updates[i] >= 0;
        unlike += s->machine->cost_class_count > 1;
        for (int plan = 0; plan < PLANS; plan++) {
            random_plan(&rng, s, plan);
            small_run(s);
            fused += is_fused(s->plan);
            ordered += s->plan->order[0] != NULL;
            sent += s->result.transfer_count > 0;
            for (int32_t k = 0; k < s->result.transfer_count; k++) {
                queued += s->workspace->timeline.transfer[k].start_ps > s->workspace->timeline.transfer[k].ready_ps;
            }
        }
        small_close(s);
    }
    CHECK(fused > PROBLEMS);
    CHECK(ordered > PROBLEMS);
    CHECK(sent > PROBLEMS);
    CHECK(queued > PROBLEMS);
    CHECK(updates > PROBLEMS / 2);
    CHECK(unlike > PROBLEMS / 4);
}
