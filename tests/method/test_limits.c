/* method: with a grain, pins and other limits every method keeps to them, on random graphs with random modules. What must be
 * together and what may be where is told here anew, from the options. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "graph/grain.h"
#include "method/method.h"
#include "support/random.h"
#include "test.h"

static const char *const modules[] = {"a.0", "a.1", "a.1.deep", "a.2", "b", "b.inside", "c", ""};
static const char *const labels[] = {"a.0.w", "a.1.w", "a.1.deep.w", "a.2.w", "b.w", "b.inside.w", "c.w", "w"};
enum { MODULES = 8 };

/* Modules and labels are drawn; the first parameter is there in any case. */
static bool name_modules(stw_rng *rng, stw_graph *graph) {
    int32_t named = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        const int64_t k = stw_rng_below(rng, MODULES);
        if (graph->kind[i] == STW_NODE_OP) graph->module[i] = stw_str_of(modules[k]);
        if (!stw_node_is_resident(graph->kind[i])) continue;
        graph->label[i] = stw_str_of(labels[k]);
        named++;
    }
    return named > 0;
}

static void set(stw_options *options, const char *name, const char *value) {
    stw_error error = {0};
    CHECK_EQ_INT(stw_options_set(options, name, value, &error), STW_OK);
    CHECK_STR(error.message, "");
}

static bool is_placed(const stw_graph *graph, int32_t i) {
    return graph->kind[i] == STW_NODE_OP || stw_node_is_resident(graph->kind[i]);
}

typedef struct {
    const char *grain;
    int32_t pinned, forbidden, most; /* a module's op, pinned to device 1; whether relu is forbidden on device 0; devices, or 0 */
} wish;

static void check_plan(const stw_simulator *s, const stw_plan *plan, const wish *w) {
    const stw_graph *graph = s->graph;
    stw_arena arena;
    stw_parcels parcels;
    int32_t at[4096];
    uint64_t used = 0;
    CHECK(plan->graph == graph);
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    const stw_grain grain = stw_grain_find(w->grain);
    if (grain != STW_GRAIN_OP) CHECK_EQ_INT(stw_grain_parcels(graph, grain, &arena, &parcels, NULL), STW_OK);
    for (int32_t u = 0; u < 4096; u++) at[u] = -1;
    for (int32_t i = 0; i < graph->N; i++) {
        if (!is_placed(graph, i)) continue;
        used |= 1ull << plan->device[i];
        if (i == w->pinned) CHECK_EQ_INT(plan->device[i], 1);
        if (w->forbidden && graph->kind[i] == STW_NODE_OP && graph->op_class[i] == STW_CLASS_ELEMENTWISE)
            CHECK(plan->device[i] != 0);
        if (grain == STW_GRAIN_OP) continue;
        int32_t *device = &at[parcels.of[i]];
        if (*device < 0) *device = plan->device[i];
        CHECK_EQ_INT(plan->device[i], *device);
    }
    if (w->most > 0) CHECK(__builtin_popcountll(used) <= w->most);
    stw_arena_destroy(&arena);
}

