#include "baseline/placeto/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KNOWN = 4 }; /* columns of x before the devices */

typedef struct combine { /* g(sum of f) */
    stw_linear_layer f[2], g[2];
} combine;

struct stw_placeto_net {
    stw_placeto_config config;
    int32_t F, W;
    stw_parameters p;
    stw_linear_layer own[3];
    combine way[STW_PLACETO_WAYS];   /* W -> W */
    combine pool[STW_PLACETO_POOLS]; /* 2 W -> 2 W */
    stw_linear_layer policy[3];      /* 8 W -> 16 W -> 8 W -> D */
    stw_arena arena;
    double *value; /* (total) the parameters */
};

/* ---- parameters ---- */

/* Uniform in +-sqrt(6 / (in + out)). */
static stw_linear_layer declare(stw_parameters *p, const char *name, const char *part, int32_t number, int32_t in, int32_t out,
                                bool relu) {
    char full[48];
    snprintf(full, sizeof full, "%s%s%d", name, part, number);
    return stw_linear_declare(p, full, in, out, true, relu, sqrt(6.0 * in / (in + out)));
}

static combine declare_combine(stw_parameters *p, const char *name, int32_t width) {
    combine c;
    for (int32_t i = 0; i < 2; i++) c.f[i] = declare(p, name, ".f.", i, width, width, true);
    for (int32_t i = 0; i < 2; i++) c.g[i] = declare(p, name, ".g.", i, width, width, true);
    return c;
}

static void declare_all(stw_placeto_net *net) {
    static const char *const ways[] = {"top_down", "bottom_up"}, *const pools[] = {"above", "below", "beside"};
    stw_parameters *p = &net->p;
    const int32_t W = net->W, joined = 8 * W;
    for (int32_t i = 0; i < 3; i++) net->own[i] = declare(p, "own", ".", i, i == 0 ? net->F : W, W, i < 2);
    for (int32_t i = 0; i < STW_PLACETO_WAYS; i++) net->way[i] = declare_combine(p, ways[i], W);
    for (int32_t i = 0; i < STW_PLACETO_POOLS; i++) net->pool[i] = declare_combine(p, pools[i], 2 * W);
    net->policy[0] = declare(p, "policy", ".", 0, joined, 2 * joined, true);
    net->policy[1] = declare(p, "policy", ".", 1, 2 * joined, joined, true);
    net->policy[2] = declare(p, "policy", ".", 2, joined, net->config.devices, false);
}

static stw_status make(stw_placeto_net *net, uint64_t seed, stw_error *error) {
    const stw_rng rng = stw_rng_create(seed);
    declare_all(net);
    TRY(stw_parameters_allocate(&net->p, &rng, error));
    TRY(stw_arena_create_sized(&net->arena, net->p.total * (int64_t)sizeof(double) + (1 << 16), error));
    STW_TRY_NEW(&net->arena, net->value, net->p.total, error);
    stw_placeto_net_fetch(net);
    return STW_OK;
}

