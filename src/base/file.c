#define _XOPEN_SOURCE 700 /* realpath */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

/* A buffer in an arena that doubles; the old halves are left behind, which costs at most twice as much again. It never holds more
 * than `limit` bytes. */
typedef struct {
    stw_arena *arena;
    char *data;
    int64_t length, capacity;
    int64_t limit;
    bool can_be_raised; /* with --file-limit */
} buffer;

/* Room for more, at most `room` bytes and the NUL behind the last. */
static stw_status buffer_reserve(buffer *b, int64_t room, stw_error *error) {
    const int64_t most = b->limit + 2; /* one byte too many, which tells that there is more, and the NUL */
    if (b->capacity - b->length > room || b->capacity == most) return STW_OK;
    int64_t capacity = 2 * b->length + room + 1;
    if (capacity > most) capacity = most;
    char *data = STW_NEW_DIRTY(b->arena, char, capacity);
    if (data == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for a file of %lld bytes", (long long)capacity);
    if (b->length > 0) memcpy(data, b->data, (size_t)b->length);
    b->data = data;
    b->capacity = capacity;
    return STW_OK;
}

static int64_t size_limit(const stw_file_limits *limits) {
    const int64_t bytes = limits != NULL && limits->bytes > 0 ? limits->bytes : STW_FILE_MAX_BYTES;
    return bytes < (int64_t)1 << 46 ? bytes : (int64_t)1 << 46; /* more than an arena can reserve */
}

/* Whose limits nobody can set, such as a machine's, has no business to be so large. */
static stw_status fail_size(int64_t limit, bool can_be_raised, stw_error *error) {
    return stw_fail(
        error, STW_ERROR_INPUT, "is larger than %lld bytes%s", (long long)limit,
        can_be_raised ? "; raise the limit with --file-limit if that is right" : ", the most that is read of such a file");
}

/* What a packed file may unpack to. */
static int64_t unpacked_limit(int64_t packed, const stw_file_limits *limits) {
    const int64_t most = size_limit(limits), ratio = limits != NULL && limits->ratio > 0 ? limits->ratio : STW_FILE_MAX_RATIO;
    if (packed >= most / ratio) return most;
    const int64_t by_ratio = packed * ratio < STW_FILE_FREE_BYTES ? STW_FILE_FREE_BYTES : packed * ratio;
    return by_ratio < most ? by_ratio : most;
}

static stw_status fail_unpacked(int64_t packed, const buffer *b, stw_error *error) {
    return stw_fail(error, STW_ERROR_INPUT, "unpacks from %lld to more than %lld bytes; %s if that is right", (long long)packed,
                    (long long)b->limit,
                    b->can_be_raised ? "give what it may come to with --file-limit" : "unpack it beforehand");
}

/* Room for the next part, unless there is too much already. */
static stw_status reserve_unpacked(int64_t packed, buffer *out, stw_error *error) {
    if (out->length > out->limit) return fail_unpacked(packed, out, error);
    return buffer_reserve(out, 1 << 16, error);
}

static stw_status unpack_gzip(stw_str packed, buffer *out, stw_error *error) {
    z_stream stream = {0};
    if (inflateInit2(&stream, 15 + 16) != Z_OK) return stw_fail(error, STW_ERROR_MEMORY, "zlib cannot start");
    stw_status status = STW_OK;
    int result = Z_OK;
    const char *next = packed.p;
    int64_t left = packed.length;
    while (status == STW_OK && result != Z_STREAM_END) {
        status = reserve_unpacked(packed.length, out, error);
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
        status = reserve_unpacked(packed.length, out, error);
        if (status != STW_OK) break;
        const bool starved = in.pos == in.size;
        ZSTD_outBuffer chunk = {out->data + out->length, (size_t)(out->capacity - out->length - 1), 0};
        expected = ZSTD_decompressStream(stream, &chunk, &in);
        if (ZSTD_isError(expected)) {
            status = stw_fail(error, STW_ERROR_INPUT, "damaged zstd data at byte %zu: %s", in.pos, ZSTD_getErrorName(expected));
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

stw_status stw_unpack_within(stw_str packed, const stw_file_limits *limits, stw_arena *arena, stw_str *out, stw_error *error) {
    const unsigned char *magic = (const unsigned char *)packed.p;
    const bool is_gzip = packed.length >= 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    const bool is_zstd = packed.length >= 4 && memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0;
    if (!is_gzip && !is_zstd) {
        *out = packed;
        return STW_OK;
    }
    buffer b = {.arena = arena, .limit = unpacked_limit(packed.length, limits), .can_be_raised = limits != NULL};
    TRY(buffer_reserve(&b, 4 * packed.length, error));
    TRY(is_gzip ? unpack_gzip(packed, &b, error) : unpack_zstd(packed, &b, error));
    if (b.length > b.limit) return fail_unpacked(packed.length, &b, error);
    b.data[b.length] = '\0';
    *out = (stw_str){b.data, b.length};
    return STW_OK;
}

stw_status stw_unpack(stw_str packed, stw_arena *arena, stw_str *out, stw_error *error) {
    return stw_unpack_within(packed, NULL, arena, out, error);
}

/* ---- reading ---- */

/* How long a pipe may have no writer, and how long one may send nothing, before that is taken as an error. */
enum { WRITER_MS = 1000, SILENCE_MS = 600000 };

/* What can be read to its end: files, pipes, terminals. `is_empty`: a device that has nothing, such as /dev/null. */
static stw_status check_kind(int descriptor, const struct stat *info, const buffer *b, bool *is_empty, stw_error *error) {
    char byte;
    *is_empty = false;
    if (S_ISDIR(info->st_mode)) return stw_fail(error, STW_ERROR_INPUT, "is a directory; name a file in it");
    if (S_ISREG(info->st_mode) && info->st_size > b->limit) return fail_size(b->limit, b->can_be_raised, error);
    if (S_ISCHR(info->st_mode) && !isatty(descriptor)) *is_empty = read(descriptor, &byte, 1) == 0;
    if (S_ISBLK(info->st_mode) || (S_ISCHR(info->st_mode) && !isatty(descriptor) && !*is_empty))
        return stw_fail(error, STW_ERROR_INPUT, "is a device, which has no end; name a file or a pipe");
    return STW_OK;
}

/* After a read that got nothing from what does not block: waits for more. `got` is what read() said; *ended: there is no more to
 * come. Standard input may be silent for as long as it likes. */
static stw_status wait_for_more(int descriptor, ssize_t got, bool *ended, stw_error *error) {
    struct pollfd pipe = {.fd = descriptor, .events = POLLIN};
    const int found = poll(&pipe, 1, got == 0 ? WRITER_MS : descriptor == STDIN_FILENO ? -1 : SILENCE_MS);
    *ended = found > 0 && !(pipe.revents & POLLIN); /* whoever wrote has gone */
    if (found > 0 || (found < 0 && errno == EINTR)) return STW_OK;
    if (found == 0 && got == 0) return stw_fail(error, STW_ERROR_INPUT, "is a pipe that nobody writes to");
    if (found == 0) return stw_fail(error, STW_ERROR_IO, "is a pipe that was silent for %d s", SILENCE_MS / 1000);
    return stw_fail(error, STW_ERROR_IO, "cannot be read: %s", strerror(errno));
}

/* `own_pipe`: it was opened here, without blocking, so that it can be told when nobody writes to it. */
static stw_status read_all(int descriptor, bool own_pipe, buffer *b, stw_error *error) {
    bool ended = false;
    while (!ended) {
        if (b->length > b->limit) return fail_size(b->limit, b->can_be_raised, error);
        TRY(buffer_reserve(b, 1 << 16, error));
        const ssize_t got = read(descriptor, b->data + b->length, (size_t)(b->capacity - b->length - 1));
        if (got > 0) {
            b->length += got;
        } else if ((got == 0 && own_pipe && b->length == 0) || (got < 0 && errno == EAGAIN)) {
            TRY(wait_for_more(descriptor, got, &ended, error));
        } else if (got < 0 && errno != EINTR) {
            return stw_fail(error, STW_ERROR_IO, "cannot be read: %s", strerror(errno));
        } else {
            ended = got == 0;
        }
    }
    b->data[b->length] = '\0';
    return STW_OK;
}

static stw_status read_descriptor(int descriptor, bool is_own, const stw_file_limits *limits, stw_arena *arena, stw_str *out,
                                  stw_error *error) {
    struct stat info = {0};
    bool is_empty = false;
    buffer b = {.arena = arena, .limit = size_limit(limits), .can_be_raised = limits != NULL};
    if (fstat(descriptor, &info) != 0) return stw_fail(error, STW_ERROR_IO, "cannot be read: %s", strerror(errno));
    if (is_own && !S_ISFIFO(info.st_mode)) (void)fcntl(descriptor, F_SETFL, 0); /* block: others know when they end */
    TRY(check_kind(descriptor, &info, &b, &is_empty, error));
    TRY(buffer_reserve(&b, S_ISREG(info.st_mode) ? info.st_size + (1 << 16) : 1 << 16, error));
    b.data[0] = '\0';
    if (!is_empty) TRY(read_all(descriptor, is_own && S_ISFIFO(info.st_mode), &b, error));
    return stw_unpack_within((stw_str){b.data, b.length}, limits, arena, out, error);
}

stw_status stw_file_read_within(const char *path, const stw_file_limits *limits, stw_arena *arena, stw_str *out,
                                stw_error *error) {
    const bool standard_input = strcmp(path, "-") == 0;
    /* Opening a pipe would otherwise wait until somebody writes to it. */
    const int descriptor = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *out = (stw_str){0};
    if (descriptor < 0) {
        stw_fail(error, STW_ERROR_INPUT, "cannot be opened: %s", strerror(errno));
        stw_error_prefix(error, path);
        return STW_ERROR_INPUT;
    }
    const stw_status status = read_descriptor(descriptor, !standard_input, limits, arena, out, error);
    if (!standard_input) close(descriptor);
    if (status != STW_OK) stw_error_prefix(error, stw_file_label(path));
    return status;
}

stw_status stw_file_read(const char *path, stw_arena *arena, stw_str *out, stw_error *error) {
    return stw_file_read_within(path, NULL, arena, out, error);
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

/* ---- writing ---- */

/* A new file beside the target. Its owner and permissions are the target's, if there is one and as far as that is allowed, else
 * what the process creates files with. */
static int create_aside(stw_output *output, const struct stat *target) {
    const mode_t mode = target != NULL ? target->st_mode & 0777 : 0666;
    for (unsigned attempt = 0; attempt < 1000; attempt++) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        const unsigned long mark = ((unsigned long)getpid() << 20) ^ (unsigned long)now.tv_nsec ^ attempt;
        snprintf(output->aside, sizeof output->aside, "%s.%08lx", output->path, mark & 0xffffffffUL);
        const int descriptor = open(output->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (descriptor >= 0 && target != NULL) {
            if (target->st_uid != geteuid() || target->st_gid != getegid())
                (void)!fchown(descriptor, target->st_uid, target->st_gid);
            (void)fchmod(descriptor, mode);
        }
        if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
    return -1;
}

/* The path behind links, whether there is a file at their end or not: what is renamed replaces the file and not the link. Returns
 * the fault, or 0. */
static int follow_links(const char *path, char out[STW_PATH_BYTES]) {
    char target[STW_PATH_BYTES], name[STW_PATH_BYTES];
    struct stat info;
    if (strlen(path) >= STW_PATH_BYTES) return ENAMETOOLONG;
    memcpy(out, path, strlen(path) + 1);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return 0; /* links such as /dev/stdout may lead to what has no path */
    for (int hops = 0; hops < 40; hops++) {
        const ssize_t length = readlink(out, target, sizeof target - 1);
        if (length < 0) return 0; /* no link; what else is wrong with it shows when it is written */
        target[length] = '\0';
        const char *slash = strrchr(out, '/');
        const int folder = target[0] == '/' || slash == NULL ? 0 : (int)(slash + 1 - out);
        if (snprintf(name, sizeof name, "%.*s%s", folder, out, target) >= (int)sizeof name) return ENAMETOOLONG;
        memcpy(out, name, sizeof name);
    }
    return ELOOP;
}

static stw_status fail_to_write(const stw_output *output, int fault, stw_error *error) {
    stw_fail(error, STW_ERROR_IO, "cannot be written: %s", strerror(fault));
    stw_error_prefix(error, output->path);
    return STW_ERROR_IO;
}

/* What the output is to be: `info` of what is there, if something is. */
static stw_status find_target(stw_output *output, const char *path, struct stat *info, bool *exists, stw_error *error) {
    *output = (stw_output){0};
    const int fault = follow_links(path, output->path);
    if (fault == ENAMETOOLONG) return stw_fail(error, STW_ERROR_INPUT, "the output path is too long");
    if (fault != 0) return fail_to_write(output, fault, error);
    *exists = stat(output->path, info) == 0;
    if (*exists && S_ISDIR(info->st_mode)) return fail_to_write(output, EISDIR, error);
    /* A rename would not ask whether the file may be changed. */
    if (*exists && faccessat(AT_FDCWD, output->path, W_OK, AT_EACCESS) != 0) return fail_to_write(output, errno, error);
    return STW_OK;
}

stw_status stw_output_check(const char *path, stw_error *error) {
    stw_output output;
    struct stat info;
    bool exists = false;
    if (strcmp(path, "-") == 0) return STW_OK;
    TRY(find_target(&output, path, &info, &exists, error));
    if (exists && !S_ISREG(info.st_mode)) return STW_OK; /* opening a pipe would wait for its reader, and end it */
    const int descriptor = create_aside(&output, NULL);
    if (descriptor < 0) return fail_to_write(&output, errno, error);
    close(descriptor);
    unlink(output.aside);
    return STW_OK;
}

/* A regular file by its inode; one that is not there by its folder's and its name. */
typedef struct {
    dev_t device;
    ino_t inode;
    char name[STW_PATH_BYTES];
} identity;

static bool identify(const char *path, identity *out) {
    char real[STW_PATH_BYTES];
    struct stat info;
    *out = (identity){0};
    if (follow_links(path, real) != 0) return false;
    if (stat(real, &info) != 0) {
        char *slash = strrchr(real, '/');
        memcpy(out->name, slash != NULL ? slash + 1 : real, strlen(slash != NULL ? slash + 1 : real));
        if (slash != NULL) slash[slash == real] = '\0';
        if (stat(slash != NULL ? real : ".", &info) != 0) return false;
    } else if (!S_ISREG(info.st_mode)) {
        return false;
    }
    out->device = info.st_dev;
    out->inode = info.st_ino;
    return true;
}

bool stw_file_is_same(const char *a, const char *b) {
    identity one, other;
    return identify(a, &one) && identify(b, &other) && one.device == other.device && one.inode == other.inode &&
           strcmp(one.name, other.name) == 0;
}

stw_status stw_output_open(stw_output *output, const char *path, stw_error *error) {
    struct stat info;
    bool exists = false;
    if (strcmp(path, "-") == 0) {
        *output = (stw_output){.file = stdout, .path = "standard output"};
        return STW_OK;
    }
    TRY(find_target(output, path, &info, &exists, error));
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
