#include "nn/layers.h"

stw_norm_layer stw_norm_declare(stw_parameters *p, const char *name, int32_t width) {
    return (stw_norm_layer){
        .width = width,
        .gain = stw_parameters_declare(p, 1, width, STW_START_ONE, 0.0, "%s.gain", name),
        .bias = stw_parameters_declare(p, 1, width, STW_START_ZERO, 0.0, "%s.bias", name),
    };
}

stw_status stw_norm_forward(const stw_norm_layer *layer, const stw_parameters *p, int32_t rows, const void *x,
                            const void *residual, void *y, stw_tape *tape, stw_norm_kept *kept, stw_error *error) {
    stw_backend *b = p->backend;
    TRY(stw_tape_reals(tape, (int64_t)rows * layer->width, &kept->normal, error));
    TRY(stw_tape_reals(tape, rows, &kept->inverse, error));
    b->norm(b, rows, layer->width, x, residual, stw_parameter_value(p, layer->gain), stw_parameter_value(p, layer->bias), y,
            kept->normal, kept->inverse);
    return STW_OK;
}

void stw_norm_backward(const stw_norm_layer *layer, stw_parameters *p, int32_t rows, const stw_norm_kept *kept, const void *d_y,
                       void *d_z) {
    stw_backend *b = p->backend;
    b->norm_back(b, rows, layer->width, kept->normal, kept->inverse, stw_parameter_value(p, layer->gain), d_y, d_z,
                 stw_parameter_gradient(p, layer->gain), stw_parameter_gradient(p, layer->bias));
}
