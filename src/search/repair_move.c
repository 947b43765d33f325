#include <math.h>

#include "plan/plan.h"
#include "search/repair.h"

/* ---- the peak ---- */

typedef struct {
    const stw_tasks *tasks;
    const stw_timeline *timeline;
    const int32_t *device;
    int32_t of;
    int64_t at_ps;
    int64_t *copy_bytes; /* (V) of the copy that the device has then; -1: none */
    bool *leaving;       /* (V) not yet sent everywhere */
    stw_link fastest;    /* to another device */
    stw_peak *out;
    int32_t needs;
} look;

static void find_fastest(look *l, const stw_machine *machine) {
    for (int32_t d = 0; d < machine->device_count; d++) {
        const stw_link *link = stw_machine_link(machine, l->of, d);
        if (d != l->of && link->bandwidth > l->fastest.bandwidth) l->fastest = *link;
    }
}

/* Whether a value that was there at `end_ps` could be elsewhere by then. */
static bool could_be_sent(const look *l, int64_t end_ps, int64_t bytes) {
    return l->fastest.bandwidth > 0.0 && stw_cost_transfer_ps(&l->fastest, bytes) <= l->at_ps - end_ps;
}

/* Which copies have come by then, and which values are still to go out. */
static stw_status look_at_transfers(look *l, stw_arena *arena, stw_error *error) {
    int32_t *value_of;
    const int32_t V = l->tasks->V;
    STW_TRY_NEW(arena, l->copy_bytes, V, error);
    STW_TRY_NEW(arena, l->leaving, V, error);
    STW_TRY_NEW(arena, value_of, V > 0 ? (int64_t)l->tasks->value_node[V - 1] + 1 : 0, error);
    for (int32_t v = 0; v < V; v++) {
        l->copy_bytes[v] = -1;
        value_of[l->tasks->value_node[v]] = v;
    }
    for (int32_t k = 0; k < l->timeline->transfer_count; k++) {
        const stw_transfer *transfer = &l->timeline->transfer[k];
        const int32_t v = value_of[transfer->producer];
        if (transfer->from == l->of && transfer->end_ps > l->at_ps) l->leaving[v] = true;
        if (transfer->to == l->of && transfer->start_ps <= l->at_ps) l->copy_bytes[v] = transfer->bytes;
    }
    return STW_OK;
}

static void add_need(look *l, int32_t node) { l->out->need[l->needs++] = node; }

/* Readers on the device that have not ended by then. */
static void add_late_readers(look *l, int32_t value) {
    for (int32_t u = l->tasks->use_start[value]; u < l->tasks->use_start[value + 1]; u++) {
        const int32_t task = l->tasks->use[u].task;
        if (l->timeline->device[task] == l->of && l->timeline->end_ps[task] > l->at_ps) add_need(l, l->tasks->task_node[task]);
    }
}

/* Notes the needs of what the device holds of a value and returns its bytes; 0 if it holds nothing. */
static int64_t look_at_value(look *l, int32_t value) {
    const int32_t node = l->tasks->value_node[value], task = l->tasks->value_task[value];
    const uint8_t flags = l->tasks->value_flags[value];
    if (flags & STW_VALUE_EVERYWHERE) {
        add_late_readers(l, value);
        return l->tasks->value_bytes[value];
    }
    if (l->device[node] != l->of) {
        if (l->copy_bytes[value] >= 0) add_late_readers(l, value);
        return l->copy_bytes[value];
    }
    if (task >= 0 && l->timeline->start_ps[task] > l->at_ps) return 0;
    const bool running = task >= 0 && l->timeline->end_ps[task] > l->at_ps;
    const int32_t before = l->needs;
    add_late_readers(l, value);
    /* Held for its own sake; or it would still be there, on its way to those readers. */
    const bool own = task < 0 || running || (flags & STW_VALUE_KEPT) || l->leaving[value];
    if (own || (l->needs > before && !could_be_sent(l, l->timeline->end_ps[task], l->tasks->value_bytes[value])))
        add_need(l, node);
    return l->tasks->home_bytes[value];
}

