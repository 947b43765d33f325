/* Pictures as SVG: text, bars and lines, in the classes of one style, which has a light and a dark look. A picture needs no other
 * file. Its text may come from files: it is escaped, and what XML may not hold is shown as "\x1b". */
#include <string.h>

#include "search.h"

/* The colours of reports (src/report/page/), which people who see fewer colours can tell apart. "s0" .. "s7": one of several, as
 * a curve or as a "key". */
static const char style[] =
    ".stowage{font:13px system-ui,-apple-system,\"Segoe UI\",sans-serif}\n"
    ".stowage text{fill:#17202b}.stowage .faint{fill:#5d6875}.stowage .bounded{fill:#c2185b}\n"
    ".stowage .bold{font-weight:650}.stowage .end{text-anchor:end}.stowage .middle{text-anchor:middle}\n"
    ".stowage .page{fill:#fff}.stowage .lane{fill:#eef1f4}\n"
    ".stowage .plain{fill:#7fb2d9}.stowage .best{fill:#0b62c4}.stowage .default{fill:#98a2ae}\n"
    ".stowage .grid{stroke:#dde2e8}.stowage .rule{stroke:#98a2ae;stroke-width:1.5;stroke-dasharray:2 3}\n"
    ".stowage .bound{stroke:#c2185b;stroke-width:1.5;stroke-dasharray:6 4}\n"
    ".stowage .s0{color:#0072b2}.stowage .s1{color:#e69f00}.stowage .s2{color:#009e73}.stowage .s3{color:#cc79a7}\n"
    ".stowage .s4{color:#56b4e9}.stowage .s5{color:#d55e00}.stowage .s6{color:#8a7fd1}.stowage .s7{color:#a89a00}\n"
    ".stowage .key{fill:currentColor}\n"
    ".stowage .curve{fill:none;stroke:currentColor;stroke-width:2.2;stroke-linejoin:round}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".stowage text{fill:#e8edf2}.stowage .faint{fill:#9aa6b4}.stowage .bounded{fill:#ff6fa5}\n"
    ".stowage .page{fill:#12161c}.stowage .lane{fill:#1e252e}\n"
    ".stowage .plain{fill:#3d6f99}.stowage .best{fill:#6cb2ff}.stowage .default{fill:#5d6875}\n"
    ".stowage .grid{stroke:#2c3540}.stowage .rule{stroke:#7b8794}.stowage .bound{stroke:#ff6fa5}.stowage .s0{color:#2b95d6}\n"
    "}\n";

/* ---- text ---- */

/* A character as it is shown: 1 to 8 bytes of `out`. Two code points are UTF-8 and yet no XML. */
static int show(const char *at, const char *end, char out[8], int *taken) {
    static const char shown[2][6] = {{'\\', 'u', 'f', 'f', 'f', 'e'}, {'\\', 'u', 'f', 'f', 'f', 'f'}};
    const int wide = stw_show_character(at, end, out, taken);
    const unsigned code = wide == 3 && *taken == 3 ? stw_code_point(at, 3) : 0;
    if (code != 0xfffe && code != 0xffff) return wide;
    memcpy(out, shown[code & 1], sizeof shown[0]);
    return (int)sizeof shown[0];
}

static void put_escaped(FILE *file, const char *shown, int wide) {
    for (int k = 0; k < wide; k++) {
        switch (shown[k]) {
            case '<': fputs("&lt;", file); break;
            case '>': fputs("&gt;", file); break;
            case '&': fputs("&amp;", file); break;
            case '"': fputs("&quot;", file); break;
            default: fputc(shown[k], file);
        }
    }
}

/* About what a character takes of a line, in pixels: fonts differ. */
static double width_of(const char *shown, int wide) { return (unsigned char)shown[0] >= 0x80 ? 13.0 : 7.2 * wide; }

double cli_svg_text_width(const char *text) {
    const char *const end = text + strlen(text);
    double width = 0.0;
    for (int taken; text < end; text += taken) {
        char shown[8];
        const int wide = show(text, end, shown, &taken);
        width += width_of(shown, wide);
    }
    return width;
}

/* What has no room is cut off, with dots in its place. */
static void put_text(FILE *file, const char *text, double room) {
    const char *const end = text + strlen(text);
    const double dots = 10.0, most = cli_svg_text_width(text) <= room ? room : room - dots;
    double width = 0.0;
    for (int taken; text < end; text += taken) {
        char shown[8];
        const int wide = show(text, end, shown, &taken);
        width += width_of(shown, wide);
        if (width > most) {
            fputs("\xe2\x80\xa6", file);
            return;
        }
        put_escaped(file, shown, wide);
    }
}

/* Nothing is cut: it is seen when one points at it. */
static void put_tip(FILE *file, const char *text) {
    fputs("<title>", file);
    put_text(file, text, 1e9);
    fputs("</title>", file);
}

/* ---- elements ---- */

void cli_svg_begin(FILE *file, double width, double height, const char *title) {
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"stowage\" role=\"img\" width=\"%g\" height=\"%g\" viewBox=\"0 0 "
            "%g %g\">\n",
            width, height, width, height);
    put_tip(file, title);
    fprintf(file, "\n<style>\n%s</style>\n<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n", style);
}

void cli_svg_text(FILE *file, const char *classes, double x, double y, double room, const char *text) {
    fprintf(file, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", classes, x, y);
    if (cli_svg_text_width(text) > room) put_tip(file, text);
    put_text(file, text, room);
    fputs("</text>\n", file);
}

void cli_svg_bar(FILE *file, const char *classes, double x, double y, double width, double height, const char *tip) {
    fprintf(file, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", classes, x, y, width, height);
    if (tip == NULL) {
        fputs("/>\n", file);
        return;
    }
    fputc('>', file);
    put_tip(file, tip);
    fputs("</rect>\n", file);
}

void cli_svg_line(FILE *file, const char *classes, double x1, double y1, double x2, double y2) {
    fprintf(file, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", classes, x1, y1, x2, y2);
}

void cli_svg_end(FILE *file) { fputs("</svg>\n", file); }
