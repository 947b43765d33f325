#define _GNU_SOURCE /* realpath, MAP_ANONYMOUS */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

/* A buffer in an arena that doubles; the old halves are left behind, which costs at most as much again. */
typedef struct {
    stw_arena *arena;
    char *data;
    int64_t length, capacity;
} buffer;

static stw_status buffer_reserve(buffer *b, int64_t room, stw_error *error) {
    if (b->length > STW_FILE_MAX_BYTES) {
        return stw_fail(error, STW_ERROR_INPUT, "larger than %lld bytes when unpacked", (long long)STW_FILE_MAX_BYTES);
    }
    if (b->capacity - b->length > room) return STW_OK;
    const int64_t capacity = 2 * b->length + room + 1;
    char *data;
    STW_TRY_NEW(b->arena, data, capacity, error);
    if (b->length > 0) memcpy(data, b->data, (size_t)b->length);
    b->data = data;
    b->capacity = capacity;
    return STW_OK;
}

static stw_status unpack_gzip(stw_str packed, buffer *out, stw_error *error) {
    z_stream stream = {0};
    if (inflateInit2(&stream, 15 + 16) != Z_OK) return stw_fail(error, STW_ERROR_MEMORY, "zlib cannot start");
    stw_status status = STW_OK;
    int result = Z_OK;
    const char *next = packed.p;
    int64_t left = packed.length;
    while (status == STW_OK && result != Z_STREAM_END) {
        status = buffer_reserve(out, 1 << 16, error);
        if (status != STW_OK) break;
        const int64_t chunk_in = left < (1 << 30) ? left : (1 << 30);
        const int64_t room = out->capacity - out->length - 1;
        const int64_t chunk_out = room < (1 << 30) ? room : (1 << 30);
        stream.next_in = (Bytef *)(uintptr_t)next;
        stream.avail_in = (uInt)chunk_in;
        stream.next_out = (Bytef *)(out->data + out->length);
        stream.avail_out = (uInt)chunk_out;
        result = inflate(&stream, Z_NO_FLUSH);
        next += chunk_in - stream.avail_in;
        left -= chunk_in - stream.avail_in;
        out->length += chunk_out - stream.avail_out;
        if (result == Z_BUF_ERROR && left == 0) {
            status = stw_fail(error, STW_ERROR_INPUT, "the gzip data ends too early; the file is cut off");
        } else if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
            status = stw_fail(error, STW_ERROR_INPUT, "damaged gzip data at byte %lld", (long long)(next - packed.p));
        } else if (result == Z_STREAM_END && left > 0) { /* a further member */
            result = inflateReset(&stream) == Z_OK ? Z_OK : Z_STREAM_END;
        }
    }
    inflateEnd(&stream);
    return status;
}

static stw_status unpack_zstd(stw_str packed, buffer *out, stw_error *error) {
    ZSTD_DStream *stream = ZSTD_createDStream();
    if (stream == NULL) return stw_fail(error, STW_ERROR_MEMORY, "zstd cannot start");
    ZSTD_inBuffer in = {packed.p, (size_t)packed.length, 0};
    stw_status status = STW_OK;
    size_t expected = 1; /* 0 once a frame is complete */
    while (in.pos < in.size || expected != 0) {
        status = buffer_reserve(out, 1 << 16, error);
        if (status != STW_OK) break;
        const bool starved = in.pos == in.size;
        ZSTD_outBuffer chunk = {out->data + out->length, (size_t)(out->capacity - out->length - 1), 0};
        expected = ZSTD_decompressStream(stream, &chunk, &in);
        if (ZSTD_isError(expected)) {
            status = stw_fail(error, STW_ERROR_INPUT, "damaged zstd data at byte %zu", in.pos);
            break;
        }
        out->length += (int64_t)chunk.pos;
        if (starved && expected != 0 && chunk.pos == 0) {
            status = stw_fail(error, STW_ERROR_INPUT, "the zstd data ends too early; the file is cut off");
            break;
        }
    }
    ZSTD_freeDStream(stream);
    return status;
}

