/* U-Net: an image is halved level by level and grown again, each level with what was there on the way down. */
#include "generate/generate.h"

enum { GROUPS = 8, COLOURS = 3, CLASSES = 4, MAX_LEVELS = 16 };

/* Two convolutions, each normalized and bent; the module's children are 0, 1 and 3, 4. */
static stw_tensor twice(stw_step *step, stw_tensor x, int64_t channels, const char *label) {
    for (int k = 0; k < 2; k++) {
        const char *convolution = stw_step_label(step, "%s.%d", label, 3 * k),
                   *norm = stw_step_label(step, "%s.%d", label, 3 * k + 1);
        x = stw_step_convolution(step, x, channels, stw_window_same(3, 1), 1, true, convolution);
        x = stw_step_silu(step, stw_step_group_norm(step, x, GROUPS, stw_norm_create(step, channels, norm)));
    }
    return x;
}

stw_tensor stw_build_unet(stw_step *step, const int64_t *value) {
    const int64_t levels = value[STW_LAYERS], side = value[STW_IMAGE], width = value[STW_WIDTH];
    const stw_window halve = {.kernel = {2, 2}, .stride = 2};
    if (side % ((int64_t)1 << levels) != 0) {
        stw_step_fail(step, "--image: %lld cannot be halved %lld times; take a multiple of %lld", (long long)side,
                      (long long)levels, (long long)1 << levels);
        return 0;
    }
    stw_tensor level[MAX_LEVELS] = {0};
    stw_tensor x = stw_step_input(step, STW_SHAPE(value[STW_BATCH], COLOURS, side, side));
    for (int64_t l = 0; l < levels; l++) {
        level[l] = twice(step, x, width << l, stw_step_label(step, "d.%d", (int)l));
        x = stw_step_max_pool(step, level[l], halve);
    }
    x = twice(step, x, width << levels, "mid");
    for (int64_t l = levels - 1; l >= 0; l--) {
        const int n = (int)(levels - 1 - l);
        const stw_tensor both[] = {stw_step_upsample(step, x, width << l, 2, stw_step_label(step, "t.%d", n)), level[l]};
        x = twice(step, stw_step_cat(step, both, 2, 1), width << l, stw_step_label(step, "u.%d", n));
    }
    x = stw_step_convolution(step, x, CLASSES, stw_window_same(1, 1), 1, true, "o");
    x = stw_step_view(step, x, STW_SHAPE(value[STW_BATCH], CLASSES, side * side));
    x = stw_step_mean_to(step, x, STW_SHAPE(value[STW_BATCH], CLASSES, 1));
    return stw_step_mean_square(step, x);
}
