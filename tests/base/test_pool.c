/* base/pool: every index exactly once, whatever the number of threads. */
#define _POSIX_C_SOURCE 200809L
#include "base/pool.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

typedef struct {
    _Atomic int32_t *visits; /* (count) */
    int64_t *result;         /* (count) written without a lock: one index, one writer */
    int32_t threads;
    _Atomic int32_t bad_worker; /* calls with a worker number out of range */
} counters;

static void visit(void *context, int64_t index, int32_t worker) {
    counters *c = context;
    atomic_fetch_add(&c->visits[index], 1);
    c->result[index] = index * index + 1;
    if (worker < 0 || worker >= c->threads) atomic_fetch_add(&c->bad_worker, 1);
}

/* One run over `count` indices; true if each was visited exactly once and its result is seen here. */
static bool run_once(stw_pool *pool, int64_t count) {
    counters c = {.visits = calloc((size_t)count + 1, sizeof *c.visits),
                  .result = calloc((size_t)count + 1, sizeof *c.result),
                  .threads = stw_pool_threads(pool)};
    stw_pool_run(pool, count, visit, &c);
    bool ok = c.bad_worker == 0 && c.visits[count] == 0;
    for (int64_t i = 0; i < count; i++) ok = ok && c.visits[i] == 1 && c.result[i] == i * i + 1;
    free(c.visits);
    free(c.result);
    return ok;
}

TEST(pool, all_indices_exactly_once) {
    static const int32_t threads[] = {1, 2, 8};
    static const int64_t counts[] = {0, 1, 2, 7, 8, 9, 1000, 20000};
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        stw_pool *pool = NULL;
        stw_error error;
        if (!CHECK_EQ_INT(stw_pool_create(threads[t], &pool, &error), STW_OK)) return;
        CHECK_EQ_INT(stw_pool_threads(pool), threads[t]);
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            test_context("%d threads, %d indices", (int)threads[t], (int)counts[i]);
            CHECK(run_once(pool, counts[i]));
        }
        stw_pool_destroy(pool);
    }
}

TEST(pool, repeated_runs) {
    stw_pool *pool = NULL;
    if (!CHECK_EQ_INT(stw_pool_create(4, &pool, NULL), STW_OK)) return;
    int wrong = 0;
    for (int i = 0; i < 2000; i++) wrong += !run_once(pool, i % 11);
    CHECK_EQ_INT(wrong, 0);
    stw_pool_destroy(pool);
}

TEST(pool, more_threads_than_work) {
    stw_pool *pool = NULL;
    if (!CHECK_EQ_INT(stw_pool_create(64, &pool, NULL), STW_OK)) return;
    for (int64_t count = 0; count < 5; count++) CHECK(run_once(pool, count));
    stw_pool_destroy(pool);
}

typedef struct {
    _Atomic int64_t total;
    int64_t per_worker[8]; /* plain: a worker is one thread at a time */
} sums;

static void add_index(void *context, int64_t index, int32_t worker) {
    sums *s = context;
    s->per_worker[worker] += index;
    atomic_fetch_add(&s->total, index);
}

TEST(pool, a_worker_number_belongs_to_one_thread_at_a_time) {
    stw_pool *pool = NULL;
    if (!CHECK_EQ_INT(stw_pool_create(8, &pool, NULL), STW_OK)) return;
    sums s;
    memset(&s, 0, sizeof s);
    for (int round = 0; round < 50; round++) stw_pool_run(pool, 1000, add_index, &s);
    int64_t total = 0;
    for (int i = 0; i < 8; i++) total += s.per_worker[i];
    CHECK_EQ_INT(total, 50 * 499500);
    CHECK_EQ_INT(s.total, 50 * 499500);
    stw_pool_destroy(pool);
}

typedef struct {
    stw_pool *pool;
    _Atomic int32_t visits[12][40];
    _Atomic int32_t moved;  /* times that a thread was another worker within than without */
    int32_t outer[12];      /* the worker of each outer index */
    _Atomic int32_t helped; /* inner indices that another worker took */
} nest;

typedef struct {
    nest *nest;
    int64_t index;
} within;

static void visit_within(void *context, int64_t index, int32_t worker) {
    const within *w = context;
    atomic_fetch_add(&w->nest->visits[w->index][index], 1);
    if (worker != w->nest->outer[w->index]) atomic_fetch_add(&w->nest->helped, 1);
}

