/* export/hlo: modules that XLA would not write, or seldom: they are refused with a reason, or what is written can be read. */
#include <stdlib.h>
#include <time.h>

#include "hlo_problem.h"
#include "import/hlo/hlo.h"
#include "import/wire/pbwire.h"

static void check_reads_back(problem *p, int32_t ops) {
    export_well(p, "hlo");
    if (p->io.bytes != NULL) check_op_count(p, ops);
    export_well(p, "hlo-text");
    if (p->io.bytes != NULL) check_op_count(p, ops);
}

/* ---- groups ---- */

/* t goes with its only reader, n, into the fusion of a and n: then nobody reads b. */
TEST(hlo_odd, group_that_nobody_reads) {
    static const char text[] =
        "HloModule m\n"
        "ENTRY e {\n"
        "  p0 = f32[1024] parameter(0)\n"
        "  p1 = f32[1024] parameter(1)\n"
        "  c = f32[1024] multiply(p1, p1)\n"
        "  b = f32[1024] add(c, p1)\n"
        "  a = f32[1024] add(p0, p0)\n"
        "  t = (f32[1024], f32[1024]) tuple(a, b)\n"
        "  g = f32[1024] get-tuple-element(t), index=0\n"
        "  n = f32[1024] negate(g)\n"
        "  ROOT r = f32[1024] negate(n)\n"
        "}\n";
    problem p = open_text(text, "h200x1");
    set_group(&p, "c", 900);
    set_group(&p, "b", 900);
    set_group(&p, "a", 901);
    set_group(&p, "n", 901);
    check_reads_back(&p, 3);
    CHECK(has(&p, "ROOT b = ") && has(&p, "ROOT n = "));
    close_problem(&p);
}

TEST(hlo_odd, tuple_that_nobody_reads) {
    problem p = open_text(
        "HloModule m\n"
        "f {\n"
        "  x = f32[8] parameter(0)\n"
        "  ROOT t = (f32[8], f32[8]) tuple(x, x)\n"
        "}\n"
        "ENTRY e {\n"
        "  p = f32[8] parameter(0)\n"
        "  b = (f32[8], f32[8]) fusion(p), kind=kLoop, calls=f\n"
        "  a = f32[8] tanh(p)\n"
        "  t = (f32[8], (f32[8], f32[8])) tuple(a, b)\n"
        "  g = f32[8] get-tuple-element(t), index=0\n"
        "  c = (f32[8], f32[8]) fusion(p), kind=kLoop, calls=f\n"
        "  u = ((f32[8], f32[8]), (f32[8], f32[8]), f32[8]) tuple(b, c, a)\n"
        "  h = f32[8] get-tuple-element(u), index=2\n"
        "  n = f32[8] add(g, h)\n"
        "  ROOT r = f32[8] negate(n)\n"
        "}\n",
        "h200x1");
    set_group(&p, "a", 901);
    set_group(&p, "n", 901);
    set_group(&p, "b", 900);
    set_group(&p, "c", 900);
    check_invalid(&p, "yields a tuple");
    close_problem(&p);
}

/* ---- shapes that contradict each other ---- */

