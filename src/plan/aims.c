#include "plan/aims.h"

#include <string.h>

#define STW_ROW(id, name) name,
static const char *const task_name[STW_TASK_COUNT] = {STW_TASKS(STW_ROW, STW_ROW)}; /* by bit */
const char *const stw_objective_name[STW_OBJECTIVE_COUNT] = {STW_OBJECTIVES(STW_ROW, STW_ROW)};
#undef STW_ROW

bool stw_objective_find(const char *name, stw_objective *out) {
    for (int k = 0; k < STW_OBJECTIVE_COUNT; k++) {
        if (strcmp(name, stw_objective_name[k]) != 0) continue;
        *out = (stw_objective)k;
        return true;
    }
    return false;
}

bool stw_tasks_find(const char *list, unsigned *out) {
    *out = strcmp(list, "all") == 0 ? STW_TASK_ALL : 0;
    if (*out != 0) return true;
    for (const char *word = list; word != NULL;) {
        const char *comma = strchr(word, ',');
        const size_t length = comma == NULL ? strlen(word) : (size_t)(comma - word);
        unsigned bit = 0;
        for (int k = 0; k < STW_TASK_COUNT; k++) {
            if (strlen(task_name[k]) == length && memcmp(task_name[k], word, length) == 0) bit = 1u << k;
        }
        if (bit == 0 || (*out & bit) != 0) return false;
        *out |= bit;
        word = comma == NULL ? NULL : comma + 1;
    }
    return true;
}

void stw_tasks_write(unsigned tasks, stw_json_writer *writer) {
    stw_json_begin_array(writer);
    for (int k = 0; k < STW_TASK_COUNT; k++) {
        if (tasks & (1u << k)) stw_json_write_string(writer, stw_str_of(task_name[k]));
    }
    stw_json_end_array(writer);
}
