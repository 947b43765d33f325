/* base/file: whole files in, packed or not; whole files out, or none. */
#define _XOPEN_SOURCE 700
#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "test.h"

static const char *temporary(void) {
    const char *folder = getenv("TMPDIR");
    return folder != NULL && folder[0] != '\0' ? folder : "/tmp";
}

/* A folder of its own for each test, removed with all that is in it. */
typedef struct {
    char path[1024], file[1100];
    stw_arena arena;
    stw_error error;
} place;

static bool enter(place *p) {
    memset(p, 0, sizeof *p);
    snprintf(p->path, sizeof p->path, "%s/stowage-test-XXXXXX", temporary());
    if (!CHECK(mkdtemp(p->path) != NULL)) return false;
    snprintf(p->file, sizeof p->file, "%s/file", p->path);
    return CHECK_EQ_INT(stw_arena_create(&p->arena, NULL), STW_OK);
}

/* How many files are there; removes them if asked. */
static int list(const place *p, bool delete) {
    DIR *folder = opendir(p->path);
    int count = 0;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        count++;
        char path[1500];
        snprintf(path, sizeof path, "%s/%s", p->path, entry->d_name);
        if (delete) remove(path);
    }
    if (folder != NULL) closedir(folder);
    return count;
}

static void leave(place *p) {
    list(p, true);
    rmdir(p->path);
    stw_arena_destroy(&p->arena);
}

static void put(const place *p, const void *data, int64_t size) {
    FILE *file = fopen(p->file, "wb");
    if (!CHECK(file != NULL)) return;
    CHECK_EQ_INT(fwrite(data, 1, (size_t)size, file), size);
    fclose(file);
}

/* The file's content is exactly this text, and a NUL follows. */
static void check_reads(place *p, stw_str expected) {
    stw_str text = {0};
    if (!CHECK_EQ_INT(stw_file_read(p->file, &p->arena, &text, &p->error), STW_OK)) {
        CHECK_STR(p->error.message, "");
        return;
    }
    CHECK_EQ_INT(text.length, expected.length);
    CHECK(stw_str_equal(text, expected));
    CHECK_EQ_INT(text.p[text.length], 0);
}

static stw_str gzip(stw_arena *arena, stw_str text) {
    z_stream stream = {0};
    const int64_t room = text.length + text.length / 100 + 100;
    char *packed = STW_NEW(arena, char, room);
    CHECK_EQ_INT(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)text.p;
    stream.avail_in = (uInt)text.length;
    stream.next_out = (Bytef *)packed;
    stream.avail_out = (uInt)room;
    CHECK_EQ_INT(deflate(&stream, Z_FINISH), Z_STREAM_END);
    const stw_str result = {packed, (int64_t)stream.total_out};
    deflateEnd(&stream);
    return result;
}

static stw_str zstd(stw_arena *arena, stw_str text) {
    const size_t room = ZSTD_compressBound((size_t)text.length);
    char *packed = STW_NEW(arena, char, (int64_t)room);
    const size_t size = ZSTD_compress(packed, room, text.p, (size_t)text.length, 3);
    CHECK(!ZSTD_isError(size));
    return (stw_str){packed, (int64_t)size};
}

static stw_str join(stw_arena *arena, stw_str a, stw_str b) {
    char *both = STW_NEW(arena, char, a.length + b.length + 1);
    memcpy(both, a.p, (size_t)a.length);
    memcpy(both + a.length, b.p, (size_t)b.length);
    return (stw_str){both, a.length + b.length};
}

/* Text that packs neither very well nor badly. */
static stw_str sample(stw_arena *arena, int64_t length) {
    char *text = STW_NEW(arena, char, length + 1);
    uint64_t state = 12345;
    for (int64_t i = 0; i < length; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        text[i] = (char)('a' + (state >> 60));
    }
    return (stw_str){text, length};
}

