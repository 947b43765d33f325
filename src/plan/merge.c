#include "plan/merge.h"

#include "base/sort.h"
#include "plan/kernel_rules.h"

#include <stdlib.h>
#include <string.h>

enum { ALONE = -1, NOBODY = -1, RECOMPUTED = -1, SEVERAL = -2, FOLLOWED = -3 };

typedef int32_t member_block[STW_MAX_GROUP_MEMBERS];

typedef struct recomputing { /* one group that recomputes an op */
    int32_t group;           /* as it was then; groups may have moved on */
    int32_t next;            /* or NOBODY */
} recomputing;

typedef struct visit {
    double priority;
    int32_t place; /* in topological order */
} visit;

struct stw_merge {
    const stw_graph *graph;
    const stw_machine *machine;
    const int32_t *device;
    bool recomputes_nothing;
    int32_t *group; /* (N) the op whose group writes this op, RECOMPUTED; followed up to an op that is its own */
    int32_t *block; /* (N) of a group's op: where its members stand, or ALONE */
    uint8_t *count; /* (N) of a group's op: members */
    int32_t block_count, free_count;
    member_block *member; /* (op_count) an op's group has one at most */
    int32_t *free_block;  /* (op_count) those of groups that are parted */
    int32_t *first;       /* (N) of a recomputed op: into cell, or NOBODY */
    int32_t cell_count, cell_room;
    recomputing *cell;     /* (cell_room); when they are used up nothing more is recomputed */
    int32_t free_cell;     /* the first of those that are no longer used, or NOBODY */
    int32_t cell_end;      /* those beyond were never used */
    int32_t largest_claim; /* cells that a merge may have needed at once */
    int32_t *place;        /* (N) of ops: in topological order */
    int32_t *awaited_by;   /* (N) the op that waits for it, beside its readers; or NOBODY, SEVERAL, or FOLLOWED: one that others
                              follow */
    int32_t *mark, stamp;  /* (N) */
    struct visit *visit;   /* (op_count) room for visiting */
    int32_t reader[STW_MERGE_READERS];
};

/* An op that nothing follows, such as the update of a parameter, can wait for any group that does not wait itself, without
 * closing a cycle. An op that such a one alone waits for may also go into its group. */
static void find_awaited(stw_merge *m) {
    const stw_graph *graph = m->graph;
    for (int32_t i = 0; i < graph->N; i++) m->awaited_by[i] = NOBODY;
    for (int64_t w = 0; w < graph->wait_start[graph->N]; w++) m->mark[graph->wait[w]] = 1;
    for (int32_t i = 0; i < graph->N; i++) {
        const bool is_last = graph->reader_start[i] == graph->reader_start[i + 1] && m->mark[i] == 0;
        for (int64_t w = graph->wait_start[i]; w < graph->wait_start[i + 1]; w++) {
            int32_t *by = &m->awaited_by[graph->wait[w]];
            *by = !is_last || *by == FOLLOWED ? FOLLOWED : *by == NOBODY ? i : SEVERAL;
        }
    }
}

stw_status stw_merge_create(const stw_graph *graph, const stw_machine *machine, stw_arena *arena, stw_merge **out,
                            stw_error *error) {
    stw_merge *m;
    const int64_t N = graph->N;
    STW_TRY_NEW(arena, m, 1, error);
    *m = (stw_merge){.graph = graph, .machine = machine};
    m->cell_room = graph->op_count < INT32_MAX / 8 ? 4 * graph->op_count : INT32_MAX / 2;
    STW_TRY_NEW(arena, m->group, N, error);
    STW_TRY_NEW(arena, m->block, N, error);
    STW_TRY_NEW(arena, m->count, N, error);
    STW_TRY_NEW(arena, m->member, graph->op_count, error);
    STW_TRY_NEW(arena, m->free_block, graph->op_count, error);
    STW_TRY_NEW(arena, m->place, N, error);
    STW_TRY_NEW(arena, m->first, N, error);
    STW_TRY_NEW(arena, m->cell, m->cell_room, error);
    STW_TRY_NEW(arena, m->awaited_by, N, error);
    STW_TRY_NEW(arena, m->mark, N, error);
    STW_TRY_NEW(arena, m->visit, graph->op_count, error);
    find_awaited(m);
    for (int32_t k = 0; k < graph->op_count; k++) m->place[graph->topological[k]] = k;
    *out = m;
    return STW_OK;
}

