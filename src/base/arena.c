#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE, MADV_HUGEPAGE */
#include "base/arena.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__)
#define STW_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STW_ASAN 1
#endif
#endif

#ifdef STW_ASAN
#include <sanitizer/asan_interface.h>
enum { RED_ZONE = 32 }; /* poisoned bytes after each allocation, so that running over its end is seen */
#else
enum { RED_ZONE = 0 };
#endif

/* Lives at the start of its own reservation. */
struct stw_arena_block {
    char *end;   /* one past the reservation */
    char *dirty; /* nothing at or above this was ever handed out, so it is still zero */
};

/* Of large arenas all but the beginning is in large pages, where the system has them: with small ones, a fifth of a short search
 * on a large graph goes into getting them one by one. It is a wish only, so what comes of it does not matter. */
static void wish_large_pages(char *memory, size_t size) {
#ifdef MADV_HUGEPAGE
    const size_t beginning = (size_t)1 << 22;
    if (size > 2 * beginning) (void)madvise(memory + beginning, size - beginning, MADV_HUGEPAGE);
#else
    (void)memory;
    (void)size;
#endif
}

static bool reserve(stw_arena *out, size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    wish_large_pages(memory, size);
    stw_arena_block *block = memory;
    block->end = (char *)memory + size;
    block->dirty = (char *)memory + sizeof *block;
    out->block = block;
    out->next = block->dirty;
    return true;
}

/* What an arena may take of an address space with a limit, of so many. */
static size_t share_of_limit(size_t arenas) {
    struct rlimit limit;
    const size_t usual = (size_t)1 << 29, page = 4096;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return usual;
    return (size_t)limit.rlim_cur / arenas / page * page;
}

/* Where address space is limited, the first arenas must not take what the others need. */
static stw_status create(stw_arena *out, size_t arenas, stw_error *error) {
    const size_t most = (size_t)1 << 34, share = share_of_limit(arenas);
    *out = (stw_arena){0};
    const size_t sizes[] = {most, share, (size_t)1 << 26, (size_t)1 << 24};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        if (sizes[k] <= most && reserve(out, sizes[k])) return STW_OK;
    }
    return stw_fail(error, STW_ERROR_MEMORY, "cannot reserve 16 MiB of address space; raise the limit (ulimit -v)");
}

/* A search with two threads has some twenty of them. */
stw_status stw_arena_create(stw_arena *out, stw_error *error) { return create(out, 32, error); }

/* There is the graph's, its reader's, and perhaps one for the text. */
stw_status stw_arena_create_for_file(stw_arena *out, stw_error *error) { return create(out, 8, error); }

stw_status stw_arena_create_sized(stw_arena *out, int64_t bytes, stw_error *error) {
    const size_t page = 4096;
    *out = (stw_arena){0};
    if (bytes >= 0 && bytes < (int64_t)1 << 46 && reserve(out, ((size_t)bytes + 2 * page) / page * page)) return STW_OK;
    return stw_fail(error, STW_ERROR_MEMORY, "cannot reserve %lld bytes of address space", (long long)bytes);
}

void stw_arena_destroy(stw_arena *arena) {
    if (arena->block == NULL) return;
    char *start = (char *)arena->block;
    const size_t size = (size_t)(arena->block->end - start);
#ifdef STW_ASAN
    ASAN_UNPOISON_MEMORY_REGION(start, (size_t)(arena->block->dirty - start));
#endif
    munmap(start, size);
    *arena = (stw_arena){0};
}

/* Where the items go, or NULL if they do not fit. */
static char *take(stw_arena *arena, size_t size, size_t alignment, int64_t count, char **old_dirty) {
    if (arena->block == NULL || count < 0) return NULL;
    stw_arena_block *block = arena->block;
    const size_t padding = (size_t)(-(uintptr_t)arena->next & (alignment - 1));
    const size_t left = (size_t)(block->end - arena->next);
    if (left < padding + RED_ZONE || (size_t)count > (left - padding - RED_ZONE) / size) {
        arena->next = block->end; /* whoever looks only at the last of several allocations sees the failure of any */
        return NULL;
    }
    char *memory = arena->next + padding;
    char *end = memory + size * (size_t)count;
#ifdef STW_ASAN
    ASAN_UNPOISON_MEMORY_REGION(memory, (size_t)(end - memory));
    ASAN_POISON_MEMORY_REGION(end, RED_ZONE);
#endif
    *old_dirty = block->dirty;
    arena->next = end + RED_ZONE;
    if (arena->next > block->dirty) block->dirty = arena->next;
    return memory;
}

void *stw_arena_alloc(stw_arena *arena, size_t size, size_t alignment, int64_t count) {
    char *dirty;
    char *memory = take(arena, size, alignment, count, &dirty);
    if (memory == NULL) return NULL;
    char *end = memory + size * (size_t)count;
    if (memory < dirty) memset(memory, 0, (size_t)((end < dirty ? end : dirty) - memory));
    return memory;
}

void *stw_arena_alloc_dirty(stw_arena *arena, size_t size, size_t alignment, int64_t count) {
    char *dirty;
    return take(arena, size, alignment, count, &dirty);
}

/* Pages come back zeroed, so that nothing above the first of them is dirty any more. */
void stw_arena_trim(stw_arena *arena, int64_t least) {
    const size_t page = 4096;
    if (arena->block == NULL) return;
    char *start = (char *)arena->block, *dirty = arena->block->dirty;
    const size_t keep = ((size_t)(arena->next - start) + page - 1) / page * page;
    if (dirty - start < (int64_t)keep + least) return;
    const size_t given = ((size_t)(dirty - start) - keep + page - 1) / page * page;
#ifdef STW_ASAN
    ASAN_UNPOISON_MEMORY_REGION(arena->next, (size_t)(dirty - arena->next));
#endif
    if (madvise(start + keep, given, MADV_DONTNEED) == 0) arena->block->dirty = start + keep;
}

int64_t stw_arena_high_water(const stw_arena *arena) {
    return arena->block == NULL ? 0 : (int64_t)(arena->block->dirty - (char *)arena->block);
}

int64_t stw_arena_used(const stw_arena *arena) {
    return arena->block == NULL ? 0 : (int64_t)(arena->next - (char *)arena->block);
}