static void note_worker(void *context, int64_t index, int32_t worker) {
    (void)index;
    *(int32_t *)context = worker;
}

static void run_within(void *context, int64_t index, int32_t worker) {
    nest *n = context;
    within w = {n, index};
    int32_t again = -1;
    n->outer[index] = worker;
    stw_pool_run(n->pool, 1, note_worker, &again); /* one index is for the caller itself */
    if (again != worker) atomic_fetch_add(&n->moved, 1);
    stw_pool_run(n->pool, 1 + index % 40, visit_within, &w);
}

TEST(pool, work_may_run_more_work) {
    for (int32_t threads = 1; threads <= 8; threads *= 2) {
        nest n = {0};
        test_context("%d threads", (int)threads);
        if (!CHECK_EQ_INT(stw_pool_create(threads, &n.pool, NULL), STW_OK)) return;
        for (int round = 0; round < 200; round++) stw_pool_run(n.pool, 12, run_within, &n);
        int wrong = 0;
        for (int i = 0; i < 12; i++) {
            for (int k = 0; k < 40; k++) wrong += n.visits[i][k] != (k < 1 + i % 40 ? 200 : 0);
        }
        CHECK_EQ_INT(wrong, 0);
        CHECK_EQ_INT(n.moved, 0);
        if (threads == 1) CHECK_EQ_INT(n.helped, 0);
        stw_pool_destroy(n.pool);
    }
    test_context("%s", "");
}

typedef struct {
    stw_pool *pool;
    _Atomic int32_t arrived;
} gate;

/* Comes to an end only if two threads are in it. */
static void wait_for_another(void *context, int64_t index, int32_t worker) {
    gate *g = context;
    (void)index, (void)worker;
    atomic_fetch_add(&g->arrived, 1);
    while (atomic_load(&g->arrived) < 2) sched_yield();
}

static void open_gate(void *context, int64_t index, int32_t worker) {
    gate *g = context;
    (void)worker;
    if (index == 0) stw_pool_run(g->pool, 2, wait_for_another, g);
}

TEST(pool, idle_workers_help_with_what_is_within) {
    gate g = {0};
    if (!CHECK_EQ_INT(stw_pool_create(2, &g.pool, NULL), STW_OK)) return;
    stw_pool_run(g.pool, 2, open_gate, &g); /* index 1 is done at once, and its worker is free */
    CHECK_EQ_INT(g.arrived, 2);
    stw_pool_destroy(g.pool);
}

TEST(pool, two_pools_side_by_side) {
    stw_pool *a = NULL, *b = NULL;
    if (!CHECK_EQ_INT(stw_pool_create(2, &a, NULL), STW_OK)) return;
    if (!CHECK_EQ_INT(stw_pool_create(3, &b, NULL), STW_OK)) return;
    CHECK(run_once(a, 100) && run_once(b, 100) && run_once(a, 5));
    stw_pool_destroy(a);
    stw_pool_destroy(b);
}

/* ---- beside what the caller does ---- */

static stw_status add_beside(void *context, int64_t index, int32_t worker, stw_error *error) {
    nest *n = context;
    (void)error;
    run_within(n, index, worker);
    return STW_OK;
}

TEST(pool, beside_the_caller_all_indices_exactly_once) {
    for (int32_t threads = 1; threads <= 8; threads *= 2) {
        nest n = {0};
        stw_error error = {0};
        test_context("%d threads", (int)threads);
        if (!CHECK_EQ_INT(stw_pool_create(threads, &n.pool, NULL), STW_OK)) return;
        for (int round = 0; round < 100; round++) {
            stw_pool_job *soon = NULL, *sometime = NULL;
            if (!CHECK_EQ_INT(stw_pool_begin(n.pool, STW_POOL_SOMETIME, 7, add_beside, &n, &sometime, &error), STW_OK)) return;
            if (!CHECK_EQ_INT(stw_pool_begin(n.pool, STW_POOL_SOON, 0, add_beside, &n, &soon, &error), STW_OK)) return;
            CHECK(run_once(n.pool, round % 11));
            CHECK_EQ_INT(stw_pool_end(n.pool, soon, &error), STW_OK);
            CHECK_EQ_INT(stw_pool_end(n.pool, sometime, &error), STW_OK);
        }
        int wrong = 0;
        for (int i = 0; i < 12; i++) {
            for (int k = 0; k < 40; k++) wrong += n.visits[i][k] != (i < 7 && k < 1 + i ? 100 : 0);
        }
        CHECK_EQ_INT(wrong, 0);
        CHECK_EQ_INT(n.moved, 0);
        CHECK(run_once(n.pool, 100));
        stw_pool_destroy(n.pool);
    }
    test_context("%s", "");
}