void stw_merge_allow_recomputing(stw_merge *m, bool allow) { m->recomputes_nothing = !allow; }

void stw_merge_reset(stw_merge *m, const int32_t *device) {
    m->device = device;
    m->block_count = m->free_count = m->cell_count = m->cell_end = m->largest_claim = m->stamp = 0;
    m->free_cell = NOBODY;
    for (int32_t i = 0; i < m->graph->N; i++) {
        m->group[i] = i;
        m->block[i] = ALONE;
        m->count[i] = 1;
        m->first[i] = NOBODY;
        m->mark[i] = 0;
    }
}

/* ---- groups ---- */

/* The op whose group this one is in now; RECOMPUTED if it is written in none. Paths are halved on the way. */
static int32_t find(stw_merge *m, int32_t op) {
    while (m->group[op] != op) {
        if (m->group[op] == RECOMPUTED) return RECOMPUTED;
        const int32_t above = m->group[m->group[op]];
        if (above == RECOMPUTED) return RECOMPUTED;
        m->group[op] = above;
        op = above;
    }
    return op;
}

bool stw_merge_leads(const stw_merge *m, int32_t op) { return m->graph->kind[op] == STW_NODE_OP && m->group[op] == op; }

int32_t stw_merge_members(const stw_merge *m, int32_t op, const int32_t **member) {
    if (m->group[op] != op) return 0;
    *member = m->block[op] == ALONE ? &m->group[op] : m->member[m->block[op]];
    return m->count[op];
}

static bool note_reader(stw_merge *m, int32_t group, int32_t own, int32_t *count) {
    if (group == own || m->mark[group] == m->stamp) return true;
    if (*count == STW_MERGE_READERS) return false;
    m->mark[group] = m->stamp;
    m->reader[(*count)++] = group;
    return true;
}

/* The groups (by their op) that read the op and are not its own; at most STW_MERGE_READERS, else -1. They stay valid until the
 * next call. A recomputed op is read in every group that recomputes it. A group that was recomputed elsewhere since has left its
 * members' cells behind; those who took it have cells of their own. */
static int32_t readers_of(stw_merge *m, int32_t op, const int32_t **reader) {
    const stw_graph *graph = m->graph;
    int32_t count = 0;
    m->stamp++;
    *reader = m->reader;
    for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
        const int32_t by = graph->reader[r].node, group = find(m, by);
        if (group != RECOMPUTED && !note_reader(m, group, op, &count)) return -1;
        for (int32_t c = group == RECOMPUTED ? m->first[by] : NOBODY; c != NOBODY; c = m->cell[c].next) {
            const int32_t in = find(m, m->cell[c].group);
            if (in != RECOMPUTED && !note_reader(m, in, op, &count)) return -1;
        }
    }
    return count;
}

/* ---- legality ---- */

/* Nothing but its readers may need what the op's group computes. */
static bool may_leave(const stw_merge *m, int32_t op, int32_t readers) {
    const stw_graph *graph = m->graph;
    const int32_t *member;
    const int32_t count = stw_merge_members(m, op, &member);
    if (graph->kept[op] || graph->stays[op]) return false;
    if (graph->flow != NULL && graph->flow[op].folds && !m->machine->device[m->device[op]].fuses_epilogue[STW_CLASS_REDUCE])
        return false;
    for (int32_t k = 0; k < count; k++) {
        const bool leads = !stw_op_class_fuses((stw_op_class)graph->op_class[member[k]]);
        if (m->awaited_by[member[k]] == FOLLOWED || graph->updates[member[k]] >= 0) return false;
        if (leads && (readers > 1 || !m->machine->device[m->device[op]].fuses_epilogue[graph->op_class[member[k]]])) return false;
    }
    return true;
}

/* Something else needs it, or one of its readers cannot have it in its group: one that takes an epilogue reads nothing of that.
 */
bool stw_merge_never(const stw_merge *m, int32_t op) {
    const stw_graph *graph = m->graph;
    if (graph->kept[op] || graph->stays[op] || graph->updates[op] >= 0 || m->awaited_by[op] == FOLLOWED) return true;
    for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
        if (!stw_op_class_fuses((stw_op_class)graph->op_class[graph->reader[r].node])) return true;
    }
    return false;
}

