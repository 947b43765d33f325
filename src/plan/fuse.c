#include "plan/fuse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "plan/group_cost.h"
#include "plan/regroup.h"
#include "plan/siblings.h"

const char *const stw_fusion_name[STW_FUSION_COUNT] = {"none", "default", "reverse-post-order", "one-pass"};

bool stw_fusion_find(stw_str name, stw_fusion *out) {
    for (int k = 0; k < STW_FUSION_COUNT; k++) {
        if (!stw_str_is(name, stw_fusion_name[k])) continue;
        *out = (stw_fusion)k;
        return true;
    }
    return false;
}

enum { NOWHERE = -1, MOST_USES = 4096 }; /* of a group; what reads more is not fused */

typedef struct saving {
    double us;
    int32_t op;
} saving;

struct stw_fuser {
    stw_arena tables; /* what follows in its arena: everything below that is a list */
    bool rests;       /* the lists are not there now */
    const stw_costs *costs;
    const stw_graph *graph;
    const stw_stop *stop; /* or NULL */
    int64_t looks;        /* at ops, for looking at the clock now and then */
    bool stopped;
    const int32_t *device; /* (N) */
    int32_t *first_device; /* (N) zeros */
    stw_merge *merge;
    stw_regroup *regroup; /* works with `merge` */
    int32_t *place;       /* (N) in topological order */
    double *us;           /* (N) of a group's op: what its group takes */
    double *saved;        /* (N) what merging the group into its readers saves; below 0: costs; NAN: cannot be */
    int32_t *slot;        /* (N) into heap, or NOWHERE */
    saving *heap;         /* (heap_count) the largest first */
    int32_t heap_count;
    int32_t *mark, stamp;  /* (N) members of the group that is looked at */
    int32_t *looked, step; /* (N) the merge after which an op was looked at last */
    int32_t *seen;         /* (N) values that it reads and whose class is known: */
    uint8_t *reading;      /* (N) that of the first member that reads it and is no alias */
    int32_t *merged;       /* (op_count) in the order in which they were */
    int32_t merged_count;
    saving *refused; /* (op_count) for sorting */
    stw_use *use;    /* (MOST_USES) */
    stw_kernel_room room;
};

static stw_status make_tables(stw_fuser *f, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = f->graph;
    TRY(stw_merge_create(graph, f->costs->machine, arena, &f->merge, error));
    TRY(stw_regroup_create(graph, f->merge, arena, &f->regroup, error));
    STW_TRY_NEW(arena, f->first_device, graph->N, error);
    STW_TRY_NEW(arena, f->place, graph->N, error);
    STW_TRY_NEW(arena, f->us, graph->N, error);
    STW_TRY_NEW(arena, f->saved, graph->N, error);
    STW_TRY_NEW(arena, f->slot, graph->N, error);
    STW_TRY_NEW(arena, f->heap, graph->op_count, error);
    STW_TRY_NEW(arena, f->mark, graph->N, error);
    STW_TRY_NEW(arena, f->looked, graph->N, error);
    STW_TRY_NEW(arena, f->seen, graph->N, error);
    STW_TRY_NEW(arena, f->reading, graph->N, error);
    STW_TRY_NEW(arena, f->merged, graph->op_count, error);
    STW_TRY_NEW(arena, f->refused, graph->op_count, error);
    STW_TRY_NEW(arena, f->use, MOST_USES, error);
    TRY(stw_kernel_room_create(graph, arena, &f->room, error));
    for (int32_t k = 0; k < graph->op_count; k++) f->place[graph->topological[k]] = k;
    return STW_OK;
}

stw_status stw_fuser_create(const stw_costs *costs, stw_arena *arena, stw_fuser **out, stw_error *error) {
    stw_fuser *f;
    STW_TRY_NEW(arena, f, 1, error);
    *f = (stw_fuser){.costs = costs, .graph = costs->graph, .tables = *arena};
    TRY(make_tables(f, arena, error));
    *out = f;
    return STW_OK;
}

