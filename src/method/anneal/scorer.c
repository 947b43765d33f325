#include "method/anneal/scorer.h"

#include <math.h>
#include <stdio.h>

#include "policy/checkpoint.h"

enum { COLUMNS = STW_MOVE_FEATURES, HIDDEN = STW_SCORER_HIDDEN };

/* ---- the network ---- */

void stw_scorer_begin(stw_scorer *s, const stw_rng *rng) {
    stw_rng own = *rng;
    *s = (stw_scorer){0};
    for (int32_t c = 0; c < COLUMNS; c++) s->scale[c] = 1.0f;
    for (int32_t k = 0; k < STW_SCORER_BIAS; k++) s->weight[k] = (float)(stw_rng_normal(&own) / sqrt(COLUMNS));
    for (int32_t k = 0; k < HIDDEN; k++) s->weight[STW_SCORER_OUT + k] = (float)(stw_rng_normal(&own) / sqrt(HIDDEN));
}

float stw_scorer_score(const stw_scorer *s, const float *feature, float *hidden) {
    float h[HIDDEN], score = s->weight[STW_SCORER_OUT_BIAS];
    memcpy(h, &s->weight[STW_SCORER_BIAS], sizeof h);
    for (int32_t c = 0; c < COLUMNS; c++) {
        const float x = stw_scorer_input(s, feature, c), *row = &s->weight[(int64_t)c * HIDDEN];
        for (int32_t k = 0; k < HIDDEN; k++) h[k] += x * row[k];
    }
    if (hidden != NULL) memcpy(hidden, h, sizeof h);
    for (int32_t k = 0; k < HIDDEN; k++) score += (h[k] > 0.0f ? h[k] : stw_scorer_slope * h[k]) * s->weight[STW_SCORER_OUT + k];
    return score;
}

/* ---- its file ---- */

static const struct {
    const char *name;
    int64_t value;
} dimensions[] = {{"move_features_version", STW_MOVE_FEATURES_VERSION}, {"move_features", COLUMNS}, {"scorer_hidden", HIDDEN}};
enum { DIMENSIONS = sizeof dimensions / sizeof dimensions[0], TENSORS = 3 };

/* The tensors of a scorer, by name and size, with where their data is. */
static void list(stw_scorer *s, stw_tensor out[TENSORS]) {
    out[0] = (stw_tensor){.name = "mean", .type = STW_TENSOR_F32, .rows = 1, .cols = COLUMNS, .data = s->mean};
    out[1] = (stw_tensor){.name = "scale", .type = STW_TENSOR_F32, .rows = 1, .cols = COLUMNS, .data = s->scale};
    out[2] = (stw_tensor){.name = "weight", .type = STW_TENSOR_F32, .rows = 1, .cols = STW_SCORER_WEIGHTS, .data = s->weight};
}

stw_status stw_scorer_write(const stw_scorer *s, const char *path, stw_error *error) {
    stw_scorer copy = *s;
    stw_tensor tensor[TENSORS];
    stw_tensor_file file = {.dimension_count = DIMENSIONS, .count = TENSORS, .tensor = tensor};
    list(&copy, tensor);
    for (int k = 0; k < DIMENSIONS; k++) {
        snprintf(file.dimension[k].name, sizeof file.dimension[k].name, "%s", dimensions[k].name);
        file.dimension[k].value = dimensions[k].value;
    }
    return stw_tensor_file_write(&file, path, error);
}

static stw_status take(const stw_tensor_file *file, stw_scorer *out, stw_error *error) {
    stw_tensor tensor[TENSORS];
    float *const to[TENSORS] = {out->mean, out->scale, out->weight};
    for (int k = 0; k < DIMENSIONS; k++) {
        int64_t stated = 0;
        if (!stw_tensor_file_dimension(file, dimensions[k].name, &stated))
            return stw_fail(error, STW_ERROR_INPUT, "does not state %s: it has no scorer of moves", dimensions[k].name);
        if (stated != dimensions[k].value)
            return stw_fail(error, STW_ERROR_INPUT,
                            "was made for other features of moves than this program's: %s is %lld there and %lld here; train it "
                            "again",
                            dimensions[k].name, (long long)stated, (long long)dimensions[k].value);
    }
    list(out, tensor);
    for (int k = 0; k < TENSORS; k++) {
        const stw_tensor *there;
        TRY(stw_tensor_expect(file, tensor[k].name, tensor[k].type, tensor[k].rows, tensor[k].cols, &there, error));
        memcpy(to[k], there->data, (size_t)stw_tensor_bytes(there));
        for (int64_t i = 0; i < there->cols; i++) {
            if (!isfinite(to[k][i])) return stw_fail(error, STW_ERROR_INPUT, "%s has what is no number", tensor[k].name);
        }
    }
    return STW_OK;
}

stw_status stw_scorer_read(const char *path, stw_scorer *out, stw_error *error) {
    stw_arena arena;
    stw_tensor_file file;
    TRY(stw_arena_create(&arena, error));
    stw_status status = stw_tensor_file_read(path, &arena, &file, error);
    if (status == STW_OK) {
        status = take(&file, out, error);
        if (status != STW_OK) stw_error_prefix(error, path);
    }
    stw_arena_destroy(&arena);
    return status;
}

stw_status stw_scorer_parse(stw_str text, const char *label, stw_scorer *out, stw_error *error) {
    enum { BYTES = 1 << 20 };
    stw_arena arena;
    stw_tensor_file file;
    TRY(stw_arena_create_sized(&arena, BYTES, error));
    stw_status status = stw_tensor_file_parse(text, label, &arena, &file, error);
    if (status == STW_OK) {
        status = take(&file, out, error);
        if (status != STW_OK) stw_error_prefix(error, label);
    }
    stw_arena_destroy(&arena);
    return status;
}

bool stw_scorer_shipped(stw_scorer *out) {
    const stw_str text = stw_shipped_proposals();
    return text.length > 0 && stw_scorer_parse(text, "the scorer that comes with the library", out, NULL) == STW_OK;
}
