/* The board of a list scheduler: where things are and when they get there, while ops are placed one after the other.
 *
 * The base holds what does not change from pass to pass and is shared by threads. A board is one pass: look at a task, choose a
 * device, place it there. Its clock is close to the simulator's (copies are made once per device, channels may queue, views are
 * counted by their own bytes) but goes by the order of placing instead of priorities. Charges: the first reader that is placed
 * pays to receive; who sends has been placed by then, so that its device is taken for a while once more. Times in microseconds.
 */
#ifndef STW_PLAN_BOARD_H
#define STW_PLAN_BOARD_H

#include "plan/calendar.h"
#include "plan/tasks.h"

typedef enum stw_home {                   /* where a parameter or buffer lives that no other rule binds */
                        STW_HOME_FIRST,   /* with its first placed reader */
                        STW_HOME_UPDATE,  /* with its update, which is placed like any op; else like FIRST */
                        STW_HOME_LARGEST, /* with the reader that takes longest */
                        STW_HOME_GLUED    /* where another plan has it */
} stw_home;

typedef struct stw_board_read { /* a task reading a value that is not everywhere, all its views together */
    int32_t value;
    uint32_t pieces; /* bit 0: the whole; else a bit per view (the 31st and all that follow share one) */
    double bytes;
} stw_board_read;

typedef struct stw_board_base { /* T tasks, V values, D devices, C cost classes */
    const stw_costs *costs;
    const stw_tasks *tasks; /* every op a task of its own */
    const int32_t *atom;    /* (N) nodes of one atom go to one device; -1: on every device */
    int32_t atom_count;
    int32_t D, C;
    int32_t *order;      /* (T) highest rank first, but nothing before what it needs */
    int32_t *read_start; /* (T + 1) into read */
    stw_board_read *read;
    int32_t *wait_start; /* (T + 1) into wait */
    int32_t *wait;       /* tasks that must have finished */
    double *us;          /* (T, C) */
    int32_t *piece_row;  /* (V) row in the table of pieces of a value that is read in several ways, else -1 */
    int32_t piece_rows;
    double *sent_bytes;            /* (V) bytes sent to a device that reads the value through every one of its views */
    int32_t *largest_reader;       /* (V) of parameters and buffers: the task that takes longest, or -1 */
    double *atom_bytes;            /* (atoms) of parameters and buffers */
    bool *atom_has_op;             /* (atoms) */
    double *latency, *us_per_byte; /* (D, D) a pair without link has STW_FAR_US */
    const stw_link *tabled;        /* (D, D) where some have tables of rates; else NULL */
    double *send_us, *receive_us;  /* (D, D) what a transfer charges the devices at its ends; NULL: none does */
    int32_t *channel;              /* (D, D) 0 where there is none */
    int32_t cost_class[STW_MAX_DEVICES];
} stw_board_base;

/* What the bytes of a transfer take; link: from x D + to. */
static inline double stw_board_bytes_us(const stw_board_base *base, int64_t link, double bytes) {
    if (base->tabled != NULL && base->tabled[link].bandwidth > 0.0) return stw_link_bytes_us(&base->tabled[link], bytes);
    return bytes * base->us_per_byte[link];
}

#define STW_FAR_US 1e18 /* instead of infinity: stays finite in sums and products */

/* rank: (T) higher first. The base lives in the arena. */
stw_status stw_board_prepare(const stw_costs *costs, const stw_tasks *tasks, const int32_t *atom, int32_t atom_count,
                             const double *rank, stw_arena *arena, stw_board_base *out, stw_error *error);

typedef struct stw_board_value {
    double ready;    /* when it is complete at home */
    int32_t device;  /* home; -1: not known yet */
    int32_t readers; /* tasks that are not placed yet (kept only with `memory`) */
} stw_board_value;

typedef struct stw_board_copy { /* of a value, on a device that is not its home */
    double there;               /* since when */
    int32_t device;
    int32_t next; /* 1 + the next copy of the same value; 0: no more */
} stw_board_copy;

typedef struct stw_board_rules {
    stw_home home;
    bool insertion;       /* an op may start in a gap that earlier decisions left */
    bool queues;          /* transfers wait for their channel, else they never wait: */
    bool channel_gaps;    /* in the order in which they are ready; else in that in which they are decided */
    bool memory;          /* count what devices hold */
    const int32_t *glued; /* (N) for STW_HOME_GLUED */
} stw_board_rules;

typedef struct stw_board {
    const stw_board_base *base;
    stw_board_rules rules;
    stw_calendar *device;         /* (D) */
    stw_calendar *channel;        /* (channels) */
    double held[STW_MAX_DEVICES]; /* bytes, as far as this pass can tell */
    double end_us;                /* of the last task */

    int32_t *atom_device; /* (atoms) -1: free */
    int32_t *task_device; /* (T) */
    double *task_end;     /* (T) */
    stw_board_value *value;
    int32_t *copies;      /* (V) 1 + the last of its copies on devices that are not its home; 0: there are none */
    stw_board_copy *copy; /* (copy_count) in the order in which they were made: few values are on many devices */
    int32_t copy_count;
    uint32_t *there;    /* (piece_rows, D) which pieces of it */
    double *sent;       /* (channels) end of the last transfer that a look has thought of */
    int64_t *sent_look; /* (channels) the look that `sent` is of */
    int64_t look_count;

    /* What the last look found, for the devices that it was asked for. */
    double ready[STW_MAX_DEVICES];  /* when all inputs are there; at least STW_FAR_US where a link is missing */
    double comm[STW_MAX_DEVICES];   /* latency + charges + bytes / bandwidth of the inputs that are not there yet */
    double charge[STW_MAX_DEVICES]; /* what receiving them adds to the task; 0 where no link charges anything */
    double need[STW_MAX_DEVICES];   /* bytes that the device would hold more (with `memory`) */
} stw_board;

/* An empty board; its arrays come from the arena. */
stw_status stw_board_create(const stw_board_base *base, const stw_board_rules *rules, stw_arena *arena, stw_board *out,
                            stw_error *error);

/* The device that an earlier decision binds a task to, or -1. */
static inline int32_t stw_board_bound(const stw_board *board, int32_t task) {
    return board->atom_device[board->base->atom[board->base->tasks->task_node[task]]];
}
/* Fills ready, comm, charge and need for the devices from `first` to `last`. Everything that the task needs must be placed. */
void stw_board_look(stw_board *board, int32_t task, int32_t first, int32_t last);
/* When a device could start something that is ready at this time and takes so long. */
double stw_board_start(const stw_board *board, int32_t device, double ready, double us);
/* Puts the task on the device: copies its inputs, binds its atom and the homes of what it reads. */
void stw_board_place(stw_board *board, int32_t task, int32_t device);

static inline double stw_board_us(const stw_board_base *base, int32_t task, int32_t device) {
    return base->us[(int64_t)task * base->C + base->cost_class[device]];
}
/* What the task would take on a device by the last look: its own time, and what it pays to receive its inputs. */
static inline double stw_board_whole_us(const stw_board *board, int32_t task, int32_t device) {
    return stw_board_us(board->base, task, device) + board->charge[device];
}
/* Bytes that a device lacks for what the last look says. */
static inline double stw_board_lacks(const stw_board *board, int32_t device) {
    const double limit = (double)board->base->costs->machine->device[device].memory_bytes;
    const double over = board->held[device] + board->need[device] - limit;
    return over > 0.0 ? over : 0.0;
}

/* Devices of all nodes after the last task. */
void stw_board_devices(const stw_board *board, int32_t *device);

#endif