void stw_fuser_rest(stw_fuser *f, int64_t least) {
    if (f->rests || stw_arena_high_water(&f->tables) - stw_arena_used(&f->tables) < least) return;
    stw_arena_trim(&f->tables, least);
    f->rests = true;
}

/* They come to lie where they lay, for which there has been room before. */
static void wake(stw_fuser *f) {
    stw_arena again = f->tables;
    if (f->rests && make_tables(f, &again, NULL) == STW_OK) f->rests = false;
}

void stw_fuser_allow_recomputing(stw_fuser *f, bool allow) {
    wake(f);
    stw_merge_allow_recomputing(f->merge, allow);
    stw_regroup_forget(f->regroup);
}

void stw_fuser_set_stop(stw_fuser *f, const stw_stop *stop) { f->stop = stop; }
bool stw_fuser_was_stopped(const stw_fuser *f) { return f->stopped; }

/* ---- what a group takes ---- */

/* The members of two groups, ascending, each once; returns their number. `b` may be NOWHERE. */
static int32_t join_members(const stw_fuser *f, int32_t a, int32_t b, int32_t out[2 * STW_MAX_GROUP_MEMBERS]) {
    const int32_t *left, *right = NULL;
    const int32_t left_count = stw_merge_members(f->merge, a, &left);
    const int32_t right_count = b == NOWHERE ? 0 : stw_merge_members(f->merge, b, &right);
    return stw_unite_ids(left, left_count, right, right_count, out, 2 * STW_MAX_GROUP_MEMBERS);
}

/* The distinct (value, view) pairs that the members read from outside; -1: too many. */
static int32_t collect_uses(stw_fuser *f, const int32_t *member, int32_t count) {
    const stw_graph *graph = f->graph;
    int32_t uses = 0;
    f->stamp++;
    for (int32_t k = 0; k < count; k++) f->mark[member[k]] = f->stamp;
    for (int32_t k = 0; k < count; k++) {
        const uint8_t own = graph->op_class[member[k]];
        for (int64_t e = graph->read_start[member[k]]; e < graph->read_start[member[k] + 1]; e++) {
            const int32_t value = graph->read[e].node;
            if (f->mark[value] == f->stamp) continue;
            if (uses == MOST_USES) return -1;
            f->use[uses++] = graph->read[e];
            if (own == STW_CLASS_ALIAS || f->seen[value] == f->stamp) continue;
            f->seen[value] = f->stamp;
            f->reading[value] = own;
        }
    }
    return stw_sort_uses(f->use, uses);
}

static uint8_t first_class(const stw_graph *graph, const int32_t *member, int32_t count) {
    int32_t k = 0;
    while (k < count - 1 && graph->op_class[member[k]] == STW_CLASS_ALIAS) k++;
    return graph->op_class[member[k]];
}

static bool is_used(const stw_graph *graph, int32_t op) {
    return graph->kept[op] || graph->updates[op] >= 0 || graph->reader_start[op] < graph->reader_start[op + 1];
}

/* What the groups of `op` and `with` (or NOWHERE) take as one kernel, which writes only what `with` (or `op`) does,
 * if anything uses that. */
