/* The plan as a pipeline for torch.distributed.pipelining: the modules in the order of the program, cut into one range per device
 * (docs/formats/export.md). */
#include <stdlib.h>

#include "base/json.h"
#include "export/modules/pipeline_cut.h"
#include "plan/of_modules.h"

typedef struct splitter {
    stw_export *e;
    stw_modules m;
    int32_t *sequence; /* (unit_count) units in the order of the program */
    int32_t *place;    /* (unit_count) where a unit is in it */
    int32_t *first;    /* (m.count) the first place within a node of the tree */
    int32_t *split;    /* (unit_count) by place: the module at whose beginning a stage can begin, else -1 */
    int32_t *stage;    /* (unit_count) by unit */
    stw_pipeline pipeline;
    stw_error *error;
} splitter;

/* ---- the sequence ---- */

typedef struct used {
    int32_t op, unit;
} used;

static int compare_used(const void *left, const void *right) {
    const used *a = left, *b = right;
    return a->op != b->op ? (a->op < b->op ? -1 : 1) : a->unit - b->unit;
}

static stw_status make_sequence(splitter *s) {
    const stw_modules *m = &s->m;
    used *list;
    STW_TRY_NEW(s->e->arena, list, m->unit_count, s->error);
    STW_TRY_NEW(s->e->arena, s->sequence, m->unit_count, s->error);
    STW_TRY_NEW(s->e->arena, s->place, m->unit_count, s->error);
    STW_TRY_NEW(s->e->arena, s->first, m->count, s->error);
    for (int32_t u = 0; u < m->unit_count; u++) list[u] = (used){m->first_use[u], u};
    qsort(list, (size_t)m->unit_count, sizeof *list, compare_used);
    for (int32_t k = 0; k < m->unit_count; k++) {
        s->sequence[k] = list[k].unit;
        s->place[list[k].unit] = k;
    }
    for (int32_t k = 0; k < m->count; k++) s->first[k] = m->unit_of[k] >= 0 ? s->place[m->unit_of[k]] : INT32_MAX;
    for (int32_t k = m->count - 1; k > 0; k--) {
        if (s->first[k] < s->first[m->parent[k]]) s->first[m->parent[k]] = s->first[k];
    }
    return STW_OK;
}

/* ---- where a stage can begin ---- */

/* Names of numbers are places in a list of modules, which is not called itself. */
static bool is_in_list(const stw_modules *m, int32_t node) {
    const stw_str name = m->name[node];
    int64_t digits = 0;
    while (digits < name.length && name.p[name.length - 1 - digits] >= '0' && name.p[name.length - 1 - digits] <= '9') digits++;
    return digits > 0 && (digits == name.length || name.p[name.length - 1 - digits] == '.');
}

/* The largest module that begins at this place and is called; -1: none does. */
static int32_t module_at(const splitter *s, int32_t place) {
    const stw_modules *m = &s->m;
    int32_t node = m->unit_node[s->sequence[place]];
    if (!m->has_children[node]) node = m->parent[node]; /* a single parameter: the module that it lies in */
    if (node <= 0 || s->first[node] != place) return -1;
    while (m->parent[node] > 0 && s->first[m->parent[node]] == place && !is_in_list(m, node)) node = m->parent[node];
    return node;
}

static stw_status find_splits(splitter *s, bool **can_begin) {
    const stw_modules *m = &s->m;
    STW_TRY_NEW(s->e->arena, s->split, m->unit_count, s->error);
    STW_TRY_NEW(s->e->arena, *can_begin, m->unit_count, s->error);
    for (int32_t k = 0; k < m->unit_count; k++) {
        s->split[k] = module_at(s, k);
        (*can_begin)[k] = k == 0 || (s->split[k] >= 0 && m->first_use[s->sequence[k]] < s->e->graph->N);
    }
    return STW_OK;
}

/* ---- what the cut changes ---- */

typedef struct change {
    int64_t bytes, all_bytes; /* of parameters */
    double ps, all_ps;        /* of the ops that read them; a step of 2^62 ps may count several times. ps: where the file has them
                                 elsewhere */
    int32_t devices;          /* that hold parameters or run ops and get no stage */
    int32_t back;             /* ops that read what no pipeline would bring them, see count_back */
    int32_t copied;           /* parameters that modules of several stages need */
    int32_t first_copied;     /* node */
} change;

/* by_file: where the pipeline runs what. Not all that reads a parameter is where that is: a head that is tied to its embedding
 * has a copy. */
