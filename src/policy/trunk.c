/* From the input to the features that the tasks share. */
#include "policy/net.h"

static stw_status pool_pairs(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const stw_held_input *in = &pass->input;
    const int32_t width = net->config.pair_width;
    TRY(stw_tape_reals(pass->trunk_tape, (int64_t)in->M * in->D * width, &pass->pooled, error));
    TRY(stw_tape_reals(pass->trunk_tape, (int64_t)in->M * width, &pass->pair, error));
    TRY(stw_tape_indices(pass->trunk_tape, (int64_t)in->M * width, &pass->pair_chosen, error));
    stw_linear_forward(&net->pool, &net->p, in->M * in->D, in->pair, false, pass->pooled);
    b->gather_max(b, &in->of_pairs, width, pass->pooled, pass->pair, pass->pair_chosen);
    return STW_OK;
}

static stw_status project(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    const stw_policy_config *c = &net->config;
    stw_backend *b = net->backend;
    const stw_held_input *in = &pass->input;
    if (c->pair_columns > 0) TRY(pool_pairs(pass, error));
    TRY(stw_tape_reals(pass->trunk_tape, (int64_t)in->M * c->operator_width, &pass->operator_, error));
    TRY(stw_tape_reals(pass->trunk_tape, (int64_t)in->M * c->width, &pass->x0, error));
    b->embed(b, in->M, c->operator_width, stw_parameter_value(&net->p, net->operator_table), in->operator_, pass->operator_);
    stw_linear_forward(&net->unit, &net->p, in->M, in->unit, false, pass->x0);
    if (c->feedback_columns > 0) stw_linear_forward(&net->feedback, &net->p, in->M, in->feedback, true, pass->x0);
    if (c->pair_columns > 0) stw_linear_forward(&net->pair, &net->p, in->M, pass->pair, true, pass->x0);
    if (c->proposal_columns > 0) stw_linear_forward(&net->proposal, &net->p, in->M, in->proposal, true, pass->x0);
    if (c->identities > 0)
        b->add_scaled(b, (int64_t)in->M * c->width, 1.0, stw_parameter_value(&net->p, net->identity), pass->x0);
    stw_linear_forward(&net->operator_, &net->p, in->M, pass->operator_, true, pass->x0);
    return STW_OK;
}

static stw_status project_back(stw_pass *pass, void *d_x0, stw_error *error) {
    stw_net *net = pass->net;
    const stw_policy_config *c = &net->config;
    stw_backend *b = net->backend;
    const stw_held_input *in = &pass->input;
    void *d_operator = NULL;
    stw_tape_reset(pass->layer_tape);
    TRY(stw_tape_reals(pass->layer_tape, (int64_t)in->M * c->operator_width, &d_operator, error));
    /* The layer with the relu first: it cuts d_x0 for the others. */
    stw_linear_backward(&net->operator_, &net->p, in->M, pass->operator_, pass->x0, d_x0, false, d_operator);
    b->embed_back(b, in->M, c->operator_width, c->operators, in->operator_, d_operator,
                  stw_parameter_gradient(&net->p, net->operator_table));
    if (c->identities > 0) b->add_scaled(b, (int64_t)in->M * c->width, 1.0, d_x0, stw_parameter_gradient(&net->p, net->identity));
    stw_linear_backward(&net->unit, &net->p, in->M, in->unit, NULL, d_x0, false, NULL);
    if (c->feedback_columns > 0) stw_linear_backward(&net->feedback, &net->p, in->M, in->feedback, NULL, d_x0, false, NULL);
    if (c->proposal_columns > 0) stw_linear_backward(&net->proposal, &net->p, in->M, in->proposal, NULL, d_x0, false, NULL);
    if (c->pair_columns == 0) return STW_OK;
    void *d_pair = NULL, *d_pooled = NULL;
    TRY(stw_tape_reals(pass->layer_tape, (int64_t)in->M * c->pair_width, &d_pair, error));
    TRY(stw_tape_reals(pass->layer_tape, (int64_t)in->M * in->D * c->pair_width, &d_pooled, error));
    stw_linear_backward(&net->pair, &net->p, in->M, pass->pair, NULL, d_x0, false, d_pair);
    b->gather_max_back(b, &in->of_pairs, c->pair_width, pass->pair_chosen, d_pair, false, d_pooled);
    stw_linear_backward(&net->pool, &net->p, in->M * in->D, in->pair, pass->pooled, d_pooled, false, NULL);
    return STW_OK;
}

static const void *sage_output(const stw_pass *pass) {
    const int32_t layers = pass->net->config.sage_layers;
    return layers > 0 ? pass->sage[layers - 1].y : pass->x0;
}

/* What the gates are made of: the graph, which all rows share, or each row. */
static bool by_row(const stw_pass *pass) { return pass->net->config.modulation == STW_MODULATION_ROW; }
static const void *gate_input(const stw_pass *pass) { return by_row(pass) ? sage_output(pass) : pass->graph; }

