/* The oracle of every backend: plain loops, one thread, in float or in double. */
#ifndef STW_TESTS_SUPPORT_REFERENCE_BACKEND_H
#define STW_TESTS_SUPPORT_REFERENCE_BACKEND_H

#include "backend/backend.h"

/* real_bytes 4 or 8. */
stw_status stw_backend_reference(size_t real_bytes, stw_backend **out, stw_error *error);

#endif