stw_status stw_peak_find(const stw_machine *machine, const stw_timeline *timeline, const int32_t *device, int32_t of,
                         stw_arena *arena, stw_peak *out, stw_error *error) {
    const stw_tasks *tasks = timeline->tasks;
    look l = {.tasks = tasks, .timeline = timeline, .device = device, .of = of, .at_ps = timeline->peak_ps[of], .out = out};
    *out = (stw_peak){.device = of};
    find_fastest(&l, machine);
    STW_TRY_NEW(arena, out->bytes, tasks->V, error);
    STW_TRY_NEW(arena, out->need_start, (int64_t)tasks->V + 1, error);
    STW_TRY_NEW(arena, out->need, (int64_t)tasks->U + tasks->V, error);
    TRY(look_at_transfers(&l, arena, error));
    for (int32_t value = 0; value < tasks->V; value++) {
        const int64_t bytes = look_at_value(&l, value);
        const int32_t first = out->need_start[out->count];
        if (bytes <= 0) l.needs = first;
        if (l.needs == first) continue; /* nothing is held, or nothing that holds it can be moved */
        out->bytes[out->count++] = bytes;
        out->need_start[out->count] = l.needs;
    }
    return STW_OK;
}

/* ---- moves ---- */

/* Which units go: greedily those that free most bytes for the time that they add, in transfers and in work on the target. Each
 * choice changes what its neighbours would add, and what the units would free that share a holding with it. */

#define NO_LINK_US 1e12 /* what a transfer without a link counts */

typedef struct {
    int32_t part, other;
    double us;
} seam; /* between two parts: what it costs to have them apart */

typedef struct {
    const stw_repair_move *move;
    const stw_graph *graph;
    const stw_machine *machine;
    const int32_t *device; /* (N) as it is */
    int32_t P;             /* parts: what of each unit is on the device of the peak */
    int32_t *part_of;      /* (units) or -1 */
    double *added_us;      /* (P) transfers that moving it adds now; may be negative */
    double *work_us;       /* (P) on the target */
    double *slower_us;     /* (P) more than on its own device */
    double *gain;          /* (P) bytes; of what is held for several, its share */
    bool *chosen;          /* (P) */
    int64_t seam_count;
    seam *seam;
    int32_t *seam_start, *seam_of; /* (P + 2), (2 x seams) seams of each part */
    int32_t *left;                 /* (holdings) parts that must still move */
    int32_t *owner_start, *owner;  /* (holdings + 1) parts that a holding needs, each once */
    int32_t *hold_start, *hold;    /* (P + 2) holdings that need a part */
    int64_t freed;
    double moved_us;
} choice;

/* The part that a node is in; -1 if it is elsewhere. */
static int32_t part_at(const choice *c, int32_t node) {
    const int32_t unit = c->move->units->of[node];
    return unit >= 0 && c->device[node] == c->move->peak->device ? c->part_of[unit] : -1;
}

static double transfer_us(const choice *c, int32_t from, int32_t to, int64_t bytes) {
    if (from == to) return 0.0;
    const stw_link *link = stw_machine_link(c->machine, from, to);
    return link->bandwidth > 0.0 ? stw_link_fixed_us(link) + stw_link_bytes_us(link, (double)bytes) : NO_LINK_US;
}

/* ---- parts ---- */

static stw_status list_parts(choice *c, stw_arena *arena, stw_error *error) {
    const stw_units *units = c->move->units;
    const int32_t from = c->move->peak->device;
    const double *here = c->move->simulator->costs->us[c->machine->device[from].cost_class];
    const double *there = c->move->simulator->costs->us[c->machine->device[c->move->target].cost_class];
    STW_TRY_NEW(arena, c->part_of, units->count, error);
    STW_TRY_NEW(arena, c->added_us, units->count, error);
    STW_TRY_NEW(arena, c->work_us, units->count, error);
    STW_TRY_NEW(arena, c->slower_us, units->count, error);
    STW_TRY_NEW(arena, c->gain, units->count, error);
    STW_TRY_NEW(arena, c->chosen, units->count, error);
    for (int32_t u = 0; u < units->count; u++) {
        c->part_of[u] = -1;
        for (int32_t k = units->start[u]; k < units->start[u + 1]; k++) {
            const int32_t node = units->member[k];
            if (c->device[node] != from) continue;
            if (c->part_of[u] < 0) c->part_of[u] = c->P++;
            c->work_us[c->part_of[u]] += there[node];
            c->slower_us[c->part_of[u]] += there[node] - here[node];
        }
    }
    return STW_OK;
}

/* ---- what moving adds ---- */

typedef struct {     /* who reads one value */
    int32_t *mark;   /* (P) by value */
    int64_t *bytes;  /* (P) */
    int32_t *reader; /* (P) parts, `count` of them */
    int32_t count;
    int64_t device_bytes[STW_MAX_DEVICES]; /* on other devices; -1: none */
} readers;

