/* The pictures of --plot: what each method came to beside the bound, as bars (compare), and how the best plan of a search fell,
 * and who found it (optimize). Their numbers are those of the tables. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "plan/fuse.h"
#include "search.h"

enum { WIDTH = 920, MARGIN = 16 }; /* pixels: what README's column has */

/* ---- bars: a panel per graph and machine ---- */

enum { MOST_ACROSS = 3, GAP = 28, BAR = 14, PITCH = 21, NAMES = 118, VALUES = 82, HEAD = 46 };

typedef struct bars {
    const cli_row *row;                /* (row_count) */
    int32_t row_count, series, across; /* this many rows belong together; as many of them stand side by side */
    stw_objective objective;
    int digits; /* as in the table */
    FILE *file;
} bars;

static double largest_of(const cli_row *row) {
    double most = 0.0;
    for (int32_t k = 0; k < row->candidate_count; k++) {
        if (row->candidate[k].valid) most = fmax(most, row->candidate[k].value);
    }
    return most;
}

/* What a whole bar stands for: machines of one graph have one scale. */
static double scale_of(const bars *b, int32_t r, bool same_graph) {
    if (!same_graph) return largest_of(&b->row[r]);
    double most = 0.0;
    for (int32_t k = r - r % b->series; k < b->row_count && k < r - r % b->series + b->series; k++)
        most = fmax(most, largest_of(&b->row[k]));
    return most;
}

static bool is_default(const stw_candidate *c) { return strcmp(c->method, "single") == 0; }

/* A method's name, its bar and its value; what has no plan has the reason in their place. */
static void draw_bar(const bars *b, const cli_row *row, const stw_candidate *c, double x, double y, double room, double scale) {
    const bool best = c->valid && c->value == row->candidate[row->best].value;
    char name[60], text[80];
    snprintf(name, sizeof name, "%.40s%s", c->method, is_default(c) ? " (default)" : "");
    cli_svg_text(b->file, best ? "end bold" : "end", x + NAMES - 8, y + 12, NAMES, name);
    if (!c->valid) {
        snprintf(text, sizeof text, "no plan: %s", cli_reason_word(c->reason));
        cli_svg_text(b->file, "faint", x + NAMES, y + 12, room + VALUES, text);
        return;
    }
    const double width = scale > 0.0 ? room * c->value / scale : 0.0;
    cli_svg_bar(b->file,
                best            ? "best"
                : is_default(c) ? "default"
                                : "plain",
                x + NAMES, y, width, BAR, c->note[0] != '\0' ? c->note : NULL);
    cli_svg_text(b->file, best ? "bold" : "", x + NAMES + width + 6, y + 12, VALUES,
                 cli_row_value(row, b->objective, c->value, b->digits).text);
}

static void draw_panel(const bars *b, int32_t r, double x, double y, double width, bool same_graph) {
    const cli_row *row = &b->row[r];
    const double scale = scale_of(b, r, same_graph), room = width - NAMES - VALUES, bound = cli_row_bound(row, b->objective);
    char text[600];
    snprintf(text, sizeof text, "%.250s on %.250s", row->graph, row->machine);
    cli_svg_text(b->file, "bold", x, y + 13, width, text);
    for (int32_t k = 0; k < row->candidate_count; k++) draw_bar(b, row, &row->candidate[k], x, y + HEAD + PITCH * k, room, scale);
    if (!(bound > 0.0)) return;
    snprintf(text, sizeof text, "lower bound %s", cli_row_value(row, b->objective, bound, b->digits).text);
    cli_svg_text(b->file, "bounded", x + NAMES, y + 33, width - NAMES, text);
    const double at = x + NAMES + (scale > 0.0 ? room * fmin(1.0, bound / scale) : 0.0);
    cli_svg_line(b->file, "bound", at, y + 39, at, y + HEAD + PITCH * row->candidate_count);
}

static int32_t lines_of(const bars *b, bool same_graph) {
    const int32_t in_each = (b->series + b->across - 1) / b->across;
    return same_graph ? (b->row_count + b->series - 1) / b->series * in_each : (b->row_count + b->across - 1) / b->across;
}

