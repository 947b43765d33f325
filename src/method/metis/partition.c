/* The one place that knows METIS, called in ways that are known to behave. */
#define _POSIX_C_SOURCE 200809L /* pthread_sigmask */
#include "method/metis/part_graph.h"

#ifdef STW_HAVE_METIS

#include <math.h>
#include <metis.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* ---- one call: weights as its integers, its options, its faults ---- */

/* METIS seeds libc's rand() at the start of every call (with the seed option) and draws from it, so the stream is one for
 * the whole process: two calls at a time would take numbers from each other. The lock makes every call see the same numbers
 * whatever other threads partition. It also means that a caller's own rand() is seeded anew; nothing of ours uses it. Copies have
 * streams of their own and no part in that. Threads of one pool take turns before they come to either, so that they are free for
 * what is more urgent. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* what METIS makes the process's: see above, and copies.c */

bool stw_metis_is_there(void) { return true; }

/* METIS adds up weights in 32 bits and does not notice when that overflows. */
static const double most_weight = 1 << 30;

/* Whole numbers of at least `least` whose sum over (count) stays below 2^30, in proportion to `weight`, `stride` apart. */
static void to_integers(const double *weight, int64_t count, int32_t stride, int32_t least, idx_t *out) {
    double sum = 0.0;
    for (int64_t k = 0; k < count; k++) sum += weight[k * stride];
    const double room = most_weight - (double)(least + 1) * (double)count;
    const double scale = sum > 0.0 && isfinite(sum) && room > 0.0 ? room / sum : 0.0;
    for (int64_t k = 0; k < count; k++) out[k * stride] = (idx_t)(scale * weight[k * stride]) + least;
}

typedef struct {
    idx_t vertices, constraints, parts;
    idx_t *start, *neighbour, *vertex_weight, *edge_weight, *size;
    real_t *share, *imbalance;
    idx_t options[METIS_NOPTIONS];
} arguments;

static stw_status fill_graph(const stw_part_call *call, stw_arena *arena, arguments *a, stw_error *error) {
    const stw_part_graph *graph = call->graph;
    const int32_t M = graph->M, K = call->weights->K;
    const int64_t E = graph->start[M];
    STW_TRY_NEW(arena, a->start, (int64_t)M + 1, error);
    STW_TRY_NEW(arena, a->neighbour, E + 1, error);
    STW_TRY_NEW(arena, a->edge_weight, E + 1, error);
    STW_TRY_NEW(arena, a->vertex_weight, (int64_t)M * K, error);
    for (int32_t v = 0; v <= M; v++) a->start[v] = (idx_t)graph->start[v];
    for (int64_t k = 0; k < E; k++) a->neighbour[k] = graph->neighbour[k];
    to_integers(graph->cost, E, 1, 1, a->edge_weight); /* an edge of weight 0 is refused */
    for (int32_t k = 0; k < K; k++) to_integers(call->weights->weight + k, M, K, K == 1 ? 1 : 0, a->vertex_weight + k);
    if (!call->volume) return STW_OK;
    /* What a vertex sends to each other part: the dearest of its edges, since one value mostly makes them all. */
    STW_TRY_NEW(arena, a->size, M, error);
    for (int32_t v = 0; v < M; v++) {
        for (idx_t k = a->start[v]; k < a->start[v + 1]; k++) {
            if (a->edge_weight[k] > a->size[v]) a->size[v] = a->edge_weight[k];
        }
    }
    return STW_OK;
}

/* Of a device that does next to nothing: METIS refuses 0, and says so on standard output. */
static const double least_share = 1e-6;

static stw_status fill_targets(const stw_part_call *call, stw_arena *arena, arguments *a, stw_error *error) {
    const int32_t K = call->weights->K;
    STW_TRY_NEW(arena, a->share, (int64_t)call->parts * K, error);
    STW_TRY_NEW(arena, a->imbalance, K, error);
    for (int32_t p = 0; p < call->parts; p++) {
        for (int32_t k = 0; k < K; k++) a->share[p * K + k] = (real_t)fmax(call->share[p], least_share);
    }
    for (int32_t k = 0; k < K; k++) a->imbalance[k] = (real_t)call->imbalance;
    METIS_SetDefaultOptions(a->options);
    a->options[METIS_OPTION_SEED] = call->seed;
    a->options[METIS_OPTION_NUMBERING] = 0;
    if (call->volume) a->options[METIS_OPTION_OBJTYPE] = METIS_OBJTYPE_VOL;
    return STW_OK;
}

