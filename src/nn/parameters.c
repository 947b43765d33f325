#include "nn/parameters.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 16 }; /* reals: a parameter begins on a cache line, in float */

int32_t stw_parameters_declare(stw_parameters *p, int32_t rows, int32_t cols, stw_start start, double scale, const char *format,
                               ...) {
    if (p->count >= STW_MAX_PARAMETERS) { /* stw_parameters_allocate says so */
        p->total = -1;
        return 0;
    }
    stw_parameter *entry = &p->entry[p->count];
    *entry = (stw_parameter){.rows = rows, .cols = cols, .offset = p->total, .start = start, .scale = scale};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(entry->name, sizeof entry->name, format, arguments);
    va_end(arguments);
    p->total += ((int64_t)rows * cols + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return p->count++;
}

static uint64_t key_of(const char *name) { /* FNV-1a */
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name != '\0'; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

static double start_value(const stw_parameter *entry, int64_t k, stw_rng *rng) {
    switch (entry->start) {
        case STW_START_ZERO: return 0.0;
        case STW_START_ONE: return 1.0;
        case STW_START_UNIFORM: return entry->scale * (2.0 * stw_rng_uniform(rng) - 1.0) / sqrt((double)entry->cols);
        case STW_START_NORMAL: return entry->scale * stw_rng_normal(rng);
        case STW_START_FORGET: return k / (entry->cols / 4) == 1 ? 1.0 : 0.0;
    }
    return 0.0;
}

static stw_status fill(stw_parameters *p, const stw_rng *rng, stw_arena *arena, stw_error *error) {
    double *value;
    STW_TRY_NEW(arena, value, p->total, error);
    for (int32_t i = 0; i < p->count; i++) {
        const stw_parameter *entry = &p->entry[i];
        stw_rng own = stw_rng_split(rng, key_of(entry->name));
        for (int64_t k = 0; k < (int64_t)entry->rows * entry->cols; k++) value[entry->offset + k] = start_value(entry, k, &own);
    }
    stw_reals_in(p->backend, p->value, value, p->total, *arena);
    return STW_OK;
}

stw_status stw_parameters_allocate(stw_parameters *p, const stw_rng *rng, stw_error *error) {
    if (p->total < 0) return stw_fail(error, STW_ERROR_INPUT, "a network of more than %d parameters", STW_MAX_PARAMETERS);
    for (int32_t i = 0; i < p->count; i++) {
        if (stw_parameters_find(p, p->entry[i].name) != i)
            return stw_fail(error, STW_ERROR_INPUT, "two parameters are named %s", p->entry[i].name);
    }
    stw_backend *b = p->backend;
    const int64_t bytes = p->total * (int64_t)b->real_bytes;
    void **block[4] = {&p->value, &p->gradient, &p->first, &p->second};
    stw_status status = STW_OK;
    for (int i = 0; i < 4 && status == STW_OK; i++) status = b->allocate(b, bytes, block[i], error);
    stw_arena arena = {0};
    if (status == STW_OK) status = stw_arena_create_sized(&arena, p->total * 32 + (1 << 20), error);
    if (status == STW_OK) status = fill(p, rng, &arena, error);
    stw_arena_destroy(&arena);
    if (status != STW_OK) stw_parameters_release(p);
    return status;
}

void stw_parameters_release(stw_parameters *p) {
    void **block[4] = {&p->value, &p->gradient, &p->first, &p->second};
    if (p->borrows) p->value = NULL;
    for (int i = 0; i < 4; i++) {
        if (*block[i] != NULL) p->backend->release(p->backend, *block[i]);
        *block[i] = NULL;
    }
}

void stw_parameters_borrow(stw_parameters *p, const stw_parameters *from) {
    if (!p->borrows) p->backend->release(p->backend, p->value);
    p->value = from->value;
    p->borrows = true;
}

int32_t stw_parameters_find(const stw_parameters *p, const char *name) {
    for (int32_t i = 0; i < p->count; i++) {
        if (strcmp(p->entry[i].name, name) == 0) return i;
    }
    return -1;
}

void *stw_parameter_in(const stw_parameters *p, int32_t index, void *block) {
    return (char *)block + p->entry[index].offset * (int64_t)p->backend->real_bytes;
}

void stw_parameters_zero_gradient(stw_parameters *p) {
    p->backend->zero(p->backend, p->gradient, p->total * (int64_t)p->backend->real_bytes);
}

double stw_parameters_update(stw_parameters *p, double rate, double clip) {
    stw_backend *b = p->backend;
    const double norm = sqrt(b->square_sum(b, p->total, p->gradient));
    if (rate == 0.0 || !isfinite(norm)) return norm;
    const stw_adam adam = {.rate = rate, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .step = ++p->step};
    b->adam(b, p->total, &adam, clip > 0.0 && norm > clip ? clip / norm : 1.0, p->gradient, p->first, p->second, p->value);
    return norm;
}

enum { PIECE = 4096 }; /* reals converted at a time, on the stack */

void stw_reals_in(stw_backend *b, void *to, const double *from, int64_t count, stw_arena scratch) {
    (void)scratch;
    const int64_t bytes = (int64_t)b->real_bytes;
    if (b->real_bytes == sizeof(double)) {
        b->copy_in(b, to, from, count * bytes);
        return;
    }
    float piece[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        const int64_t n = count - at < PIECE ? count - at : PIECE;
        for (int64_t k = 0; k < n; k++) piece[k] = (float)from[at + k];
        b->copy_in(b, (char *)to + at * bytes, piece, n * bytes);
    }
}

void stw_reals_out(stw_backend *b, double *to, const void *from, int64_t count, stw_arena scratch) {
    (void)scratch;
    const int64_t bytes = (int64_t)b->real_bytes;
    if (b->real_bytes == sizeof(double)) {
        b->copy_out(b, to, from, count * bytes);
        return;
    }
    float piece[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        const int64_t n = count - at < PIECE ? count - at : PIECE;
        b->copy_out(b, piece, (const char *)from + at * bytes, n * bytes);
        for (int64_t k = 0; k < n; k++) to[at + k] = (double)piece[k];
    }
}