static void draw_bars(const bars *b, const char *footer, bool same_graph) {
    int32_t methods = 0;
    for (int32_t r = 0; r < b->row_count; r++) {
        if (b->row[r].candidate_count > methods) methods = b->row[r].candidate_count;
    }
    const double pitch = HEAD + PITCH * methods + GAP, width = (WIDTH - 2.0 * MARGIN - GAP * (b->across - 1)) / b->across;
    const double height = 2 * MARGIN + pitch * lines_of(b, same_graph) + 8;
    cli_svg_begin(b->file, WIDTH, height, cli_words[b->objective].in_full);
    for (int32_t r = 0; r < b->row_count; r++) {
        const int32_t group = same_graph ? r / b->series : 0, within = same_graph ? r % b->series : r;
        const int32_t line = group * ((b->series + b->across - 1) / b->across) + within / b->across;
        draw_panel(b, r, MARGIN + (width + GAP) * (within % b->across), MARGIN + pitch * line, width, same_graph);
    }
    cli_svg_text(b->file, "faint", MARGIN, height - MARGIN, WIDTH - 2 * MARGIN, footer);
    cli_svg_end(b->file);
}

stw_status cli_plot_methods(const cli_row *row, int32_t row_count, int32_t machines, const stw_settings *settings,
                            const char *path, stw_error *error) {
    const bool same_graph = machines > 1;
    const int32_t series = same_graph ? machines : row_count, lines = (series + MOST_ACROSS - 1) / MOST_ACROSS;
    bars b = {.row = row,
              .row_count = row_count,
              .series = series > 0 ? series : 1,
              .across = lines > 0 ? (series + lines - 1) / lines : 1,
              .objective = settings->objective,
              .digits = row_count == 1 ? 5 : 4};
    char footer[200];
    stw_output output;
    snprintf(footer, sizeof footer, "%s by method, each with %s; seed %llu. Dashed: no plan is below.",
             cli_words[settings->objective].in_full, cli_budget(settings).text, (unsigned long long)settings->seed);
    TRY(stw_output_open(&output, path, error));
    b.file = output.file;
    draw_bars(&b, footer, same_graph);
    return stw_output_commit(&output, error);
}

/* ---- a curve: the best plan so far, over the work of the search ---- */

enum { LEFT = 84, TOP = 66, PLOT = 300, STRIP = 7, COLOURS = 8, MOST_TICKS = 24 };

typedef struct point { /* a plan that was better than all before */
    double x, value;   /* evaluations or seconds; of the objective, in the unit that is shown */
    int32_t who;       /* the candidate */
} point;

typedef struct curve {
    const cli_row *row;
    stw_objective objective;
    bool in_time; /* x is seconds */
    point *point; /* (count) */
    int32_t count;
    double *end;                   /* (candidates) where each method ends */
    int32_t *colour;               /* (candidates) or -1: it found nothing better */
    double first, last, low, high; /* ranges of x and of values */
    double bound, grouped,
        standard; /* no plan is below; none with the groups of the best; the default. NaN: not in the picture */
    FILE *file;
} curve;

static double shown_value(const curve *c, double value) {
    return c->objective == STW_OBJECTIVE_MEMORY ? value / c->row->size_scale : value;
}

/* Methods run one after the other; each counts from its own beginning. */
static stw_status find_points(curve *c, stw_arena *arena, stw_error *error) {
    const cli_row *row = c->row;
    int64_t most = 0;
    int32_t colours = 0;
    double begin = 0.0, best = INFINITY;
    for (int32_t k = 0; k < row->candidate_count; k++) most += row->candidate[k].found_count;
    STW_TRY_NEW(arena, c->point, most, error);
    STW_TRY_NEW(arena, c->end, row->candidate_count, error);
    STW_TRY_NEW(arena, c->colour, row->candidate_count, error);
    for (int32_t k = 0; k < row->candidate_count; k++) {
        const stw_candidate *candidate = &row->candidate[k];
        c->colour[k] = -1;
        for (int32_t i = 0; i < candidate->found_count; i++) {
            const stw_found *found = &candidate->found[i];
            if (found->value >= best) continue;
            if (c->colour[k] < 0) c->colour[k] = colours++;
            best = found->value;
            const double x = begin + (c->in_time ? found->seconds : (double)found->evaluations);
            c->point[c->count++] = (point){x, shown_value(c, best), k};
        }
        begin += c->in_time ? candidate->search_s : (double)candidate->evaluations;
        c->end[k] = begin;
    }
    return STW_OK;
}

/* What holds for plans with all groups, where these are searched for too; 0: not known. */
static double open_bound(const cli_row *row, const stw_settings *settings) {
    const bool open = (settings->tasks & STW_TASK_FUSION) != 0 && settings->fusion != STW_FUSION_NONE;
    if (!open || settings->objective == STW_OBJECTIVE_MEMORY) return cli_row_bound(row, settings->objective);
    return settings->objective == STW_OBJECTIVE_THROUGHPUT ? row->bounds.load_fusion_s : row->bounds.fusion_s;
}

