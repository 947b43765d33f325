#include "driver/limits.h"

#include <stdlib.h>
#include <string.h>

#include "api/options.h"
#include "base/union_find.h"
#include "graph/units.h"

typedef struct {
    const stw_simulator *outer;
    const stw_options *options;
    stw_limited *l;
    stw_arena scratch;
    stw_str *path;     /* (N) */
    bool *matched;     /* (N) */
    int32_t *leader;   /* (N) what must be together */
    uint64_t *allowed; /* (N) by node */
    bool limits;       /* some device is not allowed somewhere */
} build;

static bool is_member(const stw_graph *graph, int32_t i) {
    return graph->kind[i] == STW_NODE_OP || stw_node_is_resident(graph->kind[i]);
}

/* Calls `take` with each part of a list that commas separate, and what stands before and behind its last '='. */
static stw_status for_each(build *b, const char *option,
                           stw_status (*take)(build *b, stw_str name, stw_str value, stw_error *error), bool has_value,
                           stw_error *error) {
    const char *text = stw_options_text(b->options, option);
    while (text != NULL) {
        const char *comma = strchr(text, ',');
        stw_str part = {text, comma == NULL ? (int64_t)strlen(text) : comma - text}, value = {0};
        int64_t at = part.length;
        while (has_value && at > 0 && part.p[at - 1] != '=') at--;
        if (has_value && at > 0) {
            value = (stw_str){part.p + at, part.length - at};
            part.length = at - 1;
        }
        if (part.length == 0 || (has_value && value.length == 0))
            return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is no list of %s", option, stw_options_text(b->options, option),
                            !has_value                   ? "PATTERN"
                            : strcmp(option, "pin") == 0 ? "NAME=DEVICE"
                                                         : "DEVICE=CLASS");
        TRY(take(b, part, value, error));
        text = comma == NULL ? NULL : comma + 1;
    }
    return STW_OK;
}

static stw_status pin(build *b, stw_str name, stw_str value, stw_error *error) {
    const stw_graph *graph = b->outer->graph;
    int32_t device = 0;
    TRY(stw_match_device(b->outer->machine, "pin", value, &device, error));
    TRY(stw_match_nodes(graph, b->path, "pin", name, b->matched, error));
    for (int32_t i = 0; i < graph->N; i++) {
        if (b->matched[i]) b->allowed[i] &= 1ull << device;
    }
    b->limits = true;
    return STW_OK;
}

static stw_status keep(build *b, stw_str name, stw_str value, stw_error *error) {
    const stw_graph *graph = b->outer->graph;
    int32_t first = -1;
    (void)value;
    TRY(stw_match_nodes(graph, b->path, "keep-together", name, b->matched, error));
    for (int32_t i = 0; i < graph->N; i++) {
        if (!b->matched[i]) continue;
        if (first < 0) first = i;
        stw_sets_join(b->leader, first, i);
    }
    return STW_OK;
}

static stw_status fail_class(const build *b, stw_str name, stw_error *error) {
    const stw_graph *graph = b->outer->graph;
    char list[240] = "";
    bool there[STW_CLASS_COUNT] = {0};
    size_t used = 0;
    for (int32_t i = 0; i < graph->N; i++) there[graph->op_class[i]] |= graph->kind[i] == STW_NODE_OP;
    for (int c = 0; c < STW_CLASS_COUNT && used < sizeof list; c++) {
        if (there[c]) used += (size_t)snprintf(list + used, sizeof list - used, " %s", stw_op_class_name((stw_op_class)c));
    }
    return stw_fail(error, STW_ERROR_INPUT, "--forbid: no op of the graph is of class '%.*s'; there are:%s", STW_STR_SHOW(name),
                    list);
}

