/* sim: after the first runs an evaluation allocates nothing. The C library's allocation functions are replaced here by ones that
 * count; under a sanitizer, which replaces them itself, the test is skipped. */
#define _GNU_SOURCE /* syscall */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/random.h"
#include "test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define COUNTS 0
#endif
#endif
#ifndef COUNTS
#define COUNTS 1
#endif

static int64_t allocations; /* calls of any of these */

#if COUNTS
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    allocations++;
    return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    allocations++;
    return __libc_memalign(alignment, size);
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    allocations++;
    return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset); /* MAP_FAILED is -1, too */
}
#endif

typedef struct {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_workspace *workspace;
    stw_plan *plan;
} problem;

static bool open_problem(problem *p) {
    stw_error error = {0};
    const bool ok = stw_graph_open(STW_SOURCE_DIR "/data/graphs/gnmt-2.json.gz", NULL, &p->graph, &error) == STW_OK &&
                    stw_machine_open("h200x4", &p->machine, &error) == STW_OK &&
                    stw_costs_create(p->graph, p->machine, NULL, &p->costs, &error) == STW_OK &&
                    stw_simulator_create(p->costs, &p->simulator, &error) == STW_OK &&
                    stw_workspace_create(p->simulator, &p->workspace, &error) == STW_OK &&
                    stw_plan_create(p->graph, p->machine, &p->plan, &error) == STW_OK;
    CHECK_STR(error.message, "");
    return CHECK(ok);
}

static void close_problem(problem *p) {
    stw_plan_destroy(p->plan);
    stw_workspace_destroy(p->workspace);
    stw_simulator_destroy(p->simulator);
    stw_costs_destroy(p->costs);
    stw_machine_destroy(p->machine);
    stw_graph_destroy(p->graph);
}

/* One evaluation and what it allocated. */
static void evaluate(problem *p, int64_t *allocated) {
    stw_evaluation result;
    const int64_t before = allocations;
    const stw_status status = stw_simulate(p->simulator, p->plan, p->workspace, &result, NULL);
    *allocated += allocations - before;
    CHECK_EQ_INT(status, STW_OK);
    CHECK_EQ_INT(result.reason, STW_VALID);
    CHECK(result.step_ps > 0);
}

/* A hundred runs after two; with `change`, every one of another placement. */
static void check_runs(problem *p, stw_rng *rng, bool change) {
    int64_t warm_up = 0, allocated = 0;
    for (int k = 0; k < 2; k++) evaluate(p, &warm_up);
    const int64_t high_water = stw_arena_high_water(&p->workspace->arena), used = stw_arena_used(&p->workspace->arena);
    for (int k = 0; k < 100; k++) {
        if (change) {
            random_placement(rng, p->simulator, p->plan);
            random_priorities(rng, p->plan);
        }
        evaluate(p, &allocated);
    }
    CHECK_EQ_INT(allocated, 0);
    CHECK_EQ_INT(stw_arena_high_water(&p->workspace->arena), high_water);
    CHECK_EQ_INT(stw_arena_used(&p->workspace->arena), used);
}

TEST(allocation, none_after_warm_up) {
    if (!COUNTS) SKIP("a sanitizer replaces malloc itself");
    problem p = {0};
    stw_rng rng = stw_rng_create(41);
    if (!open_problem(&p)) return;
    check_runs(&p, &rng, true);
    random_placement(&rng, p.simulator, p.plan);
    CHECK(random_groups(&rng, p.simulator, p.plan, 40) > 5);
    check_runs(&p, &rng, false); /* with groups: the tasks are built in the workspace */
    random_orders(&rng, p.simulator, p.plan);
    check_runs(&p, &rng, false);
    close_problem(&p);
}

/* A kernel of 64 ops that read three of 30 inputs each: 192 reads to sort, more than qsort does without allocating. */
static small *open_wide_group(void) {
    enum { INPUTS = 30, NODES = INPUTS + 64, ROOM = 100 };
    static const char input[] = "{'id':%d,'name':'x%d','op':'input','inputs':[],'dtype':'u8','shape':[5]},";
    static const char op[] = "{'id':%d,'name':'n%d','op':'add','inputs':[%d,%d,%d],'dtype':'u8','shape':[5]},";
    char nodes[NODES * ROOM], group[NODES * 2 + 2];
    size_t used = 0;
    for (int i = 0; i < NODES; i++) {
        const int a = 7 * i % INPUTS, b = (11 * i + 1) % INPUTS, c = (13 * i + 2) % INPUTS;
        const int length =
            i < INPUTS ? snprintf(nodes + used, ROOM, input, i, i) : snprintf(nodes + used, ROOM, op, i, i, a, b, c);
        used += (size_t)length;
        snprintf(group + 2 * i, 3, i == 0 ? "[0" : ",0");
    }
    snprintf(group + 2 * NODES, 2, "]");
    return small_open((small_text){.nodes = nodes, .outputs = "[93]", .group = group});
}

TEST(allocation, none_for_a_group_with_many_reads) {
    if (!COUNTS) SKIP("a sanitizer replaces malloc itself");
    small *s = open_wide_group();
    problem p = {.simulator = s->simulator, .workspace = s->workspace, .plan = s->plan};
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK_EQ_INT(s->workspace->timeline.tasks->T, 1);
    CHECK_EQ_INT(s->graph->read_start[s->graph->N] - s->graph->read_start[0], 192);
    check_runs(&p, NULL, false);
    small_close(s);
}

TEST(allocation, is_counted) {
    if (!COUNTS) SKIP("a sanitizer replaces malloc itself");
    const int64_t before = allocations;
    void *volatile block = malloc(10);
    block = realloc(block, 100000);
    CHECK_EQ_INT(allocations - before, 2);
    free(block);
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(allocations - before, 3);
    stw_arena_destroy(&arena);
}
