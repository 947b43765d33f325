/* Training to a file and back. What an update depends on: the network with Adam's moments, how far training is, the plan of the
 * round with its constants, and the best plan. The rest follows from the problem and the settings. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "train/trainer_state.h"

enum { EXTRA = 18 }; /* tensors beside the network's and the settings */
enum { PROBLEM_KEPT = 6 };
enum { TIES = 3, ALL_TIES = 3 * TIES }; /* numbers of a score that decide between plans of equal worth */

static void add_tensor(stw_tensor_file *file, const char *name, stw_tensor_type type, int64_t cols, const void *data) {
    stw_tensor *tensor = &file->tensor[file->count++];
    *tensor = (stw_tensor){.type = type, .rows = 1, .cols = cols, .data = data};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
}

static void add_dimension(stw_tensor_file *file, const char *name, int64_t value) {
    const int32_t k = file->dimension_count++;
    snprintf(file->dimension[k].name, sizeof file->dimension[k].name, "%s", name);
    file->dimension[k].value = value;
}

static uint64_t mix(uint64_t hash, double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    hash = (hash ^ bits) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* Devices, links and costs: what the simulator's answers depend on. */
static int64_t machine_key(const stw_simulator *s) {
    const stw_machine *m = s->machine;
    uint64_t hash = 0;
    const int64_t D = m->device_count;
    hash = mix(hash, (double)D);
    hash = mix(mix(hash, m->queues), m->host);
    for (int64_t d = 0; d < D; d++) hash = mix(mix(hash, (double)m->device[d].memory_bytes), m->device[d].cost_class);
    for (int64_t k = 0; k < D * D; k++) {
        hash = mix(mix(hash, m->link[k].bandwidth), m->link[k].latency_us);
        if (m->charges) hash = mix(mix(hash, m->link[k].send_us), m->link[k].receive_us);
        for (int32_t r = 0; r < m->link[k].rate_count; r++) {
            hash = mix(mix(hash, m->link[k].rates[r].bytes), m->link[k].rates[r].rate);
        }
        hash = mix(hash, m->link[k].channel);
    }
    for (int32_t c = 0; c < m->cost_class_count; c++)
        for (int32_t i = 0; i < s->graph->N; i++) hash = mix(hash, s->costs->us[c][i]);
    return (int64_t)hash;
}

_Static_assert(sizeof(stw_noise_shares) == 5 * sizeof(double), "kept as a row of reals");

int32_t stw_train_settings_keep(const stw_train_settings *s, stw_kept out[STW_MOST_KEPT]) {
    const stw_kept kept[] = {
#define STW_WHOLE(type, member, words)        STW_KEPT_WHOLE(s, member, words),
#define STW_REAL(member, words)               STW_KEPT_REALS(s, member, words),
#define STW_REALS(declaration, member, words) STW_KEPT_REALS(s, member, words),
#include "train/settings.def"
    };
    _Static_assert(sizeof kept <= STW_MOST_KEPT * sizeof kept[0], "there is room for all");
    memcpy(out, kept, sizeof kept);
    return (int32_t)(sizeof kept / sizeof kept[0]);
}

/* The settings, and what the problem adds to them. */
static int32_t keep_all(const stw_trainer *t, stw_kept out[STW_MOST_KEPT + PROBLEM_KEPT]) {
    const stw_problem *p = t->problem;
    const stw_kept kept[PROBLEM_KEPT] = {
        STW_KEPT_WHOLE(p, M, "number of units"),     STW_KEPT_WHOLE(p, rule, "scheduling rule"),
        STW_KEPT_WHOLE(p, places, "task placement"), STW_KEPT_WHOLE(p, schedules, "task schedule"),
        STW_KEPT_WHOLE(p, fuses, "task fusion"),     STW_KEPT_WHOLE(p, objective, "objective"),
    };
    const int32_t count = stw_train_settings_keep(&t->settings, out);
    memcpy(out + count, kept, sizeof kept);
    return count + PROBLEM_KEPT;
}

/* Of a training with fusion: groups and fusion priorities of the plans that are kept, and the best sample's decisions. */
static void add_fusion(const stw_trainer *t, stw_tensor_file *file) {
    const int64_t N = t->problem->simulator->graph->N;
    if (!t->problem->fuses) return;
    add_tensor(file, "train/origin.group", STW_TENSOR_I32, N, t->origin->group);
    add_tensor(file, "train/origin.fusion", STW_TENSOR_F64, N, t->origin_fusion);
    add_tensor(file, "train/best.group", STW_TENSOR_I32, N, t->best->group);
    add_tensor(file, "train/best.fusion", STW_TENSOR_F64, N, t->best_fusion);
    add_tensor(file, "train/beside.group", STW_TENSOR_I32, N, t->beside->group);
    add_tensor(file, "train/beside.fusion", STW_TENSOR_F64, N, t->beside_fusion);
    add_tensor(file, "train/elite.fusion", STW_TENSOR_F64, t->problem->M, t->elite_fusion);
}

static void write_ties(const stw_score *score, double *out) {
    out[0] = (double)score->sent_bytes;
    out[1] = (double)score->peak_bytes;
    out[2] = score->devices;
}

static stw_status read_ties(stw_trainer *t, const stw_tensor_file *file, stw_error *error) {
    stw_score *const score[] = {&t->best_score, &t->elite_score, &t->beside_score};
    const stw_tensor *tensor;
    TRY(stw_tensor_expect(file, "train/ties", STW_TENSOR_F64, 1, ALL_TIES, &tensor, error));
    for (int k = 0; k < 3; k++) {
        const double *n = (const double *)tensor->data + (ptrdiff_t)k * TIES;
        for (int j = 0; j < TIES; j++) {
            if (!(n[j] >= 0.0 && n[j] < (j == 2 ? 1e9 : 9e18)))
                return stw_fail(error, STW_ERROR_INPUT, "train/ties: entry %d is out of range", k * TIES + j);
        }
        score[k]->sent_bytes = (int64_t)n[0];
        score[k]->peak_bytes = (int64_t)n[1];
        score[k]->devices = (int32_t)n[2];
    }
    return STW_OK;
}

stw_status stw_trainer_save(stw_trainer *t, const char *path, stw_error *error) {
    const int64_t N = t->problem->simulator->graph->N;
    stw_arena scratch = t->round_index < 0 ? t->arena : t->round_arena;
    stw_tensor_file file = {0};
    STW_TRY_NEW(&scratch, file.tensor, 3 * STW_MAX_PARAMETERS + EXTRA + STW_MOST_KEPT + PROBLEM_KEPT, error);
    TRY(stw_net_save(t->net, true, &scratch, &file, error));
    stw_kept kept[STW_MOST_KEPT + PROBLEM_KEPT];
    stw_kept_add(kept, keep_all(t, kept), &file);
    add_dimension(&file, "train.machine", machine_key(t->problem->simulator));
    add_dimension(&file, "train.update", t->update);
    add_dimension(&file, "train.evaluations", t->evaluations);
    add_dimension(&file, "train.round", t->round_index);
    add_dimension(&file, "train.last_better", t->last_better);
    add_dimension(&file, "train.has_best", t->has_best);
    add_dimension(&file, "train.has_elite", t->has_elite);
    add_dimension(&file, "train.has_beside", t->has_beside);
    add_dimension(&file, "train.reason", t->best_score.reason);
    const double numbers[] = {
        t->reference,       t->best_score.value,   t->best_score.step_s,   t->best_score.lacks,      t->round.offset[0],
        t->round.offset[1], t->round.offset[2],    t->elite_score.value,   t->elite_score.step_s,    t->round.offset[3],
        t->least,           t->beside_score.value, t->beside_score.step_s, (double)t->trials->count, t->trials->mean};
    _Static_assert(sizeof numbers / sizeof numbers[0] == STW_TRAINING_NUMBERS, "as many as are read");
    add_tensor(&file, "train/numbers", STW_TENSOR_F64, sizeof numbers / sizeof numbers[0], numbers);
    double ties[3][TIES];
    write_ties(&t->best_score, ties[0]);
    write_ties(&t->elite_score, ties[1]);
    write_ties(&t->beside_score, ties[2]);
    add_tensor(&file, "train/ties", STW_TENSOR_F64, ALL_TIES, ties);
    add_tensor(&file, "train/graph", STW_TENSOR_I32, 8, t->problem->simulator->graph->fingerprint);
    add_tensor(&file, "train/origin.device", STW_TENSOR_I32, N, t->origin->device);
    add_tensor(&file, "train/origin.priority", STW_TENSOR_F64, N, t->origin->priority);
    add_tensor(&file, "train/best.device", STW_TENSOR_I32, N, t->best->device);
    add_tensor(&file, "train/best.priority", STW_TENSOR_F64, N, t->best->priority);
    add_tensor(&file, "train/beside.device", STW_TENSOR_I32, N, t->beside->device);
    add_tensor(&file, "train/beside.priority", STW_TENSOR_F64, N, t->beside->priority);
    add_tensor(&file, "train/elite.placement", STW_TENSOR_F64, (int64_t)t->problem->M * t->A, t->elite_placement);
    add_tensor(&file, "train/elite.schedule", STW_TENSOR_F64, t->problem->M, t->elite_schedule);
    add_fusion(t, &file);
    return stw_tensor_file_write(&file, path, error);
}

static stw_status read_plan(const stw_tensor_file *file, const char *name, stw_plan *plan, stw_error *error) {
    char full[64];
    const stw_tensor *device, *priority;
    const int32_t N = plan->graph->N, D = plan->machine->device_count;
    snprintf(full, sizeof full, "train/%s.device", name);
    TRY(stw_tensor_expect(file, full, STW_TENSOR_I32, 1, N, &device, error));
    for (int32_t i = 0; i < N; i++) {
        const int32_t d = ((const int32_t *)device->data)[i];
        if (d < 0 || d >= D)
            return stw_fail(error, STW_ERROR_INPUT, "%s: device %d of node %d; the machine has %d devices", full, d, i, D);
    }
    snprintf(full, sizeof full, "train/%s.priority", name);
    TRY(stw_tensor_expect(file, full, STW_TENSOR_F64, 1, N, &priority, error));
    for (int32_t i = 0; i < N; i++) {
        if (!isfinite(((const double *)priority->data)[i]))
            return stw_fail(error, STW_ERROR_INPUT, "%s: the priority of node %d is not a number", full, i);
    }
    memcpy(plan->device, device->data, (size_t)N * sizeof *plan->device);
    memcpy(plan->priority, priority->data, (size_t)N * sizeof *plan->priority);
    return STW_OK;
}

static stw_status read_reals(const stw_tensor_file *file, const char *name, int64_t count, double *out, stw_error *error) {
    const stw_tensor *tensor;
    TRY(stw_tensor_expect(file, name, STW_TENSOR_F64, 1, count, &tensor, error));
    for (int64_t k = 0; k < count; k++) {
        out[k] = ((const double *)tensor->data)[k];
        if (!isfinite(out[k])) return stw_fail(error, STW_ERROR_INPUT, "%s: entry %" PRId64 " is not a number", name, k);
    }
    return STW_OK;
}

static stw_status read_groups(const stw_tensor_file *file, const char *name, stw_plan *plan, stw_error *error) {
    const stw_tensor *group;
    const int32_t N = plan->graph->N;
    TRY(stw_tensor_expect(file, name, STW_TENSOR_I32, 1, N, &group, error));
    for (int32_t i = 0; i < N; i++) {
        const int32_t g = ((const int32_t *)group->data)[i];
        if (g < -1 || g >= N) return stw_fail(error, STW_ERROR_INPUT, "%s: group %d of node %d", name, g, i);
    }
    memcpy(plan->group, group->data, (size_t)N * sizeof *plan->group);
    return STW_OK;
}

static stw_status read_fusion(stw_trainer *t, const stw_tensor_file *file, stw_error *error) {
    const int64_t N = t->problem->simulator->graph->N;
    if (!t->problem->fuses) return STW_OK;
    TRY(read_groups(file, "train/origin.group", t->origin, error));
    TRY(read_groups(file, "train/best.group", t->best, error));
    TRY(read_groups(file, "train/beside.group", t->beside, error));
    TRY(read_reals(file, "train/origin.fusion", N, t->origin_fusion, error));
    TRY(read_reals(file, "train/best.fusion", N, t->best_fusion, error));
    TRY(read_reals(file, "train/beside.fusion", N, t->beside_fusion, error));
    return read_reals(file, "train/elite.fusion", t->problem->M, t->elite_fusion, error);
}

static stw_status check_owner(const stw_trainer *t, const stw_tensor_file *file, stw_error *error) {
    const stw_tensor *graph;
    int64_t key = 0;
    TRY(stw_tensor_expect(file, "train/graph", STW_TENSOR_I32, 1, 8, &graph, error));
    if (memcmp(graph->data, t->problem->simulator->graph->fingerprint, 32) != 0)
        return stw_fail(error, STW_ERROR_INPUT, "this training is of another graph; resume with that one, or start again");
    stw_kept kept[STW_MOST_KEPT + PROBLEM_KEPT];
    const int32_t count = keep_all(t, kept);
    if (stw_tensor_file_dimension(file, "train.machine", &key) && key != machine_key(t->problem->simulator))
        return stw_fail(error, STW_ERROR_INPUT,
                        "cannot be resumed: it was on another machine, or with other costs; resume with those, or start again");
    return stw_kept_check(kept, count, file, error);
}

static stw_status restore(stw_trainer *t, const stw_tensor_file *file, stw_error *error) {
    const stw_tensor *numbers;
    int64_t round = -1, has_best = 0, has_elite = 0, has_beside = 0, reason = 0;
    TRY(stw_tensor_expect(file, "train/numbers", STW_TENSOR_F64, 1, STW_TRAINING_NUMBERS, &numbers, error));
    const double *n = numbers->data;
    if (!stw_tensor_file_dimension(file, "train.update", &t->update) ||
        !stw_tensor_file_dimension(file, "train.evaluations", &t->evaluations) ||
        !stw_tensor_file_dimension(file, "train.round", &round) ||
        !stw_tensor_file_dimension(file, "train.last_better", &t->last_better) ||
        !stw_tensor_file_dimension(file, "train.has_best", &has_best) ||
        !stw_tensor_file_dimension(file, "train.has_elite", &has_elite) ||
        !stw_tensor_file_dimension(file, "train.has_beside", &has_beside) ||
        !stw_tensor_file_dimension(file, "train.reason", &reason) || t->update < 0 || t->evaluations < 0 || round < -1 ||
        round > INT32_MAX || t->last_better < 0 || reason < 0 || reason > STW_INVALID_MEMORY)
        return stw_fail(error, STW_ERROR_INPUT, "the state of the training is incomplete; start again");
    t->round_index = (int32_t)round;
    t->has_best = has_best != 0;
    t->has_elite = has_elite != 0;
    t->elite_score = (stw_score){.reason = STW_VALID, .value = n[7], .step_s = n[8]};
    TRY(read_reals(file, "train/elite.placement", (int64_t)t->problem->M * t->A, t->elite_placement, error));
    TRY(read_reals(file, "train/elite.schedule", t->problem->M, t->elite_schedule, error));
    t->reference = n[0];
    t->best_score = (stw_score){.reason = (stw_reason)reason, .value = n[1], .step_s = n[2], .lacks = n[3]};
    memcpy(t->round.offset, &n[4], 3 * sizeof t->round.offset[0]);
    t->round.offset[3] = n[9];
    t->least = n[10];
    *t->trials = (stw_trials){(int64_t)n[13], n[14]};
    t->has_beside = has_beside != 0;
    t->beside_score = (stw_score){.reason = STW_VALID, .value = n[11], .step_s = n[12]};
    TRY(read_ties(t, file, error));
    TRY(read_plan(file, "origin", t->origin, error));
    TRY(read_plan(file, "beside", t->beside, error));
    TRY(read_plan(file, "best", t->best, error));
    return read_fusion(t, file, error);
}

stw_status stw_trainer_resume(stw_trainer *t, const char *path, stw_error *error) {
    stw_arena scratch = t->arena;
    stw_tensor_file file;
    TRY(stw_tensor_file_read(path, &scratch, &file, error));
    stw_status status = check_owner(t, &file, error);
    if (status == STW_OK) status = stw_net_load(t->net, &file, scratch, error);
    if (status == STW_OK) status = restore(t, &file, error);
    if (status != STW_OK) {
        stw_error_prefix(error, path);
        return status;
    }
    t->round_arena = t->arena;
    return t->round_index < 0 ? STW_OK : stw_trainer_observe(t, error);
}
