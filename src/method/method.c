#include "method/method.h"

#include <stdio.h>
#include <string.h>

static const stw_method *const methods[] = {
    &stw_method_single,  &stw_method_spread,  &stw_method_topo,   &stw_method_random,  &stw_method_etf,    &stw_method_expert,
    &stw_method_metis,   &stw_method_heft,    &stw_method_sct,    &stw_method_balance, &stw_method_lean,   &stw_method_steer,
    &stw_method_go_zero, &stw_method_go_tune, &stw_method_go_one, &stw_method_hdp,     &stw_method_anneal, &stw_method_exact,
};
enum { METHOD_COUNT = sizeof methods / sizeof methods[0] };

const stw_method *stw_method_at(int32_t index) { return index >= 0 && index < METHOD_COUNT ? methods[index] : NULL; }

const stw_method *stw_method_find(const char *name) {
    for (int k = 0; k < METHOD_COUNT; k++) {
        if (strcmp(methods[k]->name, name) == 0) return methods[k];
    }
    return NULL;
}

bool stw_method_list(int32_t index, const char **name, const char **description) {
    STW_NEED(name);
    const stw_method *method = stw_method_at(index);
    if (method == NULL) return false;
    *name = method->name;
    *description = method->description;
    return true;
}

bool stw_method_exists(const char *name) {
    STW_NEED(name);
    return stw_method_find(name) != NULL;
}

stw_status stw_method_fail_unknown(const char *name, stw_error *error) {
    char list[300] = "";
    size_t length = 0;
    for (int k = 0; k < METHOD_COUNT && length < sizeof list; k++) {
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", k == 0 ? "" : ", ", methods[k]->name);
    }
    return stw_fail(error, STW_ERROR_INPUT, "unknown method '%s'; known: %s", name, list);
}