stw_status stw_unpack(stw_str packed, stw_arena *arena, stw_str *out, stw_error *error) {
    const unsigned char *magic = (const unsigned char *)packed.p;
    buffer b = {.arena = arena};
    if (packed.length >= 2 && magic[0] == 0x1f && magic[1] == 0x8b) {
        TRY(buffer_reserve(&b, 4 * packed.length, error));
        TRY(unpack_gzip(packed, &b, error));
    } else if (packed.length >= 4 && memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0) {
        TRY(buffer_reserve(&b, 4 * packed.length, error));
        TRY(unpack_zstd(packed, &b, error));
    } else {
        *out = packed;
        return STW_OK;
    }
    b.data[b.length] = '\0';
    *out = (stw_str){b.data, b.length};
    return STW_OK;
}

static stw_status read_all(int descriptor, buffer *b, stw_error *error) {
    struct stat info = {0};
    if (fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode)) {
        return stw_fail(error, STW_ERROR_INPUT, "is a directory; name a file in it");
    }
    if (S_ISREG(info.st_mode) && info.st_size < STW_FILE_MAP_BYTES) TRY(buffer_reserve(b, info.st_size + (1 << 16), error));
    for (;;) {
        TRY(buffer_reserve(b, 1 << 16, error));
        const ssize_t got = read(descriptor, b->data + b->length, (size_t)(b->capacity - b->length - 1));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return stw_fail(error, STW_ERROR_IO, "cannot be read: %s", strerror(errno));
        if (got == 0) break;
        b->length += got;
    }
    b->data[b->length] = '\0';
    return STW_OK;
}

/* Large plain files are mapped instead of read: the pages that nobody looks at (weights) are never loaded. They take a place in
 * the arena, which gives them back with the rest. *out stays empty where mapping is not to be had; the file is read then. Who
 * cuts a mapped file while it is read ends the process (SIGBUS), and a library must not take over signals: so only files whose
 * pages are worth it are mapped. */
