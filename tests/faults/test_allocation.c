/* Every allocation of the library fails once: the heap's, the address space of an arena, memory within an arena. Whatever is
 * under way then ends with "out of memory" and leaves nothing behind: no memory, no open file, no file on the disk; or it goes on
 * with what it has. The linker puts the functions below in front of the real ones (--wrap). */
#define _GNU_SOURCE /* mkdtemp */
#include <dirent.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "generate/generate.h"
#include "support/onnx_model.h"
#include "test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW 1
#endif
#endif
#ifndef SLOW
#define SLOW 0
#endif

/* ---- what fails ---- */

typedef enum kind { HEAP, MAP, ARENA, KINDS } kind;
static const char *const kind_name[KINDS] = {"heap", "address space", "arena"};

static kind failing;
static atomic_llong calls, fail_at; /* of that kind; 0: none fails */
static atomic_bool hit;
static bool has_plan, had_plan; /* a search tells: now; when the allocation failed */

static bool fails(kind k) {
    if (k != failing || atomic_fetch_add(&calls, 1) + 1 != atomic_load(&fail_at)) return false;
    atomic_store(&hit, true);
    had_plan = has_plan;
    return true;
}

/* ---- what is there: pointers of the heap and mappings, by address ---- */

enum { ROOM = 1 << 16 };
static struct {
    _Atomic uintptr_t at[ROOM];
    atomic_llong count;
} heap, maps;

#define REMEMBER(set, pointer) remember(set.at, &set.count, (uintptr_t)(pointer))
#define FORGET(set, pointer)   forget(set.at, &set.count, (uintptr_t)(pointer))

static void remember(_Atomic uintptr_t *at, atomic_llong *count, uintptr_t address) {
    for (uintptr_t k = (address >> 4) % ROOM; address != 0; k = (k + 1) % ROOM) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong(&at[k], &none, address)) continue;
        atomic_fetch_add(count, 1);
        return;
    }
}

/* What libc has made (realpath) is not among them. */
static void forget(_Atomic uintptr_t *at, atomic_llong *count, uintptr_t address) {
    for (int n = 0, k = (int)((address >> 4) % ROOM); address != 0 && n < ROOM; n++, k = (k + 1) % ROOM) {
        uintptr_t expected = address;
        if (!atomic_compare_exchange_strong(&at[k], &expected, 0)) {
            if (n > 64) return; /* places are seldom far off */
            continue;
        }
        atomic_fetch_sub(count, 1);
        return;
    }
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *memory);
void *__real_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __real_munmap(void *address, size_t size);
void *__real_stw_arena_alloc(stw_arena *arena, size_t size, size_t alignment, int64_t count);
void *__real_stw_arena_alloc_dirty(stw_arena *arena, size_t size, size_t alignment, int64_t count);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *memory);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __wrap_munmap(void *address, size_t size);
void *__wrap_stw_arena_alloc(stw_arena *arena, size_t size, size_t alignment, int64_t count);
void *__wrap_stw_arena_alloc_dirty(stw_arena *arena, size_t size, size_t alignment, int64_t count);

void *__wrap_malloc(size_t size) {
    void *memory = fails(HEAP) ? NULL : __real_malloc(size);
    REMEMBER(heap, memory);
    return memory;
}

void *__wrap_calloc(size_t count, size_t size) {
    void *memory = fails(HEAP) ? NULL : __real_calloc(count, size);
    REMEMBER(heap, memory);
    return memory;
}

void *__wrap_realloc(void *old, size_t size) {
    if (fails(HEAP)) return NULL;
    FORGET(heap, old);
    void *memory = __real_realloc(old, size);
    REMEMBER(heap, memory != NULL ? memory : old);
    return memory;
}

void __wrap_free(void *memory) {
    FORGET(heap, memory);
    __real_free(memory);
}

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    if (fails(MAP)) return MAP_FAILED;
    void *memory = __real_mmap(address, size, protection, flags, file, offset);
    if (memory != MAP_FAILED && address == NULL) REMEMBER(maps, (uintptr_t)memory >> 8);
    return memory;
}

int __wrap_munmap(void *address, size_t size) {
    FORGET(maps, (uintptr_t)address >> 8);
    return __real_munmap(address, size);
}

