/* What an exported plan is worth as its target will run it, beside the plan itself and beside one device. */
#include <math.h>

#include <stdlib.h>

#include "export/export.h"
#include "plan/of_modules.h"

/* NaN: the plan is not valid. */
static stw_status step_of(const stw_export *e, const stw_plan *plan, stw_workspace *workspace, double *out, stw_error *error) {
    stw_evaluation evaluation;
    TRY(stw_simulate(e->simulator, plan, workspace, &evaluation, error));
    *out = evaluation.reason == STW_VALID ? evaluation.step_s : NAN;
    return STW_OK;
}

/* Whether groups of the plan are kernels there. */
static bool keeps_groups(const stw_export *e) { return e->target == STW_TARGET_PLAN || e->target == STW_TARGET_ONE; }

static bool has_groups(const stw_export *e) {
    for (int32_t i = 0; i < e->graph->N; i++)
        if (e->graph->kind[i] == STW_NODE_OP && e->plan->group[i] != i) return true;
    return false;
}

static bool is_like_another(const stw_machine *machine, int32_t d) {
    for (int32_t other = 0; other < d; other++) {
        if (machine->device[other].cost_class == machine->device[d].cost_class &&
            machine->device[other].memory_bytes == machine->device[d].memory_bytes)
            return true;
    }
    return false;
}

static double lesser(double a, double b) { return isnan(a) || b < a ? b : a; }

/* Everything on the device that does best, in the order of the program; fused by the rule too, where the plan is. */
static stw_status price_one(const stw_export *e, stw_workspace *workspace, double *out, stw_error *error) {
    stw_plan *plan;
    stw_status status = STW_OK;
    double step = NAN;
    *out = NAN;
    TRY(stw_plan_create(e->graph, e->machine, &plan, error));
    for (int32_t k = 0; k < e->graph->op_count; k++) plan->priority[e->graph->topological[k]] = -(double)k;
    for (int32_t d = 0; d < e->machine->device_count && status == STW_OK; d++) {
        if (is_like_another(e->machine, d)) continue;
        for (int32_t i = 0; i < e->graph->N; i++) plan->device[i] = d;
        status = stw_plan_fuse(plan, e->simulator->costs, "none", error);
        if (status == STW_OK) status = step_of(e, plan, workspace, &step, error);
        if (status == STW_OK) *out = lesser(*out, step);
        if (status != STW_OK || !keeps_groups(e) || !has_groups(e)) continue;
        status = stw_plan_fuse(plan, e->simulator->costs, "default", error);
        if (status == STW_OK) status = step_of(e, plan, workspace, &step, error);
        if (status == STW_OK) *out = lesser(*out, step);
    }
    stw_plan_destroy(plan);
    return status;
}

/* ---- as the target runs it ---- */

static stw_status price_modules(const stw_export *e, stw_workspace *workspace, double *out, stw_error *error) {
    stw_plan *plan;
    TRY(stw_plan_of_homes(e->graph, e->machine, e->home_grain, e->home, &plan, NULL, error));
    const stw_status status = step_of(e, plan, workspace, out, error);
    stw_plan_destroy(plan);
    return status;
}

static bool uses_one(const stw_export *e) {
    const stw_timeline *timeline = e->timeline;
    for (int32_t t = 1; t < timeline->tasks->T; t++)
        if (timeline->device[t] != timeline->device[0]) return false;
    return true;
}

/* The kernels of the plan in the order in which the module has them, all on the device that does best. */
static stw_status price_on_one(const stw_export *e, stw_workspace *workspace, double *out, stw_error *error) {
    stw_plan *plan;
    stw_status status = STW_OK;
    double step = NAN;
    if (uses_one(e)) return STW_OK;
    *out = NAN;
    TRY(stw_plan_copy(e->plan, &plan, error));
    stw_plan_remove_orders(plan);
    for (int32_t i = 0; i < e->graph->N; i++) plan->priority[i] = -(double)e->rank[i];
    for (int32_t d = 0; d < e->machine->device_count && status == STW_OK; d++) {
        if (is_like_another(e->machine, d)) continue;
        for (int32_t i = 0; i < e->graph->N; i++) plan->device[i] = d;
        status = step_of(e, plan, workspace, &step, error);
        if (status == STW_OK) *out = lesser(*out, step);
    }
    stw_plan_destroy(plan);
    return status;
}

