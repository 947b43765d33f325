/* The priority queues of the event loop. All three order their entries totally, so the order of insertion does not matter. */
#ifndef STW_SIM_QUEUES_H
#define STW_SIM_QUEUES_H

#include <stdbool.h>
#include <stdint.h>

/* Ready tasks of one device: highest priority, then earliest ready, then smallest task. What becomes ready now is mostly what
 * runs next, so the best few stand in a short sorted list, and a binary heap behind it holds the rest. */
typedef struct stw_ready {
    double priority;
    int64_t ready_ps;
    int32_t task;
} stw_ready;

enum { STW_READY_FRONT = 12 };

typedef struct stw_ready_queue {
    stw_ready front[STW_READY_FRONT]; /* the best is last; all of them come before all of the heap */
    int32_t front_count, heap_count;
    stw_ready *heap;
} stw_ready_queue;

static inline bool stw_ready_before(const stw_ready *a, const stw_ready *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->ready_ps != b->ready_ps) return a->ready_ps < b->ready_ps;
    return a->task < b->task;
}

static inline bool stw_ready_is_empty(const stw_ready_queue *queue) { return queue->front_count + queue->heap_count == 0; }

static inline void stw_ready_push_heap(stw_ready_queue *queue, stw_ready entry) {
    stw_ready *heap = queue->heap;
    int32_t k = queue->heap_count++;
    while (k > 0 && stw_ready_before(&entry, &heap[(k - 1) >> 1])) {
        heap[k] = heap[(k - 1) >> 1];
        k = (k - 1) >> 1;
    }
    heap[k] = entry;
}

static inline int32_t stw_ready_pop_heap(stw_ready_queue *queue) {
    stw_ready *heap = queue->heap;
    const int32_t top = heap[0].task, count = --queue->heap_count;
    const stw_ready last = heap[count];
    int32_t k = 0;
    for (;;) {
        int32_t child = 2 * k + 1;
        if (child >= count) break;
        if (child + 1 < count && stw_ready_before(&heap[child + 1], &heap[child])) child++;
        if (!stw_ready_before(&heap[child], &last)) break;
        heap[k] = heap[child];
        k = child;
    }
    heap[k] = last;
    return top;
}

static inline void stw_ready_push(stw_ready_queue *queue, stw_ready entry) {
    if (queue->heap_count > 0 && !stw_ready_before(&entry, &queue->heap[0])) {
        stw_ready_push_heap(queue, entry);
        return;
    }
    int32_t k = queue->front_count;
    if (k == STW_READY_FRONT) { /* the worst of the front makes room, unless the new one is worse */
        if (stw_ready_before(&queue->front[0], &entry)) {
            stw_ready_push_heap(queue, entry);
            return;
        }
        stw_ready_push_heap(queue, queue->front[0]);
        for (int32_t j = 1; j < k; j++) queue->front[j - 1] = queue->front[j];
        k = --queue->front_count;
    }
    for (; k > 0 && stw_ready_before(&queue->front[k - 1], &entry); k--) queue->front[k] = queue->front[k - 1];
    queue->front[k] = entry;
    queue->front_count++;
}

static inline int32_t stw_ready_pop(stw_ready_queue *queue) {
    return queue->front_count > 0 ? queue->front[--queue->front_count].task : stw_ready_pop_heap(queue);
}

/* What runs now, by the time at which it ends. A binary heap; entries of equal time come out in any order. */
typedef struct stw_ending {
    int64_t time_ps;
    int32_t what; /* a device, or the number of devices + a transfer */
} stw_ending;

static inline void stw_ending_push(stw_ending *heap, int32_t *count, stw_ending entry) {
    int32_t k = (*count)++;
    while (k > 0 && entry.time_ps < heap[(k - 1) >> 1].time_ps) {
        heap[k] = heap[(k - 1) >> 1];
        k = (k - 1) >> 1;
    }
    heap[k] = entry;
}

static inline int32_t stw_ending_pop(stw_ending *heap, int32_t *count) {
    const int32_t top = heap[0].what;
    const stw_ending last = heap[--(*count)];
    int32_t k = 0;
    for (;;) {
        int32_t child = 2 * k + 1;
        if (child >= *count) break;
        if (child + 1 < *count && heap[child + 1].time_ps < heap[child].time_ps) child++;
        if (heap[child].time_ps >= last.time_ps) break;
        heap[k] = heap[child];
        k = child;
    }
    heap[k] = last;
    return top;
}

/* Waiting transfers of one channel: a pairing heap threaded through the transfers, since their number per channel is not
 * known beforehand. Highest priority, then earliest ready, then smallest value (that is, producer id), then destination. */
typedef struct stw_waiting {
    double priority;
    int64_t ready_ps;
    int32_t value, to;
    int32_t child, sibling; /* transfers, -1 = none */
} stw_waiting;

static inline bool stw_waiting_before(const stw_waiting *a, const stw_waiting *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->ready_ps != b->ready_ps) return a->ready_ps < b->ready_ps;
    if (a->value != b->value) return a->value < b->value;
    return a->to < b->to;
}

/* The root of two heaps joined; either may be empty (-1). */
static inline int32_t stw_waiting_join(stw_waiting *pool, int32_t a, int32_t b) {
    if (a < 0) return b;
    if (b < 0) return a;
    if (stw_waiting_before(&pool[b], &pool[a])) {
        const int32_t swap = a;
        a = b;
        b = swap;
    }
    pool[b].sibling = pool[a].child;
    pool[a].child = b;
    return a;
}

/* The root after the old root has been taken away: its children joined in pairs, then from the back. */
static inline int32_t stw_waiting_pop(stw_waiting *pool, int32_t root) {
    int32_t pairs = -1; /* a list, last pair first */
    for (int32_t first = pool[root].child; first >= 0;) {
        const int32_t second = pool[first].sibling;
        const int32_t next = second < 0 ? -1 : pool[second].sibling;
        pool[first].sibling = -1;
        if (second >= 0) pool[second].sibling = -1;
        const int32_t joined = stw_waiting_join(pool, first, second);
        pool[joined].sibling = pairs;
        pairs = joined;
        first = next;
    }
    int32_t result = -1;
    while (pairs >= 0) {
        const int32_t next = pool[pairs].sibling;
        pool[pairs].sibling = -1;
        result = stw_waiting_join(pool, result, pairs);
        pairs = next;
    }
    return result;
}

#endif