/* Both axes are logarithmic: the last per cent takes most of a search. A bound far below would flatten the curve. */
static void find_ranges(curve *c, const stw_settings *settings) {
    const double bound = shown_value(c, open_bound(c->row, settings)), best = c->point[c->count - 1].value;
    const stw_candidate *standard = &c->row->candidate[0];
    c->last = c->row->candidate_count > 0 ? c->end[c->row->candidate_count - 1] : 0.0;
    c->first = fmax(c->point[0].x, c->in_time ? 1e-4 * c->last : 1.0);
    if (!(c->first > 0.0)) c->first = 1e-6;
    c->last = fmax(c->last, 2.0 * c->first);
    const double grouped = shown_value(c, cli_row_bound(c->row, c->objective));
    c->bound = bound > best / 20.0 ? bound : NAN;
    c->grouped = grouped > fmax(bound, best / 20.0) ? grouped : NAN;
    c->standard = standard->valid ? shown_value(c, standard->value) : NAN;
    c->high = 1.06 * fmax(c->point[0].value, isnan(c->standard) ? 0.0 : c->standard);
    c->low = fmin(best, fmin(c->bound, c->grouped)) / 1.06;             /* which leaves NaN out */
    if (!(c->low > 0.0)) c->low = c->high > 0.0 ? c->high / 10.0 : 0.5; /* a plan that takes nothing */
    if (!(c->high > c->low)) c->high = 2.0 * c->low;
}

static double x_of(const curve *c, double x) {
    const double share = log(fmax(x, c->first) / c->first) / log(c->last / c->first);
    return LEFT + fmin(share, 1.0) * (WIDTH - LEFT - MARGIN);
}

static double y_of(const curve *c, double value) {
    return TOP + PLOT * (1.0 - log(fmax(value, c->low) / c->low) / log(c->high / c->low));
}

/* Round numbers from `low` to `high`: evenly spaced where they are near each other, else 1, 2, 5, 10, ... or powers of ten. */
static int find_ticks(double low, double high, double *out) {
    static const double digit[] = {1.0, 2.0, 5.0};
    int count = 0;
    if (high / low < 8.0) {
        const double rough = (high - low) / 5.0, power = pow(10.0, floor(log10(rough)));
        const double step = rough <= power         ? power
                            : rough <= 2.0 * power ? 2.0 * power
                            : rough <= 5.0 * power ? 5.0 * power
                                                   : 10.0 * power;
        for (double k = ceil(low / step); k * step <= high && count < MOST_TICKS; k++) out[count++] = k * step;
        return count;
    }
    const int digits = high / low < 300.0 ? 3 : 1;
    for (double power = pow(10.0, floor(log10(low))); power <= high && count < MOST_TICKS; power *= 10.0) {
        for (int d = 0; d < digits && count < MOST_TICKS; d++) {
            if (digit[d] * power >= low && digit[d] * power <= high) out[count++] = digit[d] * power;
        }
    }
    return count;
}

static void draw_axes(const curve *c) {
    double tick[MOST_TICKS];
    int count = find_ticks(c->low, c->high, tick);
    for (int k = 0; k < count; k++) {
        const double y = y_of(c, tick[k]);
        cli_svg_line(c->file, "grid", LEFT, y, WIDTH - MARGIN, y);
        cli_svg_text(c->file, "faint end", LEFT - 8, y + 4, LEFT, cli_value(c->objective, tick[k], 3).text);
    }
    count = find_ticks(c->first, c->last, tick);
    for (int k = 0; k < count; k++) {
        const cli_text text = c->in_time ? cli_time(tick[k], 2) : cli_count((int64_t)llround(tick[k]));
        cli_svg_text(c->file, "faint middle", fmin(x_of(c, tick[k]), WIDTH - MARGIN - 14), TOP + PLOT + STRIP + 20, LEFT,
                     text.text);
    }
    cli_svg_text(c->file, "faint middle", (LEFT + WIDTH - MARGIN) / 2.0, TOP + PLOT + STRIP + 40, WIDTH,
                 c->in_time ? "time of the methods, one after the other" : "evaluations of the methods, one after the other");
}

/* Below the curve: which method ran when. */
static void draw_strip(const curve *c) {
    double begin = 0.0;
    for (int32_t k = 0; k < c->row->candidate_count; begin = c->end[k++]) {
        const double from = x_of(c, begin), to = x_of(c, c->end[k]);
        char classes[12] = "lane";
        if (c->colour[k] >= 0) snprintf(classes, sizeof classes, "key s%d", c->colour[k] % COLOURS);
        if (to > from) cli_svg_bar(c->file, classes, from, TOP + PLOT + 2, to - from, STRIP - 2, c->row->candidate[k].method);
    }
}

