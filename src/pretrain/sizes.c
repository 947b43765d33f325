/* Graphs of a wanted number of ops: how many layers and steps a family needs for it is in a table, all other sizes are drawn
 * around the family's own. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "import/import.h"
#include "pretrain/corpus_parts.h"

/* ops = fixed + layer x layers + step x steps + both x layers x steps, and for each expert `expert` x layers; counted on what
 * generate makes. Steps are 0 where the family has none. */
typedef struct family_sizes {
    const char *name;
    double weight; /* of a draw: half for what is nearly a chain */
    double fixed, layer, step, both, expert;
    double least_layers, most_layers, least_steps, most_steps;
} family_sizes;

static const family_sizes table[] = {
    {"rnnlm", 1.0, 11, 1, 8, 30, 0, 1, 8, 2, 80},
    {"gnmt", 1.0, 11, -2, 69, 64, 0, 1, 8, 2, 40},
    {"transformer-xl", 1.0, 12, 15, 12, 89, 0, 1, 12, 1, 16},
    {"bert", 0.5, 54, 110, 0, 0, 16, 1, 36, 0, 0},
    {"gpt", 0.5, 36, 110, 0, 0, 16, 1, 36, 0, 0},
    {"inception", 1.0, -20, 132, 0, 0, 0, 4, 30, 0, 0},
    {"amoebanet", 1.0, 30, 182, 0, 0, 0, 1, 20, 0, 0},
    {"resnet", 0.5, 81, 44, 0, 0, 0, 4, 60, 0, 0},
    {"unet", 0.5, 43, 66, 0, 0, 0, 2, 6, 0, 0},
    {"wavenet", 1.0, 19, 38, 0, 0, 0, 3, 60, 0, 0},
    {"layered", 1.0, 6, 0, 6.5, 12, 0, 2, 64, 3, 48},
};
/* A family that is new in generate.c: sized by its layers until it has a row. */
static const family_sizes unlisted = {"", 1.0, 0, 100, 0, 0, 0, 1, 16, 0, 0};

static const family_sizes *sizes_of(const stw_family *family) {
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        if (strcmp(table[k].name, family->name) == 0) return &table[k];
    }
    return &unlisted;
}

double stw_family_weight(const stw_family *family) { return sizes_of(family)->weight; }

static double clamp(double x, double low, double high) { return fmin(fmax(x, low), fmax(low, high)); }

/* How many layers give this many ops with this many steps, and the reverse. */
static double layers_for(const family_sizes *s, double ops, double steps, double experts) {
    const double layers = (ops - s->fixed - s->step * steps) / (s->layer + s->both * steps + s->expert * experts);
    return clamp(layers, s->least_layers, s->most_layers);
}

static double steps_for(const family_sizes *s, double ops, double layers) {
    return clamp((ops - s->fixed - s->layer * layers) / (s->step + s->both * layers), s->least_steps, s->most_steps);
}

/* Few layers of many steps or many of few, as the number of ops allows. */
static void draw_depth(const family_sizes *s, double ops, double experts, stw_rng *rng, int64_t *value) {
    double steps = 0.0;
    if (s->most_steps > 0.0) {
        steps = stw_draw_log_between(rng, steps_for(s, ops, s->most_layers), steps_for(s, ops, s->least_layers));
    }
    value[STW_LAYERS] = (int64_t)(layers_for(s, ops, steps, experts) + 0.5);
    if (s->most_steps > 0.0) value[STW_STEPS] = (int64_t)steps_for(s, ops, (double)value[STW_LAYERS]);
}

/* How far below and above the family's own size a draw may go. */
static const struct spread {
    stw_parameter parameter;
    double down, up;
    int64_t multiple; /* unless the family has its own */
} spreads[] = {
    {STW_WIDTH, 8.0, 4.0, 4},      {STW_BATCH, 8.0, 4.0, 1}, {STW_SEQUENCE, 8.0, 4.0, 8},
    {STW_VOCABULARY, 8.0, 2.0, 1}, {STW_IMAGE, 2.0, 2.0, 8},
};

