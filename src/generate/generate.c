/* The table of families, and one run of one of them. Sizes without options come close to the traced graph that the row names. */
#include "generate/generate.h"

#include <string.h>

#include "base/file.h"
#include "base/pack.h"

#define LAYERS(standard, least, most, meaning) [STW_LAYERS] = {standard, least, most, 0, meaning}
#define WIDTH(standard, multiple, meaning)     [STW_WIDTH] = {standard, multiple, 1 << 20, multiple, meaning}
#define BATCH(standard)                        [STW_BATCH] = {standard, 1, 1 << 20, 0, "examples in a step"}
#define STEPS(standard, least, meaning)        [STW_STEPS] = {standard, least, 1000000, 0, meaning}
#define SEQUENCE(standard, meaning)            [STW_SEQUENCE] = {standard, 1, 1 << 24, 0, meaning}
#define IMAGE(standard, least)                 [STW_IMAGE] = {standard, least, 1 << 16, 0, "pixels a side"}
#define VOCABULARY(standard)                   [STW_VOCABULARY] = {standard, 1, 1 << 28, 0, "words"}
#define EXPERTS                                [STW_EXPERTS] = {0, 0, 65536, 0, "experts in every second layer; 0: none"}

static const stw_family families[] = {
    {.name = "rnnlm",
     .description = "language model of LSTM layers, unrolled (as rnnlm-2)",
     .build = stw_build_rnnlm,
     .takes = {LAYERS(2, 1, 100000, "LSTM layers"), WIDTH(2048, 1, "features"), BATCH(64), STEPS(20, 1, "words, unrolled"),
               VOCABULARY(16384)}},
    {.name = "gnmt",
     .description = "translation by LSTM layers with attention, unrolled (as gnmt-2)",
     .build = stw_build_gnmt,
     .takes = {LAYERS(2, 1, 100000, "LSTM layers on either side"), WIDTH(1024, 1, "features"), BATCH(128),
               STEPS(30, 2, "words, unrolled"), VOCABULARY(16384)}},
    {.name = "transformer-xl",
     .description = "transformer over segments with a memory of the one before (as transformer-xl-2)",
     .build = stw_build_transformer_xl,
     .takes = {LAYERS(2, 1, 100000, "transformer layers"), WIDTH(1024, 64, "features, 64 a head"), BATCH(16),
               SEQUENCE(64, "words of a segment"), STEPS(8, 1, "segments"), VOCABULARY(16384)}},
    {.name = "bert",
     .description = "transformer that reads both ways (as bert-base)",
     .build = stw_build_bert,
     .takes = {LAYERS(12, 1, 100000, "transformer layers"), WIDTH(768, 64, "features, 64 a head"), BATCH(16),
               SEQUENCE(512, "words"), VOCABULARY(30522), EXPERTS}},
    {.name = "gpt",
     .description = "transformer that reads forwards (as gpt2)",
     .build = stw_build_gpt,
     .takes = {LAYERS(12, 1, 100000, "transformer layers"), WIDTH(768, 64, "features, 64 a head"), BATCH(8),
               SEQUENCE(1024, "words"), VOCABULARY(50257), EXPERTS}},
    {.name = "inception",
     .description = "image classifier of modules with parallel branches (as inception-v3-b32)",
     .build = stw_build_inception,
     .takes = {LAYERS(11, 4, 100000, "modules; two of them halve the image"), WIDTH(64, 4, "channels; 64 are v3's"), BATCH(32),
               IMAGE(299, 75)}},
    {.name = "amoebanet",
     .description = "image classifier of searched cells (as amoebanet)",
     .build = stw_build_amoebanet,
     .takes = {LAYERS(6, 1, 100000, "cells"), WIDTH(128, 1, "channels of the first cell"), BATCH(32), IMAGE(224, 8)}},
    {.name = "resnet",
     .description = "image classifier of residual blocks (as resnet50)",
     .build = stw_build_resnet,
     .takes = {LAYERS(16, 4, 100000, "blocks of three convolutions; 16 are ResNet-50"),
               WIDTH(64, 1, "channels of the first stage"), BATCH(64), IMAGE(224, 32)}},
    {.name = "unet",
     .description = "image to image, down and up again (as unet)",
     .build = stw_build_unet,
     .takes = {LAYERS(4, 1, 12, "levels"), WIDTH(64, 8, "channels of the first level"), BATCH(16), IMAGE(256, 2)}},
    {.name = "wavenet",
     .description = "gated convolutions over a signal, whose reach doubles nine times, then starts over (as wavenet-2x9)",
     .build = stw_build_wavenet,
     .takes = {LAYERS(18, 1, 100000, "gated layers"), WIDTH(256, 1, "channels"), BATCH(8), SEQUENCE(4096, "samples")}},
    {.name = "layered",
     .description = "random layers: every node reads one to three results, mostly of the layer before",
     .build = stw_build_layered,
     .takes = {LAYERS(16, 1, 1000000, "layers"), WIDTH(256, 1, "features, up to four times as many"), BATCH(256),
               STEPS(16, 1, "nodes of a layer"), [STW_SEED] = {1, 0, INT64_MAX, 0, "decides all draws"}}},
};
enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

