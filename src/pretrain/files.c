/* Graphs from files. Each is read once, when the corpus is opened; draws share it. */
#define _DEFAULT_SOURCE /* opendir */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "import/import.h"
#include "pretrain/corpus_parts.h"

/* Models that are of a family without its name. */
static const struct { const char *prefix, *family; } kin[] = {{"llama", "gpt"}, {"vit", "bert"}};

/* The family whose name the text begins with, the longest of several; NULL: none. */
static const char *family_of_text(stw_str text) {
    const char *found = NULL;
    for (size_t k = 0; k < sizeof kin / sizeof kin[0]; k++) {
        if (stw_str_starts(text, kin[k].prefix)) found = kin[k].family;
    }
    size_t longest = 0;
    for (int32_t k = 0; stw_family_at(k) != NULL; k++) {
        const char *name = stw_family_at(k)->name;
        if (!stw_str_starts(text, name) || strlen(name) <= longest) continue;
        found = name;
        longest = strlen(name);
    }
    return found;
}

static stw_str name_of_path(stw_str path) {
    int64_t from = path.length;
    while (from > 0 && path.p[from - 1] != '/') from--;
    return (stw_str){path.p + from, path.length - from};
}

/* What the file says, else what it or its graph is called; else the file's own word. */
static stw_str family_of(const stw_graph *graph, stw_str path) {
    const char *known = family_of_text(graph->family);
    if (known == NULL) known = family_of_text(graph->name);
    if (known == NULL) known = family_of_text(name_of_path(path));
    if (known != NULL) return stw_str_of(known);
    return graph->family.length > 0 ? graph->family : STW_STR("other");
}

bool stw_corpus_file_is(const stw_corpus_file *file, stw_str family) {
    return stw_str_equal(file->family, family) || stw_str_equal(file->graph->family, family);
}

static stw_status keep_file(stw_corpus *corpus, stw_str path, stw_graph *graph, stw_corpus_file **list, stw_error *error) {
    if (graph->op_count == 0) return stw_fail(error, STW_ERROR_INPUT, "%s: the graph has no ops; leave it out", path.p);
    stw_corpus_file *file;
    STW_TRY_NEW(&corpus->arena, file, 1, error);
    /* Where the graph came with its machine, its times are of that machine's devices. */
    const stw_machine *base = graph->machine != NULL ? graph->machine : corpus->base;
    TRY(stw_base_times(graph, base, &corpus->arena, &file->us, error));
    file->path = path;
    file->family = family_of(graph, path);
    file->graph = graph;
    file->next = *list;
    *list = file;
    return STW_OK;
}

static stw_status read_file(stw_corpus *corpus, stw_str path, stw_corpus_file **list, stw_error *error) {
    stw_graph *graph;
    stw_read_options reading;
    stw_arena scratch = corpus->arena;
    TRY(stw_read_options_parse(NULL, &scratch, &reading, error));
    reading.limits = corpus->limits;
    TRY(stw_graph_read(&(stw_graph_source){.path = path.p}, &reading, &graph, error));
    const stw_status status = keep_file(corpus, path, graph, list, error);
    if (status != STW_OK) stw_graph_destroy(graph);
    return status;
}

static bool is_graph_name(stw_str name) {
    static const char *const endings[] = {".json", ".json.gz", ".json.zst", ".onnx", ".pb", ".pbtxt"};
    for (size_t k = 0; k < sizeof endings / sizeof endings[0]; k++) {
        if (name.length > 0 && name.p[0] != '.' && stw_str_ends(name, endings[k])) return true;
    }
    return false;
}

static int by_text(const void *a, const void *b) { return strcmp(((const stw_str *)a)->p, ((const stw_str *)b)->p); }

/* Paths of the graph files in a folder; with `out` NULL it only counts. */
static stw_status list_folder(stw_arena *arena, stw_str folder, stw_str *out, int64_t room, int64_t *count, stw_error *error) {
    DIR *open = opendir(folder.p);
    *count = 0;
    if (open == NULL) return stw_fail(error, STW_ERROR_IO, "%s: the folder cannot be read", folder.p);
    for (struct dirent *entry = readdir(open); entry != NULL && *count < room; entry = readdir(open)) {
        if (!is_graph_name(stw_str_of(entry->d_name))) continue;
        if (out != NULL) out[*count] = stw_str_format(arena, "%s/%s", folder.p, entry->d_name);
        ++*count;
    }
    closedir(open);
    for (int64_t k = 0; out != NULL && k < *count; k++) {
        if (out[k].p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for the names of files");
    }
    return STW_OK;
}

static stw_status read_folder(stw_corpus *corpus, stw_str folder, stw_corpus_file **list, stw_error *error) {
    int64_t count;
    stw_str *path;
    while (folder.length > 1 && folder.p[folder.length - 1] == '/') folder.length--;
    folder = stw_str_copy(&corpus->arena, folder);
    if (folder.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for the name of a folder");
    TRY(list_folder(&corpus->arena, folder, NULL, INT64_MAX, &count, error));
    if (count == 0) return stw_fail(error, STW_ERROR_INPUT, "%s: the folder has no graph files (.json, .json.gz, ...)", folder.p);
    STW_TRY_NEW(&corpus->arena, path, count, error);
    TRY(list_folder(&corpus->arena, folder, path, count, &count, error));
    qsort(path, (size_t)count, sizeof *path, by_text);
    for (int64_t k = 0; k < count; k++) TRY(read_file(corpus, path[k], list, error));
    return STW_OK;
}

stw_status stw_corpus_read(stw_corpus *corpus, stw_str path, stw_corpus_file **list, stw_error *error) {
    struct stat status;
    const stw_str copy = stw_str_copy(&corpus->arena, path);
    if (copy.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for the name of a file");
    if (stat(copy.p, &status) != 0) {
        char known[300] = "";
        for (int32_t k = 0; stw_family_at(k) != NULL; k++) {
            const size_t length = strlen(known);
            snprintf(known + length, sizeof known - length, ", %s", stw_family_at(k)->name);
        }
        return stw_fail(error, STW_ERROR_INPUT,
                        "'%.*s' is neither a family nor a file or folder; families: all%s; or give the path of a graph",
                        STW_STR_SHOW(path), known);
    }
    return S_ISDIR(status.st_mode) ? read_folder(corpus, copy, list, error) : read_file(corpus, copy, list, error);
}