/* Where there is a choice, the op that stands first in the program. */
static stw_status price_ready(const stw_export *e, stw_workspace *workspace, double *out, stw_error *error) {
    stw_plan *plan;
    TRY(stw_plan_create(e->graph, e->machine, &plan, error));
    for (int32_t k = 0; k < e->graph->op_count; k++) plan->priority[e->graph->topological[k]] = -(double)k;
    for (int32_t i = 0; i < e->graph->N; i++) plan->device[i] = e->place != NULL ? e->place[i] : e->plan->device[i];
    stw_status status = stw_plan_fuse(plan, e->simulator->costs, "none", error);
    if (status == STW_OK) status = step_of(e, plan, workspace, out, error);
    stw_plan_destroy(plan);
    return status;
}

/* ---- sessions ---- */

/* A part is what a device does between two times that it needs something of another: its ops of one level, which counts how often
 * values on their way to an op have changed devices. The session of a part begins when its device is free and all that it reads
 * is there, and hands over what it made when all of it is done: what stowage.onnx.split cuts and runs. One thread does all that a
 * device does: it waits for all that its session reads, so that latencies run side by side, and then takes tensor after tensor
 * in, so that their bytes do not. */
typedef struct {
    int32_t level, device, op;
} member; /* of a part; sorted, parts are in the order in which a device runs them */

static int compare_members(const void *left, const void *right) {
    const member *a = left, *b = right;
    if (a->level != b->level) return a->level < b->level ? -1 : 1;
    return a->device != b->device ? a->device - b->device : a->op < b->op ? -1 : 1;
}

static stw_status list_members(const stw_export *e, member **out, stw_error *error) {
    const stw_graph *graph = e->graph;
    int32_t *level;
    STW_TRY_NEW(e->arena, *out, graph->op_count, error);
    STW_TRY_NEW(e->arena, level, graph->N, error);
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t i = graph->topological[k];
        for (int64_t at = graph->read_start[i]; at < graph->read_start[i + 1]; at++) {
            const int32_t from = graph->read[at].node;
            if (graph->kind[from] != STW_NODE_OP) continue;
            const int32_t through = level[from] + (e->plan->device[from] != e->plan->device[i]);
            if (through > level[i]) level[i] = through;
        }
        (*out)[k] = (member){level[i], e->plan->device[i], i};
    }
    if (graph->op_count > 0) qsort(*out, (size_t)graph->op_count, sizeof **out, compare_members);
    return STW_OK;
}

typedef struct {
    double wait, take; /* picoseconds until it can be taken in, and of the thread that takes it in */
} hand_over;

/* From one device to another, through the host's memory where the machine says so. */
static hand_over hand_over_of(const stw_machine *machine, int32_t from, int32_t to, int64_t bytes) {
    if (machine->host >= 0 && from != machine->host && to != machine->host) {
        const hand_over there = hand_over_of(machine, from, machine->host, bytes);
        const hand_over back = hand_over_of(machine, machine->host, to, bytes);
        return (hand_over){there.wait + back.wait, there.take + back.take};
    }
    const stw_link *link = stw_machine_link(machine, from, to);
    if (link->bandwidth == 0.0) return (hand_over){INFINITY, 0.0};
    const double wait = (double)stw_cost_transfer_ps(link, 0);
    const double charge = (double)stw_cost_us_to_ps(link->send_us + link->receive_us);
    return (hand_over){wait, (double)stw_cost_transfer_ps(link, bytes) - wait + charge};
}

/* Tensors that an op reads from other devices, of its part each once: begin: when the last can be taken in; take: of all. */
static void fetch(const stw_export *e, const member *m, int32_t part, const double *end, int32_t *taken, double *begin,
                  double *take) {
    const stw_graph *graph = e->graph;
    for (int64_t at = graph->read_start[m->op]; at < graph->read_start[m->op + 1]; at++) {
        const int32_t from = graph->read[at].node, there = e->plan->device[from];
        const int32_t tensor = graph->read[at].view >= 0 ? graph->read[at].view : from;
        if (graph->kind[from] != STW_NODE_OP || there == m->device) continue; /* the same device has done it before */
        if (taken[tensor] == part) continue;
        const hand_over its = hand_over_of(e->machine, there, m->device, graph->bytes[tensor]);
        taken[tensor] = part;
        *begin = fmax(*begin, end[from] + its.wait);
        *take += its.take;
    }
}

