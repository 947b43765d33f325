/* AmoebaNet: cells of five pairs of operations that take the results of the two cells before. Two cells halve the image: the one
 * in the middle and the last. */
#include "generate/generate.h"

enum { COLOURS = 3, CLASSES = 1000 };

typedef struct {
    stw_step *step;
    int cell;
    int64_t channels, stride;
} cell;

static stw_tensor normalized(const cell *c, stw_tensor x, const char *name, int part) {
    const char *label = stw_step_label(c->step, "cells.%d.%s.%d", c->cell, name, part);
    return stw_step_batch_norm(c->step, x, stw_batch_norm_create(c->step, c->channels, label));
}

static stw_tensor convolve(const cell *c, stw_tensor x, stw_window window, int64_t groups, const char *name, int part) {
    const char *label = stw_step_label(c->step, "cells.%d.%s.%d", c->cell, name, part);
    return stw_step_convolution(c->step, x, c->channels, window, groups, false, label);
}

/* Bent, convolved, normalized: children 0, 1 and 2 of a module. */
static stw_tensor plain(const cell *c, stw_tensor x, int64_t height, int64_t width, const char *name) {
    const stw_window window = {.kernel = {height, width}, .padding = {height / 2, width / 2}};
    return normalized(c, convolve(c, stw_step_relu(c->step, x), window, 1, name, 1), name, 2);
}

/* Twice: each channel by itself, then a mix of them. */
static stw_tensor separable(const cell *c, stw_tensor x, int64_t kernel, const char *name) {
    for (int half = 0; half < 2; half++) {
        const char *part = stw_step_label(c->step, "%s.%c", name, "ab"[half]);
        const stw_window window = stw_window_same(kernel, half == 0 ? c->stride : 1);
        const stw_tensor each = convolve(c, stw_step_relu(c->step, x), window, c->channels, part, 1);
        x = normalized(c, convolve(c, each, stw_window_same(1, 1), 1, part, 2), part, 3);
    }
    return x;
}

/* An earlier result in this cell's size. */
static stw_tensor take(const cell *c, stw_tensor x, int64_t side, const char *name) {
    if (stw_step_shape(c->step, x).size[2] != side)
        x = stw_step_average_pool(c->step, x, (stw_window){.kernel = {2, 2}, .stride = 2});
    return plain(c, x, 1, 1, name);
}

static stw_tensor build_cell(const cell *c, stw_tensor before, stw_tensor x) {
    stw_step *step = c->step;
    const int64_t side = stw_step_shape(step, x).size[2];
    const stw_window pool = stw_window_same(3, c->stride);
    before = take(c, before, side, "p0");
    x = take(c, x, side, "p1");
    const stw_tensor a = stw_step_add(step, separable(c, before, 3, "o0"), stw_step_max_pool(step, x, pool));
    const stw_tensor b = stw_step_add(step, separable(c, x, 5, "o1"), stw_step_average_pool(step, before, pool));
    const stw_tensor d = stw_step_add(step, separable(c, before, 7, "o2"), stw_step_average_pool(step, x, pool));
    const stw_tensor e = stw_step_add(step, plain(c, plain(c, a, 1, 7, "o3"), 7, 1, "o4"), b);
    const stw_tensor parts[] = {a, b, d, e};
    return stw_step_cat(step, parts, 4, 1);
}

stw_tensor stw_build_amoebanet(stw_step *step, const int64_t *value) {
    const int64_t cells = value[STW_LAYERS], side = value[STW_IMAGE], batch = value[STW_BATCH];
    cell c = {.step = step, .channels = value[STW_WIDTH]};
    stw_tensor x = stw_step_input(step, STW_SHAPE(batch, COLOURS, side, side));
    x = stw_step_convolution(step, x, c.channels, stw_window_same(3, 2), 1, false, "stem.0");
    stw_tensor before = x = stw_step_batch_norm(step, x, stw_batch_norm_create(step, c.channels, "stem.1"));
    const int64_t halved = (side + 1) / 2; /* by the stem; of an odd size pools and convolutions leave different halves */
    if (cells > 1 && halved % 2 != 0)
        stw_step_fail(step, "--image: %lld is %lld behind the stem, which cannot be halved; take a multiple of 4",
                      (long long)side, (long long)halved);
    for (int64_t k = 0; k < cells && !stw_step_failed(step); k++) {
        const bool halves = k + 1 == cells / 2 || k + 1 == cells;
        c.cell = (int)k;
        c.stride = halves ? 2 : 1;
        if (halves) c.channels *= 2;
        const stw_tensor result = build_cell(&c, before, x);
        before = x;
        x = result;
    }
    const int64_t channels = 4 * c.channels;
    x = stw_step_view(step, stw_step_mean_to(step, x, STW_SHAPE(batch, channels, 1, 1)), STW_SHAPE(batch, channels));
    return stw_step_mean_square(step, stw_step_linear(step, x, stw_linear_create(step, channels, CLASSES, true, "fc")));
}