static void list_readers(const choice *c, int32_t value, readers *r) {
    const stw_graph *graph = c->graph;
    r->count = 0;
    for (int32_t d = 0; d < c->machine->device_count; d++) r->device_bytes[d] = -1;
    for (int64_t k = graph->reader_start[value]; k < graph->reader_start[value + 1]; k++) {
        const int32_t node = graph->reader[k].node, view = graph->reader[k].view, part = part_at(c, node);
        const int64_t whole = graph->bytes[value], viewed = view < 0 || graph->bytes[view] > whole ? whole : graph->bytes[view];
        if (part >= 0 && r->mark[part] != value) {
            r->mark[part] = value;
            r->bytes[part] = 0;
            r->reader[r->count++] = part;
        }
        int64_t *bytes = part >= 0 ? &r->bytes[part] : &r->device_bytes[c->device[node]];
        if (viewed > *bytes) *bytes = viewed;
    }
}

/* A value of a part: its other readers here would be sent to, and those elsewhere from the target instead. */
static void add_producer(choice *c, int32_t part, const readers *r) {
    const int32_t from = c->move->peak->device, to = c->move->target;
    for (int32_t k = 0; k < r->count; k++) {
        const int32_t other = r->reader[k];
        if (other == part) continue;
        const double us = fmax(transfer_us(c, to, from, r->bytes[other]), transfer_us(c, from, to, r->bytes[other]));
        c->seam[c->seam_count++] = (seam){part, other, us};
        c->added_us[part] += us;
        c->added_us[other] += us;
    }
    for (int32_t d = 0; d < c->machine->device_count; d++) {
        if (r->device_bytes[d] >= 0) {
            c->added_us[part] += transfer_us(c, to, d, r->device_bytes[d]) - transfer_us(c, from, d, r->device_bytes[d]);
        }
    }
}

/* A value from elsewhere: the target may have it already; this device needs it no more if one part was its only reader. */
static void add_consumers(choice *c, int32_t home, const readers *r) {
    const int32_t from = c->move->peak->device, to = c->move->target;
    for (int32_t k = 0; k < r->count; k++) {
        const int32_t part = r->reader[k];
        if (r->device_bytes[to] < r->bytes[part]) c->added_us[part] += transfer_us(c, home, to, r->bytes[part]);
        if (r->count == 1) c->added_us[part] -= transfer_us(c, home, from, r->bytes[part]);
    }
}

