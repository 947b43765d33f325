/* Makes runs, several at a time, each in a process of its own: then METIS cannot disturb another run with its random numbers, a
 * crash costs one run, and Ctrl-C ends everything at once. A process leaves its record in a file that has no name. */
#define _DEFAULT_SOURCE /* fileno, kill, prctl */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "bench.h"

static const double LOOK_S = 0.02;                           /* between looks at the processes */
static const double PATIENCE = 4.0, PATIENCE_LEAST_S = 60.0; /* a run that takes so much longer than it may hangs */

typedef struct job {
    pid_t process; /* 0: none */
    FILE *file;
    const bench_run *run;
    double began_s;
} job;

typedef struct crew {
    const bench_setup *setup;
    bench_store *store;
    bench_outcome *outcome;
    stw_arena arena;
    const bench_run **waiting; /* (waiting_count), from `next` on */
    int32_t waiting_count, next;
    job *job; /* (setup->jobs) */
    int32_t active;
    double began_s, done_limit_s, all_limit_s; /* seconds of runs: done, and all that are to be made */
    cli_progress progress;
} crew;

/* ---- words ---- */

typedef struct label {
    char text[120];
} label;

static label label_of(const bench_run *run) {
    label l;
    snprintf(l.text, sizeof l.text, "%s on %s, %s, seed %lld", bench_rows[run->row].name, run->machine,
             bench_what_name(run->what), (long long)run->seed);
    return l;
}

static void draw(crew *c) {
    char text[160];
    const job *first = NULL;
    double share = c->done_limit_s;
    for (int32_t k = 0; k < c->setup->jobs; k++) {
        const job *j = &c->job[k];
        if (j->process == 0) continue;
        const double limit_s = bench_run_limit(j->run), spent_s = stw_now_s() - j->began_s;
        share += spent_s < limit_s ? spent_s : limit_s;
        if (first == NULL || j->began_s < first->began_s) first = j;
    }
    if (first == NULL) return;
    snprintf(text, sizeof text, "%d/%d runs  %s", c->outcome->made + c->outcome->failed, c->waiting_count,
             label_of(first->run).text);
    cli_progress_say(&c->progress, c->all_limit_s > 0.0 ? share / c->all_limit_s : 1.0, text);
}

static void tell_end(crew *c, const bench_run *run) {
    const bench_record *record = bench_store_find(c->store, run);
    if (c->progress.shown || record == NULL) return;
    fprintf(stderr, "%d/%d %s: %s in %.1f s\n", c->outcome->made + c->outcome->failed, c->waiting_count, label_of(run).text,
            record->valid ? cli_time(record->step_s, 4).text : "no valid plan", record->search_s);
}

static void warn_of(crew *c, const bench_run *run, const char *message) {
    stw_error line = {0};
    stw_fail(&line, STW_OK, "%s: %s", label_of(run).text, message);
    cli_progress_clear(&c->progress);
    cli_warn(line.message);
}

/* ---- one process ---- */

/* It must not outlive the one that started it: nobody would read its record. */
static void end_with_parent(pid_t parent) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) _exit(CLI_FAULT);
}

static void work(const crew *c, const bench_run *run, FILE *file, pid_t parent) {
    stw_error error = {0};
    end_with_parent(parent);
    if (c->store->file >= 0) close(c->store->file); /* the lock is the parent's */
    const stw_status status = bench_make_run(c->setup, run, c->arena, file, &error);
    if (status != STW_OK) fprintf(file, "%s", error.message);
    const bool written = fflush(file) == 0;
    _exit(status == STW_OK && written ? CLI_DONE : CLI_FAULT);
}

static stw_status start(crew *c, job *j, const bench_run *run, stw_error *error) {
    const pid_t parent = getpid();
    *j = (job){.file = tmpfile(), .run = run, .began_s = stw_now_s()};
    if (j->file == NULL) return stw_fail(error, STW_ERROR_INPUT, "no file for a run can be made: %s", strerror(errno));
    fflush(stdout);
    const pid_t process = fork();
    if (process == 0) work(c, run, j->file, parent);
    if (process < 0) {
        fclose(j->file);
        return stw_fail(error, STW_ERROR_MEMORY, "no process can be started: %s", strerror(errno));
    }
    j->process = process;
    c->active++;
    return STW_OK;
}

