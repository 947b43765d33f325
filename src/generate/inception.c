/* Inception v3: modules of parallel branches, of three kinds, with a smaller image after the first two. Eleven modules are v3:
 * three of the first kind, four of the second, two of the third, and the two between that halve the image. */
#include "generate/generate.h"

enum { COLOURS = 3, CLASSES = 1000, UNIT = 64 };

typedef struct {
    stw_step *step;
    const int64_t *value;
    int module; /* number, for labels; -1 in the stem */
} network;

/* v3's channels, times what --width asks for. */
static int64_t channels_of(const network *n, int64_t channels) { return channels * n->value[STW_WIDTH] / UNIT; }

static stw_tensor convolve_window(network *n, stw_tensor x, int64_t channels, stw_window window, const char *name) {
    const char *label =
        n->module < 0 ? stw_step_label(n->step, "stem.%s", name) : stw_step_label(n->step, "mixed.%d.%s", n->module, name);
    const int64_t count = channels_of(n, channels);
    x = stw_step_convolution(n->step, x, count, window, 1, false, stw_step_label(n->step, "%s.conv", label));
    x = stw_step_batch_norm(n->step, x, stw_batch_norm_create(n->step, count, stw_step_label(n->step, "%s.bn", label)));
    return stw_step_relu_in_place(n->step, x);
}

/* height x width, padded to keep the size */
static stw_tensor convolve(network *n, stw_tensor x, int64_t channels, int64_t height, int64_t width, const char *name) {
    const stw_window window = {.kernel = {height, width}, .padding = {height / 2, width / 2}};
    return convolve_window(n, x, channels, window, name);
}

static stw_tensor shrink(network *n, stw_tensor x, int64_t channels, int64_t stride, const char *name) {
    return convolve_window(n, x, channels, (stw_window){.kernel = {3, 3}, .stride = stride}, name);
}

static stw_tensor pooled(network *n, stw_tensor x, int64_t channels) {
    return convolve(n, stw_step_average_pool(n->step, x, stw_window_same(3, 1)), channels, 1, 1, "branch_pool");
}

static const stw_window halving = {.kernel = {3, 3}, .stride = 2};

static stw_tensor small_windows(network *n, stw_tensor x, int64_t pool_channels) {
    const stw_tensor one = convolve(n, x, 64, 1, 1, "branch1x1");
    const stw_tensor five = convolve(n, convolve(n, x, 48, 1, 1, "branch5x5_1"), 64, 5, 5, "branch5x5_2");
    stw_tensor three = convolve(n, x, 64, 1, 1, "branch3x3dbl_1");
    three = convolve(n, three, 96, 3, 3, "branch3x3dbl_2");
    three = convolve(n, three, 96, 3, 3, "branch3x3dbl_3");
    const stw_tensor branch[] = {one, five, three, pooled(n, x, pool_channels)};
    return stw_step_cat(n->step, branch, 4, 1);
}

static stw_tensor first_halving(network *n, stw_tensor x) {
    const stw_tensor three = shrink(n, x, 384, 2, "branch3x3");
    stw_tensor twice = convolve(n, x, 64, 1, 1, "branch3x3dbl_1");
    twice = convolve(n, twice, 96, 3, 3, "branch3x3dbl_2");
    twice = shrink(n, twice, 96, 2, "branch3x3dbl_3");
    const stw_tensor branch[] = {three, twice, stw_step_max_pool(n->step, x, halving)};
    return stw_step_cat(n->step, branch, 3, 1);
}

static stw_tensor long_windows(network *n, stw_tensor x, int64_t inner) {
    const stw_tensor one = convolve(n, x, 192, 1, 1, "branch1x1");
    stw_tensor seven = convolve(n, x, inner, 1, 1, "branch7x7_1");
    seven = convolve(n, seven, inner, 1, 7, "branch7x7_2");
    seven = convolve(n, seven, 192, 7, 1, "branch7x7_3");
    stw_tensor twice = convolve(n, x, inner, 1, 1, "branch7x7dbl_1");
    twice = convolve(n, twice, inner, 7, 1, "branch7x7dbl_2");
    twice = convolve(n, twice, inner, 1, 7, "branch7x7dbl_3");
    twice = convolve(n, twice, inner, 7, 1, "branch7x7dbl_4");
    twice = convolve(n, twice, 192, 1, 7, "branch7x7dbl_5");
    const stw_tensor branch[] = {one, seven, twice, pooled(n, x, 192)};
    return stw_step_cat(n->step, branch, 4, 1);
}