/* ---- memory ----
 *
 * METIS must not run out of it: it prints, raises SIGABRT and jumps out of its own handler; and where all parts are made at once,
 * a failure within that raises SIGTERM as well, and with that held back (as the command line does) it goes on with parts that
 * were never filled in (docs/adr/0015-memory-in-others-libraries.md). So what it needs at most is taken from malloc beforehand.
 */

/* A generous bound. The peak that was seen over 800 calls is a quarter of it; levels shrink to 85 % or coarsening ends, so all of
 * them together are at most 7 times the first. */
static int64_t bytes_needed(const arguments *a) {
    const int64_t vertices = a->vertices, constraints = a->constraints, edges = a->start[a->vertices];
    const int64_t numbers = vertices * (constraints + 8) + 6 * edges + (int64_t)a->parts * (constraints + 4);
    return (1 << 20) + 8 * numbers * (int64_t)sizeof(idx_t);
}

/* In pieces of a size that malloc does not hand back to the system at once, so that METIS, in this thread, finds them there. The
 * last one is returned, to be freed afterwards: it lies behind the others and keeps them from being handed back together. NULL:
 * out of memory. */
static void *make_room(const stw_metis_copy *metis, int64_t bytes) {
    enum { PIECE = 1 << 16 };
    void **last = NULL;
    int64_t taken = -PIECE;
    for (; taken < bytes; taken += PIECE) {
        void **piece = metis->malloc(PIECE);
        if (piece == NULL) break;
        *piece = last;
        last = piece;
    }
    const bool enough = taken >= bytes;
    for (void **piece = enough ? *last : last; piece != NULL;) {
        void **next = *piece;
        metis->free(piece);
        piece = next;
    }
    return enough ? last : NULL;
}

typedef int function(idx_t *, idx_t *, idx_t *, idx_t *, idx_t *, idx_t *, idx_t *, idx_t *, real_t *, real_t *, idx_t *, idx_t *,
                     idx_t *);

