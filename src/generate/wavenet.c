/* WaveNet: gated convolutions over a signal whose reach doubles from layer to layer, nine times, then begins anew. */
#include "generate/generate.h"

enum { DOUBLINGS = 9 };

static stw_tensor convolve(stw_step *step, stw_tensor x, int64_t channels, int64_t kernel, int64_t dilation, const char *label) {
    return stw_step_convolution(step, x, channels, (stw_window){.kernel = {kernel, 1}, .dilation = dilation}, 1, true, label);
}

stw_tensor stw_build_wavenet(stw_step *step, const int64_t *value) {
    const int64_t width = value[STW_WIDTH];
    stw_tensor x = stw_step_input(step, STW_SHAPE(value[STW_BATCH], width, value[STW_SEQUENCE])), skip = STW_NO_TENSOR;
    x = convolve(step, x, width, 1, 1, "inp");
    for (int64_t l = 0; l < value[STW_LAYERS] && !stw_step_failed(step); l++) {
        const int64_t dilation = (int64_t)1 << (l % DOUBLINGS);
        const int n = (int)l;
        const stw_tensor padded = stw_step_pad(step, x, 2, dilation);
        const stw_tensor filter =
            stw_step_tanh(step, convolve(step, padded, width, 2, dilation, stw_step_label(step, "f.%d", n)));
        const stw_tensor gate =
            stw_step_sigmoid(step, convolve(step, padded, width, 2, dilation, stw_step_label(step, "g.%d", n)));
        const stw_tensor gated = stw_step_mul(step, filter, gate);
        const stw_tensor out = convolve(step, gated, 2 * width, 1, 1, stw_step_label(step, "k.%d", n));
        skip = skip == STW_NO_TENSOR ? out : stw_step_add(step, skip, out);
        if (l + 1 == value[STW_LAYERS]) break; /* nobody would read the last one's residual */
        x = stw_step_add(step, x, convolve(step, gated, width, 1, 1, stw_step_label(step, "r.%d", n)));
    }
    x = convolve(step, stw_step_relu(step, skip), 2 * width, 1, 1, "o1");
    return stw_step_mean_square(step, convolve(step, stw_step_relu(step, x), width, 1, 1, "o2"));
}