TEST(file, plain) {
    place p;
    if (!enter(&p)) return;
    static const int64_t lengths[] = {0, 1, 65535, 65536, 65537, 1000000};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const stw_str text = sample(&p.arena, lengths[i]);
        put(&p, text.p, text.length);
        check_reads(&p, text);
    }
    put(&p, "a\0b\r\n\xff", 6); /* bytes are left as they are */
    check_reads(&p, STW_STR("a\0b\r\n\xff"));
    leave(&p);
}

TEST(file, packed) {
    place p;
    if (!enter(&p)) return;
    static const int64_t lengths[] = {0, 1, 65536, 3000000};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const stw_str text = sample(&p.arena, lengths[i]);
        const stw_str gz = gzip(&p.arena, text), zst = zstd(&p.arena, text);
        test_context("gzip, %d bytes", (int)lengths[i]);
        put(&p, gz.p, gz.length);
        check_reads(&p, text);
        test_context("zstd, %d bytes", (int)lengths[i]);
        put(&p, zst.p, zst.length);
        check_reads(&p, text);
    }
    leave(&p);
}

TEST(file, packed_very_well) { /* output far larger than four times the input */
    place p;
    if (!enter(&p)) return;
    const stw_str zeros = {STW_NEW(&p.arena, char, 8 << 20), 8 << 20};
    const stw_str gz = gzip(&p.arena, zeros), zst = zstd(&p.arena, zeros);
    put(&p, gz.p, gz.length);
    check_reads(&p, zeros);
    put(&p, zst.p, zst.length);
    check_reads(&p, zeros);
    leave(&p);
}

TEST(file, several_members) {
    place p;
    if (!enter(&p)) return;
    const stw_str a = sample(&p.arena, 70000), b = STW_STR("and the second"), both = join(&p.arena, a, b);
    const stw_str gz = join(&p.arena, gzip(&p.arena, a), gzip(&p.arena, b));
    put(&p, gz.p, gz.length);
    check_reads(&p, both);
    const stw_str zst = join(&p.arena, zstd(&p.arena, a), zstd(&p.arena, b));
    put(&p, zst.p, zst.length);
    check_reads(&p, both);
    const stw_str hollow = join(&p.arena, gzip(&p.arena, STW_STR("")), gzip(&p.arena, b));
    put(&p, hollow.p, hollow.length);
    check_reads(&p, b);
    leave(&p);
}

/* Every cut of a packed text fails, once its magic number is whole, and says that the file is cut off. */
static void check_cuts(place *p, stw_str packed, int64_t magic, const char *says) {
    char *exact = NULL;
    for (int64_t cut = 0; cut < packed.length; cut++) {
        stw_arena scratch = p->arena;
        stw_str text = {0};
        test_context("cut at %d of %d", (int)cut, (int)packed.length);
        exact = malloc((size_t)cut + 1);
        memcpy(exact, packed.p, (size_t)cut);
        const stw_status status = stw_unpack((stw_str){exact, cut}, &scratch, &text, &p->error);
        if (cut < magic) {
            CHECK_EQ_INT(status, STW_OK);
        } else if (CHECK_EQ_INT(status, STW_ERROR_INPUT)) {
            CHECK_CONTAINS(p->error.message, says);
        }
        free(exact);
    }
}

TEST(file, cut_off) {
    place p;
    if (!enter(&p)) return;
    const stw_str text = sample(&p.arena, 300);
    const stw_str gz = gzip(&p.arena, text), zst = zstd(&p.arena, text);
    check_cuts(&p, gz, 2, "the gzip data ends too early; the file is cut off");
    check_cuts(&p, zst, 4, "the zstd data ends too early; the file is cut off");
    const stw_str large = zstd(&p.arena, sample(&p.arena, 400000));
    put(&p, large.p, large.length - 1);
    CHECK_EQ_INT(stw_file_read(p.file, &p.arena, &(stw_str){0}, &p.error), STW_ERROR_INPUT);
    CHECK_CONTAINS(p.error.message, p.file); /* the path comes first, then the fact */
    CHECK_CONTAINS(p.error.message, "/file: the zstd data ends too early");
    leave(&p);
}