/* Marks the members of both and returns their number, those in both counted once. */
static int32_t mark_union(stw_merge *m, int32_t op, int32_t into) {
    const int32_t *member;
    int32_t total = 0;
    const int32_t both[] = {op, into};
    m->stamp++;
    for (int g = 0; g < 2; g++) {
        const int32_t count = stw_merge_members(m, both[g], &member);
        for (int32_t k = 0; k < count; k++) {
            total += m->mark[member[k]] != m->stamp;
            m->mark[member[k]] = m->stamp;
        }
    }
    return total;
}

/* With the members marked: at most one op that takes an epilogue, which reads nothing of its group; few enough operands. */
static bool is_kernel(const stw_merge *m, int32_t op, int32_t into) {
    const stw_graph *graph = m->graph;
    const stw_device *on = &m->machine->device[m->device[into]];
    const int32_t both[] = {op, into}, *member;
    int32_t leaders = 0, operands = 1; /* the output */
    for (int g = 0; g < 2; g++) {
        const int32_t count = stw_merge_members(m, both[g], &member);
        for (int32_t k = 0; k < count; k++) {
            const stw_op_class op_class = (stw_op_class)graph->op_class[member[k]];
            const bool leads = !stw_op_class_fuses(op_class);
            leaders += leads;
            if (leads && !on->fuses_epilogue[op_class]) return false;
            for (int64_t e = graph->read_start[member[k]]; e < graph->read_start[member[k] + 1]; e++) {
                const bool inside = m->mark[graph->read[e].node] == m->stamp;
                if (inside && leads) return false;
                operands += !inside; /* what several members read counts several times: an upper bound */
            }
        }
    }
    return leaders <= 1 && operands <= STW_MAX_GROUP_TENSORS;
}

/* Few rows leave most of a device idle, and long ones do not fit into its registers. */
static bool may_hold_rows(const stw_graph *graph, const int32_t *member, int32_t count, int32_t into) {
    enum { FEWEST_ROWS = 256, LONGEST_ROW = 8192 };
    bool written[STW_MAX_GROUP_MEMBERS];
    for (int32_t k = 0; k < count; k++) written[k] = member[k] == into;
    const stw_row_kernel rows = stw_find_row_kernel(graph, member, written, count);
    return !rows.folds || (rows.fits && rows.rows >= FEWEST_ROWS && rows.length <= LONGEST_ROW);
}

/* Into the group of an op that waits and that nothing follows, such as an update, goes only what nobody else waits for: two that
 * wait for each other's members would never begin. */
static bool awaits_no_other(const stw_merge *m, int32_t op, int32_t into) {
    const stw_graph *graph = m->graph;
    const int32_t *member;
    const bool waits = graph->wait_start[into] < graph->wait_start[into + 1];
    if (!waits || graph->reader_start[into] < graph->reader_start[into + 1]) return true;
    const int32_t count = stw_merge_members(m, op, &member);
    for (int32_t k = 0; k < count; k++) {
        const int32_t by = m->awaited_by[member[k]];
        if (by != NOBODY && by != into) return false;
    }
    return true;
}

/* What the compiler behind the file wants: the group will write what `into` does. */
static bool is_allowed(const stw_merge *m, int32_t op, int32_t into) {
    int32_t both[STW_MAX_GROUP_MEMBERS], named;
    const int32_t *left = NULL, *right = NULL;
    if (m->graph->apart[op] != NULL || m->graph->apart[into] != NULL) return false;
    if (m->graph->flow == NULL) return true;
    const int32_t left_count = stw_merge_members(m, op, &left), right_count = stw_merge_members(m, into, &right);
    const int32_t count = stw_unite_ids(left, left_count, right, right_count, both, STW_MAX_GROUP_MEMBERS);
    if (count <= 0 || stw_kernel_fault(m->graph, both, count, &into, 1, &named) != NULL) return false;
    return may_hold_rows(m->graph, both, count, into);
}

static bool fits(stw_merge *m, int32_t op, int32_t into) {
    const int32_t *apart = m->graph->kept_apart;
    if (m->device[op] != m->device[into] || !awaits_no_other(m, op, into)) return false;
    if (apart != NULL && apart[op] != apart[into]) return false;
    if (m->graph->flow != NULL && m->graph->flow[into].alone) return false;
    if (mark_union(m, op, into) > STW_MAX_GROUP_MEMBERS || !is_kernel(m, op, into)) return false;
    return is_allowed(m, op, into);
}

/* ---- merging ---- */

