/* The least memory that any order holds while one task runs, by a maximum flow.
 *
 * An order splits the other tasks into those before and those after it. A value is held if its writer is before (or there is
 * none) and a reader is not. Tasks that are related to the one in question have no choice; the others are the nodes of a
 * network in which the source side is "before": a value is an edge from its writer to its readers with its bytes as capacity
 * (through a node of its own where there are several), and "before" spreads to all predecessors at no end of capacity. The
 * minimum cut is the least memory, and every flow on the way to it is a lower bound (weak duality). The flow is Dinic's. */
#include <string.h>

#include "sim/sequence.h"

enum { SOURCE, SINK, FIRST_NODE };
static const int64_t ENDLESS = (int64_t)1 << 60;
static const int64_t MOST_BYTES = (int64_t)1 << 58; /* of all values: sums stay far below ENDLESS */

typedef struct {
    int32_t to, next; /* next edge of the same node, -1: none. The edge back is edge ^ 1 */
    int64_t room;
} edge;

typedef struct {
    const stw_sequences *s;
    stw_cut *cut;
    int32_t *node; /* (T) SOURCE: before, SINK: the task itself or after, else its node */
    int32_t node_count, edge_count;
    int32_t *first; /* (nodes) */
    edge *edge;
    int32_t *level, *cursor, *queue, *path; /* (nodes) */
} network;

/* ---- the network ---- */

static void add_edge(network *n, int32_t from, int32_t to, int64_t room, int64_t room_back) {
    n->edge[n->edge_count] = (edge){to, n->first[from], room};
    n->first[from] = n->edge_count++;
    n->edge[n->edge_count] = (edge){from, n->first[to], room_back};
    n->first[to] = n->edge_count++;
}

/* Marks all that can be reached along `item`, the task left out. */
static void spread(network *n, int32_t task, const int32_t *start, const int32_t *item, int32_t mark) {
    int32_t count = 0;
    n->queue[count++] = task;
    for (int32_t k = 0; k < count; k++) {
        const int32_t t = n->queue[k];
        for (int32_t i = start[t]; i < start[t + 1]; i++) {
            if (n->node[item[i]] == mark) continue;
            n->node[item[i]] = mark;
            n->queue[count++] = item[i];
        }
    }
}

static void sort_tasks(network *n, int32_t task) {
    const stw_sequences *s = n->s;
    const int32_t *stage = n->cut->stage;
    for (int32_t t = 0; t < s->T; t++) n->node[t] = -1;
    spread(n, task, s->before_start, s->before, SOURCE);
    spread(n, task, s->after_start, s->after, SINK);
    n->node[task] = SINK;
    n->node_count = FIRST_NODE;
    for (int32_t t = 0; t < s->T; t++) {
        if (stage != NULL && stage[t] != stage[task]) n->node[t] = stage[t] < stage[task] ? SOURCE : SINK;
        if (n->node[t] < 0) n->node[t] = n->node_count++;
    }
}

/* Adds what a value costs; returns the bytes that are held whatever the choice. */
static int64_t add_value(network *n, int32_t v, int32_t task) {
    const stw_sequences *s = n->s;
    const int64_t bytes = n->cut->bytes[v];
    const int32_t from = s->writer[v] < 0 ? SOURCE : n->node[s->writer[v]];
    if (bytes == 0) return 0;
    if (s->writer[v] == task) return bytes;
    if (from == SINK) return 0;
    int32_t readers = 0, reader = -1;
    bool needed = s->kept[v];
    for (int32_t u = s->reader_start[v]; u < s->reader_start[v + 1]; u++) {
        const int32_t to = n->node[s->reader[u]];
        needed |= to == SINK;
        if (to < FIRST_NODE) continue;
        readers++;
        reader = to;
    }
    if (needed) {
        if (from == SOURCE) return bytes;
        add_edge(n, from, SINK, bytes, 0);
    } else if (readers == 1) {
        add_edge(n, from, reader, bytes, 0);
    } else if (readers > 1) {
        const int32_t middle = n->node_count++;
        n->first[middle] = -1;
        add_edge(n, from, middle, bytes, 0);
        for (int32_t u = s->reader_start[v]; u < s->reader_start[v + 1]; u++) {
            if (n->node[s->reader[u]] >= FIRST_NODE) add_edge(n, middle, n->node[s->reader[u]], ENDLESS, 0);
        }
    }
    return 0;
}

static void build(network *n, int32_t task) {
    const stw_sequences *s = n->s;
    sort_tasks(n, task);
    for (int32_t k = 0; k < n->node_count; k++) n->first[k] = -1;
    for (int32_t t = 0; t < s->T; t++) {
        if (n->node[t] < FIRST_NODE) continue;
        for (int32_t b = s->before_start[t]; b < s->before_start[t + 1]; b++) {
            if (n->node[s->before[b]] >= FIRST_NODE) add_edge(n, n->node[t], n->node[s->before[b]], ENDLESS, 0);
        }
    }
    n->cut->held = 0;
    for (int32_t v = 0; v < s->V; v++) n->cut->held += add_value(n, v, task);
}