TEST(file, damaged) {
    place p;
    if (!enter(&p)) return;
    const stw_str text = sample(&p.arena, 5000);
    char *gz = (char *)(uintptr_t)gzip(&p.arena, text).p;
    const int64_t gz_length = gzip(&p.arena, text).length;
    stw_str out;
    gz[gz_length - 6] ^= 1; /* the checksum */
    CHECK_EQ_INT(stw_unpack((stw_str){gz, gz_length}, &p.arena, &out, &p.error), STW_ERROR_INPUT);
    CHECK_CONTAINS(p.error.message, "damaged gzip data at byte ");
    gz[gz_length - 6] ^= 1;
    gz[2] = 7; /* an unknown method */
    CHECK_EQ_INT(stw_unpack((stw_str){gz, gz_length}, &p.arena, &out, &p.error), STW_ERROR_INPUT);
    gz[2] = 8;
    CHECK_EQ_INT(stw_unpack((stw_str){gz, gz_length}, &p.arena, &out, &p.error), STW_OK);
    const stw_str tail = join(&p.arena, (stw_str){gz, gz_length}, STW_STR("garbage"));
    CHECK_EQ_INT(stw_unpack(tail, &p.arena, &out, &p.error), STW_ERROR_INPUT);
    const stw_str zst = zstd(&p.arena, text);
    const stw_str zst_tail = join(&p.arena, zst, STW_STR("garbage"));
    CHECK_EQ_INT(stw_unpack(zst_tail, &p.arena, &out, &p.error), STW_ERROR_INPUT);
    CHECK_CONTAINS(p.error.message, "damaged zstd data at byte ");
    int refused = 0;
    for (int64_t i = 4; i < zst.length; i += 7) { /* no changed byte crashes; most are noticed */
        stw_arena scratch = p.arena;
        char *copy = (char *)(uintptr_t)stw_str_copy(&scratch, zst).p;
        copy[i] = (char)(copy[i] ^ 0x55);
        refused += stw_unpack((stw_str){copy, zst.length}, &scratch, &out, NULL) != STW_OK;
    }
    CHECK(refused > 0);
    leave(&p);
}

TEST(file, missing_or_no_file) {
    place p;
    if (!enter(&p)) return;
    stw_str text;
    CHECK_EQ_INT(stw_file_read(p.file, &p.arena, &text, &p.error), STW_ERROR_INPUT);
    CHECK_CONTAINS(p.error.message, p.file);
    CHECK_CONTAINS(p.error.message, "cannot be opened: No such file or directory");
    CHECK_EQ_INT(stw_file_read(p.path, &p.arena, &text, &p.error), STW_ERROR_INPUT);
    CHECK_CONTAINS(p.error.message, p.path);
    CHECK_CONTAINS(p.error.message, ": is a directory");
    CHECK_EQ_INT(stw_file_read("", &p.arena, &text, &p.error), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_file_read(p.file, &p.arena, &text, NULL), STW_ERROR_INPUT);
    leave(&p);
}

TEST(file, standard_input) {
    place p;
    if (!enter(&p)) return;
    const stw_str gz = gzip(&p.arena, STW_STR("from a pipe"));
    const int saved = dup(STDIN_FILENO);
    for (int64_t missing = 0; missing < 2; missing++) {
        put(&p, gz.p, gz.length - missing);
        const int file = open(p.file, O_RDONLY);
        CHECK(file >= 0 && dup2(file, STDIN_FILENO) >= 0);
        close(file);
        stw_str text = {0};
        const stw_status status = stw_file_read("-", &p.arena, &text, &p.error);
        if (missing == 0) {
            CHECK_EQ_INT(status, STW_OK);
            CHECK(stw_str_is(text, "from a pipe"));
        } else {
            CHECK_EQ_INT(status, STW_ERROR_INPUT);
            CHECK_CONTAINS(p.error.message, "standard input: the gzip data ends too early");
        }
    }
    if (saved >= 0) {
        dup2(saved, STDIN_FILENO);
        close(saved);
    }
    leave(&p);
}