static stw_status forbid(build *b, stw_str name, stw_str value, stw_error *error) {
    const stw_graph *graph = b->outer->graph;
    stw_op_class op_class = STW_CLASS_OPAQUE;
    int32_t device = 0, count = 0;
    TRY(stw_match_device(b->outer->machine, "forbid", name, &device, error));
    const bool known = stw_op_class_find(value, &op_class);
    for (int32_t i = 0; i < graph->N && known; i++) {
        if (graph->kind[i] != STW_NODE_OP || graph->op_class[i] != op_class) continue;
        b->allowed[i] &= ~(1ull << device);
        count++;
    }
    b->limits = true;
    return count > 0 ? STW_OK : fail_class(b, value, error);
}

/* ---- at most so many devices ---- */

typedef struct {
    int32_t D, mask_count;
    uint64_t *mask;  /* (mask_count) where something may be, each once */
    int32_t *weight; /* (mask_count) of how many nodes that holds */
    double us[STW_MAX_DEVICES];
    const stw_machine *machine;
    double bytes;  /* that the chosen must have together */
    int64_t tries; /* that are left */
} cover;

/* The memory of these devices and of as many of the others as there may be, the largest. */
static double most_memory(const cover *c, uint64_t chosen, int64_t others) {
    double bytes = 0.0;
    for (int32_t d = 0; d < c->D; d++)
        if (chosen >> d & 1u) bytes += (double)c->machine->device[d].memory_bytes;
    for (; others > 0; others--) {
        int32_t largest = -1;
        for (int32_t d = 0; d < c->D; d++) {
            if (chosen >> d & 1u) continue;
            if (largest < 0 || c->machine->device[d].memory_bytes > c->machine->device[largest].memory_bytes) largest = d;
        }
        if (largest < 0) break;
        chosen |= 1ull << largest;
        bytes += (double)c->machine->device[largest].memory_bytes;
    }
    return bytes;
}

static stw_status list_masks(build *b, cover *c, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = b->outer->graph;
    const stw_machine *machine = c->machine;
    STW_TRY_NEW(arena, c->mask, graph->N, error);
    STW_TRY_NEW(arena, c->weight, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        int32_t k = 0;
        if (!is_member(graph, i)) continue;
        while (k < c->mask_count && c->mask[k] != b->allowed[i]) k++;
        if (k == c->mask_count) c->mask[c->mask_count++] = b->allowed[i];
        c->weight[k]++;
        for (int32_t d = 0; d < c->D; d++) c->us[d] += b->outer->costs->us[machine->device[d].cost_class][i];
    }
    return STW_OK;
}

/* Of these devices the one that serves most of what the chosen do not; of equals the fastest, then the first. */
static int32_t best_device(const cover *c, uint64_t among, uint64_t chosen) {
    int32_t best = -1, best_serves = 0;
    for (int32_t d = 0; d < c->D; d++) {
        int32_t serves = 0;
        if (!((among & ~chosen) >> d & 1u)) continue;
        for (int32_t k = 0; k < c->mask_count; k++)
            if (!(c->mask[k] & chosen) && (c->mask[k] >> d & 1u)) serves += c->weight[k];
        if (best >= 0 && (serves < best_serves || (serves == best_serves && c->us[d] >= c->us[best]))) continue;
        best = d;
        best_serves = serves;
    }
    return best;
}

/* Adds at most `most` devices, so that all has one that it may be on and memory can suffice: what has the least choice decides
 * first. */
static bool find_cover(cover *c, int64_t most, uint64_t *chosen) {
    int32_t tight = -1;
    if (most_memory(c, *chosen, most) < c->bytes) return false;
    for (int32_t k = 0; k < c->mask_count; k++) {
        const bool open = (c->mask[k] & *chosen) == 0;
        if (open && (tight < 0 || __builtin_popcountll(c->mask[k]) < __builtin_popcountll(c->mask[tight]))) tight = k;
    }
    if (tight < 0) return true;
    if (most == 0) return false;
    const uint64_t before = *chosen;
    for (uint64_t among = c->mask[tight]; among != 0 && c->tries-- > 0;) {
        const int32_t d = best_device(c, among, before);
        *chosen = before | 1ull << d;
        if (find_cover(c, most - 1, chosen)) return true;
        among &= ~(1ull << d);
    }
    return false;
}