/* In a new arena there is room for what owns it, and nobody asks. */
static bool is_new(const stw_arena *arena) { return stw_arena_used(arena) <= 64; }

/* More than there is: the arena itself then refuses. */
void *__wrap_stw_arena_alloc(stw_arena *arena, size_t size, size_t alignment, int64_t count) {
    return __real_stw_arena_alloc(arena, size, alignment, !is_new(arena) && fails(ARENA) ? INT64_MAX : count);
}

void *__wrap_stw_arena_alloc_dirty(stw_arena *arena, size_t size, size_t alignment, int64_t count) {
    const bool of_kernel = alignment == 64; /* src/backend/cpu: there is room for the largest, and no kernel fails */
    return __real_stw_arena_alloc_dirty(arena, size, alignment, !is_new(arena) && !of_kernel && fails(ARENA) ? INT64_MAX : count);
}

/* ---- the sweep ---- */

static char folder[64];
static const char *in_folder(const char *name) {
    static char path[4][128];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static int count_entries(const char *path) {
    int count = 0;
    DIR *directory = opendir(path);
    if (directory == NULL) return -1;
    while (readdir(directory) != NULL) count++;
    closedir(directory);
    return count;
}

/* Does something and gives everything back. STW_OK: what came out is as it should be. */
typedef stw_status scenario(const void *context, stw_error *error);

typedef struct {
    long long heap, maps;
    int files, entries;
} inventory;

static inventory take_inventory(void) {
    return (inventory){atomic_load(&heap.count), atomic_load(&maps.count), count_entries("/proc/self/fd"), count_entries(folder)};
}

/* The n-th call fails. False once there are fewer. */
static bool check_one(scenario *run, const void *context, kind k, long long n) {
    stw_error error = {0};
    test_context("%s, allocation %lld", kind_name[k], n);
    const inventory before = take_inventory();
    failing = k;
    atomic_store(&hit, false);
    atomic_store(&calls, 0);
    atomic_store(&fail_at, n);
    const stw_status status = run(context, &error);
    atomic_store(&fail_at, 0);
    const inventory after = take_inventory();
    if (status != STW_OK) {
        CHECK(atomic_load(&hit));
        CHECK(strchr(error.message, '\n') == NULL);
        if (status != STW_ERROR_MEMORY || error.message[0] == '\0') CHECK_CONTAINS(error.message, "memory");
    }
    CHECK_EQ_INT(after.heap, before.heap);
    CHECK_EQ_INT(after.maps, before.maps);
    CHECK_EQ_INT(after.files, before.files);
    CHECK_EQ_INT(after.entries, before.entries);
    return atomic_load(&hit);
}

/* The first allocations one by one, then ever fewer of them. */
static void sweep(scenario *run, const void *context, int divisor) {
    stw_error error = {0};
    if (SLOW) divisor = 2;
    failing = KINDS;
    test_context("without a failure");
    if (!CHECK_EQ_INT(run(context, &error), STW_OK)) CHECK_STR(error.message, "");
    for (kind k = HEAP; k < KINDS; k++) {
        long long n = 1;
        while (check_one(run, context, k, n)) n += 1 + n / divisor;
        CHECK(n > 1 || k == HEAP); /* not everything needs the heap */
    }
    test_context("%s", "");
}

static void open_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/stowage-faults-XXXXXX");
    if (mkdtemp(folder) == NULL) abort();
}

static void close_folder(void) { CHECK(rmdir(folder) == 0); }

/* A mistake of the test itself. */
static void need(bool held) {
    if (!held) abort();
}

/* ---- searches ---- */

typedef struct search {
    const char *graph;         /* path */
    const char *options[8][2]; /* until NULL */
    const char *methods;       /* of compare; NULL: optimize; "train": train */
} search;

static stw_status set_options(const search *s, stw_options *options, stw_error *error) {
    for (int k = 0; k < 8 && s->options[k][0] != NULL; k++) {
        const stw_status status = stw_options_set(options, s->options[k][0], s->options[k][1], error);
        if (status != STW_OK) return status;
    }
    return STW_OK;
}

