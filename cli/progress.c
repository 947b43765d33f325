/* The progress of a search: one line, drawn again in place. Only on a terminal; plain characters, so that NO_COLOR and simple
 * terminals need nothing special. */
#define _DEFAULT_SOURCE /* TIOCGWINSZ, isatty */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "search.h"

static const double REDRAW_S = 0.1;
enum { MAX_LINE = 240 };

static int32_t terminal_width(void) {
    struct winsize size = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col < MAX_LINE ? size.ws_col : MAX_LINE;
}

void cli_progress_begin(const cli_call *call, cli_progress *progress, stw_objective objective) {
    const char *terminal = getenv("TERM");
    const bool dumb = terminal != NULL && strcmp(terminal, "dumb") == 0;
    const bool shown = !dumb && !cli_is_set(call, "quiet") && isatty(STDERR_FILENO) == 1;
    *progress = (cli_progress){.objective = objective, .size_scale = 1.0, .shown = shown};
}

/* The share of the budget that is gone; with two budgets, of the one that ends first. */
static double share_done(const cli_progress *progress, const stw_progress *now) {
    double share = 0.0;
    if (progress->update_budget > 0) share = (double)progress->updates / (double)progress->update_budget;
    if (now->budget_s > 0.0) share = fmax(share, now->elapsed_s / now->budget_s);
    if (now->evaluation_budget > 0) share = fmax(share, (double)now->evaluations / (double)now->evaluation_budget);
    return fmin(share, 1.0);
}

typedef struct line { /* pieces are added as long as they fit, so a narrow terminal gets a shorter line */
    char text[MAX_LINE + 1];
    int32_t length, room;
    bool full;
} line;

static void add(line *l, const char *text) {
    char clean[120];
    snprintf(clean, sizeof clean, "%s", text);
    stw_escape_text(clean, sizeof clean);
    const int32_t gap = l->length > 0 ? 2 : 0, length = (int32_t)strlen(clean);
    l->full |= l->length + gap + length > l->room;
    if (l->full) return;
    l->length += snprintf(l->text + l->length, sizeof l->text - (size_t)l->length, "%*s%s", gap, "", clean);
}

static void add_bar(line *l, double share) {
    char text[100];
    snprintf(text, sizeof text, "[%s] %3.0f %%", cli_bar(share).text, floor(100.0 * share));
    add(l, text);
}

static cli_text value_of(const cli_progress *progress, double value) {
    const bool is_size = progress->objective == STW_OBJECTIVE_MEMORY;
    return cli_value(progress->objective, is_size ? value / progress->size_scale : value, 4);
}

static void add_best(line *l, const cli_progress *progress, const stw_progress *now) {
    char text[100];
    if (!now->has_plan) {
        add(l, "no valid plan yet");
        return;
    }
    snprintf(text, sizeof text, "best %s", value_of(progress, now->best_value).text);
    add(l, text);
    if (progress->objective != STW_OBJECTIVE_TIME || now->lower_bound_s <= 0.0) return;
    snprintf(text, sizeof text, "gap %s", cli_percent(now->best_step_s / now->lower_bound_s - 1.0).text);
    add(l, text);
}

static void add_updates(line *l, const cli_progress *progress) {
    char text[100];
    snprintf(text, sizeof text, "update %s", cli_count(progress->updates).text);
    add(l, text);
    if (isnan(progress->greedy)) return;
    snprintf(text, sizeof text, "greedy %s", value_of(progress, progress->greedy).text);
    add(l, text);
}

static void add_rest(line *l, const stw_progress *now) {
    char text[100];
    if (now->budget_s > 0.0) {
        snprintf(text, sizeof text, "%.0f s left", ceil(fmax(0.0, now->budget_s - now->elapsed_s)));
    } else {
        snprintf(text, sizeof text, "%s evaluations", cli_count(now->evaluations).text);
    }
    add(l, text);
}

/* True when it is time to draw the line again. */
static bool is_due(cli_progress *progress) {
    const double clock_s = stw_now_s();
    if (!progress->shown || (progress->drawn_s > 0.0 && clock_s - progress->drawn_s < REDRAW_S)) return false;
    progress->drawn_s = clock_s;
    return true;
}

static line begin_line(double share) {
    line l = {.room = terminal_width() - 1}; /* the last column would wrap on some terminals */
    add_bar(&l, share);
    return l;
}

static void show_line(cli_progress *progress, const line *l) {
    fprintf(stderr, "\r%s%*s", l->text, progress->width > l->length ? progress->width - l->length : 0, "");
    fflush(stderr);
    progress->width = l->length;
}

void cli_progress_draw(void *context, const stw_progress *now) {
    cli_progress *progress = context;
    if (!is_due(progress)) return;
    line l = begin_line(share_done(progress, now));
    if (progress->what != NULL) add(&l, progress->what);
    if (now->method != NULL && !progress->trains) add(&l, now->method);
    if (progress->trains) add_updates(&l, progress);
    add_best(&l, progress, now);
    add_rest(&l, now);
    show_line(progress, &l);
}

void cli_progress_say(cli_progress *progress, double share, const char *text) {
    if (!is_due(progress)) return;
    line l = begin_line(share);
    add(&l, text);
    show_line(progress, &l);
}

void cli_progress_clear(cli_progress *progress) {
    if (progress->width == 0) return;
    fprintf(stderr, "\r%*s\r", progress->width, "");
    fflush(stderr);
    progress->width = 0;
}