static double group_us(stw_fuser *f, int32_t op, int32_t with) {
    int32_t member[2 * STW_MAX_GROUP_MEMBERS];
    const int32_t count = join_members(f, op, with, member), root = with == NOWHERE ? op : with;
    const int32_t device = f->device[root], class = f->costs->machine->device[device].cost_class;
    if (count == 1) return f->costs->us[class][op];
    if (f->graph->flow != NULL) {
        bool written[2 * STW_MAX_GROUP_MEMBERS];
        for (int32_t k = 0; k < count; k++) written[k] = member[k] == root && is_used(f->graph, root);
        return stw_group_kernel_us(f->costs, class, &(stw_members){.member = member, .written = written, .count = count},
                                   &f->room);
    }
    const int32_t uses = collect_uses(f, member, count);
    if (uses < 0) return HUGE_VAL;
    const stw_group_members group = {f->graph, member, count};
    stw_group_work work = {0};
    stw_group_work_members(&work, &group, f->costs, class);
    for (int32_t u = 0; u < uses;) {
        int32_t end = u + 1;
        while (end < uses && f->use[end].node == f->use[u].node) end++;
        const int32_t value = f->use[u].node;
        const uint8_t reading = f->seen[value] == f->stamp ? f->reading[value] : first_class(f->graph, member, count);
        stw_group_work_read_as(&work, &group, (stw_op_class)reading, value, f->use + u, end - u);
        u = end;
    }
    if (is_used(f->graph, root)) stw_group_work_write(&work, &group, root);
    return stw_cost_group_us(&f->costs->machine->device[device], &work);
}

/* NAN: the op cannot be merged now. */
static double saving_of(stw_fuser *f, int32_t op) {
    const int32_t *reader;
    const int32_t readers = stw_merge_allows(f->merge, op, &reader);
    if (readers <= 0) return NAN;
    double us = f->us[op];
    for (int32_t r = 0; r < readers; r++) us += f->us[reader[r]] - group_us(f, op, reader[r]);
    return us;
}

/* ---- the merges that may come next: a heap whose entries know where they are ---- */

/* Late ops first among equals. */
static bool goes_before(const stw_fuser *f, saving a, saving b) {
    return a.us != b.us ? a.us > b.us : f->place[a.op] > f->place[b.op];
}

static void put(stw_fuser *f, int32_t slot, saving s) {
    f->heap[slot] = s;
    f->slot[s.op] = slot;
}

static void sift(stw_fuser *f, int32_t slot, saving s) {
    for (; slot > 0 && goes_before(f, s, f->heap[(slot - 1) / 2]); slot = (slot - 1) / 2) put(f, slot, f->heap[(slot - 1) / 2]);
    for (int32_t child; (child = 2 * slot + 1) < f->heap_count; slot = child) {
        if (child + 1 < f->heap_count && goes_before(f, f->heap[child + 1], f->heap[child])) child++;
        if (!goes_before(f, f->heap[child], s)) break;
        put(f, slot, f->heap[child]);
    }
    put(f, slot, s);
}

static void take_out(stw_fuser *f, int32_t op) {
    const int32_t slot = f->slot[op];
    if (slot == NOWHERE) return;
    f->slot[op] = NOWHERE;
    const saving last = f->heap[--f->heap_count];
    if (last.op != op) sift(f, slot, last);
}

/* Looks at an op anew: only what saves something is in the heap. */
static void look_at(stw_fuser *f, int32_t op) {
    f->saved[op] = saving_of(f, op);
    if (!(f->saved[op] > 0.0)) {
        take_out(f, op);
        return;
    }
    const saving s = {f->saved[op], op};
    if (f->slot[op] == NOWHERE) f->slot[op] = f->heap_count++;
    sift(f, f->slot[op], s);
}

/* ---- the rule `default` ---- */

static void look_once(stw_fuser *f, int32_t op) {
    if (f->looked[op] == f->step) return;
    f->looked[op] = f->step;
    look_at(f, op);
}

/* A group has changed: so has what it and all that it reads would save. */
static void look_around(stw_fuser *f, int32_t group) {
    const stw_graph *graph = f->graph;
    const int32_t *member;
    const int32_t count = stw_merge_members(f->merge, group, &member);
    look_once(f, group);
    for (int32_t k = 0; k < count; k++) {
        for (int64_t e = graph->read_start[member[k]]; e < graph->read_start[member[k] + 1]; e++) {
            const int32_t read = graph->read[e].node;
            if (stw_merge_leads(f->merge, read)) look_once(f, read);
        }
    }
}

