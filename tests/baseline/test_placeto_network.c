/* The network of Placeto: against PyTorch, tensor by tensor, with ten updates (placeto_reference.py wrote the files); its
 * gradient against differences; what it sees of a graph. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "baseline/placeto/problem.h"
#include "policy/checkpoint.h"
#include "support/reference_backend.h"
#include "support/small.h"
#include "test.h"

static const double RATE = 1e-3, CLIP = 1.25, BONUS = 0.1;
enum { UPDATES = 10 };

static void need(stw_status status, const stw_error *error) {
    if (status == STW_OK) return;
    fprintf(stderr, "%s\n", error->message);
    abort();
}

/* ---- a case of PyTorch ---- */

typedef struct bench {
    stw_arena arena;
    stw_tensor_file file;
    stw_backend *backend;
    stw_placeto_config config;
    stw_placeto_net *net;
    stw_placeto_graph graph;
    const int32_t *device, *choice;
    const double *weight;
    int32_t look;
    bool cpu;
} bench;

static const stw_tensor *tensor(const bench *b, const char *name) {
    const stw_tensor *t = stw_tensor_find(&b->file, name);
    test_context("%s", name);
    if (!CHECK(t != NULL)) abort();
    return t;
}

static int32_t dimension(const bench *b, const char *name) {
    int64_t value = 0;
    CHECK(stw_tensor_file_dimension(&b->file, name, &value));
    return (int32_t)value;
}

/* edge: (N, N), 1 where the row's node is read by the column's. */
static void list_edges(bench *b, const double *edge, bool above, const int32_t **start_out, const int32_t **item_out) {
    const int32_t N = b->graph.N;
    int32_t *start = STW_NEW(&b->arena, int32_t, N + 1), *item = STW_NEW(&b->arena, int32_t, N * N), count = 0;
    for (int32_t u = 0; u < N; u++) {
        for (int32_t v = 0; v < N; v++) {
            if ((above ? edge[v * N + u] : edge[u * N + v]) > 0.0) item[count++] = v;
        }
        start[u + 1] = count;
    }
    *start_out = start;
    *item_out = item;
}

static void load_parameters(bench *b) {
    stw_parameters *p = stw_placeto_net_parameters(b->net);
    for (int32_t i = 0; i < p->count; i++) {
        char name[64];
        snprintf(name, sizeof name, "parameter/%.40s", p->entry[i].name);
        const stw_tensor *t = tensor(b, name);
        const int64_t count = (int64_t)p->entry[i].rows * p->entry[i].cols;
        if (!CHECK_EQ_INT(t->rows, p->entry[i].rows) || !CHECK_EQ_INT(t->cols, p->entry[i].cols)) abort();
        stw_arena scratch = b->arena;
        double *value = STW_NEW(&scratch, double, count);
        for (int64_t k = 0; k < count; k++) value[k] = (double)((const float *)t->data)[k];
        stw_reals_in(b->backend, stw_parameter_value(p, i), value, count, scratch);
    }
    stw_placeto_net_fetch(b->net);
}

static bench *bench_open(const char *name, bool cpu) {
    char path[512];
    stw_error error = {0};
    bench *b = calloc(1, sizeof *b);
    b->cpu = cpu;
    snprintf(path, sizeof path, "%s/tests/baseline/data/placeto-%s.stw", STW_SOURCE_DIR, name);
    need(stw_arena_create(&b->arena, &error), &error);
    need(stw_tensor_file_read(path, &b->arena, &b->file, &error), &error);
    need(cpu ? stw_backend_cpu(NULL, &b->backend, &error) : stw_backend_reference(sizeof(double), &b->backend, &error), &error);
    b->config = (stw_placeto_config){.devices = dimension(b, "devices"),
                                     .rounds = dimension(b, "rounds"),
                                     .width = dimension(b, "width"),
                                     .mean = dimension(b, "mean")};
    need(stw_placeto_net_create(&b->config, b->backend, 1, &b->net, &error), &error);
    load_parameters(b);
    b->graph = (stw_placeto_graph){.N = dimension(b, "nodes"),
                                   .D = b->config.devices,
                                   .time = tensor(b, "input/time")->data,
                                   .bytes = tensor(b, "input/bytes")->data};
    list_edges(b, tensor(b, "input/edge")->data, true, &b->graph.above_start, &b->graph.above);
    list_edges(b, tensor(b, "input/edge")->data, false, &b->graph.below_start, &b->graph.below);
    b->device = tensor(b, "case/device")->data;
    b->choice = tensor(b, "case/choice")->data;
    b->weight = tensor(b, "case/weight")->data;
    b->look = dimension(b, "look");
    return b;
}