typedef struct {
    gate now;
    _Atomic bool begun, open;
    int32_t arrived_before_last; /* at what is urgent, when the last index of the other began */
} precedence;

static stw_status begin_slowly(void *context, int64_t index, int32_t worker, stw_error *error) {
    precedence *p = context;
    (void)worker, (void)error;
    if (index == 0) {
        atomic_store(&p->begun, true);
        while (!atomic_load(&p->open)) sched_yield();
    } else {
        p->arrived_before_last = atomic_load(&p->now.arrived);
    }
    return STW_OK;
}

static void open_and_wait(void *context, int64_t index, int32_t worker) {
    precedence *p = context;
    atomic_store(&p->open, true);
    wait_for_another(&p->now, index, worker);
}

typedef struct {
    precedence *p;
    bool nested;
} beside;

static void slowly_within(void *context, int64_t index, int32_t worker) { (void)begin_slowly(context, index, worker, NULL); }

static stw_status begin_within(void *context, int64_t index, int32_t worker, stw_error *error) {
    const beside *b = context;
    if (!b->nested) return begin_slowly(b->p, index, worker, error);
    if (index == 0) stw_pool_run(b->p->now.pool, 2, slowly_within, b->p);
    return STW_OK;
}

/* A worker is in the first index of what can wait when the caller has something that needs two threads: it comes to that before
 * it goes on with the second, whether that is an index of the job itself or of one within it. */
TEST(pool, what_can_wait_gives_way) {
    for (int nested = 0; nested < 2; nested++) {
        precedence p = {.arrived_before_last = -1};
        beside b = {&p, nested == 1};
        stw_pool_job *job = NULL;
        test_context("%s", nested == 1 ? "within" : "");
        if (!CHECK_EQ_INT(stw_pool_create(2, &p.now.pool, NULL), STW_OK)) return;
        if (!CHECK_EQ_INT(stw_pool_begin(p.now.pool, STW_POOL_SOMETIME, nested == 1 ? 1 : 2, begin_within, &b, &job, NULL),
                          STW_OK))
            return;
        while (!atomic_load(&p.begun)) sched_yield();
        stw_pool_run(p.now.pool, 2, open_and_wait, &p);
        CHECK_EQ_INT(stw_pool_end(p.now.pool, job, NULL), STW_OK);
        CHECK_EQ_INT(p.arrived_before_last, 2);
        stw_pool_destroy(p.now.pool);
    }
    test_context("%s", "");
}

typedef struct {
    stw_pool *pool;
    int32_t most;
    _Atomic int32_t inside[4], wrong, turns;
} turns;

static stw_status take_a_turn(void *context, int64_t index, int32_t worker, stw_error *error) {
    turns *t = context;
    (void)index, (void)worker, (void)error;
    const int32_t turn = stw_pool_take_turn(t->pool, t->most);
    if (turn < 0 || turn >= t->most || atomic_fetch_add(&t->inside[turn], 1) != 0) atomic_fetch_add(&t->wrong, 1);
    sched_yield();
    atomic_fetch_sub(&t->inside[turn & 3], 1);
    atomic_fetch_add(&t->turns, 1);
    stw_pool_end_turn(t->pool, turn);
    return STW_OK;
}

TEST(pool, a_turn_is_one_threads) {
    for (int32_t most = 1; most <= 3; most += 2) {
        turns t = {.most = most};
        test_context("%d turns", (int)most);
        if (!CHECK_EQ_INT(stw_pool_create(8, &t.pool, NULL), STW_OK)) return;
        CHECK_EQ_INT(stw_pool_try(t.pool, 2000, take_a_turn, &t, NULL), STW_OK);
        CHECK_EQ_INT(t.turns, 2000);
        CHECK_EQ_INT(t.wrong, 0);
        stw_pool_destroy(t.pool);
    }
    test_context("%s", "");
}