/* Runs every method; returns how many made a plan. */
static int32_t run_all(const small *s, const wish *w, const char *tasks) {
    const char *name, *description;
    char pin[80];
    int32_t made = 0;
    stw_options *options;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    set(options, "evaluations", "60");
    set(options, "threads", "1");
    set(options, "grain", w->grain);
    set(options, "tasks", tasks);
    if (w->pinned >= 0) {
        snprintf(pin, sizeof pin, "%s=1", s->graph->node_name[w->pinned].p);
        set(options, "pin", pin);
    }
    if (w->forbidden) set(options, "forbid", "0=elementwise");
    if (w->most > 0) set(options, "max-devices", w->most == 1 ? "1" : "2");
    for (int32_t k = 0; stw_method_list(k, &name, &description); k++) {
        stw_plan *plan = NULL;
        stw_error error = {0};
        if (strncmp(name, "go-", 3) == 0 || strcmp(name, "hdp") == 0) continue; /* they take long; optimize runs one of them */
        const stw_status status = stw_method_run(name, s->simulator, options, &plan, &error);
        if (status != STW_OK) CHECK_EQ_INT(status, STW_ERROR_NO_PLAN);
        if (status != STW_OK) continue;
        stw_evaluation result;
        CHECK_EQ_INT(stw_simulate(s->simulator, plan, s->workspace, &result, NULL), STW_OK);
        if (result.reason == STW_VALID) check_plan(s->simulator, plan, w);
        made += result.reason == STW_VALID;
        stw_plan_destroy(plan);
    }
    stw_result *result = NULL;
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, NULL), STW_OK);
    if (stw_result_plan(result) != NULL) check_plan(s->simulator, stw_result_plan(result), w);
    stw_result_destroy(result);
    stw_options_destroy(options);
    return made;
}

static bool has_elementwise(const stw_graph *graph) {
    for (int32_t i = 0; i < graph->N; i++)
        if (graph->kind[i] == STW_NODE_OP && graph->op_class[i] == STW_CLASS_ELEMENTWISE) return true;
    return false;
}

TEST(limits, every_method_keeps_to_them) {
    static const char *const grains[] = {"op", "module", "layer"};
    int32_t made = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        stw_rng rng = stw_rng_create(seed);
        small *s =
            random_open(&rng, (random_shape){.nodes = 24, .device_count = 3, .unlike = seed % 2 == 0, .charges = seed % 3 == 0});
        const bool named = name_modules(&rng, s->graph);
        wish w = {.grain = named ? grains[seed % 3] : "op", .pinned = -1, .most = seed % 4 == 1 ? 2 : 0};
        for (int32_t i = 0; i < s->graph->N && seed % 2 == 0; i++)
            if (is_placed(s->graph, i)) w.pinned = i;
        w.forbidden = seed % 4 == 3 && has_elementwise(s->graph) && strcmp(w.grain, "op") == 0;
        made += run_all(s, &w, seed % 5 == 0 ? "all" : "placement,schedule");
        small_close(s);
    }
    CHECK(made > 200);
}

#define CHAIN                                              \
    NODE(0, "w", "parameter", "[]", 4, ",'label':'m.0.w'") \
    NODE(1, "v", "parameter", "[]", 4, ",'label':'m.1.w'") \
    OP(2, "a", "[0]", 4, 10)                               \
    OP(3, "b", "[1,2]", 4, 10)

static void refuse(const char *option, const char *value, const char *says, const char *also) {
    small *s =
        small_open((small_text){.nodes = CHAIN, .devices = DEVICE("d0", "h200", 99) DEVICE("d1", "h200", 99), .device_count = 2});
    stw_options *options;
    stw_result *result = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    set(options, option, value);
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, says);
    CHECK_CONTAINS(error.message, also);
    stw_options_destroy(options);
    small_close(s);
}

TEST(limits, what_matches_nothing_is_refused_with_what_is_near) {
    refuse("pin", "m.2=0", "'m.2' is no module, parameter or op of the graph", "'m.0'");
    refuse("pin", "m.0=d7", "'d7' is no device of the machine", "'d0' to 'd1'");
    refuse("pin", "m.0", "is no list of NAME=DEVICE", "m.0");
    refuse("pin", "m.0=0,m.*=1", "may be on no device", "--pin");
    refuse("keep-together", "mm*", "'mm*' is no module", "nearest");
    refuse("forbid", "0=attention", "no op of the graph is of class 'attention'", "elementwise");
    refuse("min-gain", "2x", "'2x' is no share", "2%");
}