static stw_status read_whole(FILE *file, stw_arena *arena, stw_str *out, stw_error *error) {
    const long bytes = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *text;
    if (bytes < 0) return stw_fail(error, STW_ERROR_INPUT, "the record of a run cannot be read");
    rewind(file);
    STW_TRY_NEW(arena, text, (int64_t)bytes + 1, error);
    *out = (stw_str){text, (int64_t)fread(text, 1, (size_t)bytes, file)};
    return STW_OK;
}

/* Its run is over: a record, or a message. */
static stw_status finish(crew *c, job *j, int state, stw_error *error) {
    stw_arena scratch = c->arena;
    stw_str text = {0};
    stw_status status = read_whole(j->file, &scratch, &text, error);
    const bool is_whole =
        WIFEXITED(state) && WEXITSTATUS(state) == CLI_DONE && text.length > 0 && text.p[text.length - 1] == '\n';
    fclose(j->file);
    j->process = 0;
    c->active--;
    c->done_limit_s += bench_run_limit(j->run);
    if (status != STW_OK) return status;
    if (!is_whole) {
        c->outcome->failed++;
        warn_of(c, j->run, WIFEXITED(state) ? text.p : "its process was ended");
        return STW_OK;
    }
    TRY(bench_store_add(c->store, text, error));
    c->outcome->made++;
    tell_end(c, j->run);
    return STW_OK;
}

/* Looks at all processes once. */
static stw_status collect(crew *c, stw_error *error) {
    for (int32_t k = 0; k < c->setup->jobs; k++) {
        job *j = &c->job[k];
        int state = 0;
        if (j->process == 0) continue;
        if (stw_now_s() - j->began_s > PATIENCE * bench_run_limit(j->run) + PATIENCE_LEAST_S) kill(j->process, SIGKILL);
        if (waitpid(j->process, &state, WNOHANG) == j->process) TRY(finish(c, j, state, error));
    }
    return STW_OK;
}

/* What is not done is given up. */
static void end_all(crew *c) {
    for (int32_t k = 0; k < c->setup->jobs; k++) {
        job *j = &c->job[k];
        if (j->process == 0) continue;
        kill(j->process, SIGKILL);
        waitpid(j->process, NULL, 0);
        fclose(j->file);
        j->process = 0;
    }
}

/* ---- all of them ---- */

static bool fits(const crew *c, const bench_run *run) {
    const double deadline_s = c->setup->deadline_s;
    return deadline_s <= 0.0 || stw_now_s() - c->began_s + bench_run_limit(run) <= deadline_s;
}

static job *free_job(crew *c) {
    for (int32_t k = 0; k < c->setup->jobs; k++) {
        if (c->job[k].process == 0) return &c->job[k];
    }
    return NULL;
}

/* Time only passes: what does not fit now never will. */
static stw_status start_more(crew *c, stw_error *error) {
    job *j;
    while (c->next < c->waiting_count && (j = free_job(c)) != NULL) {
        const bench_run *run = c->waiting[c->next++];
        if (fits(c, run)) {
            TRY(start(c, j, run, error));
        } else {
            c->outcome->postponed++;
        }
    }
    return STW_OK;
}

static stw_status work_off(crew *c, stw_error *error) {
    while (!c->outcome->interrupted) {
        TRY(start_more(c, error));
        if (c->active == 0) break;
        c->outcome->interrupted = cli_interrupted_within(LOOK_S);
        TRY(collect(c, error));
        draw(c);
    }
    return STW_OK;
}

stw_status bench_make_runs(const bench_setup *setup, bench_store *store, const bench_run *run, int32_t count, stw_arena arena,
                           bench_outcome *out, stw_error *error) {
    crew c = {.setup = setup, .store = store, .outcome = out, .arena = arena, .began_s = stw_now_s()};
    *out = (bench_outcome){0};
    STW_TRY_NEW(&c.arena, c.job, setup->jobs, error);
    STW_TRY_NEW(&c.arena, c.waiting, count, error);
    for (int32_t k = 0; k < count; k++) {
        if (bench_store_find(store, &run[k]) != NULL) continue;
        c.waiting[c.waiting_count++] = &run[k];
        c.all_limit_s += bench_run_limit(&run[k]);
    }
    cli_progress_begin(&c.progress, STW_OBJECTIVE_TIME);
    cli_hold_interrupts();
    const stw_status status = work_off(&c, error);
    end_all(&c);
    cli_progress_clear(&c.progress);
    cli_release_interrupts();
    return status;
}
