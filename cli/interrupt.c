/* Signals. A search ends early when it is interrupted, and what it has found is kept; files are written whole or not at all. */
#define _POSIX_C_SOURCE 200809L /* sigaction, sigprocmask */
#include <signal.h>

#include "search.h"

static stw_cancel *volatile to_cancel; /* what a signal handler can reach */

static void on_signal(int number) {
    (void)number;
    if (to_cancel != NULL) stw_cancel_request(to_cancel);
}

/* Who starts us with a signal ignored means it. */
static void catch_signal(int number) {
    struct sigaction current;
    struct sigaction request = {.sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)}; /* the second one kills */
    sigemptyset(&request.sa_mask);
    if (sigaction(number, NULL, &current) == 0 && current.sa_handler != SIG_IGN) sigaction(number, &request, NULL);
}

stw_status cli_interrupt_begin(stw_cancel **out, stw_error *error) {
    TRY(stw_cancel_create(out, error));
    to_cancel = *out;
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    return STW_OK;
}

void cli_interrupt_end(stw_cancel *cancel) {
    to_cancel = NULL; /* handlers that are still set have nothing left to do */
    stw_cancel_destroy(cancel);
}

static void change_mask(int how) {
    sigset_t interrupts;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    sigaddset(&interrupts, SIGTERM);
    sigprocmask(how, &interrupts, NULL);
}

void cli_hold_interrupts(void) { change_mask(SIG_BLOCK); }
void cli_release_interrupts(void) { change_mask(SIG_UNBLOCK); }
