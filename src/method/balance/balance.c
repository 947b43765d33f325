#include <math.h>
#include <string.h>

#include "method/balance/balance.h"
#include "method/method.h"
#include "plan/plan.h"

/* ---- the best contiguous split ---- */

/* The best contiguous split of an order, by dynamic programming over its places: f(k, j) is the smallest largest load when the
 * first k devices hold what stands before place j. A piece's load has its transfers: what it reads from outside, and what
 * others read of it, once each. With a host that is exact; without one the mean hop stands for every link. Long orders are cut
 * at some places only. */

typedef struct { /* a piece that grows to the right */
    double out_bytes, out_transfers, in_bytes, in_transfers;
    int64_t resident;
} piece;

typedef struct {
    const stw_balance_model *m;
    const int32_t *order, *sequence;
    int32_t places;  /* B: places 0 .. B */
    int32_t *cut;    /* (B + 1) index into the order of each place */
    int32_t *inside; /* (E) readers within the piece */
    bool *within;    /* (A) */
    double *best;    /* (D + 1, B + 1) f */
    int32_t *from;   /* (D + 1, B + 1) where the last piece begins */
    double *work;    /* (D) of the piece */
} splitter;

static void count_in(piece *p, const stw_balance_edge *edge, double sign) {
    p->in_bytes += sign * edge->bytes;
    p->in_transfers += sign * edge->transfers;
}

static void count_out(piece *p, const stw_balance_edge *edge, double sign) {
    p->out_bytes += sign * edge->bytes;
    p->out_transfers += sign * edge->transfers;
}

static void grow(splitter *s, piece *p, int32_t atom) {
    const stw_balance_model *m = s->m;
    s->within[atom] = true;
    p->resident += m->resident[atom];
    for (int32_t d = 0; d < m->D; d++) s->work[d] += m->work_us[(int64_t)atom * m->D + d];
    for (int32_t e = m->made_start[atom]; e < m->made_start[atom + 1]; e++) {
        if (s->inside[e] > 0) count_in(p, &m->edge[e], -1.0);
        if (s->inside[e] < m->edge[e].reader_count) count_out(p, &m->edge[e], 1.0);
    }
    for (int32_t k = m->read_start[atom]; k < m->read_start[atom + 1]; k++) {
        const int32_t e = m->read_edge[k];
        const stw_balance_edge *edge = &m->edge[e];
        const int32_t inside = ++s->inside[e];
        if (s->within[edge->producer]) {
            if (inside == edge->reader_count) count_out(p, edge, -1.0);
        } else if (inside == 1) {
            count_in(p, edge, 1.0);
        }
    }
}

static void shrink_to_nothing(splitter *s, int32_t first, int32_t last) {
    const stw_balance_model *m = s->m;
    for (int32_t k = first; k < last; k++) {
        const int32_t atom = s->order[k];
        s->within[atom] = false;
        for (int32_t r = m->read_start[atom]; r < m->read_start[atom + 1]; r++) s->inside[m->read_edge[r]] = 0;
    }
}

static double load_of(const splitter *s, const piece *p, int32_t d) {
    const stw_balance_hop *up = &s->m->up[d], *down = &s->m->down[d];
    if (p->resident > s->m->memory[d]) return HUGE_VAL;
    return s->work[d] + stw_balance_bytes_us(up, p->out_bytes, p->out_transfers) +
           p->out_transfers * (up->latency_us + up->send_us) + stw_balance_bytes_us(down, p->in_bytes, p->in_transfers) +
           p->in_transfers * (down->latency_us + down->receive_us);
}

