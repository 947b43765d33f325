/* policy/: the network against PyTorch (reference.py wrote the files): every intermediate, two losses with all gradients, and ten
 * updates, in float on the backend `cpu` and in double on the backend `reference`. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "policy/checkpoint.h"
#include "policy/distribution.h"
#include "support/look.h"
#include "support/reference_backend.h"
#include "test.h"

static const double SIGMA = 0.5, CLIP = 0.2, RATE = 1e-3;
enum { UPDATES = 10 };

/* Differences that are let pass, as a share of the largest element of the tensor. */
typedef struct {
    const char *begins; /* of the tensor's name */
    double cpu, oracle; /* float, double. The file's gradients and parameters are float. */
} tolerance;

static const tolerance tolerances[] = {
    {"look/input", 5e-7, 1e-14},
    {"look/sage", 1e-6, 1e-14},
    {"look/graph", 1e-6, 1e-14},
    {"look/fusion", 2e-6, 2e-14},
    {"look/attention", 2e-6, 2e-14},
    {"look/placement", 2e-6, 2e-14},
    {"look/schedule", 3e-6, 2e-14},
    {"look/draft", 5e-6, 5e-14},
    {"loss/", 5e-6, 1e-13},
    {"linear/", 3e-5, 1e-7},
    {"ppo/", 3e-5, 1e-7},
    {"norms", 3e-5, 1e-13},
    {"after/", 5e-6, 1e-7},
};

static double tolerance_of(const char *name, bool cpu) {
    for (size_t i = 0; i < sizeof tolerances / sizeof *tolerances; i++) {
        if (strncmp(name, tolerances[i].begins, strlen(tolerances[i].begins)) == 0)
            return cpu ? tolerances[i].cpu : tolerances[i].oracle;
    }
    return 0.0;
}

typedef struct {
    stw_arena arena;
    stw_tensor_file file;
    stw_policy_config config;
    stw_backend *backend;
    stw_net *net;
    stw_pass *pass;
    bool cpu;
    int32_t M, D, K;
    bool fuses;
    int32_t drafts;
    struct {
        double *fusion, *placement, *schedule; /* the heads' outputs */
    } of[STW_MOST_DRAFTS];
} bench;

static const stw_tensor *tensor(const bench *b, const char *name) {
    const stw_tensor *t = stw_tensor_find(&b->file, name);
    test_context("%s", name);
    CHECK(t != NULL);
    return t;
}

static const double *doubles(const bench *b, const char *name) { return tensor(b, name)->data; }

static double expected(const stw_tensor *t, int64_t i) {
    return t->type == STW_TENSOR_F32 ? (double)((const float *)t->data)[i] : ((const double *)t->data)[i];
}

/* Compares with the tensor of the name; one check per tensor. */
static void compare(const bench *b, const char *name, const double *found, int64_t count) {
    const stw_tensor *t = tensor(b, name);
    if (t == NULL || !CHECK_EQ_INT(t->rows * t->cols, count)) return;
    double most = 1e-6, difference = 0.0;
    for (int64_t i = 0; i < count; i++) {
        most = fmax(most, fabs(expected(t, i)));
        difference =
            fabs(found[i] - expected(t, i)) > difference || isnan(found[i]) ? fabs(found[i] - expected(t, i)) : difference;
    }
    CHECK_NEAR(difference / most, 0.0, tolerance_of(name, b->cpu));
}

static int32_t dimension(const bench *b, const char *name) {
    int64_t value = 0;
    CHECK(stw_tensor_file_dimension(&b->file, name, &value));
    return (int32_t)value;
}

static stw_net_input input_of(const bench *b) {
    return (stw_net_input){.M = b->M,
                           .D = b->D,
                           .unit = doubles(b, "input/unit"),
                           .feedback = doubles(b, "input/feedback"),
                           .pair = doubles(b, "input/pair"),
                           .device = doubles(b, "input/device"),
                           .operator_ = tensor(b, "input/operator")->data,
                           .producer_start = tensor(b, "input/producer_start")->data,
                           .producer = tensor(b, "input/producer")->data,
                           .reader_start = tensor(b, "input/reader_start")->data,
                           .reader = tensor(b, "input/reader")->data};
}