/* The members of `op` become members of `into` as well: two ascending lists become one. */
static void add_members(stw_merge *m, int32_t op, int32_t into) {
    const int32_t *from = NULL;
    const int32_t added = stw_merge_members(m, op, &from);
    member_block before;
    if (m->block[into] == ALONE) {
        m->block[into] = m->free_count > 0 ? m->free_block[--m->free_count] : m->block_count++;
        m->member[m->block[into]][0] = into;
    }
    int32_t *to = m->member[m->block[into]], count = 0, l = 0, r = 0;
    const int32_t had = m->count[into];
    memcpy(before, to, (size_t)had * sizeof *to);
    while (l < had || r < added) {
        const int32_t next = r == added || (l < had && before[l] <= from[r]) ? before[l] : from[r];
        l += l < had && before[l] == next;
        r += r < added && from[r] == next;
        to[count++] = next;
    }
    m->count[into] = (uint8_t)count;
}

static void note_recomputing(stw_merge *m, int32_t op, int32_t into) {
    const int32_t *member;
    const int32_t count = stw_merge_members(m, op, &member);
    for (int32_t k = 0; k < count; k++) {
        const int32_t c = m->free_cell != NOBODY ? m->free_cell : m->cell_end++;
        if (c == m->free_cell) m->free_cell = m->cell[c].next;
        m->cell[c] = (recomputing){.group = into, .next = m->first[member[k]]};
        m->first[member[k]] = c;
        m->cell_count++;
    }
}

void stw_merge_part(stw_merge *m, int32_t op) {
    if (m->block[op] != ALONE) m->free_block[m->free_count++] = m->block[op];
    m->block[op] = ALONE;
    m->group[op] = op;
    m->count[op] = 1;
    while (m->first[op] != NOBODY) {
        const int32_t c = m->first[op];
        m->first[op] = m->cell[c].next;
        m->cell[c].next = m->free_cell;
        m->free_cell = c;
        m->cell_count--;
    }
}

bool stw_merge_has_room(const stw_merge *m) {
    return m->cell_count <= m->cell_room - m->largest_claim && m->stamp < INT32_MAX / 2; /* nor are the stamps used up */
}

int32_t stw_merge_allows(stw_merge *m, int32_t op, const int32_t **reader) {
    if (!stw_merge_leads(m, op)) return 0;
    const int32_t readers = readers_of(m, op, reader);
    if (readers < 1 || (readers > 1 && m->recomputes_nothing) || !may_leave(m, op, readers)) return 0;
    if (readers > 1 && readers * m->count[op] > m->largest_claim) m->largest_claim = readers * m->count[op];
    if (readers > 1 && m->cell_count > m->cell_room - readers * m->count[op]) return 0;
    for (int32_t r = 0; r < readers; r++) {
        if (!fits(m, op, m->reader[r])) return 0;
    }
    return readers;
}

bool stw_merge_op(stw_merge *m, int32_t op) {
    const int32_t *reader;
    const int32_t readers = stw_merge_allows(m, op, &reader);
    for (int32_t r = 0; r < readers; r++) {
        add_members(m, op, reader[r]);
        if (readers > 1) note_recomputing(m, op, reader[r]);
    }
    if (readers > 0) m->group[op] = readers > 1 ? RECOMPUTED : reader[0];
    return readers > 0;
}

/* High ones first, then late ones. */
static int compare_visits(const void *left, const void *right) {
    const visit *a = left, *b = right;
    if (a->priority != b->priority) return a->priority > b->priority ? -1 : 1;
    return b->place - a->place;
}

void stw_merge_by_priority(stw_merge *m, const double *priority, const int32_t *op, int32_t count) {
    int32_t visits = 0;
    for (int32_t k = 0; k < count; k++) {
        if (priority[op[k]] > 0.0) m->visit[visits++] = (visit){priority[op[k]], m->place[op[k]]};
    }
    qsort(m->visit, (size_t)visits, sizeof *m->visit, compare_visits);
    for (int32_t k = 0; k < visits; k++) stw_merge_op(m, m->graph->topological[m->visit[k].place]);
}

int32_t stw_merge_group_of(stw_merge *m, int32_t op) { return find(m, op); }

void stw_merge_groups(stw_merge *m, int32_t *group) {
    for (int32_t i = 0; i < m->graph->N; i++) group[i] = m->graph->kind[i] == STW_NODE_OP ? find(m, i) : -1;
}