/* All pieces that begin at place i. */
static void extend(splitter *s, int32_t i) {
    const int32_t D = s->m->D, width = s->places + 1;
    piece p = {0};
    for (int32_t d = 0; d < D; d++) s->work[d] = 0.0;
    for (int32_t k = 0; k < D; k++) { /* a device may stay empty */
        if (s->best[k * width + i] < s->best[(k + 1) * width + i]) {
            s->best[(k + 1) * width + i] = s->best[k * width + i];
            s->from[(k + 1) * width + i] = i;
        }
    }
    for (int32_t j = i + 1; j <= s->places; j++) {
        for (int32_t at = s->cut[j - 1]; at < s->cut[j]; at++) grow(s, &p, s->order[at]);
        for (int32_t k = 0; k < D; k++) {
            const double load = load_of(s, &p, s->sequence[k]), before = s->best[k * width + i];
            const double value = load > before ? load : before;
            if (value >= s->best[(k + 1) * width + j]) continue;
            s->best[(k + 1) * width + j] = value;
            s->from[(k + 1) * width + j] = i;
        }
    }
    shrink_to_nothing(s, s->cut[i], s->cut[s->places]);
}

/* So many places that the work stays bearable: pieces x edges. */
static int32_t count_places(const stw_balance_model *m) {
    const double pins = 1.0 + m->E + m->read_start[m->A];
    double places = 4e7 / pins;
    if (places > 1024.0) places = 1024.0;
    if (places < 2.0 * m->D) places = 2.0 * m->D;
    return places < m->A ? (int32_t)places : m->A;
}

stw_status stw_balance_split(const stw_balance_model *m, const int32_t *order, const int32_t *sequence, int32_t *device,
                             stw_arena scratch, stw_error *error) {
    splitter s = {.m = m, .order = order, .sequence = sequence, .places = count_places(m)};
    const int32_t width = s.places + 1;
    STW_TRY_NEW(&scratch, s.cut, width, error);
    STW_TRY_NEW(&scratch, s.inside, m->E, error);
    STW_TRY_NEW(&scratch, s.within, m->A, error);
    STW_TRY_NEW(&scratch, s.best, (int64_t)(m->D + 1) * width, error);
    STW_TRY_NEW(&scratch, s.from, (int64_t)(m->D + 1) * width, error);
    STW_TRY_NEW(&scratch, s.work, m->D, error);
    for (int32_t j = 0; j <= s.places; j++) s.cut[j] = s.places == 0 ? 0 : (int32_t)((int64_t)j * m->A / s.places);
    for (int64_t k = 0; k < (int64_t)(m->D + 1) * width; k++) s.best[k] = HUGE_VAL;
    s.best[0] = 0.0;
    for (int32_t i = 0; i <= s.places; i++) extend(&s, i);
    if (!(s.best[m->D * width + s.places] < HUGE_VAL)) { /* it does not fit: equal pieces, for others to repair */
        for (int32_t k = 0; k < m->A; k++) device[order[k]] = sequence[(int64_t)k * m->D / m->A];
        return STW_OK;
    }
    for (int32_t k = m->D, j = s.places; k > 0; k--) {
        const int32_t i = s.from[k * width + j];
        for (int32_t at = s.cut[i]; at < s.cut[j]; at++) device[order[at]] = sequence[k - 1];
        j = i;
    }
    return STW_OK;
}

/* ---- the method ---- */

/* `balance`: makes the largest load of a device small, for steps that follow each other as in a pipeline. Contiguous splits of
 * several orders, annealed in eight chains; whatever the number of threads, chain k computes the same. Loads are kept up to date
 * move by move; the best placement of each round is judged by the simulator. */

enum {
    ROUNDS = 4,               /* after each, chains may go on from the best of all */
    DEFAULT_EVALUATIONS = 400 /* without any budget */
};

/* ---- the exact judgement ---- */

static void expand(const stw_balance *b, const int32_t *atom_device, stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) {
        const int32_t atom = b->model->atom_of[i];
        plan->device[i] = atom < 0 ? 0 : atom_device[atom];
    }
    stw_plan_join(b->search->simulator, plan);
}

/* Where tensors did not fit beside the residents, as many bytes of residents have to go, and what was found so far does not
 * count any more. */