/* The time is up. The clock is looked at now and then only: that takes as long as looking at an op. */
static bool is_stopped(stw_fuser *f) {
    enum { OPS_PER_LOOK = 64 };
    if (++f->looks % OPS_PER_LOOK == 0) f->stopped |= stw_stop_is_due(f->stop);
    return f->stopped;
}

/* Every op alone. */
static void begin_merging(stw_fuser *f) {
    const stw_graph *graph = f->graph;
    f->heap_count = f->merged_count = 0;
    f->stopped = false;
    for (int32_t i = 0; i < graph->N; i++) f->slot[i] = NOWHERE;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k], device = f->device[op];
        f->us[op] = f->costs->us[f->costs->machine->device[device].cost_class][op];
    }
}

static void merge_greedily(stw_fuser *f) {
    const stw_graph *graph = f->graph;
    begin_merging(f);
    for (int32_t k = 0; k < graph->op_count; k++) {
        if (is_stopped(f)) f->saved[graph->topological[k]] = NAN; /* nothing is known of it */
        if (!f->stopped) look_at(f, graph->topological[k]);
    }
    while (f->heap_count > 0 && !is_stopped(f)) {
        int32_t into[STW_MERGE_READERS];
        const int32_t op = f->heap[0].op, *reader;
        const int32_t readers = stw_merge_allows(f->merge, op, &reader);
        take_out(f, op);
        if (readers <= 0) continue; /* it was legal when it was looked at: others have taken the room since */
        memcpy(into, reader, (size_t)readers * sizeof *into);
        stw_merge_op(f->merge, op);
        f->merged[f->merged_count++] = op;
        for (int32_t r = 0; r < readers; r++) f->us[into[r]] = group_us(f, into[r], NOWHERE);
        f->step++;
        for (int32_t r = 0; r < readers; r++) look_around(f, into[r]);
    }
}

/* ---- the rule `one-pass` ---- */

/* What a group takes, which is found when it is first asked for. */
static double known_us(stw_fuser *f, int32_t group) {
    if (isnan(f->us[group])) f->us[group] = group_us(f, group, NOWHERE);
    return f->us[group];
}

/* With one reader a launch, a write and a read are saved, and nothing is done twice: that needs no estimate. */
static double saving_at_once(stw_fuser *f, int32_t op) {
    const int32_t *reader;
    const int32_t readers = stw_merge_allows(f->merge, op, &reader);
    if (readers <= 0) return NAN;
    if (readers == 1) return f->us[op];
    if (readers > 2) return NAN;
    double us = f->us[op];
    for (int32_t r = 0; r < readers; r++) us += known_us(f, reader[r]) - group_us(f, op, reader[r]);
    return us;
}

/* Readers come before what they read, so each is looked at with the group that it will be in. */
static void merge_once(stw_fuser *f) {
    const stw_graph *graph = f->graph;
    begin_merging(f);
    for (int32_t k = graph->op_count - 1; k >= 0; k--) {
        const int32_t op = graph->topological[k], *reader;
        f->saved[op] = is_stopped(f) ? NAN : saving_at_once(f, op);
        if (!(f->saved[op] > 0.0)) continue;
        const int32_t readers = stw_merge_allows(f->merge, op, &reader);
        for (int32_t r = 0; r < readers; r++) f->us[reader[r]] = NAN;
        stw_merge_op(f->merge, op);
        f->merged[f->merged_count++] = op;
    }
}

/* ---- priorities ---- */

/* The dearest last; those that cannot be merged are not among them. */
static int compare_refused(const void *left, const void *right) {
    const saving *a = left, *b = right;
    return a->us != b->us ? (a->us < b->us ? 1 : -1) : a->op - b->op;
}

