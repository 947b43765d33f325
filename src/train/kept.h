/* Settings that a file keeps, so that a training goes on only where they are as they were. Each is a tensor "setting/<name>". The
 * list of them comes from a table (settings.def, pretrain/settings.def), from which the struct is made as well: none is
 * forgotten. */
#ifndef STW_TRAIN_KEPT_H
#define STW_TRAIN_KEPT_H

#include "policy/checkpoint.h"

enum { STW_MOST_KEPT = 48 };

typedef struct stw_kept {
    const char *name, *words; /* in the file; in messages */
    int64_t whole;            /* if there are no reals */
    const double *real;       /* (real_count), borrowed */
    int64_t real_count;
} stw_kept;

/* For a table of settings, of the struct that `from` points at. */
#define STW_KEPT_WHOLE(from, member, says) \
    { .name = #member, .words = says, .whole = (int64_t)(from)->member }
#define STW_KEPT_REALS(from, member, says)                                                     \
    {                                                                                          \
        .name = #member, .words = says, .real = (const double *)(const void *)&(from)->member, \
        .real_count = (int64_t)(sizeof(from)->member / sizeof(double))                         \
    }

/* Appends them; the file borrows them until it is written, and has room for as many tensors. */
void stw_kept_add(const stw_kept *kept, int32_t count, stw_tensor_file *file);
/* "cannot be resumed: the learning rate was 0.004, is 0.003; ...", for the first that is not as the file has it. */
stw_status stw_kept_check(const stw_kept *kept, int32_t count, const stw_tensor_file *file, stw_error *error);

#endif
