/* METIS where memory is short: it is not called unless what it needs is there, because it does not survive a failed allocation
 * while SIGTERM is held back (docs/adr/0015). */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "method/metis/part_graph.h"
#include "test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

enum { M = 3000, DEGREE = 6, PARTS = 4 };

/* A ring with chords. */
static stw_part_graph ring(stw_arena *arena) {
    stw_part_graph g = {.M = M};
    g.start = STW_NEW(arena, int64_t, M + 1);
    g.neighbour = STW_NEW(arena, int32_t, M * DEGREE);
    g.cost = STW_NEW(arena, double, M *DEGREE);
    static const int step[DEGREE] = {1, M - 1, 7, M - 7, 211, M - 211};
    for (int v = 0; v < M; v++) {
        g.start[v + 1] = (int64_t)(v + 1) * DEGREE;
        for (int k = 0; k < DEGREE; k++) {
            g.neighbour[v * DEGREE + k] = (v + step[k]) % M;
            g.cost[v * DEGREE + k] = 1.0 + (k / 2);
        }
    }
    return g;
}

static int64_t address_space(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld", &pages) != 1) abort();
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

TEST(metis, little_memory) {
    if (!stw_metis_is_there()) SKIP("built without METIS");
    if (SANITIZED) SKIP("a sanitizer needs the address space");
    stw_arena arena;
    if (!CHECK(stw_arena_create(&arena, NULL) == STW_OK)) return;
    const stw_part_graph graph = ring(&arena);
    stw_part_weights weights = {.K = 2, .weight = STW_NEW(&arena, double, M * 2)};
    for (int k = 0; k < 2 * M; k++) weights.weight[k] = 1.0 + k % 3;
    const double share[PARTS] = {0.25, 0.25, 0.25, 0.25};
    int32_t *part = STW_NEW(&arena, int32_t, M);
    sigset_t held; /* as the command line does */
    sigemptyset(&held);
    sigaddset(&held, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &held, NULL);
    struct rlimit before;
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    int outcomes[2] = {0, 0}; /* done; out of memory */
    for (int32_t kib = 0; kib <= 12288; kib += 192) {
        const stw_part_call call = {.graph = &graph,
                                    .weights = &weights,
                                    .parts = PARTS,
                                    .share = share,
                                    .imbalance = 1.1,
                                    .recursive = kib / 192 % 2 == 0,
                                    .seed = 1};
        struct rlimit limit = {.rlim_cur = (rlim_t)(address_space() + 1024 * (int64_t)kib), .rlim_max = before.rlim_max};
        stw_error error = {0};
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        const stw_status status = stw_metis_call(&call, part, arena, &error);
        CHECK(setrlimit(RLIMIT_AS, &before) == 0);
        test_context("%d KiB", kib);
        CHECK(status == STW_OK || status == STW_ERROR_MEMORY);
        if (status == STW_ERROR_MEMORY) CHECK_CONTAINS(error.message, "METIS needs up to");
        outcomes[status == STW_OK ? 0 : 1]++;
        for (int v = 0; status == STW_OK && v < M; v++) {
            if (part[v] < 0 || part[v] >= PARTS) CHECK_EQ_INT(part[v], 0);
        }
    }
    test_context("%s", "");
    CHECK(outcomes[0] > 0 && outcomes[1] > 0);
    sigset_t pending;
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 0); /* which METIS would have raised */
    pthread_sigmask(SIG_UNBLOCK, &held, NULL);
    stw_arena_destroy(&arena);
}
