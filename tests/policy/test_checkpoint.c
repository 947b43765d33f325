/* policy/checkpoint: files come back bit for bit, and damage of any kind is an error that says what. */
#include "policy/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "policy/example.h"

typedef struct {
    stw_arena arena;
    char path[64];
} place;

static place begin(void) {
    place p = {0};
    CHECK(stw_arena_create(&p.arena, NULL) == STW_OK);
    snprintf(p.path, sizeof p.path, "checkpoint-%d.stw", (int)getpid());
    return p;
}

static void end(place *p) {
    unlink(p->path);
    stw_arena_destroy(&p->arena);
    test_context("%s", "");
}

static const float floats[] = {1.5f, -0.0f, 3e-45f, INFINITY};
static const double reals[] = {1e300, -2.0, 5e-324};
static const int32_t ints[] = {-1, 2147483647};
static const int64_t longs[] = {INT64_MIN, INT64_MAX, 7};

static stw_tensor_file small_file(stw_tensor tensor[5]) {
    const stw_tensor all[5] = {{"floats", STW_TENSOR_F32, 2, 2, floats},
                               {"reals", STW_TENSOR_F64, 1, 3, reals},
                               {"ints", STW_TENSOR_I32, 2, 1, ints},
                               {"nothing", STW_TENSOR_F64, 0, 5, NULL},
                               {"longs", STW_TENSOR_I64, 3, 1, longs}};
    memcpy(tensor, all, sizeof all);
    stw_tensor_file file = {.dimension_count = 2, .dimension = {{"width", 12}, {"low", -3}}, .count = 5, .tensor = tensor};
    return file;
}

static stw_str written(place *p, const stw_tensor_file *file) {
    stw_str bytes = {0};
    CHECK(stw_tensor_file_write(file, p->path, NULL) == STW_OK);
    CHECK(stw_file_read(p->path, &p->arena, &bytes, NULL) == STW_OK);
    return bytes;
}

