/* SHA-256 (FIPS 180-4), for the content security policy: a browser runs the one script whose hash the page names. */
#include <string.h>

#include "report/report.h"

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

typedef struct hash {
    uint32_t state[8];
    uint8_t block[64];
    uint64_t length; /* bytes so far */
} hash;

static uint32_t turn(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void take_block(hash *h) {
    uint32_t w[64], v[8];
    for (int k = 0; k < 16; k++) {
        const uint8_t *b = &h->block[(size_t)4 * (size_t)k];
        w[k] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int k = 16; k < 64; k++) {
        const uint32_t a = turn(w[k - 15], 7) ^ turn(w[k - 15], 18) ^ w[k - 15] >> 3;
        const uint32_t b = turn(w[k - 2], 17) ^ turn(w[k - 2], 19) ^ w[k - 2] >> 10;
        w[k] = w[k - 16] + a + w[k - 7] + b;
    }
    memcpy(v, h->state, sizeof v);
    for (int k = 0; k < 64; k++) {
        const uint32_t e = v[4], a = v[0];
        const uint32_t one =
            v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + round_constant[k] + w[k];
        const uint32_t two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(&v[1], &v[0], 7 * sizeof v[0]);
        v[4] += one;
        v[0] = one + two;
    }
    for (int k = 0; k < 8; k++) h->state[k] += v[k];
}

static void take(hash *h, const uint8_t *bytes, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        h->block[h->length++ % 64] = bytes[k];
        if (h->length % 64 == 0) take_block(h);
    }
}

void stw_sha256(const char *const *text, const int64_t *length, int32_t count, uint8_t digest[32]) {
    hash h = {.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
    for (int32_t k = 0; k < count; k++) take(&h, (const uint8_t *)text[k], length[k]);
    const uint64_t bits = 8 * h.length;
    uint8_t end[8];
    take(&h, (const uint8_t[]){0x80}, 1);
    while (h.length % 64 != 56) take(&h, (const uint8_t[]){0}, 1);
    for (int k = 0; k < 8; k++) end[k] = (uint8_t)(bits >> (56 - 8 * k));
    take(&h, end, 8);
    for (int k = 0; k < 32; k++) digest[k] = (uint8_t)(h.state[k / 4] >> (24 - 8 * (k % 4)));
}