TEST(limits, pins_are_kept_however_slow) {
    small *s =
        small_open((small_text){.nodes = CHAIN, .devices = DEVICE("d0", "h200", 99) DEVICE("d1", "h200", 99), .device_count = 2});
    stw_options *options;
    stw_result *result = NULL;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    set(options, "pin", "m.0=d1,b=0");
    set(options, "evaluations", "50");
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, NULL), STW_OK);
    const stw_plan *plan = stw_result_plan(result);
    CHECK(plan != NULL && plan->device[0] == 1 && plan->device[2] == 1 && plan->device[3] == 0);
    stw_result_destroy(result);
    stw_options_destroy(options);
    small_close(s);
}

/* No kernel has ops of two parcels. */
static void check_groups(const stw_graph *graph, const stw_plan *plan, const stw_parcels *parcels) {
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        for (int32_t k = 0; k < i && plan->group[i] >= 0; k++)
            if (graph->kind[k] == STW_NODE_OP && plan->group[k] == plan->group[i]) CHECK_EQ_INT(parcels->of[k], parcels->of[i]);
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1] && plan->group[i] < 0; r++)
            CHECK_EQ_INT(parcels->of[graph->reader[r].node], parcels->of[i]);
    }
}

/* With groups across parcels, and orders. */
static void write_fused(stw_rng *rng, const small *s, char *path) {
    random_groups(rng, s->simulator, s->plan, 30);
    random_orders(rng, s->simulator, s->plan);
    close(mkstemp(path));
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);
}

TEST(limits, groups_of_a_given_plan_are_dissolved_where_limits_tear_them) {
    int32_t kept = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        stw_rng rng = stw_rng_create(seed);
        small *s = random_open(&rng, (random_shape){.nodes = 40, .device_count = 2, .wide = seed % 2 == 0});
        stw_arena arena;
        stw_parcels parcels;
        stw_options *options;
        stw_result *result = NULL;
        stw_candidate given;
        char path[] = "/tmp/stowage-test-XXXXXX", pin[80] = "";
        const bool named = name_modules(&rng, s->graph);
        small_set_memory(s, INT64_C(1) << 40);
        write_fused(&rng, s, path);
        CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
        set(options, "from", path);
        set(options, "grain", named ? "module" : "op");
        set(options, "evaluations", "30");
        for (int32_t i = 0; i < s->graph->N; i++)
            if (is_placed(s->graph, i)) snprintf(pin, sizeof pin, "%s=1", s->graph->node_name[i].p);
        if (seed % 3 == 0) set(options, "pin", pin);
        test_context("seed %d", (int)seed);
        if (CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, NULL), STW_OK)) {
            CHECK(stw_result_candidate(result, 0, &given) && given.valid);
            CHECK_STR(given.method, "given");
            CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
            const stw_plan *plan = stw_result_plan(result);
            if (named) CHECK_EQ_INT(stw_grain_parcels(s->graph, STW_GRAIN_MODULE, &arena, &parcels, NULL), STW_OK);
            if (named) check_groups(s->graph, plan, &parcels);
            for (int32_t i = 0; i < s->graph->N; i++) kept += s->graph->kind[i] == STW_NODE_OP && plan->group[i] != i;
            stw_arena_destroy(&arena);
        }
        stw_result_destroy(result);
        stw_options_destroy(options);
        unlink(path);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(kept > 10); /* those that may stay */
}

/* The first entry: what others are compared with. */
static double default_step_s(const small *s, const char *option, const char *value) {
    stw_options *options;
    stw_result *result = NULL;
    stw_candidate first = {0};
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    set(options, "evaluations", "3");
    set(options, "tasks", "all");
    set(options, option, value);
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, NULL), STW_OK);
    CHECK(stw_result_candidate(result, 0, &first) && first.valid);
    CHECK_STR(first.method, "single");
    stw_result_destroy(result);
    stw_options_destroy(options);
    return first.step_s;
}

