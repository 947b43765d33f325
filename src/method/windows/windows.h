/* Local search for graphs that are too large to be evaluated often: the step is cut into windows of time, and a change is judged
 * by running the tasks of its window alone.
 *
 * A look at the plan gives every task a place in one sequence (by its start) and what is `left` from its start to the end of the
 * step, along devices, channels and reads as they ran. A window is a stretch of the sequence. Before it everything is as it was;
 * behind it everything takes as long as it did: so the step with a change inside is the latest of what leaves the window plus
 * what is left behind that. What several windows gain adds up, as far as they know nothing of each other; the simulator judges
 * what becomes of all. */
#ifndef STW_METHOD_WINDOWS_WINDOWS_H
#define STW_METHOD_WINDOWS_WINDOWS_H

#include "base/rng.h"
#include "search/search.h"

typedef struct stw_arrival { /* a value that was sent */
    int32_t device;
    int64_t ps; /* when it was there */
} stw_arrival;

/* The plan as it ran. Windows read it side by side; they write only `next` and `moved_to`, each of its own tasks. T tasks,
 * V values, D devices. */
typedef struct stw_look {
    const stw_simulator *s;
    const stw_tasks *tasks;           /* of the plan: its groups stay */
    const stw_membership *membership; /* NULL: every op a task of its own */
    int32_t T, D;
    int32_t window; /* tasks */
    bool queues, charges;
    bool *partly;           /* (V) some tasks read it through views */
    int32_t *atom_start;    /* (T) into atom: what moves with a task */
    int32_t *atom_count;    /* (T) tasks of it; 0: it stays where it is */
    int32_t *atom;          /* (T) tasks */
    int32_t *position;      /* (T) in topological order */
    int32_t *value_of;      /* (N) the value of a node that has one */
    int32_t *wait_start;    /* (T + 2) into wait */
    int32_t *wait;          /* tasks that must have finished */
    int32_t *sequence;      /* (T) tasks by their start */
    int32_t *device;        /* (T) */
    int32_t *home;          /* (V) device of the value; -1: everywhere */
    int64_t *end_ps;        /* (T) */
    int64_t *left_ps;       /* (T) from its start to the end of the step */
    int32_t *arrival_start; /* (V + 2) into arrival */
    stw_arrival *arrival;   /* (transfers) */
    stw_arena room, held;   /* for arrivals: where they begin, and what is free behind them */
    int32_t windows;
    int32_t *first;     /* (windows + 1) where each begins in the sequence */
    int64_t *begin_ps;  /* (windows, D) when devices come free for it */
    int64_t *behind_ps; /* (windows, D) left from the start of the first task behind it; 0: there is none */
    int32_t *next;      /* (T) the sequence that windows have come to */
    int32_t *moved_to;  /* (T) and the devices */
} stw_look;

typedef struct stw_critical_task {
    int32_t number, cause; /* as below */
    bool over_link;
} stw_critical_task;

/* Memory for one worker, for windows of at most `room` tasks. */
typedef struct stw_window {
    const stw_look *look;
    int32_t room;
    int32_t first, count;        /* which part of the sequence */
    int32_t *task;               /* (room) the tasks by their place in the beginning: their numbers here */
    int32_t *number;             /* (T) of a task, or -1: not in this window */
    int32_t *order;              /* (room) numbers in the order in which they run */
    int32_t *turn;               /* (room) its reverse */
    int32_t *device;             /* (room) by number */
    int64_t *end_ps;             /* (room) */
    int32_t *cause;              /* (room) number of what it waited for; -1: something before the window */
    bool *over_link;             /* (room) a transfer was in between */
    int64_t *arrival_ps;         /* (room, D) of a task's first output; others come with it */
    int64_t *free_ps;            /* (D) */
    int32_t *ran;                /* (D) number of the task that ran last, or -1 */
    const int64_t *begin_ps;     /* (D) of the look */
    const int64_t *behind_ps;    /* (D) likewise */
    int64_t *channel_ps;         /* (channels) when they come free; what they carried before is not looked at */
    int64_t floor_ps;            /* of a step that is as short as the window could make it */
    double excess;               /* ps above that, of all devices, in the last run */
    int32_t worst;               /* the task that the step hangs on, or -1 */
    stw_critical_task *critical; /* (room) what that one waited for, one after the other, in the last run that was kept */
    int32_t critical_count;
    int32_t *best_order, *best_device; /* (room) */
} stw_window;

/* For the groups of the plan that the workspace has just run. Windows have so many tasks. */
stw_status stw_look_create(const stw_workspace *workspace, int32_t window, stw_arena *arena, stw_look *out, stw_error *error);
/* The ops that a task computes; returns their number. */
int32_t stw_look_members(const stw_look *look, int32_t task, const int32_t **member);
/* At a plan that the workspace has just run. The first window ends after `offset` tasks, if that is not 0. */
stw_status stw_look_at(stw_look *look, const stw_plan *plan, const stw_workspace *workspace, int32_t offset, stw_arena scratch,
                       stw_error *error);

stw_status stw_window_create(const stw_look *look, int32_t room, stw_arena *arena, stw_window *out, stw_error *error);
/* Tries so many changes of the tasks of a window and leaves the best in the look's `next` and `moved_to`. False: there
 * is no better one. Ends early when the search is stopped. */
bool stw_window_improve(stw_window *w, int32_t index, int64_t trials, stw_rng rng, const stw_search *search);

#endif
