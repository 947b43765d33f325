/* From the runs in the store to the figures of the table. */
#include <math.h>

#include "bench.h"

const bench_what bench_subject[BENCH_SUBJECTS] = {BENCH_GO_ONE, BENCH_GO_ONE_ALONE};

bench_what bench_reference(const bench_setup *setup, int32_t index) { return index == 0 ? BENCH_EXPERT : setup->hdp; }

/* ---- geometric means ---- */

typedef struct logs {
    double sum;
    int32_t count;
} logs;

static void add_log(logs *l, double value) {
    if (!(value > 0.0)) return; /* NaN: missing */
    l->sum += log(value);
    l->count++;
}

static double mean_of(const logs *l) { return l->count == 0 ? NAN : exp(l->sum / l->count); }

static bench_versus mean_versus(const logs *speedups) {
    const double mean = mean_of(speedups);
    return (bench_versus){.reduction = 1.0 - 1.0 / mean, .speedup = mean, .rows = speedups->count};
}

static bench_versus ratio(double step_s, double reference_s) {
    return (bench_versus){.reduction = 1.0 - step_s / reference_s, .speedup = reference_s / step_s, .rows = 1};
}

/* ---- cells ---- */

static const bench_record *record_of(const bench_figures *f, int32_t row, bench_what what, int64_t seed) {
    const bench_run run = bench_run_of(f->setup, row, what, seed);
    return f->setup->wanted_what[what] ? bench_store_find(f->store, &run) : NULL;
}

static bench_cell fill_cell(const bench_figures *f, int32_t row, bench_what what) {
    bench_cell cell = {.low = NAN, .high = NAN};
    double step_s = 0.0;
    for (int32_t k = 0; k < f->setup->seed_count; k++) {
        const bench_record *record = record_of(f, row, what, f->setup->seed[k]);
        if (record == NULL) continue;
        cell.runs++;
        cell.converged += record->converged;
        cell.search_s += record->search_s;
        cell.evaluations += (double)record->evaluations;
        if (!record->valid) continue;
        if (cell.one == NULL) cell.one = record;
        cell.count++;
        step_s += record->step_s;
        cell.low = fmin(cell.low, record->step_s); /* NaN is passed over */
        cell.high = fmax(cell.high, record->step_s);
    }
    cell.mean = cell.count == 0 ? NAN : step_s / cell.count;
    cell.search_s = cell.runs == 0 ? NAN : cell.search_s / cell.runs;
    cell.evaluations = cell.runs == 0 ? NAN : cell.evaluations / cell.runs;
    return cell;
}

/* Seed by seed, so that a seed that one of them lacks cannot shift the other's mean. */
static bench_versus fill_versus(const bench_figures *f, int32_t row, bench_what what, bench_what reference) {
    double step_s = 0.0, reference_s = 0.0;
    int32_t seeds = 0, lost = 0;
    for (int32_t k = 0; k < f->setup->seed_count; k++) {
        const bench_record *one = record_of(f, row, what, f->setup->seed[k]);
        const bench_record *other = record_of(f, row, reference, f->setup->seed[k]);
        if (one == NULL || other == NULL || !other->valid) continue;
        lost += !one->valid;
        if (!one->valid) continue;
        seeds++;
        step_s += one->step_s;
        reference_s += other->step_s;
    }
    bench_versus versus = seeds == 0 ? ratio(NAN, NAN) : ratio(step_s, reference_s);
    versus.seeds = seeds;
    versus.lost = lost;
    return versus;
}

/* ---- races ---- */

/* When a run first had a plan of this step time or better; NaN: never. */
static double time_to(const bench_record *record, double step_s) {
    for (int64_t k = 0; k < record->found_count; k++) {
        if (record->found[k].step_s <= step_s) return fmax(record->found[k].seconds, 1e-6);
    }
    return NAN;
}

/* When hdp had its last plan: the mean over the seeds. */
static double last_plan_of_hdp(const bench_figures *f, int32_t row) {
    double sum = 0.0;
    int32_t count = 0;
    for (int32_t k = 0; k < f->setup->seed_count; k++) {
        const bench_record *hdp = record_of(f, row, f->setup->hdp, f->setup->seed[k]);
        if (hdp == NULL || !hdp->valid || isnan(time_to(hdp, hdp->step_s))) continue;
        sum += time_to(hdp, hdp->step_s);
        count++;
    }
    return count == 0 ? NAN : sum / count;
}

/* All of its search; where that is not told, what it might have taken. */
static double whole_search(const bench_record *record) {
    return fmax(isnan(record->search_s) ? record->run.budget_s : record->search_s, 1e-6);
}

