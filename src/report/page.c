/* The page around the data. Its sources, in page/, are bytes within the library; what this file adds is the content security
 * policy: the one style and the one script of the page are named by their hashes, so that a browser runs nothing else, and
 * nothing is fetched from anywhere. */
#include <string.h>

#include "report/report.h"

/* The files of page/, one after the other; CMakeLists.txt has the folder and their names for dependencies. */
#define EMBED(symbol, file)                                            \
    __asm__(                                                           \
        ".pushsection .rodata\n"                                       \
        ".globl stw_page_" #symbol "_begin\n.hidden stw_page_" #symbol \
        "_begin\n"                                                     \
        "stw_page_" #symbol                                            \
        "_begin:\n"                                                    \
        ".incbin \"" STW_REPORT_PAGE "/" file                          \
        "\"\n"                                                         \
        ".globl stw_page_" #symbol "_end\n.hidden stw_page_" #symbol   \
        "_end\n"                                                       \
        "stw_page_" #symbol                                            \
        "_end:\n"                                                      \
        ".byte 0\n.popsection\n");                                     \
    extern const char stw_page_##symbol##_begin[], stw_page_##symbol##_end[]

EMBED(html, "page.html");
EMBED(style, "style.css");
EMBED(data, "data.js");
EMBED(text, "text.js");
EMBED(raster, "raster.js");
EMBED(timeline, "timeline.js");
EMBED(memory, "memory.js");
EMBED(follow, "follow.js");
EMBED(area, "area.js");
EMBED(summary, "summary.js");
EMBED(modules, "modules.js");
EMBED(candidates, "candidates.js");
EMBED(main, "main.js");

#define FILE_OF(symbol) ((stw_str){stw_page_##symbol##_begin, stw_page_##symbol##_end - stw_page_##symbol##_begin})

/* The script is one: its files share a scope, which no other script sees. */
enum { SCRIPT_PARTS = 13 };
static void list_script(stw_str part[SCRIPT_PARTS]) {
    const stw_str parts[SCRIPT_PARTS] = {STW_STR("(function () {\n\"use strict\";\n"),
                                         FILE_OF(data),
                                         FILE_OF(text),
                                         FILE_OF(raster),
                                         FILE_OF(timeline),
                                         FILE_OF(memory),
                                         FILE_OF(follow),
                                         FILE_OF(area),
                                         FILE_OF(summary),
                                         FILE_OF(modules),
                                         FILE_OF(candidates),
                                         FILE_OF(main),
                                         STW_STR("})();\n")};
    memcpy(part, parts, sizeof parts);
}

enum { HASH_TEXT = 45 }; /* 32 bytes as base64, and a NUL */
static void hash_text(const stw_str *part, int32_t count, char out[HASH_TEXT]) {
    const char *text[SCRIPT_PARTS];
    int64_t length[SCRIPT_PARTS];
    uint8_t digest[32];
    for (int32_t k = 0; k < count; k++) {
        text[k] = part[k].p;
        length[k] = part[k].length;
    }
    stw_sha256(text, length, count, digest);
    stw_base64(digest, sizeof digest, out);
}

static void put(FILE *file, stw_str text) { fwrite(text.p, 1, (size_t)text.length, file); }

static void put_policy(FILE *file) {
    stw_str script[SCRIPT_PARTS];
    const stw_str style = FILE_OF(style);
    char script_hash[HASH_TEXT], style_hash[HASH_TEXT];
    list_script(script);
    hash_text(script, SCRIPT_PARTS, script_hash);
    hash_text(&style, 1, style_hash);
    fprintf(
        file,
        "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'",
        script_hash, style_hash);
}

static stw_status put_marked(stw_str mark, const stw_payload *payload, stw_str head, FILE *file, stw_error *error) {
    stw_str script[SCRIPT_PARTS];
    list_script(script);
    if (stw_str_is(mark, "POLICY")) put_policy(file);
    if (stw_str_is(mark, "STYLE")) put(file, FILE_OF(style));
    if (stw_str_is(mark, "DATA")) return stw_payload_write(payload, head, file, error);
    for (int k = 0; stw_str_is(mark, "SCRIPT") && k < SCRIPT_PARTS; k++) put(file, script[k]);
    return STW_OK;
}

/* The HTML has marks such as @STYLE@, where something is put in. */
stw_status stw_report_page(const stw_payload *payload, stw_str head, FILE *file, stw_error *error) {
    stw_str left = FILE_OF(html);
    const char *mark;
    while ((mark = memchr(left.p, '@', (size_t)left.length)) != NULL) {
        const char *begin = mark + 1, *end = memchr(begin, '@', (size_t)(left.p + left.length - begin));
        if (end == NULL) break;
        put(file, (stw_str){left.p, mark - left.p});
        TRY(put_marked((stw_str){begin, end - begin}, payload, head, file, error));
        left = (stw_str){end + 1, left.p + left.length - (end + 1)};
    }
    put(file, left);
    return STW_OK;
}
