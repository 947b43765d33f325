/* Model files with a plan behind them: nothing crashes the exporters, what they refuse has one line of reason, and what they
 * write reads back as a graph; of a plan without groups, with as many ops, and of HLO with an op for each task. A module of HLO
 * that can be exported at all can be with every valid plan.
 *
 * The last bytes of an input make the plan: one for the machine, then one for each op, over and over. The model is all before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "import/import.h"
#include "sim/sim.h"

enum { PLAN_BYTES = 16, MOST_NODES = 400 }; /* larger graphs only take time */

static const char *const formats[] = {"hlo", "hlo-text", "onnx", "graphdef"};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

typedef struct problem {
    stw_str model;
    const uint8_t *choice; /* (PLAN_BYTES) */
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_workspace *workspace;
    stw_plan *plan;
    bool has_groups;
    bool exports_plain; /* to HLO, without groups */
} problem;

/* ---- the plan ---- */

/* What a byte says of an op: two bits for its group, one for its device, the others for its priority. */
enum { ALONE, WITH_INPUT, WITH_PREVIOUS, RECOMPUTED };

static int32_t find_input(const stw_graph *graph, int32_t op) {
    for (int64_t k = graph->input_start[op]; k < graph->input_start[op + 1]; k++) {
        const int32_t from = graph->root[graph->input[k]];
        if (graph->kind[from] == STW_NODE_OP) return from;
    }
    return -1;
}

static void choose(problem *p, bool with_groups) {
    const stw_graph *graph = p->graph;
    int32_t previous = -1, count = 0;
    p->has_groups = false;
    for (int32_t i = 0; i < graph->N; i++) {
        const uint8_t choice = p->choice[1 + count % (PLAN_BYTES - 1)];
        p->plan->group[i] = i;
        p->plan->priority[i] = choice >> 3;
        p->plan->device[i] = (choice >> 2 & 1) % p->machine->device_count;
        if (graph->kind[i] != STW_NODE_OP) continue;
        count++;
        const int kind = with_groups ? choice & 3 : ALONE;
        const int32_t mate = kind == WITH_INPUT ? find_input(graph, i) : kind == WITH_PREVIOUS ? previous : -1;
        p->has_groups |= mate >= 0 || kind == RECOMPUTED;
        if (mate >= 0) {
            p->plan->group[i] = p->plan->group[mate];
            p->plan->device[i] = p->plan->device[mate];
        }
        if (kind == RECOMPUTED) p->plan->group[i] = -1;
        previous = i;
    }
}

static bool is_legal(const problem *p) {
    stw_evaluation found;
    require(stw_simulate(p->simulator, p->plan, p->workspace, &found, NULL) == STW_OK);
    return found.reason == STW_VALID || found.reason == STW_INVALID_MEMORY;
}

/* ---- export ---- */

static void check_refusal(const stw_error *error) {
    require(error->status != STW_OK && error->message[0] != '\0' && strchr(error->message, '\n') == NULL);
}

static int32_t count_tasks(const problem *p) {
    int32_t tasks = 0;
    for (int32_t i = 0; i < p->graph->N; i++) {
        bool is_first = p->graph->kind[i] == STW_NODE_OP && p->plan->group[i] >= 0;
        for (int32_t k = 0; is_first && k < i; k++) {
            is_first = p->graph->kind[k] != STW_NODE_OP || p->plan->group[k] != p->plan->group[i];
        }
        tasks += is_first;
    }
    return tasks;
}

static void check_output(const problem *p, const char *format, const char *out, size_t size) {
    stw_graph *graph = NULL;
    stw_error error = {0};
    if (stw_graph_parse(out, size, "exported", NULL, &graph, &error) != STW_OK) {
        fprintf(stderr, "%s cannot be read again: %s\n", format, error.message);
        abort();
    }
    require(p->has_groups || graph->op_count == p->graph->op_count);
    require(strncmp(format, "hlo", 3) != 0 || graph->op_count == count_tasks(p));
    stw_graph_destroy(graph);
}

/* Groups need ids for what is new, and some modules have used them up. */
static void check_grouped(const problem *p, const char *format, const stw_error *error) {
    if (!p->exports_plain || strncmp(format, "hlo", 3) != 0 || strstr(error->message, "renumber it") != NULL) return;
    fprintf(stderr, "a valid plan is refused: %s\n", error->message);
    abort();
}

static bool export_as(const problem *p, const char *format) {
    stw_export_io io = {.model = p->model.p, .model_size = (size_t)p->model.length};
    stw_error error = {0};
    const stw_status status = stw_plan_export(p->simulator, p->plan, format, NULL, &io, &error);
    if (status == STW_OK) {
        check_output(p, format, io.bytes, io.size);
    } else {
        check_refusal(&error);
        check_grouped(p, format, &error);
    }
    stw_bytes_free(io.bytes);
    return status == STW_OK;
}

/* ---- the problem ---- */

static void close_problem(problem *p) {
    stw_plan_destroy(p->plan);
    stw_workspace_destroy(p->workspace);
    stw_simulator_destroy(p->simulator);
    stw_costs_destroy(p->costs);
    stw_machine_destroy(p->machine);
    stw_graph_destroy(p->graph);
}

/* False: there is no model, or it is too large. */
static bool open_problem(problem *p, const uint8_t *data, size_t size) {
    *p = (problem){0};
    if (size <= PLAN_BYTES) return false;
    p->model = (stw_str){(const char *)data, (int64_t)size - PLAN_BYTES};
    p->choice = data + size - PLAN_BYTES;
    if (stw_graph_parse(p->model.p, (size_t)p->model.length, "model", NULL, &p->graph, NULL) != STW_OK) return false;
    if (p->graph->N > MOST_NODES) return false;
    require(stw_machine_open((p->choice[0] & 1) != 0 ? "h200x2" : "h200x1", &p->machine, NULL) == STW_OK);
    if (stw_costs_create(p->graph, p->machine, NULL, &p->costs, NULL) != STW_OK) return false;
    require(stw_simulator_create(p->costs, &p->simulator, NULL) == STW_OK);
    require(stw_workspace_create(p->simulator, &p->workspace, NULL) == STW_OK);
    require(stw_plan_create(p->graph, p->machine, &p->plan, NULL) == STW_OK);
    return true;
}

/* Exports to every format; true: to one of them, the model's own, at least. */
static bool export_all(const uint8_t *data, size_t size) {
    problem p;
    bool any = false;
    if (open_problem(&p, data, size)) {
        choose(&p, false);
        p.exports_plain = is_legal(&p) && export_as(&p, "hlo");
        choose(&p, true);
        if (!is_legal(&p)) choose(&p, false); /* a plan without groups can still be exported */
        for (int k = 0; k < FORMATS; k++) any |= export_as(&p, formats[k]);
    }
    close_problem(&p);
    return any;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    export_all(data, size);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) { return export_all(data, size); }
