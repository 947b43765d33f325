/* What a search may decide, and what it minimises, each with the name that options and files have for it. */
#ifndef STW_PLAN_AIMS_H
#define STW_PLAN_AIMS_H

#include "base/json.h"

/* The first row apart, so that a list can have words between its rows. */
#define STW_TASKS(FIRST, NEXT)      FIRST(PLACEMENT, "placement") NEXT(SCHEDULE, "schedule") NEXT(FUSION, "fusion")
#define STW_OBJECTIVES(FIRST, NEXT) FIRST(TIME, "time") NEXT(MEMORY, "memory") NEXT(THROUGHPUT, "throughput")

#define STW_AIM_NAME(id, name)  name
#define STW_AIM_COMMA(id, name) ", " name
#define STW_AIM_BAR(id, name)   "|" name
#define STW_TASK_LIST           STW_TASKS(STW_AIM_NAME, STW_AIM_COMMA)
#define STW_OBJECTIVE_CHOICE    STW_OBJECTIVES(STW_AIM_NAME, STW_AIM_BAR)

#define STW_ROW(id, name) STW_TASK_BIT_##id,
enum { STW_TASKS(STW_ROW, STW_ROW) STW_TASK_COUNT };
#undef STW_ROW
#define STW_ROW(id, name) STW_TASK_##id = 1 << STW_TASK_BIT_##id,
enum { STW_TASKS(STW_ROW, STW_ROW) STW_TASK_ALL = (1 << STW_TASK_COUNT) - 1 };
#undef STW_ROW
#define STW_ROW(id, name) STW_OBJECTIVE_##id,
typedef enum stw_objective { STW_OBJECTIVES(STW_ROW, STW_ROW) } stw_objective;
#undef STW_ROW
#define STW_ROW(id, name) +1
enum { STW_OBJECTIVE_COUNT = STW_OBJECTIVES(STW_ROW, STW_ROW) };
#undef STW_ROW

extern const char *const stw_objective_name[STW_OBJECTIVE_COUNT];
bool stw_objective_find(const char *name, stw_objective *out);

/* The tasks of "placement,schedule" in any order, each once, or of "all"; false: it is no such list. */
bool stw_tasks_find(const char *list, unsigned *out);
/* Their names as an array. */
void stw_tasks_write(unsigned tasks, stw_json_writer *writer);

#endif