TEST(limits, the_default_is_as_good_on_any_of_equal_devices) {
    for (uint64_t seed = 1; seed <= 8; seed++) {
        stw_rng rng = stw_rng_create(seed);
        small *s = random_open(&rng, (random_shape){.nodes = 30, .device_count = 3, .model = true});
        small_set_memory(s, INT64_C(1) << 40);
        const double free_s = default_step_s(s, "seed", "1");
        test_context("seed %d", (int)seed);
        CHECK_NEAR(default_step_s(s, "pin", "*=0"), free_s, 0.0);
        CHECK_NEAR(default_step_s(s, "pin", "*=2"), free_s, 0.0);
        const double one_s = default_step_s(s, "forbid", "1=elementwise,2=elementwise"); /* the first may have all */
        CHECK_NEAR(default_step_s(s, "forbid", "0=elementwise,1=elementwise"), one_s, 0.0);
        small_close(s);
    }
    test_context("%s", "");
}

/* a, b, c and e may each be on some devices of four. Returns those that are used, or 0 if the limits are refused. */
static uint64_t used_of_four(const char *forbid, const char *pin, const char *most) {
    small *s = small_open((small_text){.nodes = NODE(0, "x", "input", "[]", 4, "") OP(1, "a", "[0]", 4, 10)
                                           NODE(2, "b", "matmul", "[1]", 4, ",'us':{'h200':9}")
                                               NODE(3, "c", "sum", "[2]", 4, ",'us':{'h200':9}") OP(4, "e", "[3]", 4, 10),
                                       .device_count = 4});
    stw_options *options;
    stw_result *result = NULL;
    stw_error error = {0};
    uint64_t used = 0;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    set(options, "evaluations", "20");
    set(options, "max-devices", most);
    if (forbid != NULL) set(options, "forbid", forbid);
    if (pin != NULL) set(options, "pin", pin);
    const stw_status status = stw_optimize(s->simulator, options, NULL, &result, &error);
    if (status != STW_OK) CHECK_CONTAINS(error.message, "--max-devices");
    const stw_plan *plan = status == STW_OK ? stw_result_plan(result) : NULL;
    for (int32_t i = 1; i < 5 && plan != NULL; i++) used |= 1ull << plan->device[i];
    stw_result_destroy(result);
    stw_options_destroy(options);
    small_close(s);
    return used;
}

TEST(limits, devices_are_chosen_so_that_all_has_one) {
    CHECK_EQ_INT((int)used_of_four(NULL, NULL, "1"), 1);
    CHECK_EQ_INT((int)used_of_four("0=matmul", NULL, "1"), 2);
    CHECK_EQ_INT((int)used_of_four("0=matmul,1=elementwise", NULL, "1"), 4);
    CHECK_EQ_INT((int)used_of_four("0=matmul,1=elementwise,2=elementwise", NULL, "1"), 8);
    CHECK_EQ_INT((int)used_of_four("0=matmul,1=elementwise,2=elementwise,3=matmul", NULL, "1"), 0); /* none does for both */
    CHECK((int)used_of_four("0=matmul,1=elementwise,2=elementwise,3=matmul", NULL, "2") != 0);
    CHECK_EQ_INT((int)used_of_four("0=matmul", "a=3", "1"), 8);
    CHECK_EQ_INT((int)used_of_four(NULL, "a=3,e=2", "1"), 0);
    CHECK_EQ_INT((int)used_of_four(NULL, "a=3,e=2", "2"), 12);
}

/* Two parameters of 70 bytes with their readers on four devices, the slower the larger. Returns those that are used, 0 without a
 * valid plan. */
