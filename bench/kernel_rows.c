/* The kernels of HLO modules as the learned model of kernels sees them, for its training (bench/kernel_model.py):
 *
 *     kernel_rows [--time] [--machine MACHINE] FILE...
 *
 * (--time in place of FILEs' rows: what the model takes for one of them, in processor time.)
 *
 * One row of CSV per op of each entry: the file, its name, a hash of what it is (alike kernels have the same, whatever they are
 * called and whatever algorithm was chosen for them), microseconds by the formula, and the columns of
 * src/cost/kernel_columns.def. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "cost/kernel_model.h"
#include "import/hlo/hlo.h"
#include "stowage.h"

static const char *const column_name[STW_KERNEL_FEATURES] = {
#define COLUMN(name, what) #name,
#include "cost/kernel_columns.def"
#undef COLUMN
};

static void check(stw_status status, const stw_error *error, const char *path) {
    if (status == STW_OK) return;
    fprintf(stderr, "kernel_rows: %s: %s\n", path, error->message);
    exit(2);
}

static uint64_t mix(uint64_t hash, uint64_t more) {
    hash = (hash ^ more) * 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

static uint64_t mix_shape(const stw_hlo_module *m, uint64_t hash, const stw_hlo_shape *shape) {
    hash = mix(hash, (uint64_t)shape->kind * 1000 + (uint64_t)shape->dtype * 16 + (uint64_t)shape->rank);
    for (int32_t k = 0; shape->kind == STW_HLO_PARTS && k < shape->rank; k++)
        hash = mix_shape(m, hash, &m->shape[shape->first + k]);
    const int32_t numbers = shape->kind == STW_HLO_ARRAY ? shape->rank * (shape->has_layout ? 2 : 1) : 0;
    for (int32_t k = 0; k < numbers; k++) hash = mix(hash, (uint64_t)m->number[shape->first + k]);
    return hash;
}

static uint64_t content_of(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    uint64_t hash = stw_str_hash(i->opcode);
    hash = mix(hash, stw_str_hash(i->target));
    hash = mix(hash, stw_str_hash(i->meaning));
    hash = mix_shape(m, hash, stw_hlo_shape_of(m, i));
    for (int32_t k = 0; k < i->operand.count; k++) hash = mix_shape(m, hash, stw_hlo_shape_of(m, stw_hlo_operand(m, i, k)));
    for (int32_t k = 0; k < i->called.count; k++) hash = mix(hash, m->computation[m->number[i->called.first + k]].hash);
    return hash;
}

typedef struct {
    bool times;
    const stw_kernel_model *model;
    int64_t kernels; /* that were timed */
    double work_us, model_us;
} rows;

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* Finding what the kernel does, and what the model says of it; the sum keeps the compiler from leaving it out. */
static void time_kernel(rows *r, const stw_graph *graph, const stw_device *device, int32_t i, const stw_kernel_room *room) {
    enum { TIMES = 50 };
    stw_kernel_work work;
    double sum = 0.0;
    const double begin = seconds();
    for (int k = 0; k < TIMES; k++) stw_kernel_find_work(graph, &(stw_members){.member = &i, .count = 1}, room, &work);
    const double middle = seconds();
    for (int k = 0; k < TIMES; k++) sum += stw_kernel_model_us(r->model, device, &work, 1.0 + k);
    r->work_us += (middle - begin) * 1e6 / TIMES;
    r->model_us += (seconds() - middle) * 1e6 / TIMES;
    r->kernels += sum > 0.0;
}

static void print_row(const char *path, const stw_costs *costs, const stw_hlo_module *m, const stw_hlo_instruction *instruction,
                      int32_t i, const stw_kernel_room *room) {
    stw_kernel_work work;
    float feature[STW_KERNEL_FEATURES];
    stw_kernel_find_work(costs->graph, &(stw_members){.member = &i, .count = 1}, room, &work);
    stw_kernel_find_features(&costs->machine->device[0], &work, costs->model_us[0][i], feature);
    printf("%s,%.*s,%016llx,%.17g", path, STW_STR_SHOW(instruction->name), (unsigned long long)content_of(m, instruction),
           costs->model_us[0][i]);
    for (int32_t c = 0; c < STW_KERNEL_FEATURES; c++) printf(",%.9g", (double)feature[c]);
    printf("\n");
}

static void look_at(const char *path, const stw_machine *machine, rows *r) {
    stw_error error;
    stw_arena arena;
    stw_str bytes;
    stw_hlo_module *m;
    stw_graph *graph;
    stw_costs *costs;
    stw_kernel_room room;
    int32_t *instruction_of;
    check(stw_arena_create(&arena, &error), &error, path);
    check(stw_file_read(path, &arena, &bytes, &error), &error, path);
    check(stw_hlo_proto_parse(bytes, &arena, &m, &error), &error, path);
    check(stw_hlo_build(m, &arena, &graph, &instruction_of, &error), &error, path);
    check(stw_costs_from_rows(graph, machine, NULL, false, &costs, &error), &error, path);
    check(stw_kernel_room_create(graph, &arena, &room, &error), &error, path);
    for (int32_t i = 0; i < graph->N; i++) {
        const bool in_body = graph->body_of != NULL && graph->body_of[i] >= 0;
        if (graph->kind[i] != STW_NODE_OP || graph->op_class[i] == STW_CLASS_ALIAS || in_body) continue;
        if (r->times) time_kernel(r, graph, &machine->device[0], i, &room);
        if (!r->times) print_row(path, costs, m, &m->instruction[instruction_of[graph->origin[i]]], i, &room);
    }
    stw_costs_destroy(costs);
    stw_graph_destroy(graph);
    stw_arena_destroy(&arena);
}

static void print_head(void) {
    printf("file,name,content,formula_us");
    for (int32_t c = 0; c < STW_KERNEL_FEATURES; c++) printf(",%s", column_name[c]);
    printf("\n");
}

int main(int count, char **argument) {
    stw_error error;
    stw_machine *machine;
    stw_arena arena;
    rows r = {0};
    int first = 1;
    const char *name = "h200x1";
    if (first < count && strcmp(argument[first], "--time") == 0) r.times = true, first++;
    if (first + 1 < count && strcmp(argument[first], "--machine") == 0) name = argument[first + 1], first += 2;
    check(stw_machine_open(name, &machine, &error), &error, "the machine");
    check(stw_arena_create(&arena, &error), &error, "the model");
    check(stw_kernel_model_shipped(&arena, &r.model, &error), &error, "the model");
    if (!r.times) print_head();
    for (int k = first; k < count; k++) look_at(argument[k], machine, &r);
    if (r.kernels > 0)
        printf("%lld kernels: %.2f us to find what one does, %.2f us for what the model says of it\n", (long long)r.kernels,
               r.work_us / (double)r.kernels, r.model_us / (double)r.kernels);
    stw_arena_destroy(&arena);
    stw_machine_destroy(machine);
    return 0;
}
