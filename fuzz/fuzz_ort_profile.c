/* Profiles of ONNX Runtime: no input crashes the reader, and its times are one for each node and provider. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "import/profile/ort_profile.h"

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

static int read(const uint8_t *data, size_t size) {
    stw_arena arena;
    stw_error error = {0};
    stw_ort_profile profile = {0};
    const stw_str text = {size == 0 ? "" : (const char *)data, (int64_t)size};
    require(stw_arena_create(&arena, NULL) == STW_OK);
    stw_ort_profile_is(text);
    const stw_status status = stw_ort_profile_read(text, &arena, &profile, &error);
    if (status == STW_OK) {
        require(profile.count > 0);
        for (int64_t i = 0; i < profile.count; i++) {
            const stw_ort_time *time = &profile.time[i];
            require(time->name.length > 0 && time->provider.length > 0 && isfinite(time->us) && time->us >= 0.0);
            if (i == 0 || !stw_str_equal(time->name, time[-1].name)) continue;
            require(!stw_str_equal(time->provider, time[-1].provider));
        }
    } else {
        require(error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
    }
    stw_arena_destroy(&arena);
    return status == STW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read(data, size);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) { return read(data, size); }
