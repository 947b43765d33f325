/* report: boxes of memory are what the simulator counts; the hash of the page's script; modules. */
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "support/random.h"
#include "test.h"

/* ---- memory ---- */

typedef struct event { /* of a device's memory */
    int64_t time_ps, bytes;
} event;

static int by_time(const void *left, const void *right) {
    const event *a = left, *b = right;
    if (a->time_ps != b->time_ps) return a->time_ps < b->time_ps ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes; /* what goes, before what comes */
}

/* The largest sum of the boxes of a device at any moment. */
static int64_t peak_of(const stw_box *box, int64_t count, int32_t device) {
    event *events = calloc((size_t)(2 * count + 1), sizeof *events);
    int64_t used = 0, held = 0, peak = 0;
    for (int64_t k = 0; k < count; k++) {
        if (box[k].device != device) continue;
        events[used++] = (event){box[k].from_ps, box[k].bytes};
        events[used++] = (event){box[k].to_ps, -box[k].bytes};
    }
    qsort(events, (size_t)used, sizeof *events, by_time);
    for (int64_t k = 0; k < used; k++) {
        held += events[k].bytes;
        if (held > peak) peak = held;
    }
    free(events);
    return peak;
}

/* What the simulator's own changes say is held, and the boxes, at the moments of all changes. */
static void check_held(const small *s, const stw_box *box, int64_t count) {
    const stw_timeline *timeline = &s->workspace->timeline;
    for (int64_t k = 0; k < timeline->change_count; k++) {
        const int64_t now = timeline->change[k].time_ps;
        const int32_t device = timeline->change[k].device;
        int64_t held = 0, boxes = 0;
        for (int64_t c = 0; c < timeline->change_count && timeline->change[c].time_ps <= now; c++)
            held += timeline->change[c].device == device ? timeline->change[c].bytes : 0;
        for (int64_t b = 0; b < count; b++)
            boxes += box[b].device == device && box[b].from_ps <= now && now < box[b].to_ps ? box[b].bytes : 0;
        if (now < s->result.step_ps) CHECK_EQ_INT(boxes, held);
    }
}

static int64_t check_apart(const stw_box *box, int64_t count) {
    int64_t together = 0;
    for (int64_t a = 0; a < count; a++) {
        CHECK(box[a].bytes > 0 && box[a].base >= 0 && box[a].from_ps < box[a].to_ps);
        for (int64_t b = a + 1; b < count; b++) {
            const bool meet = box[a].device == box[b].device && box[a].from_ps < box[b].to_ps && box[b].from_ps < box[a].to_ps;
            if (!meet) continue;
            together++;
            CHECK(box[a].base + box[a].bytes <= box[b].base || box[b].base + box[b].bytes <= box[a].base);
        }
    }
    return together;
}

TEST(report_boxes, are_what_the_simulator_counts) {
    const stw_rng seeds = stw_rng_create(4711);
    int64_t kinds[4] = {0}, together = 0;
    for (int number = 0; number < test_cases(400); number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        stw_arena arena;
        CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
        small *s = random_open(&rng, (random_shape){.nodes = 1 + (int32_t)stw_rng_below(&rng, 70),
                                                    .device_count = 1 + number % 5,
                                                    .buses = number % 3 == 0,
                                                    .charges = number % 2 == 0,
                                                    .contention = number % 6 == 5 ? "none" : "queue"});
        test_context("problem %d", number);
        random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        if (number % 2 == 1) random_groups(&rng, s->simulator, s->plan, 30);
        small_run(s);
        const stw_report_run run = {.plan = s->plan, .workspace = s->workspace, .result = s->result};
        stw_box *box;
        int64_t count;
        CHECK_EQ_INT(stw_report_boxes(&run, &arena, &box, &count, NULL), STW_OK);
        for (int32_t d = 0; d < s->machine->device_count; d++) CHECK_EQ_INT(peak_of(box, count, d), s->result.peak_bytes[d]);
        for (int64_t k = 0; k < count; k++) kinds[box[k].kind]++;
        check_held(s, box, count);
        together += check_apart(box, count);
        small_close(s);
        stw_arena_destroy(&arena);
    }
    test_context("%s", "");
    for (int k = 0; k < 4; k++) CHECK(kinds[k] > 50); /* each was put to the test */
    CHECK(together > 1000);
}

/* ---- the hash ---- */

static void check_hash(const char *text, int32_t times, const char *base64) {
    const char *part[64];
    int64_t length[64];
    uint8_t digest[32];
    char out[45];
    for (int32_t k = 0; k < times; k++) {
        part[k] = text;
        length[k] = (int64_t)strlen(text);
    }
    stw_sha256(part, length, times, digest);
    stw_base64(digest, sizeof digest, out);
    CHECK_STR(out, base64);
}