static void bench_close(bench *b) {
    test_context("%s", "");
    stw_placeto_net_destroy(b->net);
    stw_backend_destroy(b->backend);
    stw_arena_destroy(&b->arena);
    free(b);
}

/* As a share of the largest element of the tensor. The cpu holds parameters and Adam's moments in float. */
static void compare(const bench *b, const char *name, const double *found, int64_t count, double exact, double in_float) {
    const stw_tensor *t = tensor(b, name);
    double most = 1e-9, difference = 0.0;
    if (!CHECK_EQ_INT(t->rows * t->cols, count)) return;
    for (int64_t k = 0; k < count; k++) {
        const double expected = ((const double *)t->data)[k], off = fabs(found[k] - expected);
        most = fmax(most, fabs(expected));
        difference = off > difference || isnan(off) ? off : difference;
    }
    CHECK_NEAR(difference / most, 0.0, b->cpu ? in_float : exact);
}

/* A block laid out as the parameters. */
static void compare_block(bench *b, const char *prefix, const double *block, double exact, double in_float) {
    const stw_parameters *p = stw_placeto_net_parameters(b->net);
    for (int32_t i = 0; i < p->count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.12s/%.40s", prefix, p->entry[i].name);
        compare(b, name, &block[p->entry[i].offset], (int64_t)p->entry[i].rows * p->entry[i].cols, exact, in_float);
    }
}

static void check_looks(bench *b) {
    const int64_t N = b->graph.N, W = b->config.width > 0 ? b->config.width : 4 + b->config.devices, D = b->config.devices;
    stw_arena scratch = b->arena;
    stw_placeto_pass pass;
    stw_error error = {0};
    CHECK_EQ_INT(stw_placeto_forward(b->net, &b->graph, b->device, b->look, &scratch, &pass, &error), STW_OK);
    const struct {
        const char *name;
        const double *found;
        int64_t count;
    } looks[] = {{"look/x", pass.x, N * (4 + D)},
                 {"look/hidden.0", pass.hidden[0], N * W},
                 {"look/hidden.1", pass.hidden[1], N * W},
                 {"look/own", pass.own, N * W},
                 {"look/e", pass.e, 2 * N * W},
                 {"look/joined", pass.joined, 8 * W},
                 {"look/policy.0", pass.policy[0], 16 * W},
                 {"look/policy.1", pass.policy[1], 8 * W},
                 {"look/logp", pass.logp, D}};
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        compare(b, looks[i].name, looks[i].found, looks[i].count, 1e-13, 1e-13);
    for (int32_t r = 0; r < b->config.rounds; r++) {
        char name[32];
        snprintf(name, sizeof name, "look/top_down.%d", r);
        compare(b, name, pass.round[0][r].y, N * W, 1e-13, 1e-13);
        snprintf(name, sizeof name, "look/bottom_up.%d", r);
        compare(b, name, pass.round[1][r].y, N * W, 1e-13, 1e-13);
    }
}

/* The loss of an episode; its gradient is added. */
static double go_through(bench *b, double *gradient) {
    stw_error error = {0};
    stw_arena arena = b->arena;
    int32_t *device = STW_NEW(&arena, int32_t, b->graph.N);
    double loss = 0.0;
    memcpy(device, b->device, (size_t)b->graph.N * sizeof *device);
    for (int32_t u = 0; u < b->graph.N; u++) {
        stw_arena scratch = arena;
        stw_placeto_pass pass;
        need(stw_placeto_forward(b->net, &b->graph, device, u, &scratch, &pass, &error), &error);
        if (gradient != NULL)
            need(stw_placeto_backward(b->net, &b->graph, &pass, b->choice[u], -b->weight[u], -BONUS, gradient, scratch, &error),
                 &error);
        loss -= b->weight[u] * pass.logp[b->choice[u]] + BONUS * stw_placeto_entropy(b->graph.D, pass.logp);
        device[u] = b->choice[u];
    }
    return loss;
}

