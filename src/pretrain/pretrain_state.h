/* The inside of a pre-training, for the files of this folder. */
#ifndef STW_PRETRAIN_PRETRAIN_STATE_H
#define STW_PRETRAIN_PRETRAIN_STATE_H

#include "pretrain/instance.h"
#include "pretrain/pretrain.h"

/* What a slot has to say of an update; summed over slots. */
enum stw_slot_number {
    STW_SLOT_GREEDY, /* logarithms of ratios */
    STW_SLOT_BEST,
    STW_SLOT_CONSTANTS, /* of validation: a grid of constants; a round of moves */
    STW_SLOT_MOVES,
    STW_SLOT_MEAN,
    STW_SLOT_SPREAD,
    STW_SLOT_CLIPPED,
    STW_SLOT_EVALUATIONS,
    STW_SLOT_COUNTS, /* 1: the numbers above are there */
    STW_SLOT_NUMBERS
};

typedef struct stw_slot {
    stw_backend *backend;
    stw_net *net; /* the network's values, and gradients of its own */
    stw_instance *instance;
    stw_instance *next;  /* of the next generation, while it is drawn ahead */
    int64_t evaluations; /* of its trainers when the update began */
    double constants;    /* of validation: value of the best of the constants over the first plan's */
    bool learns;         /* there is a gradient in this update */
    double number[STW_SLOT_NUMBERS];
} stw_slot;

typedef stw_status stw_slot_work(stw_pretrain *p, stw_slot *slot, int32_t index, stw_error *error);

typedef struct stw_slots_job { /* the same for some slots */
    stw_pretrain *p;
    stw_slot *slot;
    int32_t first; /* number of the first among those of all processes */
    stw_slot_work *work;
    stw_pool_job *beside; /* it goes on beside what else is done; else NULL */
} stw_slots_job;

struct stw_pretrain {
    stw_arena arena;
    stw_pretrain_settings settings;
    const stw_corpus *corpus;
    stw_comm *comm;
    stw_pool *pool;
    stw_metis_copies *copies; /* for its threads */
    stw_rng rng;
    double began_s;
    double progress; /* 0 to 1 */
    int64_t update, evaluations;
    stw_backend *backend;
    stw_net *net;
    int32_t first, count;        /* slots of this process: [first, first + count) of all */
    stw_slot *slot;              /* (count) */
    int32_t first_check, checks; /* likewise of the problems for validation */
    stw_slot *check;             /* (checks) */
    stw_slots_job ahead;         /* draws the problems of the next generation */
    int64_t ahead_of;            /* that generation */
    double ahead_progress;       /* when it begins, as far as that is known */
    atomic_bool gives_up;        /* what is drawn ahead is not needed any more */
    int64_t *bytes;              /* (ranks) for gathering */
    char *mine, *all;            /* (count, P) and (slots, P) reals: gradients on their way */
    double *sum;                 /* (P) */
    struct {                     /* where the generation began */
        char *reals;             /* (3, P): values and both moments */
        int64_t step, update, evaluations;
    } boundary;
};

/* validate.c: the problems that are never learnt from. */
stw_status stw_pretrain_open_checks(stw_pretrain *p, stw_error *error);
stw_status stw_pretrain_validate(stw_pretrain *p, stw_pretrain_row *row, stw_error *error);

/* slots.c: the same for every slot of `slot` on all threads; the first fault is returned on every rank. */
stw_status stw_slots_run(stw_pretrain *p, stw_slot *slot, int32_t first, int32_t count, stw_slot_work *work, stw_error *error);
/* The same for this process's slots beside what it does, until stw_slots_end: its fault is told to this process alone. */
stw_status stw_slots_begin(stw_slots_job *job, stw_pretrain *p, stw_slot_work *work, stw_pool_urgency urgency, stw_error *error);
stw_status stw_slots_end(stw_slots_job *job, stw_error *error);
stw_status stw_slot_open(stw_pretrain *p, stw_slot *slot, stw_error *error);
void stw_slot_close(stw_slot *slot);
/* Draws until there is a problem with a valid initial plan. */
typedef struct stw_slot_wish {
    stw_rng rng;
    double difficulty, progress; /* 0 to 1 */
    bool all_starts;
} stw_slot_wish;
stw_status stw_slot_draw(const stw_pretrain *p, const stw_slot *slot, const stw_slot_wish *wish, stw_instance **out,
                         stw_error *error);
/* Samples, or tries moves alone, and keeps the numbers. */
stw_status stw_slot_sample(stw_slot *slot, bool moves_alone, stw_error *error);
/* Adds the numbers up over all ranks. */
stw_status stw_slots_sum(stw_pretrain *p, const stw_slot *slot, int32_t count, double *out, stw_error *error);
/* A slot's gradient to where they are summed. */
void stw_slot_hand_in(stw_pretrain *p, const stw_slot *slot);
/* The mean of the slots' gradients, over all ranks, into that of the network. */
stw_status stw_pretrain_reduce(stw_pretrain *p, stw_error *error);

#endif