/* Known answers (FIPS 180-4's examples; the others by hashlib of Python), at the borders of a block. */
TEST(report_hash, known_answers) {
    check_hash("", 1, "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    check_hash("abc", 1, "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    check_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE=");
    check_hash("a", 55, "n0OQ+NMMLdkuyfCVtl4rmumwqSWlJY4kHJ8ekQ9zQxg=");
    check_hash("a", 56, "s1Q5pKxvCUi21vnjxq8PX1kM4g8b3nCQ73lwaG7Gc4o=");
    check_hash("a", 64, "/+BU/nrgy23GXDr5th1SCfQ5hR20PQulmXM33xVGaOs=");
}

/* ---- modules ---- */

#define PARAMETER(id, name, label) \
    "{'id':" #id ",'name':'" name "','op':'parameter','label':'" label "','inputs':[],'dtype':'u8','shape':[4]},"

static stw_str module_of(const stw_report_tree *tree, const small *s, const char *name) {
    const int32_t k = tree->of[small_node(s, name)];
    return k >= 0 ? tree->path[k] : STW_STR("");
}

TEST(report_modules, by_labels_of_parameters) {
    stw_arena arena;
    stw_report_tree tree;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    small *s = small_open((small_text){.nodes = PARAMETER(0, "w", "enc.0.weight") PARAMETER(1, "v", "enc.1.weight")
                                           SOURCE(2, "x", "input", 4) OP(3, "a", "[2]", 4, 1) OP(4, "b", "[0,3]", 4, 1)
                                               OP(5, "c", "[4]", 4, 1) OP(6, "d", "[1,5]", 4, 1)
                                                   OP_WITH(7, "u", "[0,6]", 4, 1, ",'updates':0")});
    CHECK_EQ_INT(stw_report_modules(s->graph, &arena, &tree, NULL), STW_OK);
    CHECK_EQ_INT(tree.count, 3);
    CHECK(stw_str_is(tree.path[0], "enc") && tree.parent[0] == -1);
    CHECK(stw_str_is(tree.path[1], "enc.0") && tree.parent[1] == 0);
    CHECK(stw_str_is(module_of(&tree, s, "a"), "enc"));
    CHECK(stw_str_is(module_of(&tree, s, "b"), "enc.0"));
    CHECK(stw_str_is(module_of(&tree, s, "c"), "enc"));
    CHECK(stw_str_is(module_of(&tree, s, "d"), "enc.1"));
    CHECK(stw_str_is(module_of(&tree, s, "u"), "enc.0"));
    small_close(s);
    stw_arena_destroy(&arena);
}

TEST(report_modules, by_names_where_there_are_no_labels) {
    stw_arena arena;
    stw_report_tree tree;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    small *s =
        small_open((small_text){.nodes = OP(0, "m/enc/add", "[]", 1, 2) OP(1, "m/out", "[0]", 1, 3) OP(2, "alone", "[1]", 1, 1)});
    CHECK_EQ_INT(stw_report_modules(s->graph, &arena, &tree, NULL), STW_OK);
    CHECK(stw_str_is(module_of(&tree, s, "m/enc/add"), "m/enc"));
    CHECK(stw_str_is(module_of(&tree, s, "m/out"), "m"));
    CHECK(stw_str_is(module_of(&tree, s, "alone"), ""));
    small_close(s);
    stw_arena_destroy(&arena);
}

TEST(report_modules, no_more_than_64_levels) {
#define EIGHT      "a/a/a/a/a/a/a/a/"
#define SIXTY_FOUR EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT
    stw_arena arena;
    stw_report_tree tree;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    small *s = small_open((small_text){.nodes = OP(0, SIXTY_FOUR "x", "[]", 1, 2) OP(1, SIXTY_FOUR "b/y", "[0]", 1, 3)});
    CHECK_EQ_INT(stw_report_modules(s->graph, &arena, &tree, NULL), STW_OK);
    CHECK_EQ_INT(tree.count, 64);
    for (int32_t k = 0; k < tree.count; k++) {
        CHECK_EQ_INT(tree.parent[k], k - 1);
        CHECK_EQ_INT(tree.path[k].length, 2 * k + 1);
    }
    CHECK_EQ_INT(tree.of[0], 63);
    CHECK_EQ_INT(tree.of[1], 63);
    small_close(s);
    stw_arena_destroy(&arena);
}