static stw_status map_large(int descriptor, stw_arena *arena, stw_str *out, stw_error *error) {
    struct stat info;
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < STW_FILE_MAP_BYTES) return STW_OK;
    unsigned char magic[4] = {0};
    if (lseek(descriptor, 0, SEEK_CUR) != 0 || pread(descriptor, magic, sizeof magic, 0) != (ssize_t)sizeof magic) return STW_OK;
    if ((magic[0] == 0x1f && magic[1] == 0x8b) || memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0) return STW_OK;
    const int64_t page = sysconf(_SC_PAGESIZE), length = info.st_size;
    const stw_arena before = *arena;
    char *room = STW_NEW_DIRTY(arena, char, length + 2 * page); /* begins anywhere in a page and ends with a NUL */
    if (room == NULL) return stw_fail(error, STW_ERROR_MEMORY, "is too large to be mapped (%lld bytes)", (long long)length);
    char *start = room + (page - (int64_t)((uintptr_t)room % (uintptr_t)page)) % page;
    if (mmap(start, (size_t)length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, descriptor, 0) == MAP_FAILED) {
        /* What failed may have taken the arena's pages away. */
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        if (mmap(start, (size_t)length, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
            return stw_fail(error, STW_ERROR_MEMORY, "cannot be mapped: %s", strerror(errno));
        *arena = before;
        return STW_OK;
    }
    if (length % page == 0) start[length] = '\0'; /* else the page is filled up with zeros */
    *out = (stw_str){start, length};
    return STW_OK;
}

stw_file_state stw_file_state_of(const char *path) {
    struct stat info;
    if (strcmp(path, "-") == 0 || stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return (stw_file_state){0};
    return (stw_file_state){info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

bool stw_file_state_equal(stw_file_state a, stw_file_state b) {
    return a.size == b.size && a.seconds == b.seconds && a.nanoseconds == b.nanoseconds;
}

const char *stw_file_label(const char *path) { return strcmp(path, "-") == 0 ? "standard input" : path; }

stw_status stw_file_read(const char *path, stw_arena *arena, stw_str *out, stw_error *error) {
    const bool standard_input = strcmp(path, "-") == 0;
    const int descriptor = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        stw_fail(error, STW_ERROR_INPUT, "cannot be opened: %s", strerror(errno));
        stw_error_prefix(error, path);
        return STW_ERROR_INPUT;
    }
    buffer b = {.arena = arena};
    *out = (stw_str){0};
    stw_status status = map_large(descriptor, arena, out, error);
    const bool mapped = status == STW_OK && out->p != NULL;
    if (status == STW_OK && !mapped) status = read_all(descriptor, &b, error);
    if (!standard_input) close(descriptor);
    if (status == STW_OK && !mapped) status = stw_unpack((stw_str){b.data, b.length}, arena, out, error);
    if (status != STW_OK) stw_error_prefix(error, stw_file_label(path));
    return status;
}

/* A new file beside the target. Its permissions are the target's, if there is one, else what the process creates files with. */
static int create_aside(stw_output *output, const struct stat *target) {
    for (unsigned attempt = 0; attempt < 1000; attempt++) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        const unsigned long mark = ((unsigned long)getpid() << 20) ^ (unsigned long)now.tv_nsec ^ attempt;
        snprintf(output->aside, sizeof output->aside, "%s.%08lx", output->path, mark & 0xffffffffUL);
        const int descriptor = open(output->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 && target != NULL) (void)fchmod(descriptor, target->st_mode & 0777);
        if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
    return -1;
}

/* The path behind links, so that a rename replaces the file and not the link. */
static bool resolve_path(stw_output *output, const char *path, bool exists) {
    char *real = exists ? realpath(path, NULL) : NULL;
    const char *chosen = real != NULL ? real : path;
    const bool fits = strlen(chosen) < sizeof output->path;
    if (fits) memcpy(output->path, chosen, strlen(chosen) + 1);
    free(real);
    return fits;
}

static stw_status fail_to_write(const stw_output *output, int fault, stw_error *error) {
    stw_fail(error, STW_ERROR_IO, "cannot be written: %s", strerror(fault));
    stw_error_prefix(error, output->path);
    return STW_ERROR_IO;
}

stw_status stw_output_open(stw_output *output, const char *path, stw_error *error) {
    *output = (stw_output){0};
    if (strcmp(path, "-") == 0) {
        output->file = stdout;
        snprintf(output->path, sizeof output->path, "standard output");
        return STW_OK;
    }
    struct stat info;
    const bool exists = stat(path, &info) == 0;
    if (!resolve_path(output, path, exists)) return stw_fail(error, STW_ERROR_INPUT, "the output path is too long");
    if (exists && !S_ISREG(info.st_mode)) { /* a pipe or /dev/null cannot be renamed over: write to it directly */
        output->file = fopen(output->path, "w");
        return output->file != NULL ? STW_OK : fail_to_write(output, errno, error);
    }
    const int descriptor = create_aside(output, exists ? &info : NULL);
    if (descriptor < 0) return fail_to_write(output, errno, error);
    output->file = fdopen(descriptor, "w");
    if (output->file != NULL) return STW_OK;
    const int fault = errno;
    close(descriptor);
    unlink(output->aside);
    return fail_to_write(output, fault, error);
}

stw_status stw_output_commit(stw_output *output, stw_error *error) {
    FILE *file = output->file;
    const bool aside = output->aside[0] != '\0';
    output->file = NULL;
    int fault = 0;
    if (ferror(file) != 0) fault = errno != 0 ? errno : EIO; /* of the write that failed */
    if (fflush(file) != 0 && fault == 0) fault = errno;
    if (aside && fault == 0 && fsync(fileno(file)) != 0) fault = errno;
    if (file != stdout && fclose(file) != 0 && fault == 0) fault = errno;
    if (aside && fault == 0 && rename(output->aside, output->path) != 0) fault = errno;
    if (fault == 0) return STW_OK;
    if (aside) unlink(output->aside);
    return fail_to_write(output, fault, error);
}

void stw_output_discard(stw_output *output) {
    if (output->file == NULL) return;
    if (output->file != stdout) fclose(output->file);
    output->file = NULL;
    if (output->aside[0] != '\0') unlink(output->aside);
}