/* Should it happen all the same, METIS leaves SIGABRT blocked, and the next time it would not get out. */
static int partition(const stw_metis_copy *metis, const stw_part_call *call, arguments *a, idx_t *cut, idx_t *result) {
    function *run = (function *)(call->recursive ? metis->recursive : metis->at_once);
    sigset_t abort_signal, before;
    int status;
    sigemptyset(&abort_signal);
    sigaddset(&abort_signal, SIGABRT);
    pthread_sigmask(SIG_UNBLOCK, &abort_signal, &before);
    stw_metis_enter();
    status = run(&a->vertices, &a->constraints, a->start, a->neighbour, a->vertex_weight, call->recursive ? NULL : a->size,
                 a->edge_weight, &a->parts, a->share, a->imbalance, a->options, cut, result);
    stw_metis_leave();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static int partition_with(const stw_metis_copy *metis, const stw_part_call *call, arguments *a, idx_t *cut, idx_t *result) {
    void *end = make_room(metis, bytes_needed(a));
    const int status = end != NULL ? partition(metis, call, a, cut, result) : METIS_ERROR_MEMORY;
    metis->free(end);
    return status;
}

static int partition_alone(const stw_part_call *call, arguments *a, idx_t *cut, idx_t *result) {
    const stw_metis_copy linked = {(stw_metis_function *)METIS_PartGraphRecursive, (stw_metis_function *)METIS_PartGraphKway,
                                   malloc, free};
    pthread_mutex_lock(&lock);
    const int status = partition_with(&linked, call, a, cut, result);
    pthread_mutex_unlock(&lock);
    return status;
}

static int partition_by_copy(const stw_part_call *call, int32_t copy, arguments *a, idx_t *cut, idx_t *result) {
    return partition_with(stw_metis_copy_at(call->copies, copy), call, a, cut, result);
}

stw_status stw_metis_call(const stw_part_call *call, int32_t *part, stw_arena scratch, stw_error *error) {
    const int32_t M = call->graph->M;
    arguments a = {.vertices = M, .constraints = call->weights->K, .parts = call->parts};
    idx_t cut = 0, *result;
    TRY(fill_graph(call, &scratch, &a, error));
    TRY(fill_targets(call, &scratch, &a, error));
    STW_TRY_NEW(&scratch, result, M, error);
    const int32_t copies = call->pool == NULL ? 0 : stw_metis_copies_count(call->copies);
    const int32_t turn = call->pool == NULL ? 0 : stw_pool_take_turn(call->pool, copies > 0 ? copies : 1);
    const int status = copies > 0 ? partition_by_copy(call, turn, &a, &cut, result) : partition_alone(call, &a, &cut, result);
    if (call->pool != NULL) stw_pool_end_turn(call->pool, turn);
    if (status == METIS_ERROR_MEMORY)
        return stw_fail(error, STW_ERROR_MEMORY, "METIS needs up to %lld bytes for %d vertices", (long long)bytes_needed(&a), M);
    if (status != METIS_OK) return stw_fail(error, STW_ERROR_NO_PLAN, "METIS failed with status %d", status);
    for (int32_t v = 0; v < M; v++) part[v] = (int32_t)result[v];
    return STW_OK;
}

#else

bool stw_metis_is_there(void) { return false; }

stw_status stw_metis_call(const stw_part_call *call, int32_t *part, stw_arena scratch, stw_error *error) {
    (void)call, (void)part, (void)scratch;
    return stw_fail(error, STW_ERROR_NO_PLAN, "built without METIS; install libmetis-dev and build again");
}

#endif

/* ---- partitions ---- */

/* METIS writes to standard output when a bisection within its recursion leaves one side empty, as large imbalances and few
 * vertices make it do. So the recursion is ours and each call divides into two; all parts at once only where no side can
 * become empty by balance alone. */

typedef struct {
    const stw_part_call *call; /* the whole */
    int32_t *local;            /* (M) number of a vertex within the piece at hand, else -1 */
    int32_t *part;             /* (M) the result */
} splitter;

/* The part of the graph that lies within these vertices. */
static stw_status extract(const splitter *s, const int32_t *vertex, int32_t count, stw_arena *arena, stw_part_graph *graph,
                          stw_part_weights *weights, stw_error *error) {
    const stw_part_graph *whole = s->call->graph;
    const int32_t K = s->call->weights->K;
    int64_t most = 0, edges = 0;
    for (int32_t v = 0; v < count; v++) most += whole->start[vertex[v] + 1] - whole->start[vertex[v]];
    *graph = (stw_part_graph){.M = count};
    *weights = (stw_part_weights){.K = K};
    STW_TRY_NEW(arena, graph->start, (int64_t)count + 1, error);
    STW_TRY_NEW(arena, graph->neighbour, most, error);
    STW_TRY_NEW(arena, graph->cost, most, error);
    STW_TRY_NEW(arena, weights->weight, (int64_t)count * K, error);
    for (int32_t v = 0; v < count; v++) s->local[vertex[v]] = v;
    for (int32_t v = 0; v < count; v++) {
        graph->start[v] = edges;
        for (int64_t e = whole->start[vertex[v]]; e < whole->start[vertex[v] + 1]; e++) {
            if (s->local[whole->neighbour[e]] < 0) continue;
            graph->neighbour[edges] = s->local[whole->neighbour[e]];
            graph->cost[edges++] = whole->cost[e];
        }
        for (int32_t k = 0; k < K; k++)
            weights->weight[(int64_t)v * K + k] = s->call->weights->weight[(int64_t)vertex[v] * K + k];
    }
    graph->start[count] = edges;
    for (int32_t v = 0; v < count; v++) s->local[vertex[v]] = -1;
    return STW_OK;
}

/* Two sides with the shares of parts [first, middle) and [middle, last). */
static stw_status bisect(const splitter *s, const int32_t *vertex, int32_t count, int32_t first, int32_t last, int32_t *side,
                         stw_arena scratch, stw_error *error) {
    const int32_t middle = first + (last - first + 1) / 2;
    stw_part_graph graph;
    stw_part_weights weights;
    double left = 0.0, all = 0.0;
    for (int32_t p = first; p < last; p++) {
        all += s->call->share[p];
        if (p < middle) left += s->call->share[p];
    }
    const double share[] = {left / all, 1.0 - left / all};
    TRY(extract(s, vertex, count, &scratch, &graph, &weights, error));
    stw_part_call two = *s->call;
    two.graph = &graph;
    two.weights = &weights;
    two.parts = 2;
    two.share = share;
    two.recursive = s->call->recursive || s->call->parts > 2;
    two.volume = two.volume && !two.recursive;
    return stw_metis_call(&two, side, scratch, error);
}

/* Divides these vertices, which are reordered, among parts [first, last). */
static stw_status split(const splitter *s, int32_t *vertex, int32_t count, int32_t first, int32_t last, stw_arena scratch,
                        stw_error *error) {
    const int32_t middle = first + (last - first + 1) / 2;
    if (last - first == 1 || count <= last - first) {
        for (int32_t v = 0; v < count; v++) s->part[vertex[v]] = first + (last - first == 1 ? 0 : v);
        return STW_OK;
    }
    int32_t *side, *sorted, left = 0, right = 0;
    STW_TRY_NEW(&scratch, side, count, error);
    STW_TRY_NEW(&scratch, sorted, count, error);
    TRY(bisect(s, vertex, count, first, last, side, scratch, error));
    for (int32_t v = 0; v < count; v++) left += side[v] == 0;
    for (int32_t v = 0, at = 0; v < count; v++) sorted[side[v] == 0 ? at++ : left + right++] = vertex[v];
    for (int32_t v = 0; v < count; v++) vertex[v] = sorted[v];
    TRY(split(s, vertex, left, first, middle, scratch, error));
    return split(s, vertex + left, right, middle, last, scratch, error);
}

/* Many vertices, none of them heavy in any constraint, and little imbalance: then a side that balance allows is not empty. */
static bool may_go_at_once(const stw_part_call *call) {
    enum { VERTICES_PER_PART = 50, PIECES_PER_PART = 8, MOST_CONSTRAINTS = 8 };
    const int32_t M = call->graph->M, K = call->weights->K;
    if (call->recursive || M / VERTICES_PER_PART < call->parts || call->imbalance > 1.3 || K > MOST_CONSTRAINTS) return false;
    for (int32_t k = 0; k < K; k++) {
        double sum = 0.0, largest = 0.0;
        for (int32_t v = 0; v < M; v++) {
            const double weight = call->weights->weight[(int64_t)v * K + k];
            sum += weight;
            largest = weight > largest ? weight : largest;
        }
        if (largest * PIECES_PER_PART * call->parts > sum) return false;
    }
    return true;
}

stw_status stw_metis_partition(const stw_part_call *call, int32_t *part, stw_arena scratch, stw_error *error) {
    enum { MOST = 1 << 28 };
    const int32_t M = call->graph->M;
    splitter s = {.call = call, .part = part};
    int32_t *vertex;
    if (call->graph->start[M] > MOST || M > MOST)
        return stw_fail(error, STW_ERROR_NO_PLAN, "the graph has %lld edges, METIS takes 2^28; use coarser units",
                        (long long)call->graph->start[M]);
    if (may_go_at_once(call)) return stw_metis_call(call, part, scratch, error);
    STW_TRY_NEW(&scratch, s.local, M, error);
    STW_TRY_NEW(&scratch, vertex, M, error);
    for (int32_t v = 0; v < M; v++) {
        s.local[v] = -1;
        vertex[v] = v;
    }
    return split(&s, vertex, M, 0, call->parts, scratch, error);
}
