/* A network as dimensions and tensors of a file, and back. */
#include <stdio.h>
#include <string.h>

#include "policy/checkpoint.h"
#include "policy/net.h"

typedef struct {
    const char *name;
    void *at; /* (total) on the backend */
} block;

enum { BLOCKS = 3 };

static void blocks_of(const stw_parameters *p, block out[BLOCKS]) {
    out[0] = (block){"parameter", p->value};
    out[1] = (block){"first", p->first};
    out[2] = (block){"second", p->second};
}

static void name_of(const block *b, const stw_parameter *entry, char out[64]) {
    snprintf(out, 64, "%s/%s", b->name, entry->name);
}

static stw_tensor_type type_of(const stw_backend *b) { return b->real_bytes == sizeof(float) ? STW_TENSOR_F32 : STW_TENSOR_F64; }

static stw_status add_dimension(stw_tensor_file *file, const char *name, int64_t value, stw_error *error) {
    if (file->dimension_count >= STW_TENSOR_MOST_DIMENSIONS)
        return stw_fail(error, STW_ERROR_INPUT, "no room for dimension %s; a file takes %d", name, STW_TENSOR_MOST_DIMENSIONS);
    const int32_t i = file->dimension_count++;
    snprintf(file->dimension[i].name, sizeof file->dimension[i].name, "%s", name);
    file->dimension[i].value = value;
    return STW_OK;
}

static stw_status add_tensor(const stw_parameters *p, int32_t index, const block *from, stw_arena *arena, stw_tensor_file *file,
                             stw_error *error) {
    stw_backend *b = p->backend;
    const stw_parameter *entry = &p->entry[index];
    const int64_t bytes = (int64_t)entry->rows * entry->cols * (int64_t)b->real_bytes;
    char *data = NULL;
    STW_TRY_NEW(arena, data, bytes, error);
    b->copy_out(b, data, stw_parameter_in(p, index, from->at), bytes);
    stw_tensor *t = &file->tensor[file->count++];
    *t = (stw_tensor){.type = type_of(b), .rows = entry->rows, .cols = entry->cols, .data = data};
    name_of(from, entry, t->name);
    return STW_OK;
}

stw_status stw_net_save(stw_net *net, bool moments, stw_arena *arena, stw_tensor_file *file, stw_error *error) {
    stw_policy_config config = net->config;
    int32_t *value = NULL;
    const char *name = NULL;
    for (int32_t i = 0; (name = stw_policy_config_field(i, &config, &value)) != NULL; i++)
        if (*value != 0 || !stw_policy_config_is_optional(i)) TRY(add_dimension(file, name, *value, error));
    if (moments) TRY(add_dimension(file, "adam_step", net->p.step, error));
    block from[BLOCKS];
    blocks_of(&net->p, from);
    for (int32_t k = 0; k < (moments ? BLOCKS : 1); k++) {
        for (int32_t i = 0; i < net->p.count; i++) TRY(add_tensor(&net->p, i, &from[k], arena, file, error));
    }
    return STW_OK;
}

stw_status stw_net_config_of(const stw_tensor_file *file, stw_policy_config *out, stw_error *error) {
    *out = (stw_policy_config){0};
    int32_t *value = NULL;
    const char *name = NULL;
    for (int32_t i = 0; (name = stw_policy_config_field(i, out, &value)) != NULL; i++) {
        int64_t stated = 0;
        if (!stw_tensor_file_dimension(file, name, &stated) && !stw_policy_config_is_optional(i))
            return stw_fail(error, STW_ERROR_INPUT, "the file does not state %s; it is not a file of a network", name);
        if (stated < 0 || stated > INT32_MAX)
            return stw_fail(error, STW_ERROR_INPUT, "the file states %s %lld, which no network has", name, (long long)stated);
        *value = (int32_t)stated;
    }
    return stw_policy_config_check(out, error);
}

