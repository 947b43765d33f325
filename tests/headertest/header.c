/* The public header alone must compile without a warning (see tests/CMakeLists.txt for the options). */
#include "stowage.h"

const char *headertest_version(void);
const char *headertest_version(void) {
    stw_error error = {STW_OK, ""};
    return error.status == STW_OK ? STW_VERSION : stw_version();
}
