/* The kernels of HLO modules as the learned model of kernels sees them, for its training (scripts/train_kernels.py):
 *
 *     kernel_rows [--machine MACHINE] FILE...
 *
 * One row of CSV per op of each entry: the file, its name, a hash of what it is (alike kernels have the same, whatever they are
 * called and whatever algorithm was chosen for them), microseconds by the formula, and the columns of
 * src/cost/kernel_columns.def. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cost/kernel_features.h"
#include "import/hlo/hlo.h"
#include "stowage.h"

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
    for (int32_t k = 0; shape->kind == STW_HLO_PARTS && k < shape->rank; k++) hash = mix_shape(m, hash, &m->shape[shape->first + k]);
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

static void print_rows(const char *path, const stw_machine *machine) {
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
        if (graph->kind[i] != STW_NODE_OP || graph->op_class[i] == STW_CLASS_ALIAS || graph->body_of[i] >= 0) continue;
        const stw_hlo_instruction *instruction = &m->instruction[instruction_of[graph->origin[i]]];
        stw_kernel_work work;
        float feature[STW_KERNEL_FEATURES];
        stw_kernel_find_work(graph, &(stw_members){.member = &i, .count = 1}, &room, &work);
        stw_kernel_find_features(&machine->device[0], &work, costs->model_us[0][i], feature);
        printf("%s,%.*s,%016llx,%.17g", path, STW_STR_SHOW(instruction->name), (unsigned long long)content_of(m, instruction),
               costs->model_us[0][i]);
        for (int32_t c = 0; c < STW_KERNEL_FEATURES; c++) printf(",%.9g", (double)feature[c]);
        printf("\n");
    }
    stw_costs_destroy(costs);
    stw_graph_destroy(graph);
    stw_arena_destroy(&arena);
}

int main(int count, char **argument) {
    stw_error error;
    stw_machine *machine;
    const bool named = count > 2 && strcmp(argument[1], "--machine") == 0;
    check(stw_machine_open(named ? argument[2] : "h200x1", &machine, &error), &error, "the machine");
    printf("file,name,content,formula_us");
    for (int32_t c = 0; c < STW_KERNEL_FEATURES; c++) printf(",%s", stw_kernel_column_name(c));
    printf("\n");
    for (int k = named ? 3 : 1; k < count; k++) print_rows(argument[k], machine);
    stw_machine_destroy(machine);
    return 0;
}