static stw_status modulate(stw_pass *pass, int32_t l, const void *x, stw_error *error) {
    const stw_net *net = pass->net;
    const int32_t M = pass->input.M, width = net->config.width, gates = by_row(pass) ? M : 1;
    stw_backend *b = net->backend;
    TRY(stw_tape_reals(pass->trunk_tape, (int64_t)gates * width, &pass->gate[l], error));
    TRY(stw_tape_reals(pass->trunk_tape, (int64_t)M * width, &pass->gated[l], error));
    stw_linear_forward(&net->modulation[l], &net->p, gates, gate_input(pass), false, pass->gate[l]);
    b->gate(b, M / gates, gates * width, x, pass->gate[l], pass->gated[l]); /* gates of all rows are one long row's */
    return STW_OK;
}

static const void *attention_input(const stw_pass *pass, int32_t l) { /* before modulation */
    return l > 0 ? pass->attention[l - 1].y : sage_output(pass);
}

const void *stw_trunk_output(const stw_pass *pass) { return attention_input(pass, pass->net->config.attention_layers); }

stw_status stw_trunk_forward(stw_pass *pass, stw_error *error) {
    const stw_net *net = pass->net;
    const stw_policy_config *c = &net->config;
    const stw_held_input *in = &pass->input;
    stw_backend *b = net->backend;
    TRY(project(pass, error));
    const void *x = pass->x0;
    for (int32_t l = 0; l < c->sage_layers; l++) {
        TRY(stw_sage_forward(&net->sage[l], &net->p, &in->producers, &in->readers, x, pass->trunk_tape, &pass->sage[l], error));
        x = pass->sage[l].y;
    }
    TRY(stw_tape_reals(pass->trunk_tape, c->width, &pass->graph, error));
    b->mean(b, in->M, c->width, x, pass->graph);
    for (int32_t l = 0; l < c->attention_layers; l++) {
        if (c->modulation != 0) {
            TRY(modulate(pass, l, x, error));
            x = pass->gated[l];
        }
        TRY(stw_attention_forward(&net->attention[l], &net->p, in->M, in->M, c->segment, x, pass->trunk_tape, &pass->attention[l],
                                  error));
        x = pass->attention[l].y;
    }
    return STW_OK;
}

/* Gradients walk between two buffers of (M, width). */
typedef struct {
    void *here, *there;
} walk;

static void step(walk *w) {
    void *here = w->here;
    w->here = w->there;
    w->there = here;
}

/* d_from: the gradient of what the gates are made of. */
static stw_status attention_back(stw_pass *pass, int32_t l, walk *w, void *d_gate, void *d_from, stw_error *error) {
    stw_net *net = pass->net;
    const stw_policy_config *c = &net->config;
    const int32_t M = pass->input.M, gates = by_row(pass) ? M : 1;
    stw_backend *b = net->backend;
    stw_tape_reset(pass->layer_tape);
    TRY(stw_attention_backward(&net->attention[l], &net->p, &pass->attention[l], w->here, w->there, pass->layer_tape, error));
    step(w);
    if (c->modulation == 0) return STW_OK;
    b->zero(b, d_gate, (int64_t)gates * c->width * (int64_t)b->real_bytes);
    b->gate_back(b, M / gates, gates * c->width, attention_input(pass, l), pass->gate[l], w->here, false, w->there, d_gate);
    stw_linear_backward(&net->modulation[l], &net->p, gates, gate_input(pass), pass->gate[l], d_gate, true, d_from);
    step(w);
    return STW_OK;
}

stw_status stw_trunk_backward(stw_pass *pass, void *d_x, stw_error *error) {
    stw_net *net = pass->net;
    const stw_policy_config *c = &net->config;
    const stw_held_input *in = &pass->input;
    stw_backend *b = net->backend;
    walk w = {.here = d_x};
    void *d_gate = NULL, *d_from = pass->d_graph;
    const int64_t size = (int64_t)in->M * c->width;
    TRY(stw_tape_reals(pass->back_tape, size, &w.there, error));
    TRY(stw_tape_reals(pass->back_tape, by_row(pass) ? size : c->width, &d_gate, error));
    if (by_row(pass)) TRY(stw_tape_zeros(b, pass->back_tape, size, &d_from, error));
    for (int32_t l = c->attention_layers - 1; l >= 0; l--) TRY(attention_back(pass, l, &w, d_gate, d_from, error));
    if (by_row(pass)) b->add_scaled(b, size, 1.0, d_from, w.here);
    b->mean_back(b, in->M, c->width, pass->d_graph, true, w.here);
    for (int32_t l = c->sage_layers - 1; l >= 0; l--) {
        stw_tape_reset(pass->layer_tape);
        TRY(stw_sage_backward(&net->sage[l], &net->p, &in->producers, &in->readers, &pass->sage[l], w.here, w.there,
                              pass->layer_tape, error));
        step(&w);
    }
    b->add_scaled(b, (int64_t)in->M * c->width, 1.0, pass->d_x0, w.here);
    return project_back(pass, w.here, error);
}