/* The caller has the only turn, and what it runs needs two threads: it comes to an end only if the worker that waits helps. */
TEST(pool, who_waits_for_a_turn_does_what_is_urgent) {
    turns t = {.most = 1};
    gate g = {0};
    stw_pool_job *job = NULL;
    if (!CHECK_EQ_INT(stw_pool_create(2, &t.pool, NULL), STW_OK)) return;
    const int32_t turn = stw_pool_take_turn(t.pool, 1);
    if (!CHECK_EQ_INT(stw_pool_begin(t.pool, STW_POOL_SOON, 1, take_a_turn, &t, &job, NULL), STW_OK)) return;
    for (int k = 0; k < 1000; k++) sched_yield(); /* it is mostly waiting by then; if not, it waits later */
    stw_pool_run(t.pool, 2, wait_for_another, &g);
    CHECK_EQ_INT(g.arrived, 2);
    CHECK_EQ_INT(t.turns, 0);
    stw_pool_end_turn(t.pool, turn);
    CHECK_EQ_INT(stw_pool_end(t.pool, job, NULL), STW_OK);
    CHECK_EQ_INT(t.turns, 1);
    stw_pool_destroy(t.pool);
}

typedef struct {
    _Atomic int32_t visits;
    int64_t first, step; /* indices first, first + step, ... fail */
} failures;

static stw_status fail_some(void *context, int64_t index, int32_t worker, stw_error *error) {
    failures *f = context;
    (void)worker;
    atomic_fetch_add(&f->visits, 1);
    if (index < f->first || (index - f->first) % f->step != 0) return STW_OK;
    return stw_fail(error, index % 2 == 0 ? STW_ERROR_INPUT : STW_ERROR_MEMORY, "index %d", (int)index);
}

/* Whoever comes first, the smallest index is what is told, and all are tried. */
TEST(pool, the_first_failure_is_told) {
    enum { COUNT = 500 };
    for (int32_t threads = 1; threads <= 8; threads *= 2) {
        stw_pool *pool = NULL;
        if (!CHECK_EQ_INT(stw_pool_create(threads, &pool, NULL), STW_OK)) return;
        for (int32_t first = 0; first <= COUNT; first += 25) {
            failures f = {.first = first, .step = 3};
            stw_error error = {.message = "untouched"};
            char message[32];
            test_context("%d threads, from %d on", threads, first);
            snprintf(message, sizeof message, "index %d", first);
            const stw_status status = first % 2 == 0 ? STW_ERROR_INPUT : STW_ERROR_MEMORY, none = STW_OK;
            CHECK_EQ_INT(stw_pool_try(pool, COUNT, fail_some, &f, &error), first < COUNT ? status : none);
            CHECK_EQ_INT(error.status, first < COUNT ? status : none);
            CHECK_STR(error.message, first < COUNT ? message : "untouched");
            CHECK_EQ_INT(f.visits, COUNT);
            CHECK_EQ_INT(stw_pool_try(pool, COUNT, fail_some, &f, NULL), first < COUNT ? status : none);
        }
        stw_pool_destroy(pool);
    }
}

TEST(pool, the_first_failure_is_told_at_the_end) {
    stw_pool *pool = NULL;
    stw_pool_job *job = NULL;
    failures f = {.first = 40, .step = 3};
    stw_error error = {0};
    if (!CHECK_EQ_INT(stw_pool_create(4, &pool, NULL), STW_OK)) return;
    if (!CHECK_EQ_INT(stw_pool_begin(pool, STW_POOL_SOON, 100, fail_some, &f, &job, NULL), STW_OK)) return;
    CHECK_EQ_INT(stw_pool_end(pool, job, &error), STW_ERROR_INPUT);
    CHECK_STR(error.message, "index 40");
    CHECK_EQ_INT(f.visits, 100);
    stw_pool_destroy(pool);
}

TEST(pool, limits) {
    stw_pool *pool = NULL;
    stw_error error;
    CHECK_EQ_INT(stw_pool_create(-1, &pool, &error), STW_ERROR_INPUT);
    CHECK_STR(error.message, "-1 threads; choose 1 to 1024");
    CHECK(pool == NULL);
    CHECK_EQ_INT(stw_pool_create(1025, &pool, &error), STW_ERROR_INPUT);
    if (CHECK_EQ_INT(stw_pool_create(0, &pool, &error), STW_OK)) {
        CHECK(stw_pool_threads(pool) >= 1); /* one per core */
        CHECK(run_once(pool, 100));
    }
    stw_pool_destroy(pool);
    stw_pool_destroy(NULL);
}