static bench_race fill_race(const bench_figures *f, int32_t row, bench_what what) {
    bench_race race = {.reach_s = 0.0};
    logs speedups = {0};
    for (int32_t k = 0; k < f->setup->seed_count; k++) {
        const bench_record *hdp = record_of(f, row, f->setup->hdp, f->setup->seed[k]);
        const bench_record *other = record_of(f, row, what, f->setup->seed[k]);
        if (hdp == NULL || other == NULL || !hdp->valid) continue;
        const double hdp_s = time_to(hdp, hdp->step_s), reach_s = time_to(other, hdp->step_s);
        if (isnan(hdp_s)) continue;
        race.pairs++;
        if (isnan(reach_s)) {
            race.never[race.pairs - race.reached - 1] = f->setup->seed[k];
            add_log(&speedups, hdp_s / whole_search(other)); /* it would have taken longer still */
            continue;
        }
        race.reached++;
        race.reach_s += reach_s;
        add_log(&speedups, hdp_s / reach_s);
    }
    race.reach_s = race.reached == 0 ? NAN : race.reach_s / race.reached;
    race.speedup = mean_of(&speedups);
    return race;
}

static void fill_mean_race(bench_figures *f, int32_t subject) {
    bench_race *mean = &f->race[subject];
    logs speedups = {0};
    for (int32_t k = 0; k < f->line_count; k++) {
        const bench_race *race = &f->line[k].race[subject];
        add_log(&speedups, race->speedup);
        mean->pairs += race->pairs;
        mean->reached += race->reached;
    }
    mean->speedup = mean_of(&speedups);
    mean->rows = speedups.count;
}

/* ---- rows and means ---- */

static void fill_line(const bench_figures *f, int32_t row, bench_line *line) {
    line->row = row;
    for (int32_t w = 0; w < BENCH_WHAT_COUNT; w++) line->cell[w] = fill_cell(f, row, (bench_what)w);
    for (int32_t s = 0; s < BENCH_SUBJECTS; s++) {
        for (int32_t r = 0; r < BENCH_REFERENCES; r++)
            line->versus[s][r] = fill_versus(f, row, bench_subject[s], bench_reference(f->setup, r));
        line->race[s] = fill_race(f, row, bench_subject[s]);
    }
    line->hdp_last_s = last_plan_of_hdp(f, row);
    line->hdp_to_random = fill_versus(f, row, f->setup->hdp, BENCH_RANDOM);
}

static void fill_means(bench_figures *f) {
    for (int32_t s = 0; s < BENCH_SUBJECTS; s++) {
        for (int32_t r = 0; r < BENCH_REFERENCES; r++) {
            logs speedups = {0};
            for (int32_t k = 0; k < f->line_count; k++) add_log(&speedups, f->line[k].versus[s][r].speedup);
            f->mean[s][r] = mean_versus(&speedups);
        }
        fill_mean_race(f, s);
    }
}

/* ---- goals ---- */

static bool has_every_seed(const bench_figures *f, const bench_line *line, bench_what what) {
    return line->cell[what].runs == f->setup->seed_count;
}

static int32_t count_whole_rows(const bench_figures *f, bench_what what, bench_what reference) {
    int32_t rows = 0;
    for (int32_t k = 0; k < f->line_count; k++)
        rows += has_every_seed(f, &f->line[k], what) && has_every_seed(f, &f->line[k], reference);
    return rows;
}

/* A mean counts when every seed of every row is there and each row is in it. */
static bench_verdict judge(const bench_figures *f, const bench_goal *goal, int32_t rows_in_mean) {
    if (f->line_count == 0 || goal->rows < f->line_count || rows_in_mean < f->line_count) return BENCH_OPEN;
    return goal->value >= goal->least ? BENCH_MET : BENCH_NOT_MET;
}

/* A row where only HDP has a valid plan is in no mean, and decides it. */
static bench_goal judge_step(const bench_figures *f) {
    const bench_versus *mean = &f->mean[1][1];
    bench_goal goal = {.key = "go_one_alone_below_hdp",
                       .text = "go-one alone is below HDP: reduction (geometric mean)",
                       .value = mean->reduction,
                       .least = 0.2,
                       .rows = count_whole_rows(f, BENCH_GO_ONE_ALONE, f->setup->hdp)};
    goal.verdict = judge(f, &goal, mean->rows);
    for (int32_t k = 0; k < f->line_count; k++) {
        if (f->line[k].versus[1][1].lost > 0 && goal.rows == f->line_count) goal.verdict = BENCH_NOT_MET;
    }
    return goal;
}