static uint64_t used_of_unlike(const char *pin, const char *most) {
    small *s = small_open((small_text){
        .nodes = SOURCE(0, "p", "parameter", 70) SOURCE(1, "q", "parameter", 70)
            NODE(2, "a", "add", "[0]", 1, ",'us':{'h200':1,'a100':2,'v100':9}")
                NODE(3, "b", "add", "[1]", 1, ",'us':{'h200':1,'a100':2,'v100':9}"),
        .devices = DEVICE("d0", "h200", 50) DEVICE("d1", "h200", 75) DEVICE("d2", "a100", 130) DEVICE("d3", "v100", 999),
        .device_count = 4});
    stw_options *options;
    stw_result *result = NULL;
    uint64_t used = 0;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    set(options, "evaluations", "100");
    set(options, "max-devices", most);
    if (pin != NULL) set(options, "pin", pin);
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, NULL), STW_OK);
    const stw_plan *plan = stw_result_plan(result);
    for (int32_t i = 2; i < 4 && plan != NULL; i++) used |= 1ull << plan->device[i];
    stw_result_destroy(result);
    stw_options_destroy(options);
    small_close(s);
    return used;
}

TEST(limits, devices_are_chosen_that_hold_the_parameters) {
    CHECK_EQ_INT((int)used_of_unlike(NULL, "1"), 8); /* the roomiest, where one is to hold all */
    CHECK_EQ_INT((int)used_of_unlike(NULL, "3"), 6); /* d0 to d2 hold 255 bytes: nothing changes, and d0 is of no use */
    CHECK_EQ_INT((int)used_of_unlike("a=d1", "2"),
                 2 | 4); /* what is pinned stays, and the fastest with room enough comes to it */
}

#define LAYER(w, op, name, label, from) \
    NODE(w, name "w", "parameter", "[]", 4, ",'label':'" label ".w'") OP(op, name, "[" #w "," #from "]", 4, 10)
#define LAYERS                         \
    NODE(0, "x", "input", "[]", 4, "") \
    LAYER(1, 2, "a", "m.0", 0)         \
    LAYER(3, 4, "b", "m.1", 2) LAYER(5, 6, "c", "m.2", 4) LAYER(7, 8, "d", "m.3", 6) LAYER(9, 10, "e", "m.4", 8)

/* The five layers are a stage each; those of each device are neighbours. */
static bool is_in_line(const stw_plan *plan) {
    uint64_t before = 0;
    for (int32_t i = 2; i <= 10; i += 2) {
        CHECK_EQ_INT(plan->device[i], plan->device[i - 1]);
        if (i > 2 && plan->device[i] != plan->device[i - 2] && (before >> plan->device[i] & 1u)) return false;
        before |= 1ull << plan->device[i];
    }
    return true;
}

static int32_t run_in_line(const small *s, const char *seed, const char *pin, const char *from) {
    const char *name, *description;
    stw_options *options;
    int32_t several = 0;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    set(options, "grain", "stage");
    set(options, "evaluations", "20");
    set(options, "seed", seed);
    if (pin != NULL) set(options, "pin", pin);
    if (from != NULL) set(options, "from", from);
    for (int32_t k = 0; stw_method_list(k, &name, &description); k++) {
        stw_plan *plan = NULL;
        if (strncmp(name, "go-", 3) == 0 || strcmp(name, "hdp") == 0) continue;
        test_context("%s, seed %s", name, seed);
        if (stw_method_run(name, s->simulator, options, &plan, NULL) != STW_OK) continue;
        CHECK(is_in_line(plan));
        if (pin != NULL) CHECK_EQ_INT(plan->device[6], 3);
        several += plan->device[2] != plan->device[10];
        stw_plan_destroy(plan);
    }
    test_context("%s", "");
    stw_options_destroy(options);
    return several;
}

TEST(limits, stages_of_a_device_are_neighbours) {
    static const char *const seeds[] = {"1", "2", "3", "4", "5", "6"};
    const int32_t apart[] = {0, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1};
    char path[] = "/tmp/stowage-test-XXXXXX";
    int32_t several = 0;
    small *s = small_open((small_text){.nodes = LAYERS, .device_count = 5});
    stw_plan_set_device(s->plan, apart);
    close(mkstemp(path));
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);
    for (int k = 0; k < 6; k++) several += run_in_line(s, seeds[k], k % 2 == 0 ? NULL : "m.2=3", k % 3 == 0 ? path : NULL);
    CHECK(several > 10);
    unlink(path);
    small_close(s);
}

