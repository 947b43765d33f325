/* Signals. A search ends early when it is interrupted, and what it has found is kept; files are written whole or not at all.
 *
 * Ctrl-C, SIGTERM and SIGHUP (the terminal is gone) are held back in all threads, and one thread waits for them. There are no
 * handlers, because libraries may set their own: METIS takes SIGTERM for its errors and jumps, in whichever thread it comes. */
#define _POSIX_C_SOURCE 200809L /* sigaction, pthread_sigmask */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "search.h"

/* Some libraries start threads while they are loaded (OpenBLAS does), which would take our signals. The executable's own
 * .preinit_array comes before them, so that these threads inherit a mask that leaves the signals to us. */
static sigset_t mask_of_caller;

__attribute__((unused)) static void hold_while_loading(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &mask_of_caller);
}

void cli_interrupts_loaded(void) {
#ifdef __ELF__
    __attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(void) = hold_while_loading;
    pthread_sigmask(SIG_SETMASK, &mask_of_caller, NULL);
#endif
}

/* Who starts us with a signal ignored means it. */
static sigset_t interrupts(void) {
    static const int number[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction current;
    sigset_t set;
    sigemptyset(&set);
    for (int k = 0; k < 3; k++) {
        if (sigaction(number[k], NULL, &current) == 0 && current.sa_handler != SIG_IGN) sigaddset(&set, number[k]);
    }
    return set;
}

void cli_hold_interrupts(void) {
    sigset_t set = interrupts();
    sigaddset(&set, SIGUSR1); /* see wait_for_interrupts; it stays blocked */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void cli_release_interrupts(void) {
    const sigset_t set = interrupts();
    if (sigismember(&set, SIGTERM) == 1) signal(SIGTERM, SIG_DFL); /* whatever a library has left there */
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static pthread_t waiting; /* one search at a time */
static atomic_bool ended;

/* The next signal; false once the search has ended, which SIGUSR1 from ourselves says. One from elsewhere says nothing. */
static bool next_signal(const sigset_t *set, int *number) {
    while (sigwait(set, number) == 0) {
        if (*number != SIGUSR1) return true;
        if (atomic_load(&ended)) return false;
    }
    return false;
}

/* The first asks for the end of the search, the second ends the program at once. */
static void *wait_for_interrupts(void *cancel) {
    sigset_t set = interrupts();
    int number = 0;
    sigaddset(&set, SIGUSR1);
    if (!next_signal(&set, &number)) return NULL;
    stw_cancel_request(cancel);
    if (!next_signal(&set, &number)) return NULL;
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    return NULL;
}

stw_status cli_interrupt_begin(stw_cancel **out, stw_error *error) {
    TRY(stw_cancel_create(out, error));
    atomic_store(&ended, false);
    cli_hold_interrupts();
    if (pthread_create(&waiting, NULL, wait_for_interrupts, *out) == 0) return STW_OK;
    cli_release_interrupts();
    stw_cancel_destroy(*out);
    return stw_fail(error, STW_ERROR_MEMORY, "no thread can be started");
}

void cli_interrupt_end(stw_cancel *cancel) {
    atomic_store(&ended, true);
    pthread_kill(waiting, SIGUSR1);
    pthread_join(waiting, NULL);
    stw_cancel_destroy(cancel);
}