static stw_status open_bench(bench *b, const char *name, bool cpu, stw_error *error) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/policy/data/%s.stw", STW_SOURCE_DIR, name);
    *b = (bench){.cpu = cpu};
    TRY(stw_arena_create(&b->arena, error));
    TRY(stw_tensor_file_read(path, &b->arena, &b->file, error));
    TRY(stw_net_config_of(&b->file, &b->config, error));
    TRY(cpu ? stw_backend_cpu(NULL, &b->backend, error) : stw_backend_reference(sizeof(double), &b->backend, error));
    TRY(stw_net_create(&b->config, b->backend, 1, &b->net, error));
    TRY(stw_net_load(b->net, &b->file, b->arena, error));
    TRY(stw_pass_create(b->net, &b->pass, error));
    b->M = dimension(b, "rows");
    b->D = dimension(b, "devices");
    b->K = dimension(b, "samples");
    const stw_net_input input = input_of(b);
    TRY(stw_pass_set_input(b->pass, &input, error));
    b->fuses = b->config.fusion != STW_FUSION_HEAD_NONE;
    b->drafts = b->config.drafts > 1 ? b->config.drafts : 1;
    for (int32_t d = 0; d < b->drafts; d++) {
        b->of[d].fusion = STW_NEW(&b->arena, double, b->K * b->M * stw_pass_fusion_width(b->pass) + 1);
        b->of[d].placement = STW_NEW(&b->arena, double, b->K * b->M * stw_pass_placement_width(b->pass));
        b->of[d].schedule = STW_NEW(&b->arena, double, b->K * b->M * stw_pass_schedule_width(b->pass));
    }
    return STW_OK;
}

static void close_bench(bench *b) {
    stw_pass_destroy(b->pass);
    stw_net_destroy(b->net);
    stw_backend_destroy(b->backend);
    stw_arena_destroy(&b->arena);
    test_context("%s", "");
}

static bool schedules(const bench *b) { return b->config.bare == 0; }

/* "case/<task>_<what>" of the first draft, "case/<task>.<draft>_<what>" of the others. */
static const double *of_case(const bench *b, const char *task, int32_t draft, const char *what) {
    char name[64];
    if (draft == 0) {
        snprintf(name, sizeof name, "case/%s_%s", task, what);
    } else {
        snprintf(name, sizeof name, "case/%s.%d_%s", task, draft, what);
    }
    return doubles(b, name);
}

static stw_status forward_draft(bench *b, int32_t d, stw_error *error) {
    double *first = b->fuses ? b->of[d].fusion : b->of[d].placement;
    if (d > 0) {
        TRY(stw_pass_next_draft(b->pass, b->K, of_case(b, "schedule", d - 1, "action"), first, error));
    } else {
        TRY(b->fuses ? stw_pass_fusion(b->pass, first, error) : stw_pass_placement(b->pass, first, error));
    }
    if (b->fuses) TRY(stw_pass_place(b->pass, b->K, of_case(b, "fusion", d, "action"), b->of[d].placement, error));
    if (!schedules(b)) return STW_OK;
    return stw_pass_schedule(b->pass, b->K, of_case(b, "placement", d, "action"), b->of[d].schedule, error);
}

static stw_status forward(bench *b, stw_error *error) {
    for (int32_t d = 0; d < b->drafts; d++) TRY(forward_draft(b, d, error));
    return STW_OK;
}

static void compare_looks(bench *b) {
    for (int32_t i = 0; i < b->file.count; i++) {
        const char *name = b->file.tensor[i].name;
        if (strncmp(name, "look/", 5) != 0) continue;
        stw_arena scratch = b->arena;
        int32_t rows = 0, cols = 0;
        test_context("%s", name);
        if (!CHECK(stw_pass_look(b->pass, name + 5, &rows, &cols, NULL, scratch))) continue;
        CHECK_EQ_INT(rows, b->file.tensor[i].rows);
        double *found = STW_NEW(&scratch, double, (int64_t)rows *cols);
        CHECK(stw_pass_look(b->pass, name + 5, &rows, &cols, found, scratch));
        compare(b, name, found, (int64_t)rows * cols);
    }
}

/* In a bare network the second of these biases adds the same to the scores of all devices, which a softmax does not see: its
 * gradient is rounding, of which Adam makes whole steps; the first does so where all devices pass the relu. In other networks the
 * tasks after the placement see the devices too. */
static bool is_free(const bench *b, const char *prefix, const char *name) {
    if (!b->cpu || b->config.bare == 0) return false;
    return strcmp(name, "head.device.1.bias") == 0 || (strcmp(prefix, "after") == 0 && strcmp(name, "head.device.0.bias") == 0);
}

