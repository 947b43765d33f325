/* Graphs that are made instead of traced: one training step of a model of a known family, of any size.
 *
 * To add a family: a file FAMILY.c with its function, and a row in the table of generate.c. */
#ifndef STW_GENERATE_GENERATE_H
#define STW_GENERATE_GENERATE_H

#include "generate/step.h"

/* What can be said about a model; the name is that of the option. */
typedef enum stw_parameter {
    STW_LAYERS,
    STW_WIDTH,
    STW_BATCH,
    STW_SEQUENCE,
    STW_STEPS,
    STW_IMAGE,
    STW_VOCABULARY,
    STW_EXPERTS,
    STW_SEED,
    STW_PARAMETER_COUNT
} stw_parameter;
const char *stw_parameter_name(stw_parameter parameter);

typedef struct stw_parameter_range { /* all zero: the family does not take it */
    int64_t standard, least, most;
    int64_t multiple;    /* it must be divisible by this; 0: no matter */
    const char *meaning; /* a few words */
} stw_parameter_range;

typedef struct stw_family {
    const char *name, *description;
    /* Writes the forward ops and returns the loss. `value` has an entry per stw_parameter. */
    stw_tensor (*build)(stw_step *step, const int64_t *value);
    stw_parameter_range takes[STW_PARAMETER_COUNT];
} stw_family;

/* The i-th family; NULL past the last. */
const stw_family *stw_family_at(int32_t index);
const stw_family *stw_family_find(const char *name);
/* The family's own sizes. */
void stw_family_standard(const stw_family *family, int64_t *value);
/* STW_ERROR_INPUT with a line that names parameter, value and what is allowed. */
stw_status stw_family_check(const stw_family *family, stw_parameter parameter, int64_t value, stw_error *error);

typedef struct stw_generated {
    stw_step *step;
    stw_str name; /* family and sizes: "rnnlm-layers2-width2048-..." */
} stw_generated;
/* All memory is the arena's. The same values give the same graph. */
stw_status stw_generate(const stw_family *family, const int64_t *value, stw_arena *arena, stw_generated *out, stw_error *error);
/* opgraph JSON, packed with gzip or zstd if the path ends in .gz or .zst; "-" is standard output. */
stw_status stw_generate_write(const stw_family *family, const stw_generated *generated, const char *path, stw_error *error);

/* The families' functions. */
stw_tensor stw_build_rnnlm(stw_step *step, const int64_t *value);
stw_tensor stw_build_gnmt(stw_step *step, const int64_t *value);
stw_tensor stw_build_transformer_xl(stw_step *step, const int64_t *value);
stw_tensor stw_build_bert(stw_step *step, const int64_t *value);
stw_tensor stw_build_gpt(stw_step *step, const int64_t *value);
stw_tensor stw_build_inception(stw_step *step, const int64_t *value);
stw_tensor stw_build_amoebanet(stw_step *step, const int64_t *value);
stw_tensor stw_build_resnet(stw_step *step, const int64_t *value);
stw_tensor stw_build_unet(stw_step *step, const int64_t *value);
stw_tensor stw_build_wavenet(stw_step *step, const int64_t *value);
stw_tensor stw_build_layered(stw_step *step, const int64_t *value);

/* mixture.c: experts in place of a feed-forward layer; x is (batch, sequence, width). */
stw_tensor stw_step_mixture(stw_step *step, stw_tensor x, int64_t experts, int64_t width, const char *label);

#endif