static void learn_memory(stw_balance *b, const int32_t *device) {
    const stw_machine *machine = b->search->simulator->machine;
    const int64_t *peak_bytes = b->search->workspace[0]->timeline.peak_bytes;
    int64_t resident[STW_MAX_DEVICES] = {0};
    for (int32_t a = 0; a < b->model->A; a++) resident[device[a]] += b->model->resident[a];
    for (int32_t d = 0; d < b->model->D; d++) {
        const int64_t over = peak_bytes[d] - machine->device[d].memory_bytes;
        if (over > 0) b->level[0].memory[d] = resident[d] > over ? resident[d] - over : 0;
    }
    for (int32_t k = 0; k < STW_BALANCE_CHAINS; k++) b->chain[k].best_us = HUGE_VAL;
    b->leader_us = HUGE_VAL;
}

static stw_status judge(stw_balance *b, const int32_t *device, stw_plan *trial, stw_plan *plan, stw_score *best, bool *has_best,
                        stw_error *error) {
    stw_search *search = b->search;
    stw_score score;
    expand(b, device, trial);
    const stw_rule rule = search->rule >= 0 ? (stw_rule)search->rule : STW_RULE_UPWARD_RANK;
    TRY(stw_rule_apply(rule, search->simulator->costs, &search->simulator->unfused, trial, b->scratch, error));
    TRY(stw_search_evaluate(search, trial, 0, &score, error));
    if (score.reason == STW_INVALID_MEMORY) learn_memory(b, device);
    if (*has_best && !stw_score_is_better(&score, best)) return STW_OK;
    *best = score;
    *has_best = true;
    TRY(stw_plan_assign(plan, trial, error));
    stw_search_tell(search, plan, best);
    return STW_OK;
}

/* ---- rounds ---- */

static void share_budget(stw_balance *b, int64_t evaluations, stw_moment began) {
    static const double until[ROUNDS] = {0.5, 0.7, 0.85, 1.0}; /* share of the budget that is gone after each round */
    const stw_search *search = b->search;
    const double part = until[b->round] - (b->round > 0 ? until[b->round - 1] : 0.0);
    const int32_t threads = stw_pool_threads(search->pool);
    const int32_t turns = (STW_BALANCE_CHAINS + threads - 1) / threads; /* chains that one thread runs one after the other */
    b->moves = INT64_MAX;
    b->slice_s = 0.0;
    if (evaluations > 0) {
        b->moves = (int64_t)(part * (double)evaluations * STW_BALANCE_MOVES_PER_EVALUATION / STW_BALANCE_CHAINS);
    }
    if (search->budget.until_s > 0.0) {
        const stw_budget until_then = stw_budget_share(&search->budget, began, until[b->round], STW_SHARE_DOWN);
        b->slice_s = fmax(stw_budget_seconds_left(&until_then, stw_search_now_s(search)) / turns, 1e-6);
    }
}

static stw_status run_round(stw_balance *b, stw_plan *trial, stw_plan *plan, stw_score *best, bool *has_best, stw_error *error) {
    TRY(stw_pool_try(b->search->pool, STW_BALANCE_CHAINS, stw_balance_work_on_chain, b, error));
    int32_t winner = 0;
    int64_t made = 0;
    for (int32_t k = 0; k < STW_BALANCE_CHAINS; k++) {
        made += b->chain[k].made;
        if (b->chain[k].best_us < b->chain[winner].best_us) winner = k;
    }
    atomic_fetch_add(&b->search->evaluations, made / STW_BALANCE_MOVES_PER_EVALUATION);
    const stw_balance_chain *c = &b->chain[winner];
    if (*has_best && c->best_us >= b->leader_us) return STW_OK;
    b->leader_us = c->best_us;
    memcpy(b->leader, c->best, (size_t)b->model->A * sizeof *b->leader);
    return judge(b, c->best, trial, plan, best, has_best, error);
}

/* Carries what was found to the atoms of another level. */
static stw_status enter_level(stw_balance *b, int32_t level, stw_error *error) {
    const stw_balance_model *from = b->model, *to = &b->level[level];
    b->new_level = from != to;
    b->model = to;
    if (from == NULL || from == to) return STW_OK;
    stw_arena scratch = b->scratch;
    int32_t *old;
    STW_TRY_NEW(&scratch, old, from->A, error);
    for (int32_t k = 0; k <= STW_BALANCE_CHAINS; k++) {
        int32_t *device = k < STW_BALANCE_CHAINS ? b->chain[k].best : b->leader;
        memcpy(old, device, (size_t)from->A * sizeof *old);
        for (int32_t a = 0; a < to->A; a++) device[a] = old[from->atom_of[to->node[a]]];
    }
    return STW_OK;
}