TEST(output, appears_whole) {
    place p;
    stw_output output;
    if (!enter(&p)) return;
    CHECK_EQ_INT(stw_output_open(&output, p.file, &p.error), STW_OK);
    CHECK(fputs("new content", output.file) >= 0 && fflush(output.file) == 0);
    CHECK(access(p.file, F_OK) != 0); /* not yet there */
    CHECK_EQ_INT(stw_output_commit(&output, &p.error), STW_OK);
    check_reads(&p, STW_STR("new content"));
    CHECK_EQ_INT(list(&p, false), 1); /* nothing left aside */
    stw_output_discard(&output);      /* no-op after a commit */
    check_reads(&p, STW_STR("new content"));
    leave(&p);
}

TEST(output, discarding_leaves_what_was) {
    place p;
    stw_output output;
    if (!enter(&p)) return;
    CHECK_EQ_INT(stw_output_open(&output, p.file, &p.error), STW_OK);
    fputs("half", output.file);
    stw_output_discard(&output);
    CHECK_EQ_INT(list(&p, false), 0);
    put(&p, "old", 3);
    CHECK_EQ_INT(stw_output_open(&output, p.file, &p.error), STW_OK);
    fputs("half", output.file);
    fflush(output.file);
    check_reads(&p, STW_STR("old"));
    stw_output_discard(&output);
    stw_output_discard(&output);
    check_reads(&p, STW_STR("old"));
    CHECK_EQ_INT(list(&p, false), 1);
    CHECK_EQ_INT(stw_output_open(&output, p.file, &p.error), STW_OK);
    fputs("replaced", output.file);
    CHECK_EQ_INT(stw_output_commit(&output, &p.error), STW_OK);
    check_reads(&p, STW_STR("replaced"));
    leave(&p);
}

TEST(output, obeys_the_mask_of_the_user) {
    place p;
    stw_output output;
    struct stat info;
    if (!enter(&p)) return;
    const mode_t before = umask(027);
    CHECK_EQ_INT(stw_output_open(&output, p.file, &p.error), STW_OK);
    CHECK_EQ_INT(stw_output_commit(&output, &p.error), STW_OK);
    CHECK_EQ_INT(umask(before), 027); /* the mask itself is left alone */
    CHECK(stat(p.file, &info) == 0);
    CHECK_EQ_INT(info.st_mode & 0777, 0640);
    leave(&p);
}

TEST(output, failures_name_the_path_and_leave_nothing) {
    place p;
    stw_output output;
    if (!enter(&p)) return;
    char path[5000];
    snprintf(path, sizeof path, "%s/no/such/folder", p.path);
    CHECK_EQ_INT(stw_output_open(&output, path, &p.error), STW_ERROR_IO);
    CHECK_CONTAINS(p.error.message, path);
    CHECK_CONTAINS(p.error.message, "cannot be written: No such file or directory");
    stw_output_discard(&output);
    CHECK_EQ_INT(stw_output_open(&output, p.path, &p.error), STW_ERROR_IO);
    CHECK_CONTAINS(p.error.message, "cannot be written: Is a directory");
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    CHECK_EQ_INT(stw_output_open(&output, path, &p.error), STW_ERROR_INPUT);
    CHECK_CONTAINS(p.error.message, "the output path is too long");
    stw_output_discard(&output);
    CHECK_EQ_INT(stw_output_open(&output, p.file, &p.error), STW_OK);
    CHECK(rmdir(p.path) != 0 && list(&p, true) == 1); /* somebody removes the file aside */
    CHECK_EQ_INT(stw_output_commit(&output, &p.error), STW_ERROR_IO);
    CHECK_CONTAINS(p.error.message, p.file);
    CHECK_EQ_INT(list(&p, false), 0);
    leave(&p);
}