const char *stw_parameter_name(stw_parameter parameter) {
    static const char *const name[] = {"layers", "width", "batch", "sequence", "steps", "image", "vocabulary", "experts", "seed"};
    return name[parameter];
}

const stw_family *stw_family_at(int32_t index) { return index >= 0 && index < FAMILY_COUNT ? &families[index] : NULL; }

const stw_family *stw_family_find(const char *name) {
    for (int32_t k = 0; k < FAMILY_COUNT; k++) {
        if (strcmp(families[k].name, name) == 0) return &families[k];
    }
    return NULL;
}

void stw_family_standard(const stw_family *family, int64_t *value) {
    for (int p = 0; p < STW_PARAMETER_COUNT; p++) value[p] = family->takes[p].standard;
}

stw_status stw_family_check(const stw_family *family, stw_parameter parameter, int64_t value, stw_error *error) {
    const stw_parameter_range *range = &family->takes[parameter];
    const char *name = stw_parameter_name(parameter);
    if (range->meaning == NULL) {
        return stw_fail(error, STW_ERROR_INPUT, "--%s: %s does not take it; 'stowage generate' lists what it takes", name,
                        family->name);
    }
    if (value < range->least || value > range->most) {
        return stw_fail(error, STW_ERROR_INPUT, "--%s: %lld is not from %lld to %lld, which %s takes", name, (long long)value,
                        (long long)range->least, (long long)range->most, family->name);
    }
    if (range->multiple > 1 && value % range->multiple != 0) {
        return stw_fail(error, STW_ERROR_INPUT, "--%s: %lld is not a multiple of %lld, which %s needs", name, (long long)value,
                        (long long)range->multiple, family->name);
    }
    return STW_OK;
}

static stw_status name_graph(const stw_family *family, const int64_t *value, stw_arena *arena, stw_str *out, stw_error *error) {
    *out = stw_str_of(family->name);
    for (int p = 0; p < STW_PARAMETER_COUNT && out->p != NULL; p++) {
        const stw_parameter_range *range = &family->takes[p];
        if (range->meaning == NULL || (p == STW_EXPERTS && value[p] == 0)) continue;
        *out = stw_str_format(arena, "%s-%s%lld", out->p, stw_parameter_name((stw_parameter)p), (long long)value[p]);
    }
    return out->p != NULL ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}

stw_status stw_generate(const stw_family *family, const int64_t *value, stw_arena *arena, stw_generated *out, stw_error *error) {
    for (int p = 0; p < STW_PARAMETER_COUNT; p++) {
        if (family->takes[p].meaning != NULL) TRY(stw_family_check(family, (stw_parameter)p, value[p], error));
    }
    TRY(name_graph(family, value, arena, &out->name, error));
    TRY(stw_step_create(arena, &out->step, error));
    const stw_tensor loss = family->build(out->step, value);
    return stw_step_finish(out->step, loss, error);
}

static stw_status write_packed(const stw_family *family, const stw_generated *generated, FILE *packed, stw_error *error) {
    if (packed == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    const stw_status status = stw_step_write(generated->step, generated->name, stw_str_of(family->name), packed, error);
    /* A write that failed shows in the file behind, which is checked when it is committed. */
    return fclose(packed) == 0 || status != STW_OK ? status : stw_fail(error, STW_ERROR_IO, "the packed graph cannot be written");
}

stw_status stw_generate_write(const stw_family *family, const stw_generated *generated, const char *path, stw_error *error) {
    stw_output output;
    const stw_str name = stw_str_of(path);
    TRY(stw_output_open(&output, path, error));
    stw_status status = STW_OK;
    if (stw_str_ends(name, ".gz")) {
        status = write_packed(family, generated, stw_pack_gzip(output.file), error);
    } else if (stw_str_ends(name, ".zst")) {
        status = write_packed(family, generated, stw_pack_zstd(output.file), error);
    } else {
        status = stw_step_write(generated->step, generated->name, stw_str_of(family->name), output.file, error);
    }
    if (status == STW_OK) return stw_output_commit(&output, error);
    stw_error_prefix(error, output.path);
    stw_output_discard(&output);
    return status;
}
