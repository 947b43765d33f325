/* Memory of the backends that live on the host. */
#ifndef STW_BACKEND_HOST_H
#define STW_BACKEND_HOST_H

#include "backend/backend.h"

/* Fills in allocate, release, copy_in, copy_out, copy and zero. */
void stw_host_memory(stw_backend *b);

#endif