/* ---- the flow ---- */

/* Distances from the source along edges with room; true if the sink is reached. */
static bool find_levels(network *n) {
    int32_t count = 0;
    for (int32_t k = 0; k < n->node_count; k++) n->level[k] = -1;
    n->level[SOURCE] = 0;
    n->queue[count++] = SOURCE;
    for (int32_t k = 0; k < count; k++) {
        const int32_t from = n->queue[k];
        for (int32_t e = n->first[from]; e >= 0; e = n->edge[e].next) {
            --*n->cut->work;
            const int32_t to = n->edge[e].to;
            if (n->edge[e].room == 0 || n->level[to] >= 0) continue;
            n->level[to] = n->level[from] + 1;
            n->queue[count++] = to;
        }
    }
    return n->level[SINK] >= 0;
}

/* Pushes what fits along the path of `length` edges; returns how many of them remain before the first that is full. */
static int32_t push_path(network *n, int32_t length) {
    int64_t fits = ENDLESS;
    int32_t full = 0;
    for (int32_t k = 0; k < length; k++) fits = n->edge[n->path[k]].room < fits ? n->edge[n->path[k]].room : fits;
    for (int32_t k = length - 1; k >= 0; k--) {
        n->edge[n->path[k]].room -= fits;
        n->edge[n->path[k] ^ 1].room += fits;
        if (n->edge[n->path[k]].room == 0) full = k;
    }
    *n->cut->work -= length;
    n->cut->held += fits;
    return full;
}

/* A flow that blocks every path of this length. */
static void block_paths(network *n) {
    int32_t length = 0, at = SOURCE;
    memcpy(n->cursor, n->first, (size_t)n->node_count * sizeof *n->cursor);
    while (*n->cut->work > 0) {
        if (at == SINK) {
            length = push_path(n, length);
            at = n->edge[n->path[length] ^ 1].to;
            continue;
        }
        int32_t e = n->cursor[at];
        while (e >= 0 && (n->edge[e].room == 0 || n->level[n->edge[e].to] != n->level[at] + 1)) {
            e = n->edge[e].next;
            --*n->cut->work;
        }
        n->cursor[at] = e;
        if (e >= 0) {
            n->path[length++] = e;
            at = n->edge[e].to;
        } else if (length == 0) {
            return;
        } else { /* a dead end */
            n->level[at] = -1;
            at = n->edge[n->path[--length] ^ 1].to;
        }
    }
}

/* ---- the cut ---- */

/* As little as possible before the task: what the source still reaches, which the last search for levels has marked. As much as
 * possible: all but what still reaches the sink. */
static void read_cut(network *n, int32_t task) {
    if (n->cut->late) {
        int32_t count = 0;
        for (int32_t k = 0; k < n->node_count; k++) n->level[k] = 0;
        n->level[SINK] = -1;
        n->queue[count++] = SINK;
        for (int32_t k = 0; k < count; k++) {
            for (int32_t e = n->first[n->queue[k]]; e >= 0; e = n->edge[e].next) {
                const int32_t from = n->edge[e].to;
                if (n->edge[e ^ 1].room == 0 || n->level[from] < 0) continue;
                n->level[from] = -1;
                n->queue[count++] = from;
            }
        }
    }
    for (int32_t t = 0; t < n->s->T; t++) n->cut->before[t] = n->level[n->node[t]] >= 0;
    n->cut->before[task] = 0;
}

stw_status stw_cut_find(const stw_sequences *s, int32_t task, stw_cut *cut, stw_arena scratch, stw_error *error) {
    network n = {.s = s, .cut = cut};
    const int64_t nodes = (int64_t)s->T + s->V + FIRST_NODE;
    const int64_t edges = 2 * ((int64_t)s->V + s->reader_start[s->V] + s->before_start[s->T]) + 2;
    double all = 0.0;
    for (int32_t v = 0; v < s->V; v++) all += (double)cut->bytes[v];
    cut->held = 0;
    cut->complete = false;
    if (all > (double)MOST_BYTES) return STW_OK;
    STW_TRY_NEW(&scratch, n.node, s->T, error);
    STW_TRY_NEW(&scratch, n.first, nodes, error);
    STW_TRY_NEW(&scratch, n.level, nodes, error);
    STW_TRY_NEW(&scratch, n.cursor, nodes, error);
    STW_TRY_NEW(&scratch, n.queue, nodes, error);
    STW_TRY_NEW(&scratch, n.path, nodes, error);
    STW_TRY_NEW(&scratch, n.edge, edges, error);
    build(&n, task);
    *cut->work -= s->T + s->V;
    while (*cut->work > 0) {
        if (!find_levels(&n)) {
            cut->complete = true;
            break;
        }
        block_paths(&n);
    }
    if (cut->complete && cut->before != NULL) read_cut(&n, task);
    return STW_OK;
}
