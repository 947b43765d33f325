#include "stowage.h"

const char *stw_version(void) { return STW_VERSION; }
