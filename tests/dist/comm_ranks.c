/* One process of a job, started by test_mpi.py with 1, 2 or 3 ranks:
 *
 *     comm_ranks collectives      every call, results compared with what they must be
 *     comm_ranks agree RANK       RANK says that it failed; all print what they learn
 *     comm_ranks loop FILE        gathers for ever; rank r writes its process id to FILE.r, prints what ends it
 *     comm_ranks abort RANK       RANK ends the job while the others wait
 *     comm_ranks give_up RANK     RANK closes and ends with status 1 while the others wait
 *     comm_ranks sums COUNT       sums COUNT floats; rank 0 prints ms
 *     comm_ranks gathers COUNT    gathers COUNT floats of each; rank 0 prints ms
 *
 * The status is 0 if all was right. */
#define _POSIX_C_SOURCE 200809L /* getpid */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "dist/comm.h"

enum { MOST_RANKS = 16, MOST_BYTES = 100 };

typedef struct {
    stw_comm *comm;
    int32_t rank, size;
    int faults;
} job;

static int64_t sent(const job *j) { return stw_comm_traffic(j->comm); }
/* One process that no launcher has started sends nothing. */
static int64_t if_sent(const job *j, int64_t bytes) { return j->size == 1 && sent(j) == 0 ? 0 : bytes; }

#define EXPECT(job_, condition) expect((job_), (condition), #condition, __LINE__)

static void expect(job *j, bool held, const char *text, int line) {
    if (held) return;
    fprintf(stderr, "rank %d: line %d: %s\n", (int)j->rank, line, text);
    j->faults++;
}

/* Byte i of rank r's block. */
static unsigned char byte_of(int32_t r, int64_t i) { return (unsigned char)(37 * (r + 1) + 11 * i); }

/* Blocks of 0, 1, 7, ... bytes. `in_place`: the own block is where it belongs before the call. */
static void check_gather(job *j, bool in_place, int64_t factor) {
    static const int64_t sizes[] = {5, 0, 13, 1};
    int64_t bytes[MOST_RANKS] = {0}, before = 0, total = 0;
    for (int32_t r = 0; r < j->size; r++) {
        bytes[r] = sizes[r % 4] * factor;
        if (r < j->rank) before += bytes[r];
        total += bytes[r];
    }
    unsigned char mine[MOST_BYTES], all[MOST_RANKS * MOST_BYTES];
    memset(all, 0xee, sizeof all);
    for (int64_t i = 0; i < bytes[j->rank]; i++) {
        mine[i] = byte_of(j->rank, i);
        if (in_place) all[before + i] = mine[i];
    }
    const int64_t before_it = sent(j);
    EXPECT(j, stw_comm_gather(j->comm, in_place ? all + before : mine, bytes, all, NULL) == STW_OK);
    EXPECT(j, sent(j) - before_it == if_sent(j, bytes[j->rank]));
    int64_t at = 0;
    for (int32_t r = 0; r < j->size; r++)
        for (int64_t i = 0; i < bytes[r]; i++) EXPECT(j, all[at++] == byte_of(r, i));
    EXPECT(j, all[total] == 0xee);
}

static void check_sums(job *j) {
    enum { COUNT = 37 };
    double doubles[COUNT + 1];
    for (int i = 0; i < COUNT; i++) doubles[i] = (j->rank + 1) * (i + 0.5);
    doubles[COUNT] = 7.0;
    const int64_t before_it = sent(j);
    EXPECT(j, stw_comm_sum_doubles(j->comm, doubles, COUNT, NULL) == STW_OK);
    EXPECT(j, sent(j) - before_it == if_sent(j, 8 * COUNT));
    const int32_t shares = j->size * (j->size + 1) / 2;
    for (int i = 0; i < COUNT; i++) EXPECT(j, doubles[i] == shares * (i + 0.5));
    EXPECT(j, doubles[COUNT] == 7.0);
}

