// The public header alone must compile as C++ too, with C linkage.
#include "stowage.h"

const char *headertest_version();
const char *headertest_version() {
    stw_error error = {STW_OK, ""};
    return error.status == STW_OK ? STW_VERSION : stw_version();
}