/* `shared`: the file's network lacks the vectors of rows. */
static stw_status check_same(const stw_net *net, const stw_tensor_file *file, bool shared, stw_error *error) {
    stw_policy_config stated, own = net->config;
    TRY(stw_net_config_of(file, &stated, error));
    if (shared) own.identities = 0;
    int32_t *a = NULL, *b = NULL;
    const char *name = NULL;
    for (int32_t i = 0; (name = stw_policy_config_field(i, &own, &a)) != NULL; i++) {
        (void)stw_policy_config_field(i, &stated, &b);
        if (*a != *b)
            return stw_fail(error, STW_ERROR_INPUT,
                            "the file's network has %s %d, this one %d; use the settings it was made with", name, *b, *a);
    }
    return STW_OK;
}

/* Bit for bit where the types agree; float and double are converted to each other. */
static stw_status fill(const stw_parameters *p, void *to, const stw_tensor *t, stw_arena scratch, stw_error *error) {
    stw_backend *b = p->backend;
    if (t->type == type_of(b)) {
        b->copy_in(b, to, t->data, stw_tensor_bytes(t));
        return STW_OK;
    }
    const int64_t count = t->rows * t->cols;
    double *wide = NULL;
    STW_TRY_NEW(&scratch, wide, count, error);
    for (int64_t i = 0; i < count; i++)
        wide[i] = t->type == STW_TENSOR_F32 ? (double)((const float *)t->data)[i] : ((const double *)t->data)[i];
    stw_reals_in(b, to, wide, count, scratch);
    return STW_OK;
}

static stw_status find(const stw_tensor_file *file, const block *from, const stw_parameter *entry, const stw_tensor **out,
                       stw_error *error) {
    char name[64];
    name_of(from, entry, name);
    const stw_tensor *there = stw_tensor_find(file, name);
    const stw_tensor_type type = there != NULL && there->type == STW_TENSOR_F64 ? STW_TENSOR_F64 : STW_TENSOR_F32;
    return stw_tensor_expect(file, name, type, entry->rows, entry->cols, out, error);
}

/* `but`: a parameter that is left alone; -1: none. */
static stw_status each(const stw_parameters *p, const stw_tensor_file *file, const block *to, int32_t but, bool write,
                       stw_arena scratch, stw_error *error) {
    for (int32_t i = 0; i < p->count; i++) {
        const stw_tensor *t = NULL;
        if (i == but) continue;
        TRY(find(file, to, &p->entry[i], &t, error));
        if (write) TRY(fill(p, stw_parameter_in(p, i, to->at), t, scratch, error));
    }
    return STW_OK;
}

stw_status stw_net_load(stw_net *net, const stw_tensor_file *file, stw_arena scratch, stw_error *error) {
    TRY(check_same(net, file, false, error));
    int64_t step = 0;
    const bool moments = stw_tensor_file_dimension(file, "adam_step", &step);
    if (step < 0) return stw_fail(error, STW_ERROR_INPUT, "the file states adam_step %lld; it counts from 0", (long long)step);
    block to[BLOCKS];
    blocks_of(&net->p, to);
    /* All is looked at before the first is written: a file that does not fit leaves the network as it was. */
    for (int32_t write = 0; write < 2; write++) {
        for (int32_t k = 0; k < (moments ? BLOCKS : 1); k++) TRY(each(&net->p, file, &to[k], -1, write == 1, scratch, error));
    }
    if (moments) net->p.step = step;
    return STW_OK;
}

stw_status stw_net_load_shared(stw_net *net, const stw_tensor_file *file, stw_arena scratch, stw_error *error) {
    const stw_parameters *p = &net->p;
    const int32_t rows = stw_parameters_find(p, "input.identity");
    block to[BLOCKS];
    TRY(check_same(net, file, true, error));
    blocks_of(p, to);
    for (int32_t write = 0; write < 2; write++) TRY(each(p, file, &to[0], rows, write == 1, scratch, error));
    if (rows < 0) return STW_OK;
    const int64_t count = (int64_t)p->entry[rows].rows * p->entry[rows].cols;
    p->backend->zero(p->backend, stw_parameter_value(p, rows), count * (int64_t)p->backend->real_bytes);
    return STW_OK;
}