static void measure_parameters(const splitter *s, const stw_plan *by_file, change *c) {
    const stw_export *e = s->e;
    const stw_graph *graph = e->graph;
    const stw_timeline *timeline = e->timeline;
    for (int32_t i = 0; i < graph->N; i++) {
        bool copied = false;
        if (s->m.parameter_unit[i] < 0) continue;
        c->all_bytes += graph->bytes[i];
        c->bytes += e->plan->device[i] != e->home[i] ? graph->bytes[i] : 0;
        for (int64_t k = graph->reader_start[i]; k < graph->reader_start[i + 1]; k++) {
            const int32_t reader = graph->reader[k].node, task = timeline->tasks->task_of[reader];
            if (task < 0) continue;
            const double ps = (double)(timeline->end_ps[task] - timeline->start_ps[task]);
            c->all_ps += ps;
            c->ps += timeline->device[task] != by_file->device[reader] ? ps : 0.0;
            copied |= by_file->device[reader] != e->home[i] && graph->kind[i] == STW_NODE_PARAMETER;
        }
        if (copied && c->copied++ == 0) c->first_copied = i;
    }
}

enum { ASIDE, FORWARD, BACKWARD };

/* Which half of the step ops are in: what the loss needs; what depends on it; the rest reads the forward pass alone, as powers
 * that a derivative takes of its values do. Without a loss all are forward. */
static void find_halves(const stw_graph *graph, uint8_t *half) {
    const int32_t loss = graph->loss >= 0 ? graph->root[graph->loss] : -1;
    for (int32_t i = 0; i < graph->N; i++) half[i] = loss < 0 || i == loss ? FORWARD : ASIDE;
    for (int32_t k = graph->op_count - 1; k >= 0; k--) {
        const int32_t op = graph->topological[k];
        for (int64_t at = graph->read_start[op]; half[op] == FORWARD && at < graph->read_start[op + 1]; at++) {
            half[graph->read[at].node] = FORWARD;
        }
    }
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        for (int64_t at = graph->read_start[op]; half[op] == ASIDE && at < graph->read_start[op + 1]; at++) {
            const int32_t from = graph->read[at].node;
            if (from == loss || half[from] == BACKWARD) half[op] = BACKWARD;
        }
    }
}

/* Values go from earlier stages to later ones until the loss, and the other way behind it. Counts the ops that read otherwise.
 * What is computed aside can go along either way. */
static stw_status count_back(const splitter *s, change *c) {
    const stw_graph *graph = s->e->graph;
    const stw_timeline *timeline = s->e->timeline;
    const int32_t *task_of = timeline->tasks->task_of;
    int32_t stage_of[STW_MAX_DEVICES];
    uint8_t *half;
    STW_TRY_NEW(s->e->arena, half, graph->N, s->error);
    find_halves(graph, half);
    for (int32_t d = 0; d < STW_MAX_DEVICES; d++) stage_of[d] = -1;
    for (int32_t k = 0; k < s->pipeline.count; k++) stage_of[s->pipeline.stage[k].device] = k;
    for (int32_t i = 0; i < graph->N; i++) {
        bool back = false;
        if (graph->kind[i] != STW_NODE_OP || task_of[i] < 0 || half[i] == ASIDE) continue;
        const int32_t here = stage_of[timeline->device[task_of[i]]];
        for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++) {
            const int32_t from = graph->read[k].node;
            if (graph->kind[from] != STW_NODE_OP || task_of[from] < 0 || half[from] != half[i]) continue;
            const int32_t there = stage_of[timeline->device[task_of[from]]];
            if (here >= 0 && there >= 0) back |= half[i] == FORWARD ? there > here : there < here;
        }
        c->back += back;
    }
    return STW_OK;
}

static stw_status measure(const splitter *s, change *c) {
    uint64_t staged = 0;
    stw_plan *by_file;
    *c = (change){0};
    for (int32_t k = 0; k < s->pipeline.count; k++) staged |= 1ULL << s->pipeline.stage[k].device;
    c->devices = __builtin_popcountll(stw_modules_devices(s->e) & ~staged);
    TRY(stw_plan_of_homes(s->e->graph, s->e->machine, s->e->home_grain, s->e->home, &by_file, NULL, s->error));
    measure_parameters(s, by_file, c);
    stw_plan_destroy(by_file);
    return count_back(s, c);
}

/* "12.5 %"; what is little is not called nothing. */
static stw_str share(stw_arena *arena, double part, double all) {
    const double percent = all > 0.0 ? 100.0 * part / all : 0.0;
    const bool little = part > 0.0 && percent < 0.1;
    return stw_str_format(arena, "%s%.1f %%", little ? "under " : "", little ? 0.1 : percent);
}

static stw_str tell_copies(const splitter *s, const change *c) {
    char others[48] = "";
    if (c->copied == 0) return STW_STR("");
    if (c->copied > 1) snprintf(others, sizeof others, " and %d other parameters", c->copied - 1);
    return stw_str_format(s->e->arena,
                          "several stages need '%.*s'%s: pipeline() gives each a copy (pipe.replicated_params), whose gradients "
                          "are to be added up before the update\n",
                          STW_STR_SHOW(s->e->graph->label[c->first_copied]), others);
}

