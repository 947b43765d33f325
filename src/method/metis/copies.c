#define _GNU_SOURCE /* dlmopen, dladdr */
#include "method/metis/copies.h"

#include <stdlib.h>

#if defined(STW_HAVE_METIS) && defined(__GLIBC__)

#include <dlfcn.h>
#include <metis.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

enum { MOST_COPIES = 4 }; /* glibc has room for some ten, of which others may want one */
enum { SIGNALS = 2 };
static const int signals[SIGNALS] = {SIGABRT, SIGTERM}; /* that METIS catches */

struct stw_metis_copies {
    int32_t count;
    void *handle[MOST_COPIES];
    stw_metis_copy copy[MOST_COPIES];
};

/* Handlers belong to the process, and so does what is known of them: each call saves what it finds and restores it, and calls
 * that overlap, whoever makes them, would restore each other's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int32_t running;
static struct sigaction before[SIGNALS]; /* while some run */

/* dlsym's results are objects to ISO C and functions to POSIX. */
static bool find(void *handle, const char *name, void *out) {
    void *symbol = dlsym(handle, name);
    memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load(const char *path, void **handle, stw_metis_copy *copy) {
    *handle = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
    if (*handle == NULL) return false;
    if (find(*handle, "METIS_PartGraphRecursive", &copy->recursive) && find(*handle, "METIS_PartGraphKway", &copy->at_once) &&
        find(*handle, "malloc", &copy->malloc) && find(*handle, "free", &copy->free))
        return true;
    dlclose(*handle);
    return false;
}

/* The file that METIS is in; "" where it is a part of the program. */
static const char *own_path(void) {
    int (*function)(idx_t *, idx_t *, idx_t *, idx_t *, idx_t *, idx_t *, idx_t *, idx_t *, real_t *, real_t *, idx_t *, idx_t *,
                    idx_t *) = METIS_PartGraphRecursive;
    const void *address;
    Dl_info info;
    memcpy(&address, &function, sizeof address);
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) return "";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash != NULL && strncmp(slash, "/libmetis.", 10) == 0 ? info.dli_fname : "";
}

stw_status stw_metis_copies_open(int32_t threads, stw_metis_copies **out, stw_error *error) {
    stw_metis_copies *c = *out = calloc(1, sizeof *c);
    if (c == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    const int32_t wanted = threads < 2 ? 0 : threads < MOST_COPIES ? threads : MOST_COPIES;
    const char *path = own_path();
    while (*path != '\0' && c->count < wanted && load(path, &c->handle[c->count], &c->copy[c->count])) c->count++;
    return STW_OK;
}

void stw_metis_copies_close(stw_metis_copies *c) {
    if (c == NULL) return;
    for (int32_t k = 0; k < c->count; k++) dlclose(c->handle[k]);
    free(c);
}

int32_t stw_metis_copies_count(const stw_metis_copies *c) { return c == NULL ? 0 : c->count; }

const stw_metis_copy *stw_metis_copy_at(const stw_metis_copies *c, int32_t index) { return &c->copy[index]; }

void stw_metis_enter(void) {
    pthread_mutex_lock(&lock);
    for (int k = 0; k < SIGNALS && running == 0; k++) sigaction(signals[k], NULL, &before[k]);
    running++;
    pthread_mutex_unlock(&lock);
}

void stw_metis_leave(void) {
    pthread_mutex_lock(&lock);
    running--;
    for (int k = 0; k < SIGNALS && running == 0; k++) sigaction(signals[k], &before[k], NULL);
    pthread_mutex_unlock(&lock);
}

#else

stw_status stw_metis_copies_open(int32_t threads, stw_metis_copies **out, stw_error *error) {
    (void)threads, (void)error;
    *out = NULL;
    return STW_OK;
}

void stw_metis_copies_close(stw_metis_copies *copies) { (void)copies; }
int32_t stw_metis_copies_count(const stw_metis_copies *copies) { return (void)copies, 0; }

const stw_metis_copy *stw_metis_copy_at(const stw_metis_copies *copies, int32_t index) { return (void)copies, (void)index, NULL; }
void stw_metis_enter(void) {} /* one call at a time restores what it finds */
void stw_metis_leave(void) {}

#endif
