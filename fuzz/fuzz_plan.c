/* Plan files for a fixed graph: no input crashes the reader, and whatever it takes can be simulated, twice with one result. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "plan/plan.h"

/* A step with a view, an update, a control edge and a fork. */
static const char graph_text[] =
    "{\"format\":\"opgraph\",\"version\":1,\"name\":\"tiny\",\"outputs\":[8],\"nodes\":["
    "{\"id\":0,\"name\":\"w\",\"op\":\"parameter\",\"inputs\":[],\"dtype\":\"f32\",\"shape\":[4,4],\"bytes\":64},"
    "{\"id\":1,\"name\":\"x\",\"op\":\"input\",\"inputs\":[],\"dtype\":\"f32\",\"shape\":[4,4],\"bytes\":64},"
    "{\"id\":2,\"name\":\"t\",\"op\":\"t\",\"inputs\":[0],\"dtype\":\"f32\",\"shape\":[4,4],\"view\":true},"
    "{\"id\":3,\"name\":\"mm\",\"op\":\"mm\",\"inputs\":[1,2],\"dtype\":\"f32\",\"shape\":[4,4],\"bytes\":64,\"flops\":128,"
    "\"us\":{\"h200\":4}},"
    "{\"id\":4,\"name\":\"relu\",\"op\":\"relu\",\"inputs\":[3],\"dtype\":\"f32\",\"shape\":[4,4],\"bytes\":64,\"us\":{\"h200\":"
    "2}},"
    "{\"id\":5,\"name\":\"v\",\"op\":\"slice\",\"inputs\":[4],\"dtype\":\"f32\",\"shape\":[2,4],\"view\":true},"
    "{\"id\":6,\"name\":\"grad\",\"op\":\"mm\",\"inputs\":[1,5],\"dtype\":\"f32\",\"shape\":[4,4],\"bytes\":64,\"flops\":128},"
    "{\"id\":7,\"name\":\"sgd\",\"op\":\"sub\",\"inputs\":[0,6],\"dtype\":\"f32\",\"shape\":[4,4],\"bytes\":64,\"updates\":0},"
    "{\"id\":8,\"name\":\"loss\",\"op\":\"sum\",\"inputs\":[4,4],\"dtype\":\"f32\",\"shape\":[],\"bytes\":4,\"control\":[6]},"
    "{\"id\":9,\"name\":\"extra\",\"op\":\"mul\",\"inputs\":[4,8],\"dtype\":\"f32\",\"shape\":[4,4],\"bytes\":64}]}";

/* Three devices: a and b talk both ways, c can only listen and has little memory. */
static const char machine_text[] =
    "{\"format\":\"machine\",\"version\":1,\"name\":\"three\",\"devices\":[{\"name\":\"a\",\"kind\":\"h200\"},"
    "{\"name\":\"b\",\"kind\":\"h200\",\"fuses_epilogue\":[\"matmul\"]},{\"name\":\"c\",\"kind\":\"cpu8\",\"memory_bytes\":100}],"
    "\"links\":[{\"from\":\"a\",\"to\":\"b\",\"bandwidth_bytes_per_s\":1e9,\"latency_us\":1},"
    "{\"from\":\"b\",\"to\":\"a\",\"bandwidth_bytes_per_s\":1e9,\"latency_us\":1},"
    "{\"from\":\"a\",\"to\":\"c\",\"bandwidth_bytes_per_s\":1e9,\"latency_us\":1,\"bus\":\"pcie\"},"
    "{\"from\":\"b\",\"to\":\"c\",\"bandwidth_bytes_per_s\":2e9,\"latency_us\":0,\"bus\":\"pcie\"}]}";

static stw_graph *graph;
static stw_machine *machine;

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

typedef struct { /* what it takes to simulate on one machine */
    stw_costs *costs;
    stw_simulator *simulator;
    stw_workspace *workspace;
} bench;

static void bench_open(bench *b, const stw_machine *on) {
    require(stw_costs_create(graph, on, NULL, &b->costs, NULL) == STW_OK);
    require(stw_simulator_create(b->costs, &b->simulator, NULL) == STW_OK);
    require(stw_workspace_create(b->simulator, &b->workspace, NULL) == STW_OK);
}

static void bench_close(bench *b) {
    stw_workspace_destroy(b->workspace);
    stw_simulator_destroy(b->simulator);
    stw_costs_destroy(b->costs);
}

static void simulate(const bench *b, const stw_plan *plan) {
    stw_evaluation first, second;
    require(stw_simulate(b->simulator, plan, b->workspace, &first, NULL) == STW_OK);
    require(first.reason >= STW_VALID && first.reason <= STW_INVALID_MEMORY && first.message != NULL);
    require((first.reason == STW_VALID) == (stw_reason_name(first.reason) == NULL));
    const bool ran = first.reason == STW_VALID || first.reason == STW_INVALID_MEMORY;
    require(ran ? first.step_ps > 0 : first.step_s == 0.0);
    require(stw_simulate(b->simulator, plan, b->workspace, &second, NULL) == STW_OK);
    require(first.reason == second.reason && first.step_ps == second.step_ps && first.transfer_bytes == second.transfer_bytes &&
            first.transfer_count == second.transfer_count && first.worst_peak_bytes == second.worst_peak_bytes);
}

static bench *fixed(void) {
    static bench b;
    if (graph == NULL) {
        require(stw_graph_parse(graph_text, sizeof graph_text - 1, "graph", NULL, &graph, NULL) == STW_OK);
        require(stw_machine_parse(machine_text, sizeof machine_text - 1, "machine", &machine, NULL) == STW_OK);
        bench_open(&b, machine);
    }
    return &b;
}

static stw_plan *parse(const uint8_t *data, size_t size, const stw_machine *on) {
    stw_error error = {0};
    stw_plan *plan;
    if (stw_plan_parse(data, size, "fuzz", graph, on, &plan, &error) == STW_OK) return plan;
    require(plan == NULL && error.status != STW_OK && strncmp(error.message, "fuzz: ", 6) == 0);
    require(strchr(error.message, '\n') == NULL);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const bench *b = fixed();
    stw_plan *plan = parse(data, size, machine);
    if (plan != NULL) simulate(b, plan);
    stw_plan_destroy(plan);
    plan = parse(data, size, NULL); /* on the machine in the file */
    if (plan != NULL) {
        bench own;
        bench_open(&own, stw_plan_machine(plan));
        simulate(&own, plan);
        bench_close(&own);
    }
    stw_plan_destroy(plan);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) {
    fixed();
    stw_plan *plan = parse(data, size, machine);
    stw_plan_destroy(plan);
    return plan != NULL;
}