static stw_tensor second_halving(network *n, stw_tensor x) {
    const stw_tensor three = shrink(n, convolve(n, x, 192, 1, 1, "branch3x3_1"), 320, 2, "branch3x3_2");
    stw_tensor seven = convolve(n, x, 192, 1, 1, "branch7x7x3_1");
    seven = convolve(n, seven, 192, 1, 7, "branch7x7x3_2");
    seven = convolve(n, seven, 192, 7, 1, "branch7x7x3_3");
    seven = shrink(n, seven, 192, 2, "branch7x7x3_4");
    const stw_tensor branch[] = {three, seven, stw_step_max_pool(n->step, x, halving)};
    return stw_step_cat(n->step, branch, 3, 1);
}

/* A window that is a cross: both bars of it side by side. */
static stw_tensor cross(network *n, stw_tensor x, const char *flat, const char *upright) {
    const stw_tensor one = convolve(n, x, 384, 1, 3, flat);
    const stw_tensor bar[] = {one, convolve(n, x, 384, 3, 1, upright)};
    return stw_step_cat(n->step, bar, 2, 1);
}

static stw_tensor wide(network *n, stw_tensor x) {
    const stw_tensor one = convolve(n, x, 320, 1, 1, "branch1x1");
    const stw_tensor three = cross(n, convolve(n, x, 384, 1, 1, "branch3x3_1"), "branch3x3_2a", "branch3x3_2b");
    stw_tensor twice = convolve(n, x, 448, 1, 1, "branch3x3dbl_1");
    twice = cross(n, convolve(n, twice, 384, 3, 3, "branch3x3dbl_2"), "branch3x3dbl_3a", "branch3x3dbl_3b");
    const stw_tensor branch[] = {one, three, twice, pooled(n, x, 192)};
    return stw_step_cat(n->step, branch, 4, 1);
}

static stw_tensor stem(network *n) {
    const int64_t side = n->value[STW_IMAGE];
    stw_tensor x = stw_step_input(n->step, STW_SHAPE(n->value[STW_BATCH], COLOURS, side, side));
    x = shrink(n, x, 32, 2, "conv1");
    x = convolve(n, shrink(n, x, 32, 1, "conv2"), 64, 3, 3, "conv3");
    x = stw_step_max_pool(n->step, x, halving);
    x = shrink(n, convolve(n, x, 80, 1, 1, "conv4"), 192, 1, "conv5");
    return stw_step_max_pool(n->step, x, halving);
}

stw_tensor stw_build_inception(stw_step *step, const int64_t *value) {
    network n = {.step = step, .value = value, .module = -1};
    const int64_t free = value[STW_LAYERS] - 2, kept = free / 9; /* v3 has 3 + 4 + 2 */
    int64_t last = 2 * kept + (free % 9 > 0), first = 3 * kept + free % 9 / 3;
    if (first == 0) first = 1;
    const int64_t middle = free - first - last;
    stw_tensor x = stem(&n);
    for (int64_t k = 0; k < first && !stw_step_failed(step); k++) {
        n.module++;
        x = small_windows(&n, x, k == 0 ? 32 : 64);
    }
    n.module++;
    x = first_halving(&n, x);
    for (int64_t k = 0; k < middle && !stw_step_failed(step); k++) {
        n.module++;
        x = long_windows(&n, x, k == 0 ? 128 : k + 1 < middle ? 160 : 192);
    }
    n.module++;
    x = second_halving(&n, x);
    for (int64_t k = 0; k < last && !stw_step_failed(step); k++) {
        n.module++;
        x = wide(&n, x);
    }
    const int64_t channels = stw_step_shape(step, x).size[1], batch = value[STW_BATCH];
    x = stw_step_dropout(step, stw_step_mean_to(step, x, STW_SHAPE(batch, channels, 1, 1)));
    x = stw_step_view(step, x, STW_SHAPE(batch, channels));
    return stw_step_mean_square(step, stw_step_linear(step, x, stw_linear_create(step, channels, CLASSES, true, "fc")));
}
