/* Pictures as SVG: text, bars and lines, in the classes of one style, which has a light and a dark look. A picture needs no other
 * file. Its text may come from files: it is escaped, and what XML may not hold is shown as "\x1b". */
#include <string.h>

#include "search.h"

/* The colours of reports (src/report/page/), which people who see fewer colours can tell apart. "s0" .. "s7": one of several. */
static const char style[] =
    ".stowage{font:13px system-ui,-apple-system,\"Segoe UI\",sans-serif}\n"
    ".stowage text{fill:#17202b}.stowage .faint{fill:#5d6875}.stowage .bold{font-weight:650}\n"
    ".stowage .end{text-anchor:end}.stowage .middle{text-anchor:middle}\n"
    ".page{fill:#fff}.lane{fill:#eef1f4}.plain{fill:#7fb2d9}.best{fill:#0b62c4}.default{fill:#98a2ae}\n"
    ".grid{stroke:#dde2e8}.rule{stroke:#98a2ae;stroke-width:1.5;stroke-dasharray:2 3}\n"
    ".bound{stroke:#c2185b;stroke-width:1.5;stroke-dasharray:6 4}.stowage .bounded{fill:#c2185b}\n"
    ".curve{fill:none;stroke-width:2.2;stroke-linejoin:round}\n"
    ".s0{fill:#0072b2;stroke:#0072b2}.s1{fill:#e69f00;stroke:#e69f00}.s2{fill:#009e73;stroke:#009e73}.s3{fill:#cc79a7;stroke:#"
    "cc79a7}\n"
    ".s4{fill:#56b4e9;stroke:#56b4e9}.s5{fill:#d55e00;stroke:#d55e00}.s6{fill:#8a7fd1;stroke:#8a7fd1}.s7{fill:#a89a00;stroke:#"
    "a89a00}\n"
    "rect{stroke:none}path.curve{fill:none}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".stowage text{fill:#e8edf2}.stowage "
    ".faint{fill:#9aa6b4}.page{fill:#12161c}.lane{fill:#1e252e}.plain{fill:#3d6f99}.best{fill:#6cb2ff}\n"
    ".default{fill:#5d6875}.grid{stroke:#2c3540}.rule{stroke:#7b8794}.bound{stroke:#ff6fa5}.stowage .bounded{fill:#ff6fa5}\n"
    ".s0{fill:#2b95d6;stroke:#2b95d6}}\n";

/* ---- text ---- */

/* A character as it is shown: 1 to 8 bytes of `out`. Two code points are UTF-8 and yet no XML. */
static int show(const char *at, const char *end, char out[8], int *taken) {
    const int wide = stw_show_character(at, end, out, taken);
    const unsigned code = wide == 3 && *taken == 3 ? stw_code_point(at, 3) : 0;
    if (code != 0xfffe && code != 0xffff) return wide;
    memcpy(out, code == 0xfffe ? "\\ufffe" : "\\uffff", 6);
    return 6;
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