/* A block of parameters against the tensors "<prefix>/<name>". */
static void compare_block(bench *b, const char *prefix, void *block) {
    const stw_parameters *p = stw_net_parameters(b->net);
    for (int32_t i = 0; i < p->count; i++) {
        stw_arena scratch = b->arena;
        const int64_t count = (int64_t)p->entry[i].rows * p->entry[i].cols;
        char name[64];
        snprintf(name, sizeof name, "%.12s/%s", prefix, p->entry[i].name);
        if (is_free(b, prefix, p->entry[i].name)) continue;
        double *found = STW_NEW(&scratch, double, count);
        stw_reals_out(b->backend, found, stw_parameter_in(p, i, block), count, scratch);
        compare(b, name, found, count);
    }
}

/* The tasks that there are, in their order. */
typedef struct {
    const char *name;
    bool ran, categorical;
    int32_t width, sequences;
    double *out;
} task;
enum { TASKS = 3 };

static void find_tasks(const bench *b, int32_t d, task out[TASKS]) {
    const stw_policy_config *c = &b->config;
    const int32_t all = b->K, first = d > 0 ? all : 1;
    out[0] =
        (task){"fusion", b->fuses, c->fusion == STW_FUSION_HEAD_CLASS, stw_pass_fusion_width(b->pass), first, b->of[d].fusion};
    out[1] = (task){
        "placement",       true, c->placement == STW_PLACEMENT_DEVICE, stw_pass_placement_width(b->pass), b->fuses ? all : first,
        b->of[d].placement};
    out[2] = (task){"schedule", schedules(b),     c->schedule == STW_SCHEDULE_CLASS, stw_pass_schedule_width(b->pass),
                    all,        b->of[d].schedule};
}

static stw_status check_linear(bench *b, stw_error *error) {
    stw_net_gradient weight[STW_MOST_DRAFTS] = {{NULL, NULL, NULL}};
    double loss = 0.0;
    for (int32_t d = 0; d < b->drafts; d++) {
        task tasks[TASKS];
        const double *w[TASKS] = {NULL};
        find_tasks(b, d, tasks);
        for (int32_t k = 0; k < TASKS; k++) {
            if (!tasks[k].ran) continue;
            w[k] = of_case(b, tasks[k].name, d, "weight");
            for (int64_t i = 0; i < (int64_t)tasks[k].sequences * b->M * tasks[k].width; i++) loss += w[k][i] * tasks[k].out[i];
        }
        weight[d] = (stw_net_gradient){w[0], w[1], w[2]};
    }
    compare(b, "loss/linear", &loss, 1);
    stw_parameters *p = stw_net_parameters(b->net);
    stw_parameters_zero_gradient(p);
    TRY(stw_pass_backward(b->pass, weight, error));
    compare_block(b, "linear", p->gradient);
    return STW_OK;
}

/* One task's part of the PPO loss, for sample k; its gradient is added to d_out. */
static double ppo_part(const bench *b, const stw_distribution *d, const double *action, const double *old, double advantage,
                       double *d_out) {
    const double share = 1.0 / (b->K * b->M);
    double new[64], weight[64] = {0}, loss = 0.0;
    stw_distribution_log_density(d, action, new);
    for (int32_t r = 0; r < d->rows; r++) {
        const double ratio = exp(new[r] - old[r]), cut = fmin(fmax(ratio, 1.0 - CLIP), 1.0 + CLIP);
        loss -= share * fmin(ratio * advantage, cut * advantage);
        if (ratio * advantage <= cut * advantage) weight[r] = -share * ratio * advantage;
    }
    stw_distribution_log_density_back(d, action, weight, d_out);
    return loss;
}