static void draw_level(const curve *c, const char *line, const char *text_class, double value, const char *what, bool at_end) {
    char text[120];
    if (isnan(value)) return;
    snprintf(text, sizeof text, "%s %s", what, cli_value(c->objective, value, 5).text);
    cli_svg_line(c->file, line, LEFT, y_of(c, value), WIDTH - MARGIN, y_of(c, value));
    cli_svg_text(c->file, text_class, at_end ? WIDTH - MARGIN - 4 : LEFT + 6, y_of(c, value) - 5, WIDTH, text);
}

/* A plan holds until a better one is found; what falls to it has the colour of who found it. */
static void draw_curve(const curve *c) {
    for (int32_t k = 0; k < c->count; k++) {
        const point *p = &c->point[k];
        const double x = x_of(c, p->x), next = k + 1 < c->count ? x_of(c, p[1].x) : WIDTH - MARGIN;
        if (k == 0 || p[-1].who != p->who) {
            fprintf(c->file, "%s<path class=\"curve s%d\" d=\"M%.1f %.1f", k == 0 ? "" : "\"/>\n", c->colour[p->who] % COLOURS, x,
                    k == 0 ? y_of(c, p->value) : y_of(c, p[-1].value));
        }
        fprintf(c->file, "V%.1fH%.1f", y_of(c, p->value), next);
    }
    fputs("\"/>\n", c->file);
}

/* The last, and so the best, that the method found. */
static double last_of(const curve *c, int32_t who) {
    double value = NAN;
    for (int32_t k = 0; k < c->count; k++) {
        if (c->point[k].who == who) value = c->point[k].value;
    }
    return value;
}

/* Those that found a better plan, each with what it came to, over as many lines as that takes. Without a file nothing is drawn:
 * it returns how high they are. */
static double draw_legend(const curve *c, double top) {
    double x = LEFT, y = top;
    for (int32_t k = 0; k < c->row->candidate_count; k++) {
        char text[120], classes[12];
        if (c->colour[k] < 0) continue;
        snprintf(text, sizeof text, "%.40s %s", c->row->candidate[k].method, cli_value(c->objective, last_of(c, k), 5).text);
        snprintf(classes, sizeof classes, "key s%d", c->colour[k] % COLOURS);
        const double width = 38.0 + cli_svg_text_width(text);
        if (x > LEFT && x + width > WIDTH - MARGIN) x = LEFT, y += PITCH;
        if (c->file != NULL) {
            cli_svg_bar(c->file, classes, x, y, 12, 12, NULL);
            cli_svg_text(c->file, k == c->row->best ? "bold" : "", x + 18, y + 11, WIDTH, text);
        }
        x += width;
    }
    return y + PITCH - top;
}

static void draw_search(const curve *c, double height, const char *budget) {
    const stw_candidate *best = &c->row->candidate[c->row->best];
    const char *what = cli_words[c->objective].quantity;
    char title[700];
    snprintf(title, sizeof title, "%.250s on %.250s: %s of the best plan so far", c->row->graph, c->row->machine, what);
    cli_svg_begin(c->file, WIDTH, height, title);
    cli_svg_text(c->file, "bold", MARGIN, MARGIN + 13, WIDTH - 2 * MARGIN, title);
    snprintf(title, sizeof title, "%s by %s, budget %s", cli_row_value(c->row, c->objective, best->value, 5).text, best->method,
             budget);
    cli_svg_text(c->file, "faint", MARGIN, MARGIN + 33, WIDTH - 2 * MARGIN, title);
    draw_axes(c);
    draw_level(c, "rule", "faint end", c->standard, "default", true);
    draw_level(c, "bound", "bounded", c->bound, "no plan is below", false);
    const bool apart = isnan(c->bound) || y_of(c, c->bound) - y_of(c, c->grouped) > 16.0;
    if (apart) draw_level(c, "bound", "bounded", c->grouped, "none with the groups of the best is below", false);
    draw_curve(c);
    draw_strip(c);
    draw_legend(c, TOP + PLOT + STRIP + 56);
    cli_svg_end(c->file);
}

stw_status cli_plot_search(const cli_row *row, const stw_settings *settings, stw_arena arena, const char *path,
                           stw_error *error) {
    curve c = {.row = row, .objective = settings->objective, .in_time = !row->repeats};
    stw_output output;
    TRY(find_points(&c, &arena, error));
    if (c.count == 0) return stw_fail(error, STW_ERROR_NO_PLAN, "there is no plan to draw");
    find_ranges(&c, settings);
    const double height = TOP + PLOT + STRIP + 56 + draw_legend(&c, 0.0) + MARGIN;
    TRY(stw_output_open(&output, path, error));
    c.file = output.file;
    draw_search(&c, height, cli_budget(settings).text);
    return stw_output_commit(&output, error);
}
