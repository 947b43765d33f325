/* Replays files, and all files of directories, through a fuzz target; for builds without libFuzzer. */
#define _DEFAULT_SOURCE /* scandir */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static int replayed, faults;

static bool fault(const char *path, const char *what) {
    fprintf(stderr, "%s: %s\n", path, what);
    faults++;
    return false;
}

/* The data comes in a block of exactly its size, so that the address sanitizer sees a reader that runs over its end. */
static bool read_file(const char *path, uint8_t **data, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return fault(path, "cannot be opened");
    bool ok = fseek(file, 0, SEEK_END) == 0;
    const long length = ok ? ftell(file) : -1;
    ok = length >= 0 && fseek(file, 0, SEEK_SET) == 0;
    *size = ok ? (size_t)length : 0;
    *data = ok ? malloc(*size > 0 ? *size : 1) : NULL;
    ok = *data != NULL && fread(*data, 1, *size, file) == *size;
    fclose(file);
    if (!ok) {
        free(*data);
        return fault(path, "cannot be read");
    }
    return true;
}

static void replay_file(const char *path) {
    uint8_t *data = NULL;
    size_t size = 0;
    if (!read_file(path, &data, &size)) return;
    LLVMFuzzerTestOneInput(data, size);
    replayed++;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (stw_fuzz_accepts != NULL && (strncmp(name, "y_", 2) == 0 || strncmp(name, "n_", 2) == 0)) {
        const bool accepted = stw_fuzz_accepts(data, size) != 0;
        if (accepted != (name[0] == 'y')) fault(path, accepted ? "is taken but must be refused" : "is refused but must be taken");
    }
    free(data);
}

static void replay(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        replay_file(path);
        return;
    }
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) fault(path, "cannot be listed");
    for (int i = 0; i < count; i++) {
        char inner[4096];
        const int length = snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (length < 0 || length >= (int)sizeof inner) {
            fault(path, "has too long a name");
        } else if (entries[i]->d_name[0] != '.') {
            replay(inner);
        }
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) replay(argv[i]);
    printf("%d inputs replayed, %d faults\n", replayed, faults);
    if (replayed == 0) fputs("nothing was replayed; name files or directories\n", stderr);
    return faults > 0 || replayed == 0 ? 1 : 0;
}
