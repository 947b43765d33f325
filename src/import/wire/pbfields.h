/* A protobuf message as a stream of fields, whether it is written in bytes or in text.
 *
 * Tables say which fields are wanted, by number and by name; all others are passed over unread. Tables do not contain
 * themselves, so their depth bounds the reader's; what is passed over may be nested STW_PB_MAX_DEPTH (pbwire.h) deep. */
#ifndef STW_IMPORT_WIRE_PBFIELDS_H
#define STW_IMPORT_WIRE_PBFIELDS_H

#include "base/str.h"

typedef enum stw_wanted_type {
    STW_WANTED_NUMBER, /* int32, int64, bool and enums; repeated ones may be packed */
    STW_WANTED_TEXT,   /* string and bytes */
    STW_WANTED_MESSAGE
} stw_wanted_type;

typedef struct stw_wanted stw_wanted;

typedef struct stw_wanted_field {
    int32_t number;
    const char *name;
    stw_wanted_type type;
    int32_t id;                                 /* what the receiver knows it by */
    const stw_wanted *message;                  /* of STW_WANTED_MESSAGE */
    bool (*word)(stw_str name, int64_t *value); /* of enums: their names in text; else NULL */
    int64_t keep;                               /* of STW_WANTED_TEXT: bytes that are wanted; 0: all */
} stw_wanted_field;

struct stw_wanted {
    const char *name; /* of the message, for messages */
    const stw_wanted_field *field;
    int32_t count;
};

/* Called in the order of the file; a failure ends the reading. `at`: offset in the file. Text lives as long as the file and the
 * arena that the reader was given. */
typedef struct stw_field_receiver {
    void *context;
    stw_status (*begin)(void *context, int32_t id, int64_t at, stw_error *error); /* a message */
    stw_status (*end)(void *context, int32_t id, stw_error *error);
    stw_status (*number)(void *context, int32_t id, int64_t value, stw_error *error);
    stw_status (*text)(void *context, int32_t id, stw_str value, stw_error *error);
} stw_field_receiver;

stw_status stw_fields_of_bytes(stw_str bytes, const stw_wanted *schema, const stw_field_receiver *receiver, stw_error *error);
/* Strings with escapes are decoded into `strings`. */
stw_status stw_fields_of_text(stw_str text, const stw_wanted *schema, const stw_field_receiver *receiver, stw_arena *strings,
                              stw_error *error);
/* Is the first thing in a text, behind spaces and comments, a field of this message that holds a message? */
bool stw_fields_text_begins(stw_str text, const stw_wanted *schema);

#endif