static void check_unreadable(const char *text, const char *why) {
    stw_graph *graph = NULL;
    stw_error error = {0};
    test_context("%s", why);
    CHECK_EQ_INT(stw_graph_parse(text, strlen(text), "module", NULL, &graph, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, why);
    test_context("%s", "");
    stw_graph_destroy(graph);
}

#define FUSION(root, lines)          \
    "HloModule m\n"                  \
    "f {\n"                          \
    "  x = f32[8] parameter(0)\n"    \
    "  y = f32[8] negate(x)\n"       \
    "  ROOT t = " root               \
    "\n"                             \
    "}\n"                            \
    "ENTRY e {\n"                    \
    "  p = f32[8] parameter(0)\n"    \
    "  q = f32[8] negate(p)\n" lines \
    "  ROOT r = f32[8] negate(q)\n"  \
    "}\n"

TEST(hlo_odd, shapes_of_fusions) {
    static const char why[] = "its shape is not that of its computation's root";
    check_unreadable(FUSION("(f32[8], f32[8]) tuple(y, x)", "  fu = f32[8] fusion(q), kind=kLoop, calls=f\n"), why);
    check_unreadable(FUSION("(f32[8], f32[8]) tuple(y, x)", "  fu = (f32[8], f32[8], f32[8]) fusion(q), kind=kLoop, calls=f\n"),
                     why);
    check_unreadable(FUSION("f32[8] negate(y)", "  fu = (f32[8], f32[8]) fusion(q), kind=kLoop, calls=f\n"), why);
    check_unreadable(FUSION("(f32[8], f32[8]) tuple(y, x)", "  fu = (f32[8], (f32[8])) fusion(q), kind=kLoop, calls=f\n"), why);
    check_unreadable(FUSION("f32[8] tuple(y)", ""), "its shape is not a tuple");
    check_unreadable(FUSION("(f32[8], f32[8]) tuple(y)", ""), "more parts than it has operands");
    check_unreadable(FUSION("f32[8] negate(y)",
                            "  t = (f32[8], f32[8]) tuple(p, q)\n"
                            "  g = (f32[8]) get-tuple-element(t), index=1\n"),
                     "its shape is not that of the element");
    problem p = open_text(FUSION("f32[8] negate(y)", "  t = () tuple(p, q)\n"), "h200x1");
    check_refused(&p, "its shape is not that of its operands");
    close_problem(&p);
}

TEST(hlo_odd, parameter_left_out) {
    problem p = open_text(
        "HloModule m\n"
        "ENTRY e {\n"
        "  x = f32[8] parameter(0)\n"
        "  y = f32[8] parameter(3)\n"
        "  a = f32[8] add(x, y)\n"
        "  ROOT r = f32[8] negate(a)\n"
        "}\n",
        "h200x1");
    set_group(&p, "a", 900);
    set_group(&p, "r", 900);
    check_refused(&p, "parameters up to 3, but no parameter(1)");
    close_problem(&p);
}

/* The root of a body that an instruction behind it reads. */
TEST(hlo_odd, root_that_is_read) {
    problem p = open_text(
        "HloModule m\n"
        "f {\n"
        "  x = f32[8] parameter(0)\n"
        "  ROOT t = (f32[8], f32[8]) tuple(x, x)\n"
        "  g = f32[8] get-tuple-element(t), index=1\n"
        "}\n"
        "ENTRY e {\n"
        "  p = f32[8] parameter(0)\n"
        "  q = f32[8] negate(p)\n"
        "  u = (f32[8], f32[8]) fusion(q), kind=kLoop, calls=f\n"
        "  g0 = f32[8] get-tuple-element(u), index=0\n"
        "  ROOT r = f32[8] negate(g0)\n"
        "}\n",
        "h200x1");
    set_group(&p, "q", 900);
    set_group(&p, "u", 900);
    check_invalid(&p, "reads its own results");
    close_problem(&p);
}

/* ---- text ---- */

TEST(hlo_odd, name_that_ends_in_entry) {
    static const char *const text[] = {
        "HloModule myENTRY\n\ne {\n p0 = f32[8] parameter(0)\n q = f32[8] negate(p0)\n ROOT r = f32[8] tanh(q)\n}\n",
        "HloModule ENTRY\n\ne {\n p0 = f32[8] parameter(0)\n q = f32[8] negate(p0)\n ROOT r = f32[8] tanh(q)\n}\n",
        "HloModule m // ENTRY\ne {\n p0 = f32[8] parameter(0)\n q = f32[8] negate(p0)\n ROOT r = f32[8] tanh(q)\n}\n",
        "HloModule m\nENTRY /* c */ e {\n p0 = f32[8] parameter(0)\n q = f32[8] negate(p0)\n ROOT r = f32[8] tanh(q)\n}\n"};
    for (int k = 0; k < 4; k++) {
        problem p = open_text(text[k], "h200x2");
        set_group(&p, "q", 900);
        set_group(&p, "r", 900);
        test_context("%s", text[k]);
        check_reads_back(&p, 1);
        check_before(&p, ", is_scheduled=true", "stowage_fused");
        check_before(&p, "stowage_fused", k == 3 ? "ENTRY /* c */ e {\n p0" : "\ne {\n p0");
        test_context("%s", "");
        close_problem(&p);
    }
}

TEST(hlo_odd, comments) {
    problem p = open_text(
        "HloModule m\n"
        "ENTRY e {\n"
        "  p0 = f32[8]{0} parameter(0)/* no space */q = f32[8]{0} negate(p0)\n"
        "  // trailing comment = with equals\n"
        "  s /* a=b */ = f32[8]{0} negate(/* ) */ q) // end of line } comment\n"
        "  k = f32[] /* c=d */ constant(/*(*/ 1 /*)*/) // one\n"
        "  ROOT /* c */ r = f32[8]{0} add(s, q), metadata={op_name=\"a\\\"b, index=3\"} // last\n"
        "}\n"
        "// after\n",
        "h200x2");
    check_reads_back(&p, 3);
    CHECK(has(&p, "negate(/* ) */ q), frontend_attributes={stowage_device=\"h200:0\"}, sharding={maximal device=0} // end"));
    CHECK(has(&p, "ROOT r = ") && !has(&p, "ROOT /*"));
    set_group(&p, "q", 900);
    set_group(&p, "s", 900);
    check_reads_back(&p, 2); /* the shape of s, written anew, is no comment */
    CHECK(has(&p, "-> (f32[8]{0}, f32[8]{0}) {"));
    close_problem(&p);
}

/* Of two roots the last counts; it must stay so when they change places. */
TEST(hlo_odd, two_roots) {
    problem p = open_text(
        "HloModule m\n"
        "ENTRY e {\n"
        "  p = f32[8] parameter(0)\n"
        "  ROOT a = f32[8] negate(p)\n"
        "  ROOT b = f32[8] tanh(p)\n"
        "}\n",
        "h200x1");
    set_priority(&p, "b", 9.0);
    export_well(&p, "hlo");
    check_before(&p, "ROOT b = ", "  a = ");
    CHECK(!has(&p, "ROOT a"));
    close_problem(&p);
}

/* ---- attributes that only look like ours ---- */

TEST(hlo_odd, attributes_of_others) {
    problem p = open_text(
        "HloModule m\n"
        "ENTRY e {\n"
        "  x = f32[8] parameter(0)\n"
        "  a = f32[8] negate(x), frontend_attributes={note=\"like stowage_device\"}, sharding={maximal device=1}\n"
        "  b = f32[8] negate(a), frontend_attributes={stowage_device_hint=\"x, stowage_device=y\",k=\"v\"}\n"
        "  ROOT c = f32[8] negate(b), frontend_attributes={k=\"v\", stowage_device=\"old\"}, sharding={maximal device=1}\n"
        "}\n",
        "h200x2");
    export_well(&p, "hlo");
    CHECK(has(&p, "sharding={maximal device=1}, frontend_attributes={note=\"like stowage_device\",stowage_device=\"h200:0\"}\n"));
    CHECK(
        has(&p, "{stowage_device_hint=\"x, stowage_device=y\",k=\"v\",stowage_device=\"h200:0\"}, sharding={maximal device=0}"));
    CHECK(has(&p, "negate(b), frontend_attributes={k=\"v\",stowage_device=\"h200:0\"}, sharding={maximal device=0}\n"));
    close_problem(&p);
}

/* ---- protobufs ---- */

enum { F32 = 11 };

typedef struct maker { /* of a module: p -> q -> s -> r, the last with q */
    stw_arena arena;
    stw_pb_writer w;
    stw_str name[4];
    int64_t id[4], computation;
    stw_str note; /* FrontendAttributes of q */
} maker;

static maker make(void) {
    maker m = {.name = {STW_STR("p"), STW_STR("q"), STW_STR("s"), STW_STR("r")}, .id = {1, 2, 3, 4}, .computation = 10};
    CHECK_EQ_INT(stw_arena_create(&m.arena, NULL), STW_OK);
    return m;
}

static void write_shape(stw_pb_writer *w, int64_t field, const int64_t *size, const int64_t *order, int64_t rank) {
    const int64_t shape = stw_pb_begin(w, field);
    stw_pb_write_int(w, 2, F32);
    stw_pb_write_ints(w, 3, size, rank);
    const int64_t layout = stw_pb_begin(w, 5);
    stw_pb_write_ints(w, 1, order, rank);
    stw_pb_end(w, layout);
    stw_pb_end(w, shape);
}

static void write_instruction(stw_pb_writer *w, stw_str name, const char *opcode, int64_t id, const int64_t *operand,
                              int64_t operands, stw_str note) {
    const int64_t eight = 8, zero = 0, begun = stw_pb_begin(w, 2);
    stw_pb_write_string(w, 1, name);
    stw_pb_write_string(w, 2, stw_str_of(opcode));
    write_shape(w, 3, &eight, &zero, 1);
    stw_pb_write_int(w, 35, id);
    if (operands > 0) stw_pb_write_ints(w, 36, operand, operands);
    if (note.length > 0) stw_pb_write_raw(w, note);
    stw_pb_end(w, begun);
}

static stw_str finish(maker *m) {
    stw_str out = {0};
    m->w = (stw_pb_writer){.arena = &m->arena};
    stw_pb_write_string(&m->w, 1, STW_STR("m"));
    const int64_t begun = stw_pb_begin(&m->w, 3);
    const int64_t last[] = {m->id[2], m->id[1]};
    stw_pb_write_string(&m->w, 1, STW_STR("e"));
    write_instruction(&m->w, m->name[0], "parameter", m->id[0], NULL, 0, (stw_str){0});
    write_instruction(&m->w, m->name[1], "negate", m->id[1], &m->id[0], 1, m->note);
    write_instruction(&m->w, m->name[2], "negate", m->id[2], &m->id[1], 1, (stw_str){0});
    write_instruction(&m->w, m->name[3], "add", m->id[3], last, 2, (stw_str){0});
    stw_pb_write_int(&m->w, 5, m->computation);
    stw_pb_write_int(&m->w, 6, m->id[3]);
    stw_pb_end(&m->w, begun);
    stw_pb_write_int(&m->w, 6, m->computation);
    CHECK_EQ_INT(stw_pb_written(&m->w, &out, NULL), STW_OK);
    return out;
}

static problem open_made(maker *m) {
    problem p = open_bytes(finish(m), "h200x1");
    set_group(&p, "q", 900);
    set_group(&p, "s", 900);
    return p;
}

TEST(hlo_odd, no_ids_left) {
    static const struct {
        int64_t first, last, computation;
        bool fits;
    } cases[] = {
        {1, 4, 10, true},
        {1, INT64_MAX, 10, false},      /* of instructions */
        {1, 4, INT64_MAX, false},       /* of computations */
        {1, 4, (int64_t)1 << 40, true}, /* in no half of anything */
        {((int64_t)INT32_MAX << 32) + 1, ((int64_t)INT32_MAX << 32) + 4, INT32_MAX, false},
        {((int64_t)7 << 32) + 1, ((int64_t)7 << 32) + 4, 7, true}, /* the computation's in the upper half */
        {((int64_t)7 << 32) + 1, ((int64_t)7 << 32) + UINT32_MAX, 7, false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        maker m = make();
        for (int i = 0; i < 3; i++) m.id[i] = cases[k].first + i;
        m.id[3] = cases[k].last;
        m.computation = cases[k].computation;
        problem p = open_made(&m);
        test_context("case %zu", k);
        if (cases[k].fits) check_reads_back(&p, 2);
        if (!cases[k].fits) check_refused(&p, "renumber it");
        test_context("%s", "");
        close_problem(&p);
        stw_arena_destroy(&m.arena);
    }
}

TEST(hlo_odd, names_of_any_bytes) {
    static const char *const names[][4] = {
        {"p 0", "q\n}", "s\"", "r%"}, {"a", "a", "a", "a.1"}, {"a b", "a_b", "a%b", "a_b.1"}, {"ROOT", "", "7", "ENTRY"}};
    for (int k = 0; k < 4; k++) {
        maker m = make();
        for (int i = 0; i < 4; i++) m.name[i] = stw_str_of(names[k][i]);
        problem p = open_bytes(finish(&m), "h200x2");
        test_context("case %d", k);
        export_well(&p, "hlo-text");
        if (p.io.bytes != NULL) check_op_count(&p, 3);
        if (k == 0) CHECK(has(&p, "ROOT %r_ = f32[8]{0} add(%s_, %q__)"));
        if (k == 2) CHECK(has(&p, "%a_b = f32[8]{0} negate(%a_b.")); /* a name that is fit stays */
        test_context("%s", "");
        close_problem(&p);
        stw_arena_destroy(&m.arena);
    }
}

TEST(hlo_odd, entries_of_others) {
    maker m = make();
    stw_pb_writer w = {.arena = &m.arena};
    const int64_t note = stw_pb_begin(&w, 68), entry = stw_pb_begin(&w, 1);
    stw_pb_write_string(&w, 1, STW_STR("note"));
    stw_pb_write_string(&w, 2, STW_STR("like stowage_device"));
    stw_pb_end(&w, entry);
    stw_pb_end(&w, note);
    const int64_t sharding = stw_pb_begin(&w, 40), three = 3;
    stw_pb_write_int(&w, 1, 1);
    stw_pb_write_ints(&w, 4, &three, 1);
    stw_pb_end(&w, sharding);
    CHECK_EQ_INT(stw_pb_written(&w, &m.note, NULL), STW_OK);
    problem p = open_bytes(finish(&m), "h200x1");
    export_well(&p, "hlo-text");
    CHECK(has(&p, "sharding={maximal device=3}, frontend_attributes={note=\"like stowage_device\"}"));
    close_problem(&p);
    stw_arena_destroy(&m.arena);
}

/* A layout that names one dimension twice would leave the other without a bound. */
TEST(hlo_odd, layout_is_no_permutation) {
    maker m = make();
    stw_pb_writer w = {.arena = &m.arena};
    const int64_t size[] = {1, (int64_t)1 << 40}, order[] = {0, 0}, one = 1, none = 0;
    stw_str bytes = {0};
    stw_pb_write_string(&w, 1, STW_STR("m"));
    const int64_t computation = stw_pb_begin(&w, 3);
    const int64_t constant = stw_pb_begin(&w, 2);
    stw_pb_write_string(&w, 1, STW_STR("c"));
    stw_pb_write_string(&w, 2, STW_STR("constant"));
    write_shape(&w, 3, &one, &none, 1);
    stw_pb_write_int(&w, 35, 1);
    const int64_t literal = stw_pb_begin(&w, 8);
    write_shape(&w, 1, size, order, 2);
    stw_pb_write_string(&w, 8, STW_STR("01234567"));
    stw_pb_end(&w, literal);
    stw_pb_end(&w, constant);
    write_instruction(&w, STW_STR("n"), "negate", 2, &one, 1, (stw_str){0});
    stw_pb_write_int(&w, 5, 10);
    stw_pb_end(&w, computation);
    CHECK_EQ_INT(stw_pb_written(&w, &bytes, NULL), STW_OK);
    problem p = open_bytes(bytes, "h200x1");
    export_well(&p, "hlo-text");
    CHECK(has(&p, "%c = f32[1]{0} constant({...})"));
    close_problem(&p);
    stw_arena_destroy(&m.arena);
}

/* ---- time ---- */

enum { MANY = 20000 };

static double seconds_of(const char *text, const char *format) {
    problem p = open_text(text, "h200x1");
    const clock_t begun = clock();
    export_well(&p, format);
    const double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    close_problem(&p);
    return seconds;
}

/* Text with room for more. */
static char *start_text(char **at) {
    char *text = malloc(64 * 4 * MANY);
    *at = text + sprintf(text, "HloModule m\nENTRY e {\n  v0 = f32[8]{0} parameter(0)\n");
    return text;
}

static void add_readers(char **at, int32_t of, bool in_turn) {
    for (int32_t k = 0; k < MANY; k++) *at += sprintf(*at, "  r%d = f32[8]{0} negate(v%d)\n", k, in_turn ? k : of);
    *at += sprintf(*at, "  ROOT t = f32[8]{0} add(r0, r1)");
}

/* Modules whose lists are long, against one as large whose lists are short: in time that grows with the square they would take
 * ten times as long and more. */
TEST(hlo_odd, long_lists) {
    char *at = NULL, *text = start_text(&at);
    for (int32_t k = 1; k < MANY; k++) at += sprintf(at, "  v%d = f32[8]{0} negate(v%d)\n", k, k - 1);
    add_readers(&at, 0, true);
    sprintf(at, "\n}\n");
    const double usual = seconds_of(text, "hlo") + 0.05;
    free(text);

    text = start_text(&at); /* one op with many operands */
    at += sprintf(at, "  ROOT t = f32[8]{0} custom-call(v0");
    for (int32_t k = 1; k < MANY; k++) at += sprintf(at, ", v0");
    at += sprintf(at, "), custom_call_target=\"x\", operand_layout_constraints={f32[8]{0}");
    for (int32_t k = 1; k < MANY; k++) at += sprintf(at, ", f32[8]{0}");
    sprintf(at, "}\n}\n");
    CHECK(seconds_of(text, "hlo") < 4 * usual);
    free(text);

    text = start_text(&at); /* many readers of the end of a chain of views */
    at += sprintf(at, "  v1 = f32[8]{0} negate(v0)\n");
    for (int32_t k = 2; k < MANY; k++) at += sprintf(at, "  v%d = f32[8]{0} bitcast(v%d)\n", k, k - 1);
    add_readers(&at, MANY - 1, false);
    sprintf(at, "\n}\n");
    CHECK(seconds_of(text, "hlo") < 4 * usual);
    free(text);

    text = start_text(&at); /* one op that waits for many, as it says ten times */
    add_readers(&at, 0, false);
    at += sprintf(at, ", control-predecessors={r0");
    for (int32_t k = 1; k < 10 * MANY; k++) at += sprintf(at, ", r%d", k % MANY);
    sprintf(at, "}\n}\n");
    CHECK(seconds_of(text, "hlo") < 4 * usual);
    free(text);
}

/* Many computations, each with a schedule of its own. */
static stw_str make_computations(stw_arena *arena, int32_t count) {
    stw_pb_writer w = {.arena = arena}, s = {.arena = arena};
    stw_str out = {0}, schedule = {0};
    stw_pb_write_string(&w, 1, STW_STR("m"));
    for (int32_t k = 0; k <= count; k++) {
        const int64_t id[] = {10 * (int64_t)k + 1, 10 * (int64_t)k + 2};
        const int64_t begun = stw_pb_begin(&w, 3);
        stw_pb_write_string(&w, 1, stw_str_format(arena, "c%d", k));
        write_instruction(&w, STW_STR("x"), "parameter", id[0], NULL, 0, (stw_str){0});
        write_instruction(&w, STW_STR("y"), "negate", id[1], id, 1, (stw_str){0});
        stw_pb_write_int(&w, 5, k + 1);
        stw_pb_end(&w, begun);
        const int64_t sequence = stw_pb_begin(&s, 1);
        stw_pb_write_int(&s, 1, k + 1);
        const int64_t ids = stw_pb_begin(&s, 2);
        stw_pb_write_ints(&s, 1, id, 2);
        stw_pb_end(&s, ids);
        stw_pb_end(&s, sequence);
    }
    CHECK_EQ_INT(stw_pb_written(&s, &schedule, NULL), STW_OK);
    stw_pb_write_string(&w, 7, schedule);
    CHECK_EQ_INT(stw_pb_written(&w, &out, NULL), STW_OK);
    return out;
}

TEST(hlo_odd, many_computations) {
    double seconds[2] = {0};
    for (int k = 0; k < 2; k++) {
        stw_arena arena;
        if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
        problem p = open_bytes(make_computations(&arena, k == 0 ? MANY / 10 : MANY), "h200x1");
        const clock_t begun = clock();
        export_well(&p, "hlo-text");
        seconds[k] = (double)(clock() - begun) / CLOCKS_PER_SEC;
        close_problem(&p);
        stw_arena_destroy(&arena);
    }
    CHECK(seconds[1] < 30 * seconds[0] + 0.1);
}

TEST(hlo_odd, aliased_twice) {
    problem p = open_text(
        "HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (0, {}, may-alias) }\n"
        "ENTRY e {\n"
        "  p = f32[8] parameter(0)\n"
        "  a = f32[8] negate(p)\n"
        "  b = f32[8] tanh(p)\n"
        "  ROOT t = (f32[8], f32[8]) tuple(a, b)\n"
        "}\n",
        "h200x1");
    check_refused(&p, "names parameter 0 twice");
    close_problem(&p);
    p = open_text(
        "HloModule m, input_output_alias={ {0}: (0, {0}, may-alias), {1}: (0, {1}, may-alias) }\n"
        "ENTRY e {\n"
        "  p = (f32[8], f32[8]) parameter(0)\n"
        "  x = f32[8] get-tuple-element(p), index=0\n"
        "  y = f32[8] get-tuple-element(p), index=1\n"
        "  a = f32[8] negate(y)\n"
        "  b = f32[8] tanh(x)\n"
        "  ROOT t = (f32[8], f32[8]) tuple(a, b)\n"
        "}\n",
        "h200x1");
    check_reads_back(&p, 2); /* two parts */
    close_problem(&p);
}