/* Memory is the plan's: what does not fit there is not valid here. */
static stw_status price_sessions(stw_export *e, double *out, stw_error *error) {
    const int32_t ops = e->graph->op_count;
    double free_ps[STW_MAX_DEVICES] = {0.0}, *end, step = 0.0; /* whole numbers, as in the simulator */
    int32_t *taken;                                            /* (N) the last part that took the tensor in, from 1 */
    member *list;
    TRY(list_members(e, &list, error));
    STW_TRY_NEW(e->arena, end, e->graph->N, error);
    STW_TRY_NEW(e->arena, taken, e->graph->N, error);
    for (int32_t k = 0, next; k < ops; k = next) {
        const int32_t device = list[k].device;
        const double *us = e->simulator->costs->us[e->machine->device[device].cost_class];
        double begin = free_ps[device], busy = 0.0;
        e->sessions++;
        for (next = k; next < ops && list[next].level == list[k].level && list[next].device == device; next++) {
            fetch(e, &list[next], e->sessions, end, taken, &begin, &busy);
            busy += (double)stw_cost_us_to_ps(us[list[next].op]);
        }
        free_ps[device] = begin + busy;
        for (int32_t j = k; j < next; j++) end[list[j].op] = free_ps[device];
        step = fmax(step, free_ps[device]);
    }
    *out = isinf(step) || isnan(*out) ? NAN : step / 1e12;
    return STW_OK;
}

static stw_status price_exported(stw_export *e, stw_workspace *workspace, double *out, stw_error *error) {
    switch (e->target) {
        case STW_TARGET_MODULES: return price_modules(e, workspace, out, error);
        case STW_TARGET_ONE: return price_on_one(e, workspace, out, error);
        case STW_TARGET_READY: return price_ready(e, workspace, out, error);
        case STW_TARGET_SESSIONS: return price_sessions(e, out, error);
        case STW_TARGET_PLAN: break;
    }
    return STW_OK; /* the plan's own */
}

/* ---- in words ---- */

/* What the target makes of the plan, where that is not all of it: a line, or nothing. */
static stw_str tell_target(const stw_export *e) {
    if (e->target == STW_TARGET_ONE && !uses_one(e))
        return STW_STR(
            "XLA runs a module on one device: as exported is everything there, in the order and the groups of the plan\n");
    if (e->target == STW_TARGET_READY)
        return STW_STR("TensorFlow takes the places alone: as exported is each op by itself, run as it becomes ready\n");
    if (e->target == STW_TARGET_SESSIONS && e->sessions == 1)
        return STW_STR("ONNX Runtime takes no groups: as exported is each op by itself\n");
    if (e->target == STW_TARGET_SESSIONS)
        return stw_str_format(e->arena,
                              "ONNX Runtime takes a session for each part that a device does at a stretch: as exported is %d of "
                              "them, each op by itself\n",
                              e->sessions);
    return STW_STR("");
}

typedef struct {
    char text[32];
} step_text;

static step_text show(double seconds) {
    step_text out;
    if (isnan(seconds))
        snprintf(out.text, sizeof out.text, "not valid");
    else
        snprintf(out.text, sizeof out.text, "%.5g %s", seconds < 1e-3 ? 1e6 * seconds : 1e3 * seconds,
                 seconds < 1e-3 ? "us" : "ms");
    return out;
}

bool stw_export_is_worse(double exported_s, double one_device_s) {
    return exported_s > one_device_s || (isnan(exported_s) && !isnan(one_device_s));
}

/* Lines for the note: what is worse than one device comes first. */
static stw_status tell(stw_export *e, const stw_price *p, stw_error *error) {
    const char *worse = "";
    if (stw_export_is_worse(p->exported_s, p->one_device_s))
        worse = "worse than one device: as exported the step is slower than with everything on one, or not valid\n";
    const stw_str target = tell_target(e);
    e->price_note = stw_str_format(e->arena, "%ssimulated step: %s as exported, %s as planned, %s on one device\n%s", worse,
                                   show(p->exported_s).text, show(p->plan_s).text, show(p->one_device_s).text,
                                   target.p == NULL ? "" : target.p);
    return e->price_note.p != NULL ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}

stw_status stw_export_price(stw_export *e, stw_error *error) {
    stw_price *out = &e->price;
    stw_workspace *workspace;
    *out = (stw_price){NAN, NAN, NAN};
    TRY(stw_workspace_create(e->simulator, &workspace, error));
    stw_status status = step_of(e, e->plan, workspace, &out->plan_s, error);
    if (status == STW_OK) status = price_one(e, workspace, &out->one_device_s, error);
    out->exported_s = out->plan_s;
    if (status == STW_OK) status = price_exported(e, workspace, &out->exported_s, error);
    stw_workspace_destroy(workspace);
    return status == STW_OK ? tell(e, out, error) : status;
}