static void check_updates(bench *b) {
    const stw_parameters *p = stw_placeto_net_parameters(b->net);
    double *gradient = STW_NEW(&b->arena, double, p->total), norms[UPDATES];
    for (int32_t k = 0; k < UPDATES; k++) {
        memset(gradient, 0, (size_t)p->total * sizeof *gradient);
        const double loss = go_through(b, gradient);
        if (k == 0) {
            compare(b, "loss", &loss, 1, 1e-13, 1e-13);
            compare_block(b, "gradient", gradient, 1e-12, 1e-12);
        }
        norms[k] = stw_placeto_net_update(b->net, gradient, RATE, CLIP);
    }
    compare(b, "norms", norms, UPDATES, 1e-12, 1e-5);
    stw_reals_out(b->backend, gradient, p->value, p->total, b->arena);
    compare_block(b, "after", gradient, 1e-10, 1e-5);
}

static void check_case(const char *name, bool cpu) {
    bench *b = bench_open(name, cpu);
    check_looks(b);
    check_updates(b);
    bench_close(b);
}

TEST(placeto, sums_are_those_of_pytorch) { check_case("sum", false); }
TEST(placeto, means_are_those_of_pytorch) { check_case("mean", false); }
TEST(placeto, sums_on_the_cpu_are_near) { check_case("sum", true); }
TEST(placeto, means_on_the_cpu_are_near) { check_case("mean", true); }

/* ---- the gradient ---- */

static double slope_by_difference(bench *b, double *value) {
    const double h = 1e-6, at = *value;
    *value = at + h;
    stw_placeto_net_fetch(b->net);
    const double above = go_through(b, NULL);
    *value = at - h;
    stw_placeto_net_fetch(b->net);
    const double below = go_through(b, NULL);
    *value = at;
    return (above - below) / (2.0 * h);
}

static void check_gradient(const char *name) {
    bench *b = bench_open(name, false);
    stw_parameters *p = stw_placeto_net_parameters(b->net);
    double *gradient = STW_NEW(&b->arena, double, p->total);
    int32_t learns = 0;
    go_through(b, gradient);
    for (int32_t i = 0; i < p->count; i++) {
        const stw_parameter *entry = &p->entry[i];
        const int64_t size = (int64_t)entry->rows * entry->cols, step = size > 30 ? size / 15 : 1;
        double *value = stw_parameter_value(p, i), most = 0.0;
        test_context("%s of %s", entry->name, name);
        for (int64_t k = 0; k < size; k++) most = fmax(most, fabs(gradient[entry->offset + k]));
        for (int64_t k = 0; k < size; k += step)
            CHECK_NEAR(gradient[entry->offset + k], slope_by_difference(b, &value[k]), 1e-6 * (1.0 + most));
        learns += most > 1e-6;
    }
    CHECK_EQ_INT(learns, p->count);
    bench_close(b);
}

TEST(placeto, gradient_is_that_of_differences) {
    check_gradient("sum");
    check_gradient("mean");
}

/* ---- what it is ---- */

