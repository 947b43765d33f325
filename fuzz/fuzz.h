/* What a fuzz target defines. */
#ifndef STW_FUZZ_H
#define STW_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Optional: 1 if the reader takes the data, 0 if it refuses. With it, the replay of the corpus checks the verdict in a file's
 * name: y_* must be taken, n_* must be refused, i_* may be either. */
int stw_fuzz_accepts(const uint8_t *data, size_t size) __attribute__((weak));

#endif