TEST(output, devices_are_written_directly) {
    stw_output output;
    stw_error error;
    CHECK_EQ_INT(stw_output_open(&output, "/dev/null", &error), STW_OK);
    fputs("gone", output.file);
    CHECK_EQ_INT(stw_output_commit(&output, &error), STW_OK);
    if (access("/dev/full", W_OK) != 0) SKIP("no /dev/full on this system");
    CHECK_EQ_INT(stw_output_open(&output, "/dev/full", &error), STW_OK);
    fputs("no room", output.file);
    CHECK_EQ_INT(stw_output_commit(&output, &error), STW_ERROR_IO);
    CHECK_STR(error.message, "/dev/full: cannot be written: No space left on device");
    CHECK_EQ_INT(stw_output_open(&output, "/dev/full", &error), STW_OK);
    for (int i = 0; i < 100000; i++) fputs("no room", output.file); /* fails long before the commit */
    CHECK_EQ_INT(stw_output_commit(&output, &error), STW_ERROR_IO);
    CHECK(access("/dev/null", F_OK) == 0 && access("/dev/full", F_OK) == 0);
}

TEST(file, permission) {
    const uid_t self = geteuid();
    if (self == 0 && seteuid(65534) != 0) SKIP("root may read and write everything, and cannot become nobody here");
    place p;
    stw_output output;
    const bool welcome = faccessat(AT_FDCWD, temporary(), W_OK | X_OK, AT_EACCESS) == 0;
    if (welcome && enter(&p)) {
        put(&p, "secret", 6);
        CHECK_EQ_INT(chmod(p.file, 0), 0);
        CHECK_EQ_INT(stw_file_read(p.file, &p.arena, &(stw_str){0}, &p.error), STW_ERROR_INPUT);
        CHECK_CONTAINS(p.error.message, "cannot be opened: Permission denied");
        CHECK_EQ_INT(chmod(p.path, 0500), 0);
        CHECK_EQ_INT(stw_output_open(&output, p.file, &p.error), STW_ERROR_IO);
        CHECK_CONTAINS(p.error.message, "cannot be written: Permission denied");
        CHECK_EQ_INT(chmod(p.path, 0700), 0);
        leave(&p);
    }
    CHECK_EQ_INT(seteuid(self), 0);
    if (!welcome) SKIP("nobody may not write to the folder for temporary files");
}

/* Files of 32 MiB and more are mapped: the same bytes and NUL, whether or not the last page is full; and what the arena hands out
 * where a mapping was is zero. */
TEST(file, large_files_are_mapped) {
    static const int64_t lengths[] = {STW_FILE_MAP_BYTES - 1, STW_FILE_MAP_BYTES, STW_FILE_MAP_BYTES + 1};
    place p;
    if (!enter(&p)) return;
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        const stw_arena before = p.arena;
        char *data = STW_NEW(&p.arena, char, lengths[k]);
        for (int64_t i = 0; i < lengths[k]; i++) data[i] = (char)('a' + i % 23);
        put(&p, data, lengths[k]);
        test_context("%lld bytes", (long long)lengths[k]);
        check_reads(&p, (stw_str){data, lengths[k]});
        p.arena = before;
        const char *again = STW_NEW(&p.arena, char, 70 << 20);
        int64_t others = 0;
        for (int64_t i = 0; i < 70 << 20; i++) others += again[i] != 0;
        CHECK_EQ_INT(others, 0);
        p.arena = before;
    }
    leave(&p);
}

TEST(file, a_change_shows_in_its_state) {
    place p;
    if (!enter(&p)) return;
    put(&p, "abc", 3);
    const stw_file_state before = stw_file_state_of(p.file);
    CHECK_EQ_INT(before.size, 3);
    CHECK(stw_file_state_equal(before, stw_file_state_of(p.file)));
    put(&p, "ab", 2);
    CHECK(!stw_file_state_equal(before, stw_file_state_of(p.file)));
    CHECK_EQ_INT(stw_file_state_of("-").size, 0);
    CHECK(
        stw_file_state_equal(stw_file_state_of("/dev/null"), stw_file_state_of("/dev/zero"))); /* pipes and the like have none */
    leave(&p);
}