/* Every plan of HDP's must have been raced against. */
static bench_goal judge_search(const bench_figures *f) {
    bench_goal goal = {.key = "search_speedup",
                       .text = "go-one alone has a plan as good as HDP's sooner: search speed-up (geometric mean)",
                       .value = f->race[1].speedup,
                       .least = 15.0,
                       .rows = count_whole_rows(f, BENCH_GO_ONE_ALONE, f->setup->hdp)};
    goal.verdict = judge(f, &goal, f->race[1].rows);
    for (int32_t k = 0; k < f->line_count; k++) {
        if (f->line[k].race[1].pairs < f->line[k].cell[f->setup->hdp].count) goal.verdict = BENCH_OPEN;
    }
    return goal;
}

static const double CLEARLY = 0.95; /* of random, at most */

/* Where random has no valid plan at all, having one is enough. */
static bool is_clearly_below_random(const bench_figures *f, const bench_line *line) {
    const bench_cell *hdp = &line->cell[f->setup->hdp], *random = &line->cell[BENCH_RANDOM];
    if (hdp->count == 0 || line->hdp_to_random.lost > 0) return false;
    return random->count == 0 || 1.0 - line->hdp_to_random.reduction <= CLEARLY;
}

/* One row where hdp is not clearly better than chance, or has no valid plan, decides it, whatever is missing. */
static bench_goal judge_hdp(const bench_figures *f) {
    bench_goal goal = {.key = "hdp_below_random",
                       .text = "HDP is clearly below random, at most 0.95 of it, on every row; rows",
                       .value = 0.0,
                       .least = f->line_count,
                       .rows = count_whole_rows(f, f->setup->hdp, BENCH_RANDOM)};
    int32_t told = 0;
    for (int32_t k = 0; k < f->line_count; k++) {
        const bench_cell *hdp = &f->line[k].cell[f->setup->hdp], *random = &f->line[k].cell[BENCH_RANDOM];
        const bool has_none = hdp->runs > 0 && hdp->count == 0;
        const bool is_told = f->line[k].hdp_to_random.seeds + f->line[k].hdp_to_random.lost > 0;
        const bool is_alone = random->runs > 0 && random->count == 0 && hdp->count > 0;
        if (!has_none && !is_told && !is_alone) continue;
        told++;
        goal.value += is_clearly_below_random(f, &f->line[k]);
    }
    goal.verdict = goal.value < told ? BENCH_NOT_MET : judge(f, &goal, told);
    if (told == 0) goal.value = NAN;
    return goal;
}

static void fill_goals(bench_figures *f) {
    f->goal[0] = judge_step(f);
    f->goal[1] = judge_search(f);
    f->goal[2] = judge_hdp(f);
}

void bench_figures_fill(bench_figures *f, const bench_setup *setup, const bench_store *store, const bench_run *run,
                        int32_t run_count) {
    *f = (bench_figures){.setup = setup, .store = store, .run = run, .run_count = run_count};
    for (int32_t k = 0; k < run_count; k++) f->present += bench_store_find(store, &run[k]) != NULL;
    for (int32_t r = 0; r < BENCH_ROW_COUNT; r++) {
        if (setup->wanted_row[r]) fill_line(f, r, &f->line[f->line_count++]);
    }
    for (int32_t k = 0; k < f->line_count; k++) {
        f->hdp_runs += f->line[k].cell[f->setup->hdp].runs;
        f->hdp_converged += f->line[k].cell[f->setup->hdp].converged;
    }
    fill_means(f);
    fill_goals(f);
}

/* ---- the paper ---- */

bench_versus bench_paper_versus(const bench_row *row, double reference_s) { return ratio(row->paper.go_one_s, reference_s); }

void bench_paper_means(const bench_setup *setup, bench_versus *human, bench_versus *hdp, double *search_speedup) {
    logs over_human = {0}, over_hdp = {0}, searches = {0};
    for (int32_t r = 0; r < BENCH_ROW_COUNT; r++) {
        const struct bench_paper *paper = &bench_rows[r].paper;
        if (!setup->wanted_row[r]) continue;
        add_log(&over_human, paper->human_s / paper->go_one_s);
        add_log(&over_hdp, paper->hdp_s / paper->go_one_s);
        add_log(&searches, paper->search_speedup);
    }
    *human = mean_versus(&over_human);
    *hdp = mean_versus(&over_hdp);
    *search_speedup = mean_of(&searches);
}