/* A chain a -> b -> c, and d apart: of b, a is above, c below, d beside. */
TEST(placeto, sets_of_a_node_by_hand) {
    bench *b = bench_open("mean", false);
    const int32_t above_start[] = {0, 0, 1, 2, 2}, below_start[] = {0, 1, 2, 2, 2}, above[] = {0, 1}, below[] = {1, 2};
    const int32_t device[4] = {0, 1, 0, 1};
    const double time[8] = {1, .5, 1, .5, 1, .5, 1, .5}, bytes[4] = {.25, 1, 0, 0};
    const stw_placeto_graph graph = {4, 2, time, bytes, above_start, above, below_start, below};
    stw_placeto_pass pass;
    stw_error error = {0};
    CHECK_EQ_INT(stw_placeto_forward(b->net, &graph, device, 1, &b->arena, &pass, &error), STW_OK);
    const int32_t expected[3] = {0, 2, 3};
    for (int32_t k = 0; k < 3; k++) CHECK(pass.pool[k].m == 1 && pass.pool[k].member[0] == expected[k]);
    const double x[4][6] = {{1, .25, 0, 1, 1, 0}, {.5, 1, 1, 0, 0, 1}, {1, 0, 0, 0, 1, 0}, {.5, 0, 0, 0, 0, 1}};
    for (int32_t i = 0; i < 24; i++) CHECK_NEAR(pass.x[i], x[i / 6][i % 6], 0.0);
    double sum = 0.0;
    for (int32_t d = 0; d < 2; d++) sum += exp(pass.logp[d]);
    CHECK_NEAR(sum, 1.0, 1e-14);
    CHECK_EQ_INT(stw_placeto_forward(b->net, &graph, device, 2, &b->arena, &pass, &error), STW_OK);
    CHECK(pass.pool[0].m == 2 && pass.pool[1].m == 0 && pass.pool[2].m == 1);
    CHECK_NEAR(stw_placeto_entropy(2, (double[]){log(0.5), log(0.5)}), log(2.0), 1e-14);
    bench_close(b);
}

TEST(placeto, sizes_that_make_no_network_are_refused) {
    bench *b = bench_open("mean", false);
    stw_placeto_net *other = NULL;
    stw_error error = {0};
    stw_placeto_config config = {.devices = 0, .rounds = 2};
    CHECK_EQ_INT(stw_placeto_net_create(&config, b->backend, 1, &other, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "0 devices");
    config = (stw_placeto_config){.devices = 2, .rounds = -1};
    CHECK_EQ_INT(stw_placeto_net_create(&config, b->backend, 1, &other, &error), STW_ERROR_INPUT);
    CHECK(other == NULL);
    bench_close(b);
}

/* p -> a -> view of a -> b, a -> c; p is a parameter that b reads too. Devices 0 and 2. */
TEST(placeto, rows_of_a_graph_by_hand) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 4) OP(1, "a", "[0]", 6, 4) VIEW(2, "v", 1, 6)
                                           OP(3, "b", "[2,0]", 8, 2) OP(4, "c", "[1]", 2, 1),
                                       .device_count = 3});
    stw_error error = {0};
    stw_arena arena = {0};
    stw_placeto_problem p;
    need(stw_arena_create(&arena, &error), &error);
    CHECK_EQ_INT(stw_placeto_problem_build(s->simulator, 5, 0, &arena, &p, &error), STW_OK);
    const stw_placeto_graph *g = &p.graph;
    CHECK(g->N == 3 && g->D == 2);
    const double time[3] = {1.0, 0.5, 0.25}, bytes[3] = {1.0, 0.0, 0.0};
    for (int32_t u = 0; u < 3; u++) {
        CHECK_NEAR(g->time[2 * u], time[u], 1e-15);
        CHECK_NEAR(g->time[2 * u + 1], time[u], 1e-15);
        CHECK_NEAR(g->bytes[u], bytes[u], 1e-15);
    }
    CHECK(g->above_start[1] == 0 && g->above_start[2] == 1 && g->above_start[3] == 2 && g->above[0] == 0 && g->above[1] == 0);
    CHECK(g->below_start[1] == 2 && g->below_start[3] == 2 && g->below[0] == 1 && g->below[1] == 2);
    const int32_t device[3] = {1, 0, 1};
    CHECK_EQ_INT(stw_placeto_decode(&p, device, s->plan, arena, &error), STW_OK);
    CHECK(s->plan->device[1] == 2 && s->plan->device[2] == 2 && s->plan->device[3] == 0 && s->plan->device[4] == 2);
    stw_arena_destroy(&arena);
    small_close(s);
}