static stw_status ppo(bench *b, double *loss, stw_error *error) {
    const int64_t M = b->M;
    stw_arena scratch = b->arena;
    stw_net_gradient of_draft[STW_MOST_DRAFTS] = {{NULL, NULL, NULL}};
    *loss = 0.0;
    for (int32_t d = 0; d < b->drafts; d++) {
        task tasks[TASKS];
        double *d_out[TASKS] = {NULL};
        find_tasks(b, d, tasks);
        for (int32_t k = 0; k < TASKS; k++) {
            const task *t = &tasks[k];
            if (!t->ran) continue;
            const int64_t next = t->sequences > 1 ? M * t->width : 0;
            d_out[k] = STW_NEW(&scratch, double, t->sequences *M * t->width);
            for (int64_t s = 0; s < b->K; s++) {
                const stw_distribution from = {t->categorical, b->M, t->width, t->out + s * next, SIGMA};
                *loss += ppo_part(b, &from, of_case(b, t->name, d, "action") + s * M * stw_distribution_action_width(&from),
                                  of_case(b, t->name, d, "old") + s * M, doubles(b, "case/advantage")[s], d_out[k] + s * next);
            }
        }
        of_draft[d] = (stw_net_gradient){d_out[0], d_out[1], d_out[2]};
    }
    stw_parameters_zero_gradient(stw_net_parameters(b->net));
    return stw_pass_backward(b->pass, of_draft, error);
}

static stw_status check_updates(bench *b, stw_error *error) {
    stw_parameters *p = stw_net_parameters(b->net);
    double norms[UPDATES] = {0};
    for (int32_t u = 0; u < UPDATES; u++) {
        double loss = 0.0;
        TRY(forward(b, error));
        TRY(ppo(b, &loss, error));
        if (u == 0) {
            compare(b, "loss/ppo", &loss, 1);
            compare_block(b, "ppo", p->gradient);
        }
        norms[u] = stw_parameters_update(p, RATE, 1.0);
    }
    compare(b, "norms", norms, UPDATES);
    compare_block(b, "after", p->value);
    return STW_OK;
}

/* Saved and loaded into a network that began elsewhere: the same bits in parameters, moments and outputs. */
static stw_status check_saving(bench *b, stw_error *error) {
    char path[64];
    snprintf(path, sizeof path, "policy-%d.stw", (int)getpid());
    stw_parameters *p = stw_net_parameters(b->net);
    stw_tensor_file file = {.tensor = STW_NEW(&b->arena, stw_tensor, 3 * STW_MAX_PARAMETERS)}, back;
    TRY(stw_net_save(b->net, true, &b->arena, &file, error));
    TRY(stw_tensor_file_write(&file, path, error));
    const stw_status status = stw_tensor_file_read(path, &b->arena, &back, error);
    unlink(path);
    TRY(status);
    stw_net *other = NULL;
    TRY(stw_net_create(&b->config, b->backend, 99, &other, error));
    const stw_parameters *q = stw_net_parameters(other);
    const size_t bytes = (size_t)p->total * b->backend->real_bytes;
    test_context("saving");
    CHECK(memcmp(p->value, q->value, bytes) != 0);
    CHECK(stw_net_load(other, &back, b->arena, error) == STW_OK);
    CHECK(memcmp(p->value, q->value, bytes) == 0);
    CHECK(memcmp(p->first, q->first, bytes) == 0);
    CHECK(memcmp(p->second, q->second, bytes) == 0);
    CHECK_EQ_INT(q->step, UPDATES);
    stw_net_destroy(other);
    return STW_OK;
}

static stw_status check_all(bench *b, const char *name, bool cpu, stw_error *error) {
    TRY(open_bench(b, name, cpu, error));
    TRY(forward(b, error));
    compare_looks(b);
    TRY(check_linear(b, error));
    TRY(check_updates(b, error));
    return check_saving(b, error);
}

static void check(const char *name, bool cpu) {
    bench b = {0};
    stw_error error = {0};
    CHECK_EQ_INT(check_all(&b, name, cpu, &error), STW_OK);
    CHECK_STR(error.message, "");
    close_bench(&b);
}

TEST(reference, steer_on_cpu) { check("steer", true); }
TEST(reference, device_on_cpu) { check("device", true); }
TEST(reference, fusion_before_steer_on_cpu) { check("fusion-steer", true); }
TEST(reference, fusion_before_device_on_cpu) { check("fusion-device", true); }
TEST(reference, fusion_before_steer_in_double) { check("fusion-steer", false); }
TEST(reference, fusion_before_device_in_double) { check("fusion-device", false); }
TEST(reference, three_drafts_on_cpu) { check("go", true); }
TEST(reference, three_drafts_in_double) { check("go", false); }
TEST(reference, gdp_on_cpu) { check("gdp", true); }
TEST(reference, gdp_in_double) { check("gdp", false); }
TEST(reference, steer_in_double) { check("steer", false); }
TEST(reference, device_in_double) { check("device", false); }