static int64_t round_to(double x, int64_t multiple) {
    const int64_t whole = (int64_t)(x / (double)multiple + 0.5);
    return (whole > 0 ? whole : 1) * multiple;
}

static void draw_sizes(const stw_family *family, double shrink, stw_rng *rng, int64_t *value) {
    for (size_t k = 0; k < sizeof spreads / sizeof spreads[0]; k++) {
        const struct spread *spread = &spreads[k];
        const stw_parameter_range *range = &family->takes[spread->parameter];
        if (range->meaning == NULL) continue;
        const double standard = (double)range->standard;
        const double drawn = stw_draw_log_between(rng, standard / spread->down, standard * spread->up);
        int64_t multiple = range->multiple > 1 ? range->multiple : spread->multiple;
        if (strcmp(family->name, "unet") == 0 && spread->parameter == STW_IMAGE) multiple = (int64_t)1 << value[STW_LAYERS];
        const int64_t size = round_to(drawn * (spread->parameter == STW_VOCABULARY ? 1.0 : shrink), multiple);
        value[spread->parameter] = size < range->least ? range->least : size;
    }
}

/* Every third transformer has experts, between which its words can be shared: sequences are multiples of eight. */
static int64_t draw_experts(const stw_family *family, stw_rng *rng) {
    const bool has = family->takes[STW_EXPERTS].meaning != NULL && stw_rng_below(rng, 3) == 0;
    return has ? (int64_t)2 << stw_rng_below(rng, 4) : 0;
}

static void draw_values(const stw_family *family, stw_size_wish wish, stw_rng *rng, int64_t *value) {
    const family_sizes *sizes = sizes_of(family);
    stw_family_standard(family, value);
    const int64_t experts = draw_experts(family, rng);
    draw_depth(sizes, wish.ops, (double)experts, rng, value);
    if (value[STW_LAYERS] > 1) value[STW_EXPERTS] = experts; /* they are in every second layer */
    draw_sizes(family, wish.shrink, rng, value);
    if (family->takes[STW_SEED].meaning != NULL) value[STW_SEED] = stw_rng_below(rng, INT32_MAX);
}

/* By way of the file format, in memory: a drawn graph is what a file of it would be. */
static stw_status read_back(const stw_family *family, const stw_generated *made, stw_graph **out, stw_error *error) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for a generated graph");
    stw_status status = stw_step_write(made->step, made->name, stw_str_of(family->name), file, error);
    const bool whole = ferror(file) == 0;
    if (fclose(file) != 0 || !whole) status = stw_fail(error, STW_ERROR_MEMORY, "out of memory for a generated graph");
    if (status == STW_OK) status = stw_opgraph_read((stw_str){text, (int64_t)size}, out, error);
    free(text);
    return status;
}

/* Counts before it writes; some draws miss the number of ops and are made anew with fewer. */
static stw_status generate(const stw_family *family, stw_size_wish wish, stw_rng *rng, stw_arena *arena, stw_graph **out,
                           stw_error *error) {
    enum { TRIES = 12 };
    for (int k = 0; k < TRIES; k++) {
        stw_arena scratch = *arena;
        int64_t value[STW_PARAMETER_COUNT];
        stw_generated made;
        draw_values(family, wish, rng, value);
        const stw_status status = stw_generate(family, value, &scratch, &made, error);
        if (status == STW_ERROR_INPUT && k + 1 < TRIES) continue; /* sizes that do not go together */
        TRY(status);
        const double ops = (double)stw_step_op_count(made.step);
        if (k + 1 == TRIES || (ops >= STW_CORPUS_LEAST_OPS && ops <= wish.most)) return read_back(family, &made, out, error);
        wish.ops = ops > wish.most ? 0.9 * wish.ops : 1.2 * wish.ops;
    }
    return STW_OK;
}

stw_status stw_draw_generated(const stw_family *family, stw_size_wish wish, stw_rng rng, stw_graph **out, stw_error *error) {
    stw_arena arena;
    *out = NULL;
    TRY(stw_arena_create(&arena, error));
    const stw_status status = generate(family, wish, &rng, &arena, out, error);
    stw_arena_destroy(&arena);
    return status;
}