/* The sum of numbers that no order adds up exactly is the same on all ranks. */
static void check_same_bits(job *j) {
    enum { COUNT = 5000 };
    double *values = malloc(COUNT * sizeof *values), *all = malloc((size_t)j->size * COUNT * sizeof *all);
    if (values == NULL || all == NULL) abort();
    for (int i = 0; i < COUNT; i++) values[i] = sin((i + 1.0) * (j->rank + 2)) * pow(10.0, i % 9);
    EXPECT(j, stw_comm_sum_doubles(j->comm, values, COUNT, NULL) == STW_OK);
    int64_t bytes[MOST_RANKS] = {0};
    for (int32_t r = 0; r < j->size; r++) bytes[r] = COUNT * (int64_t)sizeof *values;
    EXPECT(j, stw_comm_gather(j->comm, values, bytes, all, NULL) == STW_OK);
    for (int32_t r = 0; r < j->size; r++) EXPECT(j, memcmp(all + (int64_t)r * COUNT, values, (size_t)bytes[r]) == 0);
    free(values);
    free(all);
}

static void check_broadcast(job *j) {
    char text[64] = "";
    if (j->rank == 0) snprintf(text, sizeof text, "the plan of rank 0, %d ranks", (int)j->size);
    const int64_t before_it = sent(j);
    EXPECT(j, stw_comm_broadcast(j->comm, text, sizeof text, NULL) == STW_OK);
    EXPECT(j, sent(j) - before_it == if_sent(j, (j->rank == 0 ? (int64_t)sizeof text : 0)));
    char wanted[64];
    snprintf(wanted, sizeof wanted, "the plan of rank 0, %d ranks", (int)j->size);
    EXPECT(j, strcmp(text, wanted) == 0);
}

static void check_any(job *j) {
    for (int32_t r = -1; r < j->size; r++) { /* -1: nobody */
        bool flag = j->rank == r;
        EXPECT(j, stw_comm_any(j->comm, &flag, NULL) == STW_OK);
        EXPECT(j, flag == (r >= 0));
    }
}

static void check_agree(job *j) {
    stw_error error = {0};
    EXPECT(j, stw_comm_agree(j->comm, STW_OK, &error) == STW_OK);
    EXPECT(j, error.message[0] == '\0');
    EXPECT(j, stw_comm_agree(j->comm, STW_OK, NULL) == STW_OK);
    for (int32_t r = 0; r < j->size; r++) { /* r and all above it fail: the lowest is named */
        char own[64], wanted[96];
        snprintf(own, sizeof own, "no file of rank %d", (int)j->rank);
        snprintf(wanted, sizeof wanted, "process %d of %d: no file of rank %d", (int)r, (int)j->size, (int)r);
        if (j->rank >= r) snprintf(wanted, sizeof wanted, "%s", own);
        error = (stw_error){0};
        const stw_status mine = j->rank < r ? STW_OK : stw_fail(&error, j->rank == r ? STW_ERROR_INPUT : STW_ERROR_IO, "%s", own);
        const stw_status status = stw_comm_agree(j->comm, mine, &error);
        EXPECT(j, status == (j->rank > r ? STW_ERROR_IO : STW_ERROR_INPUT));
        EXPECT(j, error.status == status);
        EXPECT(j, strcmp(error.message, wanted) == 0);
    }
    EXPECT(j, stw_comm_agree(j->comm, STW_OK, NULL) == STW_OK); /* the job goes on where it wants to */
}

static void collectives(job *j) {
    static const int64_t limits[] = {2147483647, 16, 8}; /* all at once; in pieces */
    check_same_bits(j);
    for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
        stw_comm_limit(j->comm, limits[l]);
        for (int64_t factor = 0; factor <= 7; factor = 6 * factor + 1) {
            check_gather(j, false, factor);
            check_gather(j, true, factor);
        }
        check_sums(j);
        check_broadcast(j);
        check_any(j);
        check_agree(j);
    }
}

/* Waits for all. */
static stw_status meet(job *j, stw_error *error) {
    bool flag = false;
    return stw_comm_any(j->comm, &flag, error);
}