static stw_status list_seams(choice *c, stw_arena *arena, stw_error *error) {
    readers r = {0};
    STW_TRY_NEW(arena, r.mark, c->P, error);
    STW_TRY_NEW(arena, r.bytes, c->P, error);
    STW_TRY_NEW(arena, r.reader, c->P, error);
    STW_TRY_NEW(arena, c->seam_start, (int64_t)c->P + 2, error);
    c->seam = STW_NEW_DIRTY(arena, seam, c->graph->reader_start[c->graph->N]);
    if (c->seam == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for %d parts", c->P);
    for (int32_t p = 0; p < c->P; p++) r.mark[p] = -1;
    for (int32_t i = 0; i < c->graph->N; i++) {
        if (c->move->units->of[i] < 0 || c->graph->reader_start[i] == c->graph->reader_start[i + 1]) continue;
        list_readers(c, i, &r);
        if (part_at(c, i) >= 0) {
            add_producer(c, part_at(c, i), &r);
        } else {
            add_consumers(c, c->device[i], &r);
        }
    }
    STW_TRY_NEW(arena, c->seam_of, 2 * c->seam_count, error);
    for (int64_t s = 0; s < c->seam_count; s++) {
        c->seam_start[c->seam[s].part + 2]++;
        c->seam_start[c->seam[s].other + 2]++;
    }
    for (int32_t p = 0; p < c->P; p++) c->seam_start[p + 2] += c->seam_start[p + 1];
    for (int64_t s = 0; s < c->seam_count; s++) {
        c->seam_of[c->seam_start[c->seam[s].part + 1]++] = (int32_t)s;
        c->seam_of[c->seam_start[c->seam[s].other + 1]++] = (int32_t)s;
    }
    return STW_OK;
}

/* ---- what moving frees ---- */

static stw_status list_holdings(choice *c, stw_arena *arena, stw_error *error) {
    const stw_peak *peak = c->move->peak;
    int32_t *mark, count = 0;
    STW_TRY_NEW(arena, c->left, peak->count, error);
    STW_TRY_NEW(arena, c->owner_start, (int64_t)peak->count + 1, error);
    STW_TRY_NEW(arena, c->owner, peak->need_start[peak->count], error);
    STW_TRY_NEW(arena, c->hold_start, (int64_t)c->P + 2, error);
    STW_TRY_NEW(arena, c->hold, peak->need_start[peak->count], error);
    STW_TRY_NEW(arena, mark, c->P, error);
    for (int32_t h = 0; h < peak->count; h++) {
        for (int32_t k = peak->need_start[h]; k < peak->need_start[h + 1]; k++) {
            const int32_t part = part_at(c, peak->need[k]);
            if (mark[part] == h + 1) continue;
            mark[part] = h + 1;
            c->owner[count++] = part;
            c->hold_start[part + 2]++;
        }
        c->owner_start[h + 1] = count;
        c->left[h] = count - c->owner_start[h];
    }
    for (int32_t p = 0; p < c->P; p++) c->hold_start[p + 2] += c->hold_start[p + 1];
    for (int32_t h = 0; h < peak->count; h++) {
        for (int32_t k = c->owner_start[h]; k < c->owner_start[h + 1]; k++) {
            c->hold[c->hold_start[c->owner[k] + 1]++] = h;
            c->gain[c->owner[k]] += (double)peak->bytes[h] / c->left[h];
        }
    }
    return STW_OK;
}

/* ---- choosing ---- */

static double worth_of(const choice *c, int32_t part) {
    const double lacking = (double)(c->move->wanted - c->freed);
    const double gain = c->gain[part] < lacking ? c->gain[part] : lacking; /* more than is lacking is of no use */
    const double share = c->move->step_us > 0.0 ? (c->move->busy_us + c->moved_us) / c->move->step_us : 0.0;
    const double load = c->work_us[part] * fmin(share, 1.0) + fmax(c->slower_us[part], 0.0);
    return gain / (fmax(c->added_us[part], 0.0) + load + 0.1 + 1e-6 * c->move->step_us);
}

static void take(choice *c, int32_t part) {
    const stw_peak *peak = c->move->peak;
    c->chosen[part] = true;
    c->moved_us += c->work_us[part];
    for (int32_t k = c->seam_start[part]; k < c->seam_start[part + 1]; k++) {
        const seam *s = &c->seam[c->seam_of[k]];
        /* Apart from this one now, and no more if it follows. */
        c->added_us[s->part == part ? s->other : s->part] -= 2.0 * s->us;
    }
    for (int32_t k = c->hold_start[part]; k < c->hold_start[part + 1]; k++) {
        const int32_t h = c->hold[k], left = --c->left[h];
        if (left == 0) c->freed += peak->bytes[h];
        if (left == 0) continue;
        const double more = (double)peak->bytes[h] / left - (double)peak->bytes[h] / (left + 1);
        for (int32_t o = c->owner_start[h]; o < c->owner_start[h + 1]; o++) c->gain[c->owner[o]] += more;
    }
}

static int32_t choose(choice *c) {
    const stw_repair_move *move = c->move;
    int32_t count = 0;
    while (count < move->most_units && c->freed < move->wanted && (count == 0 || c->freed < move->room)) {
        int32_t best = -1;
        double best_worth = 0.0;
        for (int32_t p = 0; p < c->P; p++) {
            if (c->chosen[p] || c->gain[p] <= 0.0 || c->added_us[p] >= 0.5 * NO_LINK_US) continue;
            const double worth = worth_of(c, p);
            if (worth <= best_worth) continue;
            best = p;
            best_worth = worth;
        }
        if (best < 0) break;
        take(c, best);
        count++;
    }
    return count;
}

stw_status stw_move_choose(const stw_repair_move *move, int32_t *device, int32_t *moved, stw_arena scratch, stw_error *error) {
    choice c = {.move = move, .graph = move->simulator->graph, .machine = move->simulator->machine, .device = device};
    TRY(list_parts(&c, &scratch, error));
    TRY(list_seams(&c, &scratch, error));
    TRY(list_holdings(&c, &scratch, error));
    *moved = choose(&c);
    for (int32_t i = 0; *moved > 0 && i < c.graph->N; i++) {
        const int32_t unit = move->units->of[i];
        if (unit < 0 || device[i] != move->peak->device || !c.chosen[c.part_of[unit]]) continue;
        device[i] = move->target; /* views have their root's device and unit, and so go with it */
    }
    return STW_OK;
}