TEST(checkpoint, comes_back) {
    place p = begin();
    stw_tensor tensor[5];
    const stw_tensor_file file = small_file(tensor);
    stw_tensor_file back;
    stw_error error = {0};
    written(&p, &file);
    CHECK(stw_tensor_file_read(p.path, &p.arena, &back, &error) == STW_OK);
    CHECK_EQ_INT(back.count, 5);
    int64_t value = 0;
    CHECK(stw_tensor_file_dimension(&back, "low", &value) && value == -3);
    CHECK(!stw_tensor_file_dimension(&back, "high", &value));
    const stw_tensor *t = NULL;
    CHECK(stw_tensor_expect(&back, "floats", STW_TENSOR_F32, 2, 2, &t, &error) == STW_OK);
    CHECK(memcmp(t->data, floats, sizeof floats) == 0);
    CHECK(stw_tensor_expect(&back, "reals", STW_TENSOR_F64, 1, 3, &t, &error) == STW_OK);
    CHECK(memcmp(t->data, reals, sizeof reals) == 0);
    CHECK(memcmp(stw_tensor_find(&back, "ints")->data, ints, sizeof ints) == 0);
    CHECK(memcmp(stw_tensor_find(&back, "longs")->data, longs, sizeof longs) == 0);
    CHECK(stw_tensor_find(&back, "other") == NULL);
    CHECK(stw_tensor_expect(&back, "reals", STW_TENSOR_F64, 3, 1, &t, &error) == STW_ERROR_INPUT);
    CHECK_STR(error.message, "tensor reals is f64 of 1 x 3; expected is f64 of 3 x 1");
    CHECK(stw_tensor_expect(&back, "other", STW_TENSOR_F64, 3, 1, &t, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "no tensor other");
    end(&p);
}

static bool refused(stw_str bytes, stw_arena scratch, char message[500]) {
    stw_tensor_file file;
    stw_error error = {0};
    const stw_status status = stw_tensor_file_parse(bytes, "some.stw", &scratch, &file, &error);
    if (message != NULL) memcpy(message, error.message, sizeof error.message);
    return status == STW_ERROR_INPUT && strncmp(error.message, "some.stw: ", 10) == 0 && strchr(error.message, '\n') == NULL;
}

TEST(checkpoint, cut_anywhere) {
    place p = begin();
    stw_tensor tensor[5];
    const stw_tensor_file file = small_file(tensor);
    const stw_str bytes = written(&p, &file);
    for (int64_t length = 0; length < bytes.length; length++) {
        char *exact = malloc((size_t)length + 1); /* so that the address sanitizer sees the end */
        memmove(exact, bytes.p, (size_t)length);
        test_context("%d bytes", (int)length);
        CHECK(refused((stw_str){exact, length}, p.arena, NULL));
        free(exact);
    }
    end(&p);
}

TEST(checkpoint, a_bit_turned_anywhere) {
    place p = begin();
    stw_tensor tensor[5];
    const stw_tensor_file file = small_file(tensor);
    const stw_str bytes = written(&p, &file);
    char *copy = STW_NEW(&p.arena, char, bytes.length);
    memcpy(copy, bytes.p, (size_t)bytes.length);
    for (int64_t bit = 0; bit < 8 * bytes.length; bit++) {
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
        test_context("bit %d", (int)bit);
        CHECK(refused((stw_str){copy, bytes.length}, p.arena, NULL));
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
    }
    end(&p);
}

/* What a file with a right checksum may still say wrongly: `place` in the small file is overwritten. */
static void check_said(const place *p, stw_str bytes, int64_t at, uint64_t value, int size, const char *message) {
    stw_arena scratch = p->arena;
    char *copy = STW_NEW(&scratch, char, bytes.length), said[500];
    memcpy(copy, bytes.p, (size_t)bytes.length);
    for (int i = 0; i < size; i++) copy[at + i] = (char)(value >> 8 * i & 255u);
    const uint64_t checksum = stw_str_hash((stw_str){copy, bytes.length - 8});
    for (int i = 0; i < 8; i++) copy[bytes.length - 8 + i] = (char)(checksum >> 8 * i & 255u);
    CHECK(refused((stw_str){copy, bytes.length}, scratch, said));
    CHECK_CONTAINS(said, message);
}

TEST(checkpoint, wrong_with_a_right_checksum) {
    place p = begin();
    stw_tensor tensor[5];
    const stw_tensor_file file = small_file(tensor);
    const stw_str bytes = written(&p, &file);
    /* magic 8, version 4, count 4, dimensions (2 + 5 + 8) + (2 + 3 + 8), count 4, then "floats": name 2 + 6, type, rows, ... */
    const int64_t dimension = 16, tensors = 16 + 15 + 13, first = tensors + 4, type = first + 8, rows = type + 4,
                  offset = rows + 16;
    check_said(&p, bytes, 8, 2, 4, "has version 2 of the format; this program reads 1");
    check_said(&p, bytes, 12, 65, 4, "65 dimensions; at most 64 are read");
    check_said(&p, bytes, 12, UINT32_MAX, 4, "4294967295 dimensions");
    check_said(&p, bytes, dimension, 0, 2, "has a bad name of 0 bytes");
    check_said(&p, bytes, dimension, 64, 2, "has a bad name of 64 bytes");
    check_said(&p, bytes, dimension, 65535, 2, "ends within a dimension");
    check_said(&p, bytes, dimension + 2, '\n', 1, "has a bad name of 5 bytes");
    check_said(&p, bytes, tensors, 4097, 4, "4097 tensors; at most 4096 are read");
    check_said(&p, bytes, tensors, 4096, 4, "tensor"); /* reads the data as more of the table */
    check_said(&p, bytes, type, 4, 4, "tensor floats has type 4");
    check_said(&p, bytes, rows, UINT64_MAX, 8, "is outside of the file");
    check_said(&p, bytes, rows, (uint64_t)1 << 62, 8, "is outside of the file");
    check_said(&p, bytes, rows, 1000, 8, "tensor floats: 1000 x 2 from byte");
    check_said(&p, bytes, offset, UINT64_MAX, 8, "is outside of the file");
    check_said(&p, bytes, offset, (uint64_t)bytes.length - 16, 8, "is outside of the file");
    check_said(&p, bytes, offset, 0, 8, "tensor floats begins at byte 0, within what ends at");
    end(&p);
}

TEST(checkpoint, names_are_distinct) {
    place p = begin();
    stw_tensor tensor[5];
    stw_tensor_file file = small_file(tensor);
    stw_error error = {0};
    strcpy(tensor[4].name, "floats");
    CHECK(stw_tensor_file_write(&file, p.path, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "two of the name");
    strcpy(tensor[4].name, "float\t");
    CHECK(stw_tensor_file_write(&file, p.path, &error) == STW_ERROR_INPUT);
    strcpy(tensor[4].name, "floatz");
    const stw_str bytes = written(&p, &file);
    for (int64_t i = 0; i + 6 < bytes.length; i++) {
        if (memcmp(bytes.p + i, "floatz", 6) == 0) check_said(&p, bytes, i + 5, 's', 1, "tensor floats is there twice");
    }
    CHECK(stw_tensor_file_write(&file, "no/such/folder/x.stw", &error) == STW_ERROR_IO);
    CHECK_CONTAINS(error.message, "no/such/folder/x.stw: cannot be written");
    stw_tensor_file back;
    CHECK(stw_tensor_file_read("no-such-file.stw", &p.arena, &back, &error) != STW_OK);
    CHECK_CONTAINS(error.message, "no-such-file.stw");
    end(&p);
}

/* Between networks: only one of the same dimensions, and all or nothing. */
TEST(checkpoint, networks) {
    place p = begin();
    stw_error error = {0};
    stw_backend *backend = NULL;
    stw_net *net = NULL, *other = NULL;
    stw_policy_config c = example_config(false, 4), stated;
    CHECK(stw_backend_cpu(NULL, &backend, NULL) == STW_OK);
    CHECK(stw_net_create(&c, backend, 1, &net, NULL) == STW_OK);
    stw_tensor_file file = {.tensor = STW_NEW(&p.arena, stw_tensor, 3 * STW_MAX_PARAMETERS)};
    CHECK(stw_net_save(net, false, &p.arena, &file, &error) == STW_OK);
    CHECK(stw_net_config_of(&file, &stated, &error) == STW_OK);
    CHECK(memcmp(&stated, &c, sizeof c) == 0);

    c.width = 16;
    CHECK(stw_net_create(&c, backend, 1, &other, NULL) == STW_OK);
    CHECK(stw_net_load(other, &file, p.arena, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "the file's network has width 8, this one 16");
    stw_net_destroy(other);

    c.width = 8;
    CHECK(stw_net_create(&c, backend, 2, &other, NULL) == STW_OK);
    const stw_parameters *q = stw_net_parameters(other);
    float *before = STW_NEW(&p.arena, float, q->total);
    memcpy(before, q->value, (size_t)q->total * sizeof *before);
    file.count--;
    CHECK(stw_net_load(other, &file, p.arena, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "the file has no tensor parameter/common.nudge.bias");
    CHECK(memcmp(before, q->value, (size_t)q->total * sizeof *before) == 0);
    file.count++;
    CHECK(stw_net_load(other, &file, p.arena, &error) == STW_OK);
    CHECK(memcmp(stw_net_parameters(net)->value, q->value, (size_t)q->total * sizeof *before) == 0);
    file.dimension_count = 3;
    CHECK(stw_net_config_of(&file, &stated, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "the file does not state device_columns");
    stw_net_destroy(other);
    stw_net_destroy(net);
    stw_backend_destroy(backend);
    end(&p);
}

static stw_tensor_file saved(place *p, const stw_policy_config *c, stw_backend *backend, stw_net **net) {
    stw_tensor_file file = {.tensor = STW_NEW(&p->arena, stw_tensor, 3 * STW_MAX_PARAMETERS)};
    CHECK(stw_net_create(c, backend, 1, net, NULL) == STW_OK);
    CHECK(stw_net_save(*net, true, &p->arena, &file, NULL) == STW_OK);
    return file;
}

static void check_refused(const stw_tensor_file *file, const stw_policy_config *c, stw_backend *backend, stw_arena scratch,
                          const char *message) {
    stw_net *net = NULL;
    stw_error error = {0};
    CHECK(stw_net_create(c, backend, 2, &net, NULL) == STW_OK);
    CHECK(stw_net_load(net, file, scratch, &error) == STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, message);
    stw_net_destroy(net);
}

/* A network for one graph: through the file bit for bit, and into none for another graph, or for any. */
TEST(checkpoint, networks_for_one_graph) {
    place p = begin();
    stw_error error = {0};
    stw_backend *backend = NULL;
    stw_net *net = NULL, *other = NULL;
    stw_policy_config c = example_config(false, 4), stated;
    c.identities = 9;
    CHECK(stw_backend_cpu(NULL, &backend, NULL) == STW_OK);
    const stw_tensor_file file = saved(&p, &c, backend, &net);
    stw_tensor_file back;
    written(&p, &file);
    CHECK(stw_tensor_file_read(p.path, &p.arena, &back, &error) == STW_OK);
    CHECK(stw_net_config_of(&back, &stated, &error) == STW_OK);
    CHECK(memcmp(&stated, &c, sizeof c) == 0);
    const stw_tensor *t = NULL;
    CHECK(stw_tensor_expect(&back, "parameter/input.identity", STW_TENSOR_F32, 9, 8, &t, &error) == STW_OK);
    CHECK(stw_tensor_expect(&back, "second/input.identity", STW_TENSOR_F32, 9, 8, &t, &error) == STW_OK);
    CHECK(stw_tensor_expect(&back, "parameter/head.steer.own.weight", STW_TENSOR_F32, STW_STEER_KNOBS, 8, &t, &error) == STW_OK);
    CHECK(stw_net_create(&stated, backend, 2, &other, NULL) == STW_OK);
    const stw_parameters *a = stw_net_parameters(net), *b = stw_net_parameters(other);
    CHECK(memcmp(a->value, b->value, (size_t)a->total * sizeof(float)) != 0);
    CHECK(stw_net_load(other, &back, p.arena, &error) == STW_OK);
    CHECK(memcmp(a->value, b->value, (size_t)a->total * sizeof(float)) == 0);

    c.identities = 10;
    check_refused(&back, &c, backend, p.arena, "the file's network has identities 9, this one 10");
    c.identities = 0;
    check_refused(&back, &c, backend, p.arena, "the file's network has identities 9, this one 0");
    stw_net_destroy(other);
    stw_net_destroy(net);
    stw_backend_destroy(backend);
    end(&p);
}

/* A file that says nothing of identities, as those from before there were any, or that lacks what it says. */
TEST(checkpoint, identities_that_are_not_there) {
    place p = begin();
    stw_backend *backend = NULL;
    stw_net *net = NULL;
    stw_policy_config c = example_config(false, 4);
    c.identities = 9;
    CHECK(stw_backend_cpu(NULL, &backend, NULL) == STW_OK);
    stw_tensor_file file = saved(&p, &c, backend, &net);
    for (int32_t i = 0; i < file.count; i++) {
        if (strcmp(file.tensor[i].name, "parameter/input.identity") == 0) strcpy(file.tensor[i].name, "parameter/other");
    }
    check_refused(&file, &c, backend, p.arena, "the file has no tensor parameter/input.identity");
    for (int32_t i = 0; i < file.dimension_count; i++) {
        if (strcmp(file.dimension[i].name, "identities") == 0) strcpy(file.dimension[i].name, "other");
    }
    check_refused(&file, &c, backend, p.arena, "the file does not state identities");
    stw_net_destroy(net);
    stw_backend_destroy(backend);
    end(&p);
}