stw_status stw_placeto_net_create(const stw_placeto_config *config, stw_backend *backend, uint64_t seed, stw_placeto_net **out,
                                  stw_error *error) {
    enum { MOST_WIDTH = 1024, MOST_ROUNDS = 64 };
    *out = NULL;
    if (config->devices < 1 || config->width < 0 || config->width > MOST_WIDTH || config->rounds < 0 ||
        config->rounds > MOST_ROUNDS)
        return stw_fail(error, STW_ERROR_INPUT,
                        "a network of %d devices, width %d and %d rounds; at least 1 device, width 0 to %d, 0 to %d rounds",
                        config->devices, config->width, config->rounds, MOST_WIDTH, MOST_ROUNDS);
    stw_placeto_net *net = calloc(1, sizeof *net);
    if (net == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (the network of placeto)");
    net->config = *config;
    net->p.backend = backend;
    net->F = KNOWN + config->devices;
    net->W = config->width > 0 ? config->width : net->F;
    const stw_status status = make(net, seed, error);
    if (status != STW_OK) {
        stw_placeto_net_destroy(net);
        return status;
    }
    *out = net;
    return STW_OK;
}

void stw_placeto_net_destroy(stw_placeto_net *net) {
    if (net == NULL) return;
    stw_parameters_release(&net->p);
    stw_arena_destroy(&net->arena);
    free(net);
}

stw_parameters *stw_placeto_net_parameters(stw_placeto_net *net) { return &net->p; }

void stw_placeto_net_fetch(stw_placeto_net *net) {
    stw_reals_out(net->p.backend, net->value, net->p.value, net->p.total, net->arena);
}

double stw_placeto_net_update(stw_placeto_net *net, const double *gradient, double rate, double clip) {
    stw_reals_in(net->p.backend, net->p.gradient, gradient, net->p.total, net->arena);
    const double norm = stw_parameters_update(&net->p, rate, clip);
    stw_placeto_net_fetch(net);
    return norm;
}

/* ---- a layer ---- */

/* x: (rows, in), y: (rows, out). */
static void dense(const stw_placeto_net *net, const stw_linear_layer *layer, int64_t rows, const double *x, double *y) {
    const double *weight = &net->value[net->p.entry[layer->weight].offset], *bias = &net->value[net->p.entry[layer->bias].offset];
    for (int64_t r = 0; r < rows; r++) {
        const double *from = &x[r * layer->in];
        double *to = &y[r * layer->out];
        for (int32_t o = 0; o < layer->out; o++) {
            const double *w = &weight[(int64_t)o * layer->in];
            double sum = bias[o];
            for (int32_t i = 0; i < layer->in; i++) sum += w[i] * from[i];
            to[o] = layer->relu && sum < 0.0 ? 0.0 : sum;
        }
    }
}

/* d_y: (rows, out), by the output y. d_x: (rows, in), added to, or NULL. */
static void dense_back(const stw_placeto_net *net, const stw_linear_layer *layer, int64_t rows, const double *x, const double *y,
                       const double *d_y, double *d_x, double *gradient) {
    const double *weight = &net->value[net->p.entry[layer->weight].offset];
    double *d_weight = &gradient[net->p.entry[layer->weight].offset], *d_bias = &gradient[net->p.entry[layer->bias].offset];
    for (int64_t r = 0; r < rows; r++) {
        const double *from = &x[r * layer->in];
        for (int32_t o = 0; o < layer->out; o++) {
            const double d = layer->relu && y[r * layer->out + o] <= 0.0 ? 0.0 : d_y[r * layer->out + o];
            if (d == 0.0) continue;
            double *d_w = &d_weight[(int64_t)o * layer->in];
            for (int32_t i = 0; i < layer->in; i++) d_w[i] += d * from[i];
            d_bias[o] += d;
            if (d_x == NULL) continue;
            const double *w = &weight[(int64_t)o * layer->in];
            for (int32_t i = 0; i < layer->in; i++) d_x[r * layer->in + i] += d * w[i];
        }
    }
}

/* y[r] += sum of x over what r gathers. */
static void gather_sum(int32_t N, int32_t width, const int32_t *start, const int32_t *item, const double *x, double *y) {
    for (int32_t r = 0; r < N; r++) {
        double *to = &y[(int64_t)r * width];
        for (int32_t k = start[r]; k < start[r + 1]; k++) {
            const double *from = &x[(int64_t)item[k] * width];
            for (int32_t i = 0; i < width; i++) to[i] += from[i];
        }
    }
}

/* ---- forward ---- */

static stw_status fill_columns(const stw_placeto_net *net, const stw_placeto_graph *graph, const int32_t *device, int32_t node,
                               stw_arena *arena, double **out, stw_error *error) {
    double *x;
    STW_TRY_NEW(arena, x, (int64_t)graph->N * net->F, error);
    for (int32_t u = 0; u < graph->N; u++) {
        double *row = &x[(int64_t)u * net->F];
        row[0] = graph->time[(int64_t)u * graph->D + device[u]];
        row[1] = graph->bytes[u];
        row[2] = u == node;
        row[3] = u < node;
        row[KNOWN + device[u]] = 1.0;
    }
    *out = x;
    return STW_OK;
}

static stw_status pass_messages(const stw_placeto_net *net, const stw_placeto_graph *graph, int32_t way, stw_arena *arena,
                                stw_placeto_pass *pass, stw_error *error) {
    const int32_t *start = way == 0 ? graph->above_start : graph->below_start, *item = way == 0 ? graph->above : graph->below;
    const combine *c = &net->way[way];
    const int32_t W = net->W;
    const int64_t count = (int64_t)graph->N * W;
    const double *y = pass->own;
    STW_TRY_NEW(arena, pass->round[way], net->config.rounds, error);
    for (int32_t k = 0; k < net->config.rounds; k++) {
        stw_placeto_round *r = &pass->round[way][k];
        double **block[] = {&r->f[0], &r->f[1], &r->sum, &r->g[0], &r->g[1], &r->y};
        for (int32_t i = 0; i < 6; i++) STW_TRY_NEW(arena, *block[i], count, error);
        dense(net, &c->f[0], graph->N, y, r->f[0]);
        dense(net, &c->f[1], graph->N, r->f[0], r->f[1]);
        gather_sum(graph->N, W, start, item, r->f[1], r->sum);
        for (int32_t u = 0; u < graph->N; u++) {
            if (start[u] == start[u + 1]) continue;
            dense(net, &c->g[0], 1, &r->sum[(int64_t)u * W], &r->g[0][(int64_t)u * W]);
            dense(net, &c->g[1], 1, &r->g[0][(int64_t)u * W], &r->g[1][(int64_t)u * W]);
        }
        for (int64_t i = 0; i < count; i++) r->y[i] = pass->own[i] + r->g[1][i];
        y = r->y;
    }
    for (int32_t u = 0; u < graph->N; u++)
        memcpy(&pass->e[((int64_t)u * STW_PLACETO_WAYS + way) * W], &y[(int64_t)u * W], (size_t)W * sizeof *y);
    return STW_OK;
}

/* Marks what can be reached from `node`, without it. queue: (N). */
static void mark_reached(const int32_t *start, const int32_t *item, int32_t node, bool *reached, int32_t *queue) {
    int32_t count = 0;
    queue[count++] = node;
    reached[node] = true;
    for (int32_t k = 0; k < count; k++) {
        for (int32_t i = start[queue[k]]; i < start[queue[k] + 1]; i++) {
            if (reached[item[i]]) continue;
            reached[item[i]] = true;
            queue[count++] = item[i];
        }
    }
    reached[node] = false;
}

static stw_status find_members(const stw_placeto_graph *graph, int32_t node, stw_arena *arena, stw_placeto_pool *pool,
                               stw_error *error) {
    bool *above, *below;
    int32_t *queue;
    STW_TRY_NEW(arena, above, graph->N, error);
    STW_TRY_NEW(arena, below, graph->N, error);
    STW_TRY_NEW(arena, queue, graph->N, error);
    mark_reached(graph->above_start, graph->above, node, above, queue);
    mark_reached(graph->below_start, graph->below, node, below, queue);
    for (int32_t k = 0; k < STW_PLACETO_POOLS; k++) STW_TRY_NEW(arena, pool[k].member, graph->N, error);
    for (int32_t u = 0; u < graph->N; u++) {
        if (above[u]) pool[0].member[pool[0].m++] = u;
        if (below[u]) pool[1].member[pool[1].m++] = u;
        if (!above[u] && !below[u] && u != node) pool[2].member[pool[2].m++] = u;
    }
    return STW_OK;
}

/* What a pool's sum is multiplied with. */
static double share_of(const stw_placeto_net *net, const stw_placeto_pool *pool) {
    return net->config.mean && pool->m > 0 ? 1.0 / pool->m : 1.0;
}

static stw_status pool_members(const stw_placeto_net *net, const combine *c, const double *e, stw_arena *arena,
                               stw_placeto_pool *pool, double *out, stw_error *error) {
    const int64_t width = 2 * (int64_t)net->W;
    double **block[] = {&pool->in, &pool->f[0], &pool->f[1]};
    for (int32_t i = 0; i < 3; i++) STW_TRY_NEW(arena, *block[i], pool->m * width, error);
    STW_TRY_NEW(arena, pool->sum, width, error);
    STW_TRY_NEW(arena, pool->g, width, error);
    for (int32_t k = 0; k < pool->m; k++) memcpy(&pool->in[k * width], &e[pool->member[k] * width], (size_t)width * sizeof *e);
    dense(net, &c->f[0], pool->m, pool->in, pool->f[0]);
    dense(net, &c->f[1], pool->m, pool->f[0], pool->f[1]);
    for (int32_t k = 0; k < pool->m; k++) {
        for (int64_t i = 0; i < width; i++) pool->sum[i] += pool->f[1][k * width + i];
    }
    for (int64_t i = 0; i < width; i++) pool->sum[i] *= share_of(net, pool);
    dense(net, &c->g[0], 1, pool->sum, pool->g);
    dense(net, &c->g[1], 1, pool->g, out);
    return STW_OK;
}

static void log_softmax(int32_t count, double *logits) {
    double most = logits[0], sum = 0.0;
    for (int32_t i = 1; i < count; i++) most = fmax(most, logits[i]);
    for (int32_t i = 0; i < count; i++) sum += exp(logits[i] - most);
    for (int32_t i = 0; i < count; i++) logits[i] -= most + log(sum);
}

static stw_status embed(const stw_placeto_net *net, const stw_placeto_graph *graph, const int32_t *device, stw_arena *arena,
                        stw_placeto_pass *pass, stw_error *error) {
    const int64_t count = (int64_t)graph->N * net->W;
    TRY(fill_columns(net, graph, device, pass->node, arena, &pass->x, error));
    STW_TRY_NEW(arena, pass->hidden[0], count, error);
    STW_TRY_NEW(arena, pass->hidden[1], count, error);
    STW_TRY_NEW(arena, pass->own, count, error);
    STW_TRY_NEW(arena, pass->e, STW_PLACETO_WAYS * count, error);
    dense(net, &net->own[0], graph->N, pass->x, pass->hidden[0]);
    dense(net, &net->own[1], graph->N, pass->hidden[0], pass->hidden[1]);
    dense(net, &net->own[2], graph->N, pass->hidden[1], pass->own);
    for (int32_t way = 0; way < STW_PLACETO_WAYS; way++) TRY(pass_messages(net, graph, way, arena, pass, error));
    return STW_OK;
}

stw_status stw_placeto_forward(const stw_placeto_net *net, const stw_placeto_graph *graph, const int32_t *device, int32_t node,
                               stw_arena *arena, stw_placeto_pass *out, stw_error *error) {
    const int64_t width = 2 * (int64_t)net->W;
    *out = (stw_placeto_pass){.node = node};
    TRY(embed(net, graph, device, arena, out, error));
    TRY(find_members(graph, node, arena, out->pool, error));
    STW_TRY_NEW(arena, out->joined, 4 * width, error);
    STW_TRY_NEW(arena, out->policy[0], 8 * width, error);
    STW_TRY_NEW(arena, out->policy[1], 4 * width, error);
    STW_TRY_NEW(arena, out->logp, net->config.devices, error);
    for (int32_t k = 0; k < STW_PLACETO_POOLS; k++)
        TRY(pool_members(net, &net->pool[k], out->e, arena, &out->pool[k], &out->joined[k * width], error));
    memcpy(&out->joined[STW_PLACETO_POOLS * width], &out->e[node * width], (size_t)width * sizeof *out->e);
    dense(net, &net->policy[0], 1, out->joined, out->policy[0]);
    dense(net, &net->policy[1], 1, out->policy[0], out->policy[1]);
    dense(net, &net->policy[2], 1, out->policy[1], out->logp);
    log_softmax(net->config.devices, out->logp);
    return STW_OK;
}

double stw_placeto_entropy(int32_t devices, const double *logp) {
    double sum = 0.0;
    for (int32_t d = 0; d < devices; d++) sum -= exp(logp[d]) * logp[d];
    return sum;
}

/* ---- backward ---- */

/* From the decision to d_joined: (8 W), written. */
static stw_status policy_back(const stw_placeto_net *net, const stw_placeto_pass *pass, int32_t choice, double weight,
                              double bonus, double *d_joined, double *gradient, stw_arena *arena, stw_error *error) {
    const int32_t D = net->config.devices;
    const double entropy = stw_placeto_entropy(D, pass->logp);
    double *d_logit, *d_wide, *d_narrow;
    STW_TRY_NEW(arena, d_logit, D, error);
    STW_TRY_NEW(arena, d_wide, 16 * (int64_t)net->W, error);
    STW_TRY_NEW(arena, d_narrow, 8 * (int64_t)net->W, error);
    for (int32_t d = 0; d < D; d++) {
        const double p = exp(pass->logp[d]);
        d_logit[d] = weight * ((d == choice) - p) - bonus * p * (pass->logp[d] + entropy);
    }
    dense_back(net, &net->policy[2], 1, pass->policy[1], pass->logp, d_logit, d_narrow, gradient);
    dense_back(net, &net->policy[1], 1, pass->policy[0], pass->policy[1], d_narrow, d_wide, gradient);
    dense_back(net, &net->policy[0], 1, pass->joined, pass->policy[0], d_wide, d_joined, gradient);
    return STW_OK;
}

/* d_out: (2 W), by the pool's output `out`. d_e: (N, 2 W), added to. */
static stw_status pool_back(const stw_placeto_net *net, const combine *c, const stw_placeto_pool *pool, const double *out,
                            const double *d_out, double *d_e, double *gradient, stw_arena arena, stw_error *error) {
    const int64_t width = 2 * (int64_t)net->W;
    double *d_g, *d_sum, *d_f[2], *d_in;
    STW_TRY_NEW(&arena, d_g, width, error);
    STW_TRY_NEW(&arena, d_sum, width, error);
    double **block[] = {&d_f[0], &d_f[1], &d_in};
    for (int32_t i = 0; i < 3; i++) STW_TRY_NEW(&arena, *block[i], pool->m * width, error);
    dense_back(net, &c->g[1], 1, pool->g, out, d_out, d_g, gradient);
    dense_back(net, &c->g[0], 1, pool->sum, pool->g, d_g, d_sum, gradient);
    for (int32_t k = 0; k < pool->m; k++) {
        for (int64_t i = 0; i < width; i++) d_f[1][k * width + i] = share_of(net, pool) * d_sum[i];
    }
    dense_back(net, &c->f[1], pool->m, pool->f[0], pool->f[1], d_f[1], d_f[0], gradient);
    dense_back(net, &c->f[0], pool->m, pool->in, pool->f[0], d_f[0], d_in, gradient);
    for (int32_t k = 0; k < pool->m; k++) {
        for (int64_t i = 0; i < width; i++) d_e[pool->member[k] * width + i] += d_in[k * width + i];
    }
    return STW_OK;
}

/* One way's messages, from the last round to the first. d_y: (N, W), by the last y, overwritten; d_own: (N, W), added to. */
static stw_status messages_back(const stw_placeto_net *net, const stw_placeto_graph *graph, const stw_placeto_pass *pass,
                                int32_t way, double *d_y, double *d_own, double *gradient, stw_arena arena, stw_error *error) {
    const int32_t *start = way == 0 ? graph->above_start : graph->below_start;
    const int32_t *back_start = way == 0 ? graph->below_start : graph->above_start,
                  *back = way == 0 ? graph->below : graph->above;
    const combine *c = &net->way[way];
    const int64_t W = net->W, count = graph->N * W;
    double *d_g, *d_sum, *d_f[2];
    double **block[] = {&d_g, &d_sum, &d_f[0], &d_f[1]};
    for (int32_t i = 0; i < 4; i++) STW_TRY_NEW(&arena, *block[i], count, error);
    for (int32_t k = net->config.rounds; k-- > 0;) {
        const stw_placeto_round *r = &pass->round[way][k];
        for (int32_t i = 0; i < 4; i++) memset(*block[i], 0, (size_t)count * sizeof **block[i]);
        for (int64_t i = 0; i < count; i++) d_own[i] += d_y[i];
        for (int32_t u = 0; u < graph->N; u++) {
            if (start[u] == start[u + 1]) continue;
            dense_back(net, &c->g[1], 1, &r->g[0][u * W], &r->g[1][u * W], &d_y[u * W], &d_g[u * W], gradient);
            dense_back(net, &c->g[0], 1, &r->sum[u * W], &r->g[0][u * W], &d_g[u * W], &d_sum[u * W], gradient);
        }
        gather_sum(graph->N, net->W, back_start, back, d_sum, d_f[1]);
        memset(d_y, 0, (size_t)count * sizeof *d_y);
        dense_back(net, &c->f[1], graph->N, r->f[0], r->f[1], d_f[1], d_f[0], gradient);
        dense_back(net, &c->f[0], graph->N, k > 0 ? pass->round[way][k - 1].y : pass->own, r->f[0], d_f[0], d_y, gradient);
    }
    for (int64_t i = 0; i < count; i++) d_own[i] += d_y[i];
    return STW_OK;
}

/* d_e: (N, 2 W). */
static stw_status embed_back(const stw_placeto_net *net, const stw_placeto_graph *graph, const stw_placeto_pass *pass,
                             const double *d_e, double *gradient, stw_arena arena, stw_error *error) {
    const int64_t W = net->W, count = graph->N * W;
    double *d_y, *d_own, *d_hidden[2];
    double **block[] = {&d_y, &d_own, &d_hidden[0], &d_hidden[1]};
    for (int32_t i = 0; i < 4; i++) STW_TRY_NEW(&arena, *block[i], count, error);
    for (int32_t way = 0; way < STW_PLACETO_WAYS; way++) {
        for (int32_t u = 0; u < graph->N; u++)
            memcpy(&d_y[u * W], &d_e[((int64_t)u * STW_PLACETO_WAYS + way) * W], (size_t)W * sizeof *d_y);
        TRY(messages_back(net, graph, pass, way, d_y, d_own, gradient, arena, error));
    }
    dense_back(net, &net->own[2], graph->N, pass->hidden[1], pass->own, d_own, d_hidden[1], gradient);
    dense_back(net, &net->own[1], graph->N, pass->hidden[0], pass->hidden[1], d_hidden[1], d_hidden[0], gradient);
    dense_back(net, &net->own[0], graph->N, pass->x, pass->hidden[0], d_hidden[0], NULL, gradient);
    return STW_OK;
}

stw_status stw_placeto_backward(const stw_placeto_net *net, const stw_placeto_graph *graph, const stw_placeto_pass *pass,
                                int32_t choice, double weight, double bonus, double *gradient, stw_arena scratch,
                                stw_error *error) {
    const int64_t width = 2 * (int64_t)net->W;
    double *d_joined, *d_e;
    STW_TRY_NEW(&scratch, d_joined, 4 * width, error);
    STW_TRY_NEW(&scratch, d_e, graph->N * width, error);
    TRY(policy_back(net, pass, choice, weight, bonus, d_joined, gradient, &scratch, error));
    for (int32_t k = 0; k < STW_PLACETO_POOLS; k++)
        TRY(pool_back(net, &net->pool[k], &pass->pool[k], &pass->joined[k * width], &d_joined[k * width], d_e, gradient, scratch,
                      error));
    for (int64_t i = 0; i < width; i++) d_e[pass->node * width + i] += d_joined[STW_PLACETO_POOLS * width + i];
    return embed_back(net, graph, pass, d_e, gradient, scratch, error);
}