static void on_progress(void *context, const stw_progress *now) {
    (void)context;
    has_plan = now->has_plan;
}

static stw_status run_on(const search *s, const stw_simulator *simulator, const stw_options *options, stw_error *error) {
    const stw_watch watch = {.progress = on_progress};
    stw_result *result = NULL;
    has_plan = had_plan = false;
    const bool trains = s->methods != NULL && strcmp(s->methods, "train") == 0;
    stw_status status = trains               ? stw_train(simulator, options, &watch, &result, error)
                        : s->methods != NULL ? stw_compare(simulator, s->methods, options, &watch, &result, error)
                                             : stw_optimize(simulator, options, &watch, &result, error);
    const char *path = in_folder("plan.json");
    if (had_plan) CHECK_EQ_INT(status, STW_OK); /* it is kept */
    if (status == STW_OK) {                     /* there is a plan, whatever has failed */
        CHECK(stw_result_plan(result) != NULL || stw_result_is_short_of_memory(result));
        CHECK(stw_result_is_short_of_memory(result) <= atomic_load(&hit));
    }
    if (status == STW_OK) status = stw_result_write(result, path, false, error);
    const bool written = access(path, F_OK) == 0;
    CHECK(written == (status == STW_OK));
    if (written) (void)unlink(path);
    stw_result_destroy(result);
    if (trains) (void)unlink(in_folder("policy.stw"));
    return status;
}

static stw_status run_search(const void *context, stw_error *error) {
    const search *s = context;
    stw_options *options = NULL;
    stw_session *session = NULL;
    stw_status status = stw_options_create(&options, error);
    if (status == STW_OK) status = set_options(s, options, error);
    if (status == STW_OK) status = stw_session_open(s->graph, options, &session, error);
    if (status == STW_OK) status = run_on(s, stw_session_simulator(session), options, error);
    stw_session_destroy(session);
    stw_options_destroy(options);
    return status;
}

/* Two towers of products that are added up. */
static const char *write_towers(void) {
    enum { TOWERS = 2, LAYERS = 3 };
    const char *path = in_folder("towers.json");
    FILE *file = fopen(path, "w");
    int id = 1, last[TOWERS];
    need(file != NULL);
    fprintf(file, "{\"format\":\"opgraph\",\"version\":1,\"name\":\"towers\",\"nodes\":[");
    fprintf(file, "{\"id\":0,\"name\":\"x\",\"op\":\"input\",\"inputs\":[],\"dtype\":\"f32\",\"shape\":[256,256]}");
    for (int t = 0; t < TOWERS; t++) {
        int from = 0;
        for (int l = 0; l < LAYERS; l++, id += 2) {
            fprintf(file,
                    ",{\"id\":%d,\"name\":\"w%d\",\"op\":\"parameter\",\"inputs\":[],\"dtype\":\"f32\",\"shape\":[256,256]}", id,
                    id);
            fprintf(file,
                    ",{\"id\":%d,\"name\":\"m%d\",\"op\":\"mul\",\"inputs\":[%d,%d],\"dtype\":\"f32\",\"shape\":[256,256],"
                    "\"flops\":5000000000}",
                    id + 1, id, from, id);
            from = id + 1;
        }
        last[t] = from;
    }
    fprintf(file,
            ",{\"id\":%d,\"name\":\"sum\",\"op\":\"add\",\"inputs\":[%d,%d],\"dtype\":\"f32\",\"shape\":[256,256]}],"
            "\"loss\":%d,\"outputs\":[%d]}",
            id, last[0], last[1], id, id);
    need(fclose(file) == 0);
    return path;
}

static void sweep_search(const char *methods, const char *evaluations) {
    open_folder();
    static char path[128], policy[128];
    snprintf(path, sizeof path, "%s", write_towers());
    snprintf(policy, sizeof policy, "%s", in_folder("policy.stw"));
    const bool trains = methods != NULL && strcmp(methods, "train") == 0;
    const search s = {.graph = path,
                      .methods = methods,
                      .options = {{"machine", "h200x2"},
                                  {"threads", "1"},
                                  {trains ? "updates" : "evaluations", evaluations},
                                  {trains            ? "output"
                                   : methods == NULL ? "policy"
                                                     : "seed",
                                   trains            ? policy
                                   : methods == NULL ? "none"
                                                     : "1"}}};
    sweep(run_search, &s, trains || strstr(methods != NULL ? methods : "", "go-") != NULL ? 3 : 8); /* a network takes longer */
    (void)unlink(path);
    close_folder();
}

