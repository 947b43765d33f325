/* `topo` (m-TOPO): ops in topological order, a device after the other, each until its share is used. */
#include <math.h>
#include <stdio.h>

#include "method/method.h"
#include "search/list.h"

typedef struct {
    const stw_simulator *simulator;
    uint64_t linked; /* devices to use; 0: all */
} problem;

static const char *const share_name[] = {"memory", "time"};
enum { BY_MEMORY, BY_TIME, VARIANTS };

/* What an op takes of a device's share: its output and the parameters that it is the first to read; or its time. `seen`: (N). */
static double size_of(const stw_simulator *s, int32_t variant, int32_t op, bool *seen) {
    const stw_graph *graph = s->graph;
    if (variant == BY_TIME) return s->costs->least_us[op];
    double bytes = graph->updates[op] >= 0 ? 0.0 : (double)graph->bytes[op];
    for (int64_t r = graph->read_start[op]; r < graph->read_start[op + 1]; r++) {
        const int32_t from = graph->read[r].node;
        if (!stw_node_is_resident(graph->kind[from]) || seen[from]) continue;
        seen[from] = true;
        bytes += (double)graph->bytes[from];
    }
    return bytes;
}

/* (cost classes) the time of all ops. */
static void sum_times(const stw_simulator *s, double *total_us) {
    for (int32_t c = 0; c < s->machine->cost_class_count; c++) {
        total_us[c] = 0.0;
        for (int32_t i = 0; i < s->graph->op_count; i++) total_us[c] += s->costs->us[c][s->graph->topological[i]];
    }
}

/* A device's part of the speed of all that are used; equal parts if they are alike. */
static double speed_share(const stw_simulator *s, const double *total_us, const int32_t *use, int32_t count, int32_t turn) {
    double all = 0.0, own = 0.0;
    for (int32_t k = 0; k < count; k++) {
        const double sum = total_us[s->machine->device[use[k]].cost_class];
        const double speed = sum > 0.0 ? 1.0 / sum : 1.0;
        all += speed;
        if (k == turn) own = speed;
    }
    return own / all;
}

static stw_status build(void *context, int32_t variant, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const problem *p = context;
    const stw_graph *graph = p->simulator->graph;
    const stw_machine *machine = p->simulator->machine;
    int32_t use[STW_MAX_DEVICES], count = 0, turn = 0;
    double *size, total = 0.0, largest = 0.0, used = 0.0, part;
    bool *seen;
    double total_us[STW_MAX_DEVICES];
    STW_TRY_NEW(&scratch, size, graph->op_count, error);
    STW_TRY_NEW(&scratch, seen, graph->N, error);
    for (int32_t d = 0; d < machine->device_count; d++) {
        if (p->linked == 0 || (p->linked >> d & 1u)) use[count++] = d;
    }
    for (int32_t k = 0; k < graph->op_count; k++) {
        size[k] = size_of(p->simulator, variant, graph->topological[k], seen);
        total += size[k];
        largest = fmax(largest, size[k]);
    }
    sum_times(p->simulator, total_us);
    part = speed_share(p->simulator, total_us, use, count, 0);
    for (int32_t k = 0; k < graph->op_count; k++) {
        double share = total / count + largest;
        if (variant == BY_TIME) share = total * part;
        if (variant == BY_MEMORY) share = fmin(share, (double)machine->device[use[turn]].memory_bytes);
        if (used + size[k] > share && turn + 1 < count) {
            turn++;
            used = 0.0;
            part = speed_share(p->simulator, total_us, use, count, turn);
        }
        used += size[k];
        plan->device[graph->topological[k]] = use[turn];
    }
    stw_plan_complete(p->simulator, plan);
    return STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    problem p = {.simulator = search->simulator, .linked = stw_list_linked(search->simulator)};
    int32_t best = 0;
    const stw_variants variants = {.count = VARIANTS, .build = build, .context = &p, .own_rule = STW_RULE_UPWARD_RANK};
    TRY(stw_search_variants(search, &variants, plan, &best, error));
    snprintf(search->outcome.note, sizeof search->outcome.note, "in topological order, the same %s on every device",
             share_name[best]);
    return STW_OK;
}

const stw_method stw_method_topo = {.name = "topo",
                                    .description = "topological order, a device after the other, each up to its share",
                                    .kind = STW_METHOD_CONSTRUCTIVE,
                                    .traits = STW_METHOD_PLACES,
                                    .op_s = 7e-7,
                                    .run = run};