static stw_status make_note(splitter *s) {
    change c;
    TRY(measure(s, &c));
    stw_arena *arena = s->e->arena;
    const stw_str remarks = stw_modules_remarks(s->e, &s->m), copies = tell_copies(s, &c);
    stw_str away = STW_STR("the plan is such a pipeline: every module stays on its device\n");
    if (c.bytes > 0 || c.ps > 0.0 || c.devices > 0 || c.back > 0) {
        const stw_str bytes = share(arena, (double)c.bytes, (double)c.all_bytes), time = share(arena, c.ps, c.all_ps);
        away = stw_str_format(
            arena,
            "the plan is no pipeline; the nearest one%s moves %.*s of the parameters' bytes, and %.*s of the time "
            "of the ops that read them; devices without a stage: %d; ops that read against the direction of the "
            "stages: %d\n",
            s->pipeline.exact ? "" : " that was found", (int)bytes.length, bytes.p, (int)time.length, time.p, c.devices, c.back);
    }
    s->e->note =
        stw_str_format(arena,
                       "%s%s%suse it as pipeline(module, mb_args, split_spec={name: SplitPoint.BEGINNING for name in "
                       "json.load(open(FILE))[\"split_points\"]})",
                       away.p == NULL ? "" : away.p, copies.p == NULL ? "" : copies.p, remarks.p == NULL ? "" : remarks.p);
    return s->e->note.p != NULL ? STW_OK : stw_fail(s->error, STW_ERROR_MEMORY, "out of memory");
}

/* ---- the file ---- */

typedef struct listed {
    int32_t stage, first, node;
} listed;

static int compare_listed(const void *left, const void *right) {
    const listed *a = left, *b = right;
    if (a->stage != b->stage) return a->stage < b->stage ? -1 : 1;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : a->node - b->node;
}

static void write_file(const splitter *s, const listed *list, int32_t count) {
    const stw_modules *m = &s->m;
    stw_json_writer w;
    stw_json_writer_init(&w, s->e->out);
    stw_json_begin_object(&w);
    stw_json_write_key(&w, "split_points");
    stw_json_begin_array(&w);
    for (int32_t k = 1; k < s->pipeline.count; k++) stw_json_write_string(&w, m->name[s->split[s->pipeline.stage[k].begin]]);
    stw_json_end_array(&w);
    stw_json_newline(&w);
    stw_json_write_key(&w, "stages");
    stw_json_begin_array(&w);
    for (int32_t k = 0, at = 0; k < s->pipeline.count; k++) {
        stw_json_newline(&w);
        stw_json_begin_object(&w);
        stw_json_write_key(&w, "device");
        stw_modules_put_device(&w, m, s->pipeline.stage[k].device);
        stw_json_write_key(&w, "modules");
        stw_json_begin_array(&w);
        for (; at < count && list[at].stage == k; at++) stw_json_write_string(&w, m->name[list[at].node]);
        stw_json_end_array(&w);
        stw_json_end_object(&w);
    }
    stw_json_end_array(&w);
    stw_json_end_object(&w);
    fputc('\n', s->e->out);
}

static stw_status list_modules(splitter *s) {
    const stw_modules *m = &s->m;
    int32_t *agreed, count = 0;
    listed *list;
    STW_TRY_NEW(s->e->arena, agreed, m->count, s->error);
    STW_TRY_NEW(s->e->arena, list, m->count, s->error);
    stw_modules_agree(m, s->stage, agreed);
    for (int32_t k = 0; k < m->count; k++) {
        if (stw_modules_tells(m, agreed, k)) list[count++] = (listed){agreed[k], s->first[k], k};
    }
    qsort(list, (size_t)count, sizeof *list, compare_listed);
    write_file(s, list, count);
    return STW_OK;
}

/* Where parameters are by the stages; of what these leave out nothing is said. */
static stw_status tell_homes(splitter *s) {
    int32_t *home;
    STW_TRY_NEW(s->e->arena, home, s->e->graph->N, s->error);
    for (int32_t i = 0; i < s->e->graph->N; i++) {
        const int32_t unit = s->m.parameter_unit[i];
        home[i] = unit >= 0 ? s->pipeline.stage[s->stage[unit]].device : -1;
    }
    s->e->home = home;
    s->e->home_grain = STW_GRAIN_OP;
    return STW_OK;
}

static stw_status split(splitter *s) {
    bool *can_begin;
    TRY(stw_modules_of(s->e, false, &s->m, s->error));
    TRY(make_sequence(s));
    TRY(find_splits(s, &can_begin));
    TRY(stw_pipeline_cut(s->sequence, can_begin, s->m.unit_count, s->m.weight, s->e->machine->device_count, *s->e->arena,
                         &s->pipeline, s->error));
    STW_TRY_NEW(s->e->arena, s->stage, s->m.unit_count, s->error);
    for (int32_t k = 0; k < s->pipeline.count; k++) {
        for (int32_t at = s->pipeline.stage[k].begin; at < s->pipeline.stage[k].end; at++) s->stage[s->sequence[at]] = k;
    }
    TRY(list_modules(s));
    TRY(tell_homes(s));
    return make_note(s);
}

stw_status stw_export_split_points(stw_export *e, stw_error *error) {
    splitter s = {.e = e, .error = error};
    return split(&s);
}
