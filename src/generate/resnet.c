/* ResNet with bottleneck blocks; 16 are ResNet-50, 33 ResNet-101, 50 ResNet-152. */
#include "generate/generate.h"

enum { COLOURS = 3, CLASSES = 1000, STAGES = 4, GROWTH = 4 };

static stw_tensor normalized(stw_step *step, stw_tensor x, int64_t channels, stw_window window, const char *label, int n) {
    x = stw_step_convolution(step, x, channels, window, 1, false, stw_step_label(step, "%sconv%d", label, n));
    return stw_step_batch_norm(step, x, stw_batch_norm_create(step, channels, stw_step_label(step, "%sbn%d", label, n)));
}

static stw_tensor block(stw_step *step, stw_tensor x, int64_t width, int64_t stride, bool first, const char *label) {
    stw_tensor out = stw_step_relu_in_place(step, normalized(step, x, width, stw_window_same(1, 1), label, 1));
    out = stw_step_relu_in_place(step, normalized(step, out, width, stw_window_same(3, stride), label, 2));
    out = normalized(step, out, GROWTH * width, stw_window_same(1, 1), label, 3);
    if (first) { /* the shortcut changes size too */
        x = stw_step_convolution(step, x, GROWTH * width, stw_window_same(1, stride), 1, false,
                                 stw_step_label(step, "%sdownsample.0", label));
        x = stw_step_batch_norm(step, x,
                                stw_batch_norm_create(step, GROWTH * width, stw_step_label(step, "%sdownsample.1", label)));
    }
    return stw_step_relu_in_place(step, stw_step_add_in_place(step, out, x));
}

/* As published from 16 on: 3, 4 (8 in deep ones), the rest, 3; fewer are spread evenly. */
static void share_out(int64_t blocks, int64_t *share) {
    for (int s = 0; s < STAGES; s++) share[s] = blocks / STAGES + (s < blocks % STAGES);
    if (blocks < 16) return;
    share[0] = share[3] = 3;
    share[1] = blocks < 40 ? 4 : 8;
    share[2] = blocks - share[0] - share[1] - share[3];
}

stw_tensor stw_build_resnet(stw_step *step, const int64_t *value) {
    const int64_t width = value[STW_WIDTH], batch = value[STW_BATCH];
    int64_t share[STAGES];
    share_out(value[STW_LAYERS], share);
    stw_tensor x = stw_step_input(step, STW_SHAPE(batch, COLOURS, value[STW_IMAGE], value[STW_IMAGE]));
    x = stw_step_relu_in_place(step, normalized(step, x, width, stw_window_same(7, 2), "", 1));
    x = stw_step_max_pool(step, x, stw_window_same(3, 2));
    for (int s = 0; s < STAGES; s++) {
        for (int64_t b = 0; b < share[s] && !stw_step_failed(step); b++) {
            const int64_t stride = s > 0 && b == 0 ? 2 : 1;
            x = block(step, x, width << s, stride, b == 0, stw_step_label(step, "layer%d.%d.", s + 1, (int)b));
        }
    }
    const int64_t channels = GROWTH * (width << (STAGES - 1));
    x = stw_step_view(step, stw_step_mean_to(step, x, STW_SHAPE(batch, channels, 1, 1)), STW_SHAPE(batch, channels));
    return stw_step_mean_square(step, stw_step_linear(step, x, stw_linear_create(step, channels, CLASSES, true, "fc")));
}
