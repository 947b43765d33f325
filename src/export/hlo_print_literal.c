/* Prints a LiteralProto as the contents of a constant: 0.5, {1, 2}, { {1, 2}, {3, 4} }. Large ones, and types that have no
 * decimal numbers here, are elided as XLA elides them: {...}. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/hlo_print.h"

enum { MOST_ELEMENTS = 1024 };

typedef enum {
    BOOLS,
    SIGNED,
    UNSIGNED,
    FLOATS,
    HALVES,
    BRAINS,
    BYTES,
    UNSIGNED_BYTES,
    SHORTS,
    UNSIGNED_SHORTS,
    DOUBLES
} encoding;

/* Where the numbers of a type stand in LiteralProto. */
static const struct {
    int32_t type, field;
    encoding encoding;
} places[] = {{1, 2, BOOLS},          {2, 15, BYTES},           {3, 17, SHORTS},  {4, 4, SIGNED},   {5, 5, SIGNED},
              {6, 3, UNSIGNED_BYTES}, {7, 16, UNSIGNED_SHORTS}, {8, 6, UNSIGNED}, {9, 7, UNSIGNED}, {10, 11, HALVES},
              {11, 8, FLOATS},        {12, 9, DOUBLES},         {16, 13, BRAINS}};

typedef struct literal {
    encoding encoding;
    stw_hlo_ints ints;  /* of varints */
    stw_str raw;        /* of everything else: little-endian */
    stw_hlo_ints size;  /* of each dimension */
    int64_t stride[16]; /* of each dimension, in elements */
    int64_t elements;
} literal;

static double half_of(uint32_t bits) {
    const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    const double magnitude = exponent == 31  ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                             : exponent == 0 ? ldexp(fraction, -24)
                                             : ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 != 0 ? -magnitude : magnitude;
}

static double float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static uint64_t raw_bits(const literal *l, int64_t k, int64_t bytes) {
    uint64_t bits = 0;
    for (int64_t b = 0; b < bytes; b++) bits |= (uint64_t)(unsigned char)l->raw.p[k * bytes + b] << (8 * b);
    return bits;
}

static void print_real(stw_hlo_printer *p, double value, int digits) {
    if (isnan(value)) {
        stw_hlo_put(&p->out, "nan");
    } else if (isinf(value)) {
        stw_hlo_put(&p->out, value > 0 ? "inf" : "-inf");
    } else {
        stw_hlo_put_format(&p->out, "%.*g", digits, value);
    }
}

static void print_element(stw_hlo_printer *p, const literal *l, int64_t k) {
    double value = 0.0;
    switch (l->encoding) {
        case BOOLS: stw_hlo_put(&p->out, l->ints.value[k] != 0 ? "true" : "false"); break;
        case SIGNED: stw_hlo_put_format(&p->out, "%lld", (long long)l->ints.value[k]); break;
        case UNSIGNED: stw_hlo_put_format(&p->out, "%llu", (unsigned long long)l->ints.value[k]); break;
        case BYTES: stw_hlo_put_format(&p->out, "%d", (int)(int8_t)raw_bits(l, k, 1)); break;
        case UNSIGNED_BYTES: stw_hlo_put_format(&p->out, "%d", (int)raw_bits(l, k, 1)); break;
        case SHORTS: stw_hlo_put_format(&p->out, "%d", (int)(int16_t)raw_bits(l, k, 2)); break;
        case UNSIGNED_SHORTS: stw_hlo_put_format(&p->out, "%d", (int)raw_bits(l, k, 2)); break;
        case HALVES: print_real(p, half_of((uint32_t)raw_bits(l, k, 2)), 5); break;
        case BRAINS: print_real(p, float_of((uint32_t)raw_bits(l, k, 2) << 16), 4); break;
        case FLOATS: print_real(p, float_of((uint32_t)raw_bits(l, k, 4)), 9); break;
        default: {
            const uint64_t bits = raw_bits(l, k, 8);
            memcpy(&value, &bits, sizeof value);
            print_real(p, value, 17);
        }
    }
}

static void print_level(stw_hlo_printer *p, const literal *l, int64_t dimension, int64_t offset) {
    if (dimension == l->size.count) {
        print_element(p, l, offset);
        return;
    }
    const bool inner = dimension + 1 < l->size.count;
    stw_hlo_put(&p->out, inner ? "{ " : "{");
    for (int64_t k = 0; k < l->size.value[dimension]; k++) {
        if (k > 0) stw_hlo_put(&p->out, ", ");
        print_level(p, l, dimension + 1, offset + k * l->stride[dimension]);
    }
    stw_hlo_put(&p->out, inner ? " }" : "}");
}

/* The data stand in the order of the literal's own layout. False: elide it. */
static bool find_strides(stw_hlo_printer *p, stw_str shape, literal *l) {
    const stw_hlo_ints order = stw_hlo_ints_of(p, stw_hlo_content(shape, HLO_SHAPE_LAYOUT), HLO_LAYOUT_MINOR_TO_MAJOR);
    l->size = stw_hlo_ints_of(p, shape, HLO_SHAPE_DIMENSIONS);
    l->elements = 1;
    if (l->size.count > 16) return false;
    bool seen[16] = {false}; /* each dimension stands once */
    for (int64_t k = 0; k < l->size.count; k++) {
        const int64_t dimension = order.count == l->size.count ? order.value[k] : l->size.count - 1 - k;
        if (dimension < 0 || dimension >= l->size.count || l->size.value[dimension] <= 0) return false;
        if (seen[dimension]) return false;
        seen[dimension] = true;
        l->stride[dimension] = l->elements;
        if (l->size.value[dimension] > MOST_ELEMENTS / l->elements) return false;
        l->elements *= l->size.value[dimension];
    }
    return true;
}

static bool find_data(stw_hlo_printer *p, stw_str message, literal *l) {
    static const int64_t bytes[] = {[HALVES] = 2, [BRAINS] = 2,          [BYTES] = 1,  [UNSIGNED_BYTES] = 1,
                                    [SHORTS] = 2, [UNSIGNED_SHORTS] = 2, [FLOATS] = 4, [DOUBLES] = 8};
    const int64_t type = stw_hlo_int_of(stw_hlo_content(message, HLO_LITERAL_SHAPE), HLO_SHAPE_TYPE);
    for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
        if (places[k].type != type) continue;
        l->encoding = places[k].encoding;
        if (l->encoding == BOOLS || l->encoding == SIGNED || l->encoding == UNSIGNED) {
            l->ints = stw_hlo_ints_of(p, message, places[k].field);
            return l->ints.count >= l->elements;
        }
        l->raw = stw_hlo_content(message, places[k].field); /* packed */
        return l->raw.length >= l->elements * bytes[l->encoding];
    }
    return false;
}

void stw_hlo_print_literal(stw_hlo_printer *p, stw_str message) {
    literal l = {0};
    if (!find_strides(p, stw_hlo_content(message, HLO_LITERAL_SHAPE), &l) || !find_data(p, message, &l)) {
        stw_hlo_put(&p->out, "{...}");
        return;
    }
    print_level(p, &l, 0, 0);
}
