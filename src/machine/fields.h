/* Checked fields of a machine file, private to read.c. A function that fails leaves one message in the JSON reader, which names
 * the subject, the key, the value and the remedy; all further calls then fail as well. */
#ifndef STW_MACHINE_FIELDS_H
#define STW_MACHINE_FIELDS_H

#include "machine/machine.h"

typedef struct stw_machine_reader {
    stw_json *json;
    stw_machine *machine; /* being filled; keeps the strings; NULL while the head is read */
    char subject[200];    /* what messages speak of: "devices[2] 'h200:2'" */
    bool warns;           /* the machine gets a remark on keys that are not known; else they are skipped */
} stw_machine_reader;

/* Fails at `at`, or where the reader is if that is NULL. Always false. */
bool stw_field_fail(stw_machine_reader *r, const char *at, const char *format, ...) STW_PRINTF(3, 4);
/* Is a value of this type next? True also at the end of the text: the JSON reader knows better what to say there. */
bool stw_field_want(stw_machine_reader *r, const char *key, stw_json_type type);

/* The next key that is in `keys` (then its index), others being skipped; -1 at the end of the object or after an error. A bit
 * in `seen` marks each key; one that comes again is refused. */
int32_t stw_field_next(stw_machine_reader *r, const char *const *keys, int32_t count, uint32_t *seen);
/* Refuses the object that begins at `at` if a key in `needed` was not seen. */
bool stw_field_check(stw_machine_reader *r, const char *at, const char *const *keys, uint32_t needed, uint32_t seen,
                     const char *remedy);

/* A string, copied into the machine's arena. */
bool stw_field_text(stw_machine_reader *r, const char *key, bool may_be_empty, stw_str *out);
/* One of two words; `second` may be NULL. */
bool stw_field_choice(stw_machine_reader *r, const char *key, const char *first, const char *second, bool *is_first);

typedef enum stw_range { STW_ABOVE_ZERO, STW_ZERO_OR_MORE, STW_SHARE } stw_range;
bool stw_field_number(stw_machine_reader *r, const char *key, stw_range range, double *out);
bool stw_field_whole(stw_machine_reader *r, const char *key, int64_t least, int64_t most, const char *remedy, int64_t *out);

#endif