static stw_status run_rounds(stw_balance *b, stw_plan *trial, stw_plan *plan, stw_error *error) {
    const stw_search *search = b->search;
    const stw_moment began = stw_search_moment(search);
    int64_t evaluations = search->budget.evaluations > 0 ? stw_search_evaluations_left(search) : 0;
    if (evaluations == 0 && search->budget.until_s <= 0.0) evaluations = DEFAULT_EVALUATIONS;
    stw_score best = {0};
    bool has_best = false;
    for (b->round = 0; b->round < ROUNDS; b->round++) {
        if (b->round > 0 && stw_search_is_over(search)) break;
        TRY(enter_level(b, b->round < b->level_count ? b->round : b->level_count - 1, error));
        share_budget(b, evaluations, began);
        TRY(run_round(b, trial, plan, &best, &has_best, error));
        stw_search_tick(search);
    }
    return best.reason == STW_INVALID_MEMORY ? stw_search_repair(b->search, plan, &best, 0, error) : STW_OK;
}

/* Large graphs begin with units, so that a move is worth its time. All levels share one table of what residents may take. */
static stw_status build_levels(stw_balance *b, stw_arena *arena, stw_error *error) {
    const stw_simulator *s = b->search->simulator;
    const int32_t least = 16 * s->machine->device_count; /* with fewer, no load is even */
    const int32_t asked = b->search->unit_count, units = asked > 0 && asked < least ? least : asked;
    stw_balance_model atoms;
    stw_unit_levels levels = {0};
    TRY(stw_balance_model_build(s, NULL, arena, &atoms, error));
    if (units > 0 && units < atoms.A / 4) {
        const bool two = units < atoms.A / 32;
        const int32_t wanted[2] = {two ? 8 * units : units, units};
        TRY(stw_units_build(s->graph, s->costs->least_us, wanted, two ? 2 : 1, arena, &levels, error));
    }
    for (int32_t k = levels.count - 1; k > 0 && b->level_count < STW_BALANCE_LEVELS - 1; k--) {
        TRY(stw_balance_model_build(s, &levels.level[k], arena, &b->level[b->level_count++], error));
    }
    b->level[b->level_count++] = atoms;
    for (int32_t k = 1; k < b->level_count; k++) b->level[k].memory = b->level[0].memory;
    STW_TRY_NEW(arena, b->leader, atoms.A, error);
    for (int32_t k = 0; k < STW_BALANCE_CHAINS; k++) {
        STW_TRY_NEW(arena, b->chain[k].best, atoms.A, error);
        b->chain[k].best_us = HUGE_VAL;
    }
    return STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    if (search->objective != STW_OBJECTIVE_THROUGHPUT) {
        return stw_fail(error, STW_ERROR_NO_PLAN, "serves the objective throughput only");
    }
    if (!(search->tasks & STW_TASK_PLACEMENT)) {
        return stw_fail(error, STW_ERROR_NO_PLAN, "decides the placement, which is not among the tasks");
    }
    stw_arena arena = search->arena;
    stw_balance b = {.search = search, .leader_us = HUGE_VAL};
    TRY(build_levels(&b, &arena, error));
    b.scratch = arena;
    stw_plan *trial;
    TRY(stw_plan_create(search->simulator->graph, search->simulator->machine, &trial, error));
    const stw_status status = run_rounds(&b, trial, plan, error);
    stw_plan_destroy(trial);
    return status;
}

const stw_method stw_method_balance = {.name = "balance",
                                       .description = "contiguous splits, annealed, for the largest load (throughput)",
                                       .kind = STW_METHOD_CONSTRUCTIVE,
                                       .traits = STW_METHOD_PLACES | STW_METHOD_THROUGHPUT_ONLY,
                                       .op_s = 7e-7,
                                       .run = run};