/* Five layers of equal time in two stages: the cut would be behind the third or the second, but the first and the second are
 * pinned apart. */
TEST(limits, stages_are_cut_between_pins) {
    small *s = small_open((small_text){.nodes = LAYERS, .device_count = 2});
    stw_options *options;
    stw_plan *plan = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    set(options, "grain", "stage");
    set(options, "pin", "m.0=1,m.1=0");
    CHECK_EQ_INT(stw_method_run("spread", s->simulator, options, &plan, &error), STW_OK);
    CHECK_STR(error.message, "");
    for (int32_t i = 2; i <= 10 && plan != NULL; i += 2) CHECK_EQ_INT(plan->device[i], i == 2 ? 1 : 0);
    stw_plan_destroy(plan);
    stw_options_destroy(options);
    small_close(s);
}

/* Devices of which --max-devices leaves `most`, and what optimize uses of them. */
static uint64_t used_with_memory(const char *devices, int32_t count, const char *most) {
    small *s = small_open((small_text){.nodes = NODE(0, "w", "parameter", "[]", 400, ",'label':'m.0.w'")
                                           NODE(1, "v", "parameter", "[]", 400, ",'label':'m.1.w'") OP(2, "a", "[0]", 4, 10)
                                               OP(3, "b", "[1,2]", 4, 10),
                                       .devices = devices,
                                       .device_count = count});
    stw_options *options;
    stw_result *result = NULL;
    uint64_t used = 0;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    set(options, "evaluations", "30");
    set(options, "max-devices", most);
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, NULL), STW_OK);
    const stw_plan *plan = stw_result_plan(result);
    for (int32_t i = 0; i < 4 && plan != NULL; i++) used |= 1ull << plan->device[i];
    stw_result_destroy(result);
    stw_options_destroy(options);
    small_close(s);
    return used;
}

TEST(limits, devices_are_chosen_that_have_the_memory) {
    static const char devices[] =
        DEVICE("d0", "h200", 500) DEVICE("d1", "h200", 300) DEVICE("d2", "h200", 500) DEVICE("d3", "h200", 900);
    CHECK_EQ_INT((int)used_with_memory(devices, 4, "1"), 8); /* nothing else holds both parameters */
    CHECK((used_with_memory(devices, 4, "2") & 2u) == 0);    /* the second holds none of them */
    static const char less[] = DEVICE("d0", "h200", 500) DEVICE("d1", "h200", 300) DEVICE("d2", "h200", 500);
    CHECK_EQ_INT((int)used_with_memory(less, 3, "2"), 5);
    CHECK_EQ_INT((int)used_with_memory(less, 3, "1"), 0); /* there is no such plan, which is not the fault of the limit alone */
}

TEST(limits, what_is_proved_is_so_within_them) {
    small *s = small_open((small_text){.nodes = CHAIN, .device_count = 2});
    stw_options *options;
    stw_result *result = NULL;
    stw_arena arena;
    stw_str file;
    char path[] = "/tmp/stowage-test-XXXXXX";
    close(mkstemp(path));
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    set(options, "evaluations", "100");
    set(options, "pin", "m.1=1");
    set(options, "max-devices", "1");
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, NULL), STW_OK);
    CHECK_STR(stw_result_limits(result), "--pin m.1=1 --max-devices 1");
    CHECK_EQ_INT(stw_result_write(result, path, false, NULL), STW_OK);
    CHECK_EQ_INT(stw_file_read(path, &arena, &file, NULL), STW_OK);
    CHECK_CONTAINS(file.p, "\"limits\":\"--pin m.1=1 --max-devices 1\"");
    stw_result_destroy(result);
    stw_options_destroy(options);
    stw_arena_destroy(&arena);
    unlink(path);
    small_close(s);
}
