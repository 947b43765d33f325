/* import/ort_profile: a profile that ONNX Runtime 1.31 wrote of five runs of a small model, and events by hand. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "import/profile/ort_profile.h"
#include "test.h"

#define DATA STW_SOURCE_DIR "/tests/import/data/"

static const stw_ort_time *find(const stw_ort_profile *profile, const char *name, const char *provider) {
    for (int64_t i = 0; i < profile->count; i++) {
        if (stw_str_is(profile->time[i].name, name) && stw_str_is(profile->time[i].provider, provider)) return &profile->time[i];
    }
    return NULL;
}

TEST(ort_profile, of_a_session) {
    static const char *const names[] = {"mm1", "mm2", "relu", "sm"};
    stw_arena arena;
    stw_str text = {0};
    stw_error error = {0};
    stw_ort_profile profile = {0};
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    CHECK_EQ_INT(stw_file_read(DATA "ort_profile.json", &arena, &text, &error), STW_OK);
    CHECK(stw_ort_profile_is(text));
    CHECK_EQ_INT(stw_ort_profile_read(text, &arena, &profile, &error), STW_OK);
    CHECK_STR(error.message, "");
    CHECK_EQ_INT(profile.count, 4);
    for (int k = 0; k < 4; k++) {
        const stw_ort_time *time = find(&profile, names[k], "CPUExecutionProvider");
        if (CHECK(time != NULL)) CHECK(time->us > 0.0 && time->us < 1000.0);
    }
    stw_arena_destroy(&arena);
}

#define EVENT(name, dur, more) "{'cat':'Node','ph':'X','name':'" name "','dur':" dur ",'args':{'provider':'P'}" more "}"

/* Single quotes stand for double ones. */
static stw_status read_text(const char *quoted, stw_arena *arena, stw_ort_profile *out, stw_error *error) {
    char *text = STW_NEW(arena, char, (int64_t)strlen(quoted) + 1);
    for (size_t k = 0; quoted[k] != '\0'; k++) text[k] = quoted[k] == '\'' ? '"' : quoted[k];
    *error = (stw_error){0};
    return stw_ort_profile_read((stw_str){text, (int64_t)strlen(quoted)}, arena, out, error);
}

TEST(ort_profile, medians_and_what_counts) {
    stw_arena arena;
    stw_error error;
    stw_ort_profile p = {0};
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    const char *text = "{'displayTimeUnit':'ms','traceEvents':[" EVENT("a_kernel_time", "9", "") "," EVENT("a_kernel_time", "1", "") "," EVENT(
        "a_kernel_time", "2.5", "") "," EVENT("b_kernel_time", "4", "") "," EVENT("b_kernel_time", "8", "") "," EVENT("a_fence_before",
                                                                                                                 "7", "") ","
        "{'cat':'Session','name':'c_kernel_time','dur':3,'args':{'provider':'P'}}, {'cat':'Node','name':'d_kernel_time','dur':3},"
        "{'cat':'Node','name':'_kernel_time','dur':3,'args':{'provider':'P'}}, 7, {'cat':'Node','name':5,'dur':'x','args':[]},"
        "{'args':{'x':{'y':[1]},'provider':'Q'},'dur':6,'name':'a_kernel_time','cat':'Node'}]}";
    CHECK_EQ_INT(read_text(text, &arena, &p, &error), STW_OK);
    CHECK_STR(error.message, "");
    if (CHECK_EQ_INT(p.count, 3)) {
        CHECK_NEAR(find(&p, "a", "P")->us, 2.5, 0.0);
        CHECK_NEAR(find(&p, "a", "Q")->us, 6.0, 0.0);
        CHECK_NEAR(find(&p, "b", "P")->us, 4.0, 0.0); /* of two the shorter */
    }
    CHECK_EQ_INT(read_text("[]", &arena, &p, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "no times of nodes");
    CHECK_EQ_INT(read_text("[" EVENT("a_kernel_time", "9", ""), &arena, &p, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "line 1, column");
    CHECK_EQ_INT(read_text("[" EVENT("a_kernel_time", "-9", "") "]", &arena, &p, &error), STW_ERROR_INPUT);
    stw_arena_destroy(&arena);
}

TEST(ort_profile, known_by_its_beginning) {
    CHECK(stw_ort_profile_is(STW_STR(" [\n{\"cat\": 1}]")));
    CHECK(stw_ort_profile_is(STW_STR("[]")));
    CHECK(stw_ort_profile_is(STW_STR("{\"traceEvents\": []}")));
    CHECK(!stw_ort_profile_is(STW_STR("[a],h200,3\n")));
    CHECK(!stw_ort_profile_is(STW_STR("{\"format\": \"plan\"}")));
    CHECK(!stw_ort_profile_is(STW_STR("")));
    CHECK(!stw_ort_profile_is(STW_STR("[")));
}

TEST(ort_profile, every_prefix) {
    stw_arena arena;
    stw_str text = {0};
    stw_ort_profile profile = {0};
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    CHECK_EQ_INT(stw_file_read(DATA "ort_profile.json", &arena, &text, NULL), STW_OK);
    while (text.length > 0 && text.p[text.length - 1] != ']') text.length--;
    int64_t refused = 0;
    for (int64_t length = 0; length < text.length; length += 7) {
        stw_arena scratch = arena;
        char *copy = malloc((size_t)length + 1);
        memcpy(copy, text.p, (size_t)length);
        refused += stw_ort_profile_read((stw_str){copy, length}, &scratch, &profile, NULL) != STW_OK;
        free(copy);
    }
    CHECK_EQ_INT(refused, (text.length + 6) / 7);
    stw_arena_destroy(&arena);
}