static void agree(job *j, int32_t failing) {
    stw_error error = {0};
    stw_status mine = STW_OK;
    if (j->rank == failing) mine = stw_fail(&error, STW_ERROR_INPUT, "graph.json: no such file");
    EXPECT(j, stw_comm_agree(j->comm, mine, &error) == STW_ERROR_INPUT);
    printf("rank %d: %s\n", (int)j->rank, error.message);
    fflush(stdout);
}

/* Returns only when a call fails. */
static void gather_for_ever(job *j) {
    enum { COUNT = 20000 };
    char *mine = calloc(COUNT, 1), *all = calloc(MOST_RANKS, COUNT);
    int64_t bytes[MOST_RANKS] = {0};
    for (int32_t r = 0; r < j->size; r++) bytes[r] = COUNT;
    stw_error error = {0};
    while (stw_comm_gather(j->comm, mine, bytes, all, &error) == STW_OK) continue;
    fprintf(stderr, "rank %d: %s\n", (int)j->rank, error.message);
    EXPECT(j, meet(j, &error) == STW_ERROR_IO); /* without waiting, which would last for ever */
    j->faults++;
    free(mine);
    free(all);
}

static void loop(job *j, const char *file) {
    char name[4096], ready[4200];
    snprintf(name, sizeof name, "%s.%d", file, (int)j->rank);
    snprintf(ready, sizeof ready, "%s.new", name);
    FILE *out = fopen(ready, "w");
    EXPECT(j, out != NULL);
    if (out != NULL) {
        fprintf(out, "%ld\n", (long)getpid());
        fclose(out);
        EXPECT(j, rename(ready, name) == 0);
    }
    gather_for_ever(j);
}

static void give_up(job *j) {
    stw_comm_give_up(j->comm);
    EXPECT(j, meet(j, NULL) == STW_ERROR_IO); /* without waiting */
    j->faults++;
}

static void measure(job *j, bool sums, int64_t count) {
    double *values = calloc((size_t)count, sizeof *values), *all = calloc((size_t)(count * j->size), sizeof *all);
    if (values == NULL || all == NULL) abort();
    int64_t bytes[MOST_RANKS] = {0};
    for (int32_t r = 0; r < j->size; r++) bytes[r] = count * (int64_t)sizeof *values;
    double best_s = INFINITY;
    for (int round = 0; round < 20; round++) {
        EXPECT(j, meet(j, NULL) == STW_OK);
        const double began_s = stw_now_s();
        if (sums)
            EXPECT(j, stw_comm_sum_doubles(j->comm, values, count, NULL) == STW_OK);
        else
            EXPECT(j, stw_comm_gather(j->comm, values, bytes, all, NULL) == STW_OK);
        best_s = fmin(best_s, stw_now_s() - began_s);
    }
    if (j->rank == 0) printf("%d ranks, %lld doubles each: %.3f ms\n", (int)j->size, (long long)count, best_s * 1e3);
    free(values);
    free(all);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "collectives", *argument = argc > 2 ? argv[2] : "0";
    stw_error error = {0};
    job j = {0};
    if (stw_comm_open(&j.comm, &error) != STW_OK) {
        fprintf(stderr, "comm_ranks: %s\n", error.message);
        return 2;
    }
    j.rank = stw_comm_rank(j.comm);
    j.size = stw_comm_size(j.comm);
    EXPECT(&j, j.rank >= 0 && j.rank < j.size && j.size <= MOST_RANKS);
    if (strcmp(what, "collectives") == 0)
        collectives(&j);
    else if (strcmp(what, "agree") == 0)
        agree(&j, atoi(argument));
    else if (strcmp(what, "loop") == 0)
        loop(&j, argument);
    else if (strcmp(what, "sums") == 0 || strcmp(what, "gathers") == 0)
        measure(&j, what[0] == 's', atoll(argument));
    else if (j.rank != atoi(argument))
        gather_for_ever(&j);
    else if (strcmp(what, "give_up") == 0)
        give_up(&j);
    if (strcmp(what, "collectives") == 0) printf("rank %d of %d: %d faults\n", (int)j.rank, (int)j.size, j.faults);
    fflush(stdout);
    stw_comm_close(j.comm);
    return j.faults > 0;
}