static void tell_priorities(stw_fuser *f, double *priority) {
    const stw_graph *graph = f->graph;
    const double all = graph->op_count + 1.0;
    int32_t refused = 0;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        if (stw_merge_leads(f->merge, op) && f->saved[op] <= 0.0) f->refused[refused++] = (saving){f->saved[op], op};
    }
    qsort(f->refused, (size_t)refused, sizeof *f->refused, compare_refused);
    for (int32_t k = 0; k < f->merged_count; k++) priority[f->merged[k]] = 1.0 - k / all;
    for (int32_t k = 0; k < refused; k++) priority[f->refused[k].op] = -(k + 1) / all;
}

/* ---- groups ---- */

void stw_fuse_by_rule(stw_fuser *f, stw_fusion rule, const int32_t *device, int32_t *group, double *priority) {
    const stw_graph *graph = f->graph;
    wake(f);
    f->device = device != NULL ? device : f->first_device;
    stw_merge_reset(f->merge, f->device);
    stw_regroup_forget(f->regroup);
    if (priority != NULL) memset(priority, 0, (size_t)graph->N * sizeof *priority);
    for (int32_t k = graph->op_count - 1; k >= 0 && rule == STW_FUSION_REVERSE_POST_ORDER; k--) {
        stw_merge_op(f->merge, graph->topological[k]);
        if (priority != NULL) priority[graph->topological[k]] = 1.0;
    }
    if (rule == STW_FUSION_DEFAULT) merge_greedily(f);
    if (rule == STW_FUSION_ONE_PASS) merge_once(f);
    if (priority != NULL && (rule == STW_FUSION_DEFAULT || rule == STW_FUSION_ONE_PASS)) tell_priorities(f, priority);
    stw_merge_groups(f->merge, group);
}

void stw_fuse_by_priority(stw_fuser *f, const double *priority, const int32_t *device, int32_t *group) {
    wake(f);
    stw_regroup_make(f->regroup, priority, device != NULL ? device : f->first_device, group);
}

/* ---- plans ---- */

static const char joined_name[] = "joined"; /* `default`, then siblings.h */

static stw_status fail_unknown(const char *name, stw_error *error) {
    char known[200] = "";
    size_t length = 0;
    for (int k = 0; k < STW_FUSION_COUNT && length < sizeof known; k++)
        length += (size_t)snprintf(known + length, sizeof known - length, "%s, ", stw_fusion_name[k]);
    return stw_fail(error, STW_ERROR_INPUT, "unknown fusion rule '%s'; known: %s%s", name, known, joined_name);
}

stw_status stw_plan_fuse(stw_plan *plan, const stw_costs *costs, const char *rule, stw_error *error) {
    STW_NEED(plan);
    STW_NEED(costs);
    STW_NEED(rule);
    stw_fusion fusion;
    stw_fuser *fuser;
    const int32_t D = plan->machine->device_count;
    const bool joins = strcmp(rule, joined_name) == 0;
    if (!stw_fusion_find(joins ? STW_STR("default") : stw_str_of(rule), &fusion)) return fail_unknown(rule, error);
    if (costs->graph != plan->graph || costs->machine->device_count != D)
        return stw_fail(error, STW_ERROR_INPUT, "the costs belong to another graph or machine than the plan");
    for (int32_t i = 0; i < plan->graph->N; i++) {
        if (plan->graph->kind[i] == STW_NODE_OP && (plan->device[i] < 0 || plan->device[i] >= D))
            return stw_fail(error, STW_ERROR_INPUT, "node %d is on device %d; the machine has devices 0 to %d", i,
                            plan->device[i], D - 1);
    }
    stw_arena arena; /* the plan's own is small */
    TRY(stw_arena_create(&arena, error));
    const stw_status status = stw_fuser_create(costs, &arena, &fuser, error);
    if (status == STW_OK) stw_fuse_by_rule(fuser, fusion, plan->device, plan->group, NULL);
    stw_arena_destroy(&arena);
    TRY(status);
    if (joins) TRY(stw_siblings_join(costs, plan->device, plan->group, error));
    stw_plan_remove_orders(plan);
    return STW_OK;
}
