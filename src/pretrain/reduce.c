/* Gradients of all slots of all processes into one. */
#include <string.h>

#include "pretrain/pretrain_state.h"

static void add(const stw_backend *b, const char *from, int64_t count, double *sum) {
    for (int64_t k = 0; k < count; k++) {
        sum[k] += b->real_bytes == sizeof(float) ? (double)((const float *)(const void *)from)[k]
                                                 : ((const double *)(const void *)from)[k];
    }
}

/* Every process has the gradient of every slot, and adds them in the same order. */
static stw_status gather(stw_pretrain *p, int64_t total, stw_error *error) {
    const int64_t bytes = total * (int64_t)p->backend->real_bytes;
    const int32_t ranks = stw_comm_size(p->comm), slots = p->settings.slots;
    for (int32_t r = 0; r < ranks; r++) p->bytes[r] = bytes * ((int64_t)slots * (r + 1) / ranks - (int64_t)slots * r / ranks);
    TRY(stw_comm_gather(p->comm, p->mine, p->bytes, p->all, error));
    for (int32_t k = 0; k < slots; k++) add(p->backend, p->all + k * bytes, total, p->sum);
    return STW_OK;
}

stw_status stw_pretrain_reduce(stw_pretrain *p, stw_error *error) {
    stw_parameters *to = stw_net_parameters(p->net);
    const int64_t total = to->total, bytes = total * (int64_t)p->backend->real_bytes;
    memset(p->sum, 0, (size_t)total * sizeof *p->sum);
    for (int32_t k = 0; k < p->count; k++) {
        stw_backend *b = p->slot[k].backend;
        b->copy_out(b, p->mine + k * bytes, stw_net_parameters(p->slot[k].net)->gradient, bytes);
    }
    if (p->settings.ordered) {
        TRY(gather(p, total, error));
    } else {
        for (int32_t k = 0; k < p->count; k++) add(p->backend, p->mine + k * bytes, total, p->sum);
        TRY(stw_comm_sum_doubles(p->comm, p->sum, total, error));
    }
    for (int64_t k = 0; k < total; k++) p->sum[k] /= p->settings.slots;
    stw_reals_in(p->backend, to->gradient, p->sum, total, p->arena);
    return STW_OK;
}
