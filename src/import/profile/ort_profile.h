/* Measured times from ONNX Runtime: the profile that a session with enable_profiling writes (Chrome trace, JSON). */
#ifndef STW_IMPORT_PROFILE_ORT_PROFILE_H
#define STW_IMPORT_PROFILE_ORT_PROFILE_H

#include "base/str.h"

typedef struct stw_ort_time {
    stw_str name;     /* of the node */
    stw_str provider; /* "CUDAExecutionProvider" */
    double us;        /* median of its runs */
} stw_ort_time;

typedef struct stw_ort_profile {
    int64_t count;
    stw_ort_time *time; /* (count) one for each node and provider, by name */
} stw_ort_profile;

/* A list of objects, or an object with the key traceEvents near its beginning. */
bool stw_ort_profile_is(stw_str text);
/* Names lie in `text` or in the arena. */
stw_status stw_ort_profile_read(stw_str text, stw_arena *arena, stw_ort_profile *out, stw_error *error);

#endif
