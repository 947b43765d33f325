#include "nn/layers.h"

stw_linear_layer stw_linear_declare(stw_parameters *p, const char *name, int32_t in, int32_t out, bool bias, bool relu,
                                    double scale) {
    return (stw_linear_layer){
        .in = in,
        .out = out,
        .weight = stw_parameters_declare(p, out, in, STW_START_UNIFORM, scale, "%s.weight", name),
        .bias = bias ? stw_parameters_declare(p, 1, out, STW_START_ZERO, 0.0, "%s.bias", name) : -1,
        .relu = relu,
    };
}

void stw_linear_forward(const stw_linear_layer *layer, const stw_parameters *p, int32_t rows, const void *x, bool add, void *y) {
    stw_backend *b = p->backend;
    const void *bias = layer->bias < 0 ? NULL : stw_parameter_value(p, layer->bias);
    b->linear(b, rows, layer->in, layer->out, x, stw_parameter_value(p, layer->weight), bias, add, layer->relu, y);
}

void stw_linear_backward(const stw_linear_layer *layer, stw_parameters *p, int32_t rows, const void *x, const void *y, void *d_y,
                         bool add, void *d_x) {
    stw_backend *b = p->backend;
    void *d_bias = layer->bias < 0 ? NULL : stw_parameter_gradient(p, layer->bias);
    b->linear_back(b, rows, layer->in, layer->out, x, stw_parameter_value(p, layer->weight), y, layer->relu, d_y, add, d_x,
                   stw_parameter_gradient(p, layer->weight), d_bias);
}
