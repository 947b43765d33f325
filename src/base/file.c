#define _POSIX_C_SOURCE 200809L
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    struct stat info;
    if (fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode)) {
        return stw_fail(error, STW_ERROR_INPUT, "is a directory; name a file in it");
    }
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
    stw_status status = read_all(descriptor, &b, error);
    if (!standard_input) close(descriptor);
    if (status == STW_OK) status = stw_unpack((stw_str){b.data, b.length}, arena, out, error);
    if (status != STW_OK) stw_error_prefix(error, stw_file_label(path));
    return status;
}

stw_status stw_output_open(stw_output *output, const char *path, stw_error *error) {
    *output = (stw_output){0};
    if (strcmp(path, "-") == 0) {
        output->file = stdout;
        snprintf(output->path, sizeof output->path, "standard output");
        return STW_OK;
    }
    struct stat info;
    /* Something that is no plain file (a pipe, /dev/null) cannot be renamed over: write to it directly. */
    const bool direct = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
    if (strlen(path) >= sizeof output->path) return stw_fail(error, STW_ERROR_INPUT, "the output path is too long");
    snprintf(output->path, sizeof output->path, "%s", path);
    if (direct) {
        output->file = fopen(path, "w");
    } else {
        snprintf(output->aside, sizeof output->aside, "%s.XXXXXX", path);
        const int descriptor = mkstemp(output->aside);
        if (descriptor >= 0) {
            const mode_t mask = umask(0);
            umask(mask);
            (void)fchmod(descriptor, 0666 & ~mask);
            output->file = fdopen(descriptor, "w");
        }
    }
    if (output->file == NULL) {
        return stw_fail(error, STW_ERROR_IO, "%s: cannot be written: %s", path, strerror(errno));
    }
    return STW_OK;
}

stw_status stw_output_commit(stw_output *output, stw_error *error) {
    FILE *file = output->file;
    output->file = NULL;
    bool ok = ferror(file) == 0;
    ok = fflush(file) == 0 && ok;
    const bool aside = output->aside[0] != '\0';
    if (aside) ok = fsync(fileno(file)) == 0 && ok;
    const int fault = errno;
    if (file != stdout) ok = fclose(file) == 0 && ok;
    if (ok && (!aside || rename(output->aside, output->path) == 0)) return STW_OK;
    if (aside) unlink(output->aside);
    return stw_fail(error, STW_ERROR_IO, "%s: cannot be written: %s", output->path, strerror(ok ? errno : fault));
}

void stw_output_discard(stw_output *output) {
    if (output->file == NULL) return;
    if (output->file != stdout) fclose(output->file);
    output->file = NULL;
    if (output->aside[0] != '\0') unlink(output->aside);
}
