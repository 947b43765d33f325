/* Loaded in front of the program (LD_PRELOAD): makes one call of the system fail, as if memory or the disk were full.
 *
 *     STOWAGE_FAULT=alloc:120          the 120th allocation fails: malloc, calloc, realloc, aligned memory, mmap
 *     STOWAGE_FAULT=alloc:120+         it and all that follow
 *     STOWAGE_FAULT=rename:1:EACCES    the first rename fails with that number: ENOSPC (without a word), EIO, EACCES, EMFILE
 *     STOWAGE_FAULT_COUNT=FILE         writes there, at the end, how many calls of that kind there were
 *
 * Kinds: alloc, open, rename, fsync, close, fdopen, thread. Calls are counted from main() on: what libraries do while they are
 * loaded is theirs. Allocations within the OpenMP runtime are passed over, since it ends the program when one fails and nobody
 * can tell it not to; and those within METIS, whose memory is there before it is called (docs/adr/0015). (Writes that fail inside
 * of stdio cannot be met here; a limit on the size of files does it, see the test.) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static atomic_bool armed;
static atomic_long calls; /* of the kind that is to fail */
static const char *kind = "";
static long first, last; /* of the calls, those that fail; from 1 */
static int number;       /* errno */
static _Thread_local bool inside;
static _Thread_local int making_code; /* within a pthread_once */

static bool is_passed_over(const void *caller) {
    Dl_info info;
    if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) return false;
    return strstr(info.dli_fname, "libgomp") != NULL || strstr(info.dli_fname, "libmetis") != NULL;
}

/* Counts a call; true if it is to fail. */
static bool fails(const char *what, const void *caller) {
    if (!atomic_load(&armed) || inside || making_code > 0 || strcmp(what, kind) != 0) return false;
    inside = true;
    const bool counts = !is_passed_over(caller);
    inside = false;
    if (!counts) return false;
    const long call = atomic_fetch_add(&calls, 1) + 1;
    if (call < first || call > last) return false;
    errno = strcmp(what, "alloc") == 0 ? ENOMEM : number;
    return true;
}

#define CALLER     __builtin_return_address(0)
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* ---- memory ---- */

void *malloc(size_t size) { return fails("alloc", CALLER) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails("alloc", CALLER) ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return fails("alloc", CALLER) ? NULL : __libc_realloc(old, size); }
void *aligned_alloc(size_t alignment, size_t size) { return fails("alloc", CALLER) ? NULL : __libc_memalign(alignment, size); }
int posix_memalign(void **out, size_t alignment, size_t size) {
    void *memory = fails("alloc", CALLER) ? NULL : __libc_memalign(alignment, size);
    if (memory == NULL) return ENOMEM;
    *out = memory;
    return 0;
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    if (fails("alloc", CALLER)) return MAP_FAILED;
    return REAL(mmap)(address, size, protection, flags, file, offset);
}

/* ---- files and threads ---- */

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return fails("open", CALLER) ? -1 : REAL(open)(path, flags, mode);
}

int rename(const char *from, const char *to) { return fails("rename", CALLER) ? -1 : REAL(rename)(from, to); }
int fsync(int file) { return fails("fsync", CALLER) ? -1 : REAL(fsync)(file); }
FILE *fopen(const char *path, const char *mode) { return fails("open", CALLER) ? NULL : REAL(fopen)(path, mode); }
FILE *fdopen(int file, const char *mode) { return fails("fdopen", CALLER) ? NULL : REAL(fdopen)(file, mode); }

/* The file is closed all the same, as the system does. */
int close(int file) {
    const bool fault = fails("close", CALLER);
    const int kept = errno, result = REAL(close)(file);
    if (!fault) return result;
    errno = kept;
    return -1;
}

int fclose(FILE *file) {
    const bool fault = fails("close", CALLER);
    const int kept = errno, result = REAL(fclose)(file);
    if (!fault) return result;
    errno = kept;
    return EOF;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    return fails("thread", CALLER) ? EAGAIN : REAL(pthread_create)(thread, attributes, run, argument);
}

int pthread_once(pthread_once_t *control, void (*run)(void)) {
    making_code++;
    const int result = REAL(pthread_once)(control, run);
    making_code--;
    return result;
}

/* ---- the program ---- */

static void read_wish(void) {
    static char text[64];
    const char *wish = getenv("STOWAGE_FAULT");
    if (wish == NULL) return;
    snprintf(text, sizeof text, "%s", wish);
    char *colon = strchr(text, ':'), *end = NULL;
    if (colon == NULL) return;
    *colon = '\0';
    kind = text;
    first = last = strtol(colon + 1, &end, 10);
    if (*end == '+') {
        last = 1L << 60;
        end++;
    }
    number = strcmp(end, ":EIO") == 0      ? EIO
             : strcmp(end, ":EACCES") == 0 ? EACCES
             : strcmp(end, ":EMFILE") == 0 ? EMFILE
                                           : ENOSPC;
}

static int (*real_main)(int, char **, char **);

static int main_with_faults(int count, char **argument, char **environment) {
    read_wish();
    atomic_store(&armed, true);
    const int status = real_main(count, argument, environment);
    atomic_store(&armed, false);
    const char *path = getenv("STOWAGE_FAULT_COUNT");
    FILE *file = path == NULL ? NULL : REAL(fopen)(path, "w");
    if (file != NULL) {
        fprintf(file, "%ld\n", atomic_load(&calls));
        REAL(fclose)(file);
    }
    return status;
}

int __libc_start_main(int (*function)(int, char **, char **), int count, char **argument, void (*begin)(void), void (*end)(void),
                      void (*end_of_loader)(void), void *stack) {
    __typeof__(&__libc_start_main) start = (__typeof__(&__libc_start_main))dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = function;
    return start(main_with_faults, count, argument, begin, end, end_of_loader, stack);
}