/* What is left of their number goes to the fastest that leave enough memory, of equals the first. */
static void fill_up(const cover *c, int64_t most, uint64_t *chosen) {
    for (int64_t rest = most - __builtin_popcountll(*chosen); rest > 0; rest--) {
        uint64_t among = 0;
        for (int32_t d = 0; d < c->D; d++)
            if (most_memory(c, *chosen | 1ull << d, rest - 1) >= c->bytes) among |= 1ull << d;
        *chosen |= 1ull << best_device(c, among & ~*chosen ? among : UINT64_MAX, *chosen);
    }
}

static bool has_equal_memory(const stw_machine *machine) {
    for (int32_t d = 1; d < machine->device_count; d++)
        if (machine->device[d].memory_bytes != machine->device[0].memory_bytes) return false;
    return true;
}

/* What is held at once where everything is on one device, in the order of the program; and parameters and buffers alone, which is
 * what any plan holds. */
static stw_status measure_memory(const build *b, double *peak, double *residents, stw_error *error) {
    const stw_graph *graph = b->outer->graph;
    const stw_run_options options = {.record_memory = false};
    stw_evaluation result;
    stw_workspace *workspace;
    stw_plan *plan;
    *residents = 0.0;
    for (int32_t i = 0; i < graph->N; i++)
        if (stw_node_is_resident(graph->kind[i])) *residents += (double)graph->bytes[i];
    TRY(stw_plan_create(graph, b->outer->machine, &plan, error));
    for (int32_t k = 0; k < graph->op_count; k++) plan->priority[graph->topological[k]] = -(double)k;
    stw_status status = stw_workspace_create(b->outer, &workspace, error);
    if (status == STW_OK) {
        status = stw_simulator_run(b->outer, plan, &options, workspace, &result, error);
        *peak = status == STW_OK && result.peak_bytes != NULL ? (double)result.peak_bytes[0] : *residents;
        stw_workspace_destroy(workspace);
    }
    stw_plan_destroy(plan);
    return status;
}

/* Devices such that all can be on one of them, and that have the memory for what is held at once, or else for the parameters, or
 * else whatever they have: then the search says what lacks. */
static stw_status choose_devices(build *b, int64_t most, stw_error *error) {
    enum { TRIES = 100000 };
    cover c = {.D = b->outer->machine->device_count, .machine = b->outer->machine};
    double wanted[3] = {0.0};
    bool found = false;
    uint64_t chosen = 0;
    if (most >= c.D) return STW_OK;
    stw_arena scratch = b->scratch;
    TRY(list_masks(b, &c, &scratch, error));
    const stw_status measured = has_equal_memory(c.machine) ? STW_OK : measure_memory(b, &wanted[0], &wanted[1], error);
    if (measured == STW_ERROR_MEMORY)
        wanted[0] = wanted[1] = 0.0; /* it is a hint */
    else
        TRY(measured);
    for (int k = 0; k < 3 && !found; k++) {
        c.bytes = wanted[k];
        c.tries = TRIES;
        chosen = 0;
        found = find_cover(&c, most, &chosen);
    }
    if (!found)
        return stw_fail(error, STW_ERROR_INPUT, "--max-devices: %lld devices are allowed, but --pin and --forbid need more",
                        (long long)most);
    fill_up(&c, most, &chosen);
    for (int32_t i = 0; i < b->outer->graph->N; i++) b->allowed[i] &= chosen;
    b->limits = true;
    return STW_OK;
}

/* ---- the grain ---- */

static stw_status cut_stages(build *b, stw_error *error) {
    const int64_t most = stw_options_number(b->options, "max-devices", STW_MAX_DEVICES);
    const int32_t D = b->outer->machine->device_count;
    return stw_grain_stages(b->outer->graph, b->outer->costs->least_us, b->limits ? b->allowed : NULL,
                            most < D ? (int32_t)most : D, &b->l->arena, &b->l->parcels, error);
}