TEST(faults, optimize) { sweep_search(NULL, "40"); }
TEST(faults, compare_constructive) { sweep_search("single,spread,topo,random,etf,expert,metis,heft,sct,lean,steer", "6"); }
TEST(faults, compare_searches) { sweep_search("anneal,exact", "12"); }
TEST(faults, compare_policies) { sweep_search("go-zero,go-one", "12"); }
TEST(faults, compare_rivals) { sweep_search("hdp,placeto", "24"); }
TEST(faults, train) { sweep_search("train", "1"); }

/* ---- files in and out ---- */

/* What is written in spite of a failure is what is written without one. The file goes. */
static void check_written(const char *path, bool expected) {
    static uint64_t whole; /* of the run without a failure */
    uint64_t hash = 14695981039346656037u;
    FILE *file = fopen(path, "rb");
    CHECK((file != NULL) == expected);
    if (file == NULL) return;
    for (int byte; (byte = fgetc(file)) != EOF;) hash = (hash ^ (uint64_t)byte) * 1099511628211u;
    fclose(file);
    if (failing == KINDS) whole = hash;
    CHECK(hash == whole);
    (void)unlink(path);
}

typedef struct export_ {
    const char *graph, *format;
} export_;

static stw_status run_export(const void *context, stw_error *error) {
    const export_ *e = context;
    stw_options *options = NULL;
    stw_session *session = NULL;
    stw_export_io io = {.model_path = e->graph, .path = in_folder("out")};
    stw_status status = stw_options_create(&options, error);
    if (status == STW_OK) status = stw_options_set(options, "machine", "h200x2", error);
    if (status == STW_OK) status = stw_options_set(options, "plan", "spread", error);
    if (status == STW_OK) status = stw_session_open(e->graph, options, &session, error);
    if (status == STW_OK)
        status = stw_plan_export(stw_session_simulator(session), stw_session_plan(session), e->format, NULL, &io, error);
    check_written(io.path, status == STW_OK);
    stw_session_destroy(session);
    stw_options_destroy(options);
    return status;
}

static void sweep_export(const char *graph, const char *format) {
    open_folder();
    const export_ e = {.graph = graph, .format = format};
    sweep(run_export, &e, 6);
    close_folder();
}

#define DATA(name) STW_SOURCE_DIR "/tests/import/data/" name

TEST(faults, hlo_text) { sweep_export(DATA("hlo_conv.txt"), "hlo"); }
TEST(faults, hlo_proto) { sweep_export(DATA("hlo_conv.pb"), "hlo"); }
TEST(faults, hlo_as_text) { sweep_export(DATA("hlo_conv.pb"), "hlo-text"); }
TEST(faults, graphdef) { sweep_export(DATA("tf_mlp.pb"), "graphdef"); }
TEST(faults, graphdef_text) { sweep_export(DATA("tf_loop.pbtxt"), "csv"); }
TEST(faults, dot_and_packed) { sweep_export(DATA("tf_conv.pb.gz"), "dot"); }

TEST(faults, onnx) {
    stw_arena arena;
    need(stw_arena_create(&arena, NULL) == STW_OK);
    stw_pb_writer w = {.arena = &arena};
    onnx_node(&w, 1, "MatMul", "x w", "h", "");
    onnx_node(&w, 1, "Relu", "h", "a", "");
    onnx_node(&w, 1, "MatMul", "a v", "y", "");
    onnx_value(&w, 11, "x", ONNX_FLOAT, "8,16");
    onnx_weights(&w, 5, "w", "16,16");
    onnx_weights(&w, 5, "v", "16,4");
    onnx_value(&w, 12, "y", ONNX_FLOAT, "8,4");
    const stw_str model = onnx_model(&arena, (stw_str){w.data, w.length}, (stw_str){0});
    char path[] = "/tmp/stowage-faults-onnx-XXXXXX";
    const int descriptor = mkstemp(path);
    need(descriptor >= 0 && write(descriptor, model.p, (size_t)model.length) == model.length && close(descriptor) == 0);
    sweep_export(path, "onnx");
    sweep_export(path, "trace");
    (void)unlink(path);
    stw_arena_destroy(&arena);
}