static stw_status join_parcels(build *b, stw_error *error) {
    stw_parcels *parcels = &b->l->parcels;
    const stw_graph *graph = b->outer->graph;
    int32_t *first;
    if (b->l->grain == STW_GRAIN_OP) return STW_OK;
    TRY(stw_grain_parcels(graph, b->l->grain, &b->l->arena, parcels, error));
    if (b->l->grain == STW_GRAIN_STAGE) TRY(cut_stages(b, error));
    stw_arena scratch = b->scratch;
    STW_TRY_NEW(&scratch, first, parcels->count, error); /* from 1 */
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t parcel = is_member(graph, i) ? parcels->of[i] : -1;
        if (parcel < 0) continue;
        if (first[parcel] == 0) first[parcel] = i + 1;
        stw_sets_join(b->leader, first[parcel] - 1, i);
    }
    return STW_OK;
}

/* ---- the problem ---- */

/* Of all that is together: the devices that all of it may be on. */
static stw_status agree(build *b, stw_error *error) {
    const stw_graph *graph = b->outer->graph;
    for (int32_t i = 0; i < graph->N; i++) b->allowed[stw_sets_find(b->leader, graph->root[i])] &= b->allowed[i];
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t leader = stw_sets_find(b->leader, graph->root[i]);
        b->allowed[i] = b->allowed[leader];
        if (b->allowed[i] == 0 && is_member(graph, i))
            return stw_fail(error, STW_ERROR_INPUT,
                            "'%.*s' may be on no device: --pin, --forbid and --max-devices contradict each other, for it or for "
                            "what must be with it%s",
                            STW_STR_SHOW(graph->node_name[i]), b->l->grain != STW_GRAIN_OP ? " at this --grain" : "");
    }
    return STW_OK;
}

/* Each node names the one before it that it must be with. */
static stw_status write_graph(build *b, stw_error *error) {
    const stw_graph *outer = b->outer->graph;
    stw_graph *graph = &b->l->graph;
    stw_arena *arena = &b->l->arena;
    int32_t *last;
    *graph = *outer;
    STW_TRY_NEW(arena, graph->colocate, graph->N, error);
    STW_TRY_NEW(arena, graph->kept_apart, graph->N, error);
    stw_arena scratch = b->scratch;
    STW_TRY_NEW(&scratch, last, graph->N, error); /* by leader, from 1 */
    for (int32_t i = 0; i < graph->N; i++) {
        graph->colocate[i] = -1;
        if (!is_member(outer, i)) continue;
        const int32_t leader = stw_sets_find(b->leader, i);
        graph->colocate[i] = last[leader] - 1;
        last[leader] = i + 1;
    }
    if (b->limits) {
        STW_TRY_NEW(arena, graph->allowed, graph->N, error);
        for (int32_t i = 0; i < graph->N; i++) graph->allowed[i] = is_member(outer, outer->root[i]) ? b->allowed[i] : UINT64_MAX;
    }
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t leader = stw_sets_find(b->leader, i);
        graph->kept_apart[i] = b->l->grain != STW_GRAIN_OP ? leader : (int32_t)(b->allowed[i] ^ b->allowed[i] >> 32);
    }
    return STW_OK;
}

/* Stages that the caller ties together cannot be put in line. */
static stw_status note_stages(build *b, stw_error *error) {
    stw_limited *l = b->l;
    const stw_graph *graph = b->outer->graph;
    int32_t *stage_of; /* (N) by leader, from 1 */
    bool tied = false;
    if (l->grain != STW_GRAIN_STAGE) return STW_OK;
    STW_TRY_NEW(&l->arena, l->stage_allowed, l->parcels.count, error);
    stw_arena scratch = b->scratch;
    STW_TRY_NEW(&scratch, stage_of, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t stage = is_member(graph, i) ? l->parcels.of[i] : -1;
        if (stage < 0) continue;
        int32_t *of = &stage_of[stw_sets_find(b->leader, i)];
        tied |= *of > 0 && *of != stage + 1;
        *of = stage + 1;
        l->stage_allowed[stage] = b->allowed[i];
    }
    l->in_line = !tied;
    return STW_OK;
}