/* JSON: what fails for want of memory is no fault of the file. */
static stw_status check_memory_alone(stw_status status, const stw_error *error) {
    if (status != STW_OK) CHECK_EQ_INT(status, STW_ERROR_MEMORY);
    if (status != STW_OK) CHECK_EQ_INT(error->status, STW_ERROR_MEMORY);
    return status;
}

static stw_status run_machine(const void *context, stw_error *error) {
    const char *text = context;
    stw_machine *machine = NULL;
    const stw_status status = stw_machine_parse(text, strlen(text), "machine", &machine, error);
    stw_machine_destroy(machine);
    return check_memory_alone(status, error);
}

TEST(faults, machine) {
    open_folder();
    sweep(run_machine,
          "{\"format\":\"machine\",\"version\":1,\"name\":\"m\\u0041\",\"devices\":[{\"name\":\"a\",\"kind\":\"h200\"},"
          "{\"name\":\"b\",\"kind\":\"h200\"}],\"links\":[{\"from\":\"a\",\"to\":\"b\",\"latency_us\":1,\"bus\":\"x\","
          "\"bandwidth_bytes_per_s\":[[1000,1e9],[1000000,2e9]]}]}",
          1000);
    close_folder();
}

static stw_status run_plan_file(const void *context, stw_error *error) {
    const char *text =
        "{\"format\":\"plan\",\"version\":1,\"device\":[0,0,1],\"priority\":[3,2,1],\"group\":[-1,1,2],"
        "\"order\":[[1],[2]]}";
    stw_graph *graph = NULL;
    stw_machine *machine = NULL;
    stw_plan *plan = NULL;
    stw_status status = stw_graph_parse(context, strlen(context), "graph", NULL, &graph, error);
    if (status == STW_OK) status = stw_machine_open("h200x2", &machine, error);
    if (status == STW_OK) status = stw_plan_parse(text, strlen(text), "plan", graph, machine, &plan, error);
    stw_plan_destroy(plan);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
    return check_memory_alone(status, error);
}

TEST(faults, graph_and_plan) {
    open_folder();
    sweep(run_plan_file,
          "{\"format\":\"opgraph\",\"version\":1,\"name\":\"g\",\"outputs\":[2],\"nodes\":["
          "{\"id\":0,\"name\":\"x\",\"op\":\"input\",\"inputs\":[],\"dtype\":\"f32\",\"shape\":[8]},"
          "{\"id\":1,\"name\":\"y\",\"op\":\"relu\",\"inputs\":[0],\"dtype\":\"f32\",\"shape\":[8]},"
          "{\"id\":2,\"name\":\"z\",\"op\":\"relu\",\"inputs\":[1],\"dtype\":\"f32\",\"shape\":[8]}]}",
          1000);
    close_folder();
}

/* ---- graphs that are made, and a policy for many ---- */

static stw_status run_generate(const void *context, stw_error *error) {
    const stw_family *family = stw_family_find("rnnlm");
    int64_t value[STW_PARAMETER_COUNT];
    stw_generated made = {0};
    stw_arena arena;
    need(family != NULL);
    stw_family_standard(family, value);
    value[STW_LAYERS] = 1;
    value[STW_STEPS] = 2;
    stw_status status = stw_arena_create(&arena, error);
    if (status == STW_OK) status = stw_generate(family, value, &arena, &made, error);
    const char *path = in_folder(context);
    if (status == STW_OK) status = stw_generate_write(family, &made, path, error);
    check_written(path, status == STW_OK);
    stw_arena_destroy(&arena);
    return status;
}

TEST(faults, generate) {
    static const char *const names[] = {"g.json", "g.json.gz", "g.json.zst"};
    open_folder();
    for (int k = 0; k < 3; k++) sweep(run_generate, names[k], 6);
    close_folder();
}