static stw_status open_limited(build *b, stw_error *error) {
    const stw_graph *graph = b->outer->graph;
    stw_limited *l = b->l;
    TRY(stw_graph_paths(graph, &b->scratch, &b->path, error));
    STW_TRY_NEW(&b->scratch, b->matched, graph->N, error);
    STW_TRY_NEW(&b->scratch, b->leader, graph->N, error);
    STW_TRY_NEW(&b->scratch, b->allowed, graph->N, error);
    stw_sets_begin(b->leader, graph->N);
    const int32_t D = b->outer->machine->device_count;
    for (int32_t i = 0; i < graph->N; i++) b->allowed[i] = D == STW_MAX_DEVICES ? UINT64_MAX : (1ull << D) - 1;
    for (int32_t k = 0; k < b->outer->pair_count; k++) stw_sets_join(b->leader, b->outer->pair[k][0], b->outer->pair[k][1]);
    TRY(for_each(b, "pin", pin, true, error));
    TRY(for_each(b, "forbid", forbid, true, error));
    TRY(join_parcels(b, error)); /* stages are cut where pins want it */
    TRY(for_each(b, "keep-together", keep, false, error));
    TRY(agree(b, error));
    TRY(choose_devices(b, stw_options_number(b->options, "max-devices", STW_MAX_DEVICES), error));
    TRY(agree(b, error));
    TRY(note_stages(b, error));
    TRY(write_graph(b, error));
    l->costs = *b->outer->costs;
    l->costs.graph = &l->graph;
    return stw_simulator_create(&l->costs, &l->simulator, error);
}

static const char *const limit_names[] = {"grain", "pin", "keep-together", "forbid", "max-devices"};
enum { LIMITS = sizeof limit_names / sizeof limit_names[0] };

/* What is said of the k-th; NULL: nothing, or what holds anyway. */
static const char *limit_of(const stw_options *options, int k) {
    const char *text = stw_options_text(options, limit_names[k]);
    return text != NULL && strcmp(limit_names[k], "grain") == 0 && strcmp(text, "op") == 0 ? NULL : text;
}

static bool has_limits(const stw_options *options) {
    bool found = false;
    for (int k = 0; k < LIMITS; k++) found |= limit_of(options, k) != NULL;
    return found;
}

stw_status stw_limits_show(const stw_options *options, char **out, stw_error *error) {
    size_t size = 0, length = 0;
    *out = NULL;
    for (int k = 0; k < LIMITS; k++)
        if (limit_of(options, k) != NULL) size += strlen(limit_names[k]) + strlen(limit_of(options, k)) + sizeof " -- ";
    if (size == 0) return STW_OK;
    *out = calloc(1, size);
    if (*out == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    for (int k = 0; k < LIMITS; k++) {
        if (limit_of(options, k) == NULL) continue;
        length += (size_t)snprintf(*out + length, size - length, "%s--%s %s", length > 0 ? " " : "", limit_names[k],
                                   limit_of(options, k));
    }
    return STW_OK;
}

stw_status stw_limited_open(const stw_simulator *simulator, const stw_options *options, stw_limited **out, stw_error *error) {
    *out = NULL;
    if (!has_limits(options)) return STW_OK;
    const char *grain = stw_options_text(options, "grain");
    stw_arena arena;
    TRY(stw_arena_create(&arena, error));
    stw_limited *l = STW_NEW(&arena, stw_limited, 1);
    l->arena = arena;
    l->grain = grain == NULL ? STW_GRAIN_OP : stw_grain_find(grain);
    build b = {.outer = simulator, .options = options, .l = l};
    stw_status status = stw_arena_create(&b.scratch, error);
    if (status == STW_OK) {
        status = open_limited(&b, error);
        stw_arena_destroy(&b.scratch);
    }
    if (status != STW_OK) {
        stw_limited_close(l);
        return status;
    }
    *out = l;
    return STW_OK;
}

void stw_limited_close(stw_limited *limited) {
    if (limited == NULL) return;
    stw_simulator_destroy(limited->simulator);
    stw_arena arena = limited->arena; /* it lives in it */
    stw_arena_destroy(&arena);
}
