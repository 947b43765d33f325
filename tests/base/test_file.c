/* base/file: whole files in, packed or not; whole files out, or none. */
#define _XOPEN_SOURCE 700
#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* What is written, by a path of its own beside p->file. */
static void write_file(place *p, const char *path, const char *text) {
    stw_output output;
    if (!CHECK_EQ_INT(stw_output_open(&output, path, &p->error), STW_OK)) return;
    fputs(text, output.file);
    CHECK_EQ_INT(stw_output_commit(&output, &p->error), STW_OK);
}

TEST(output, links_are_followed_also_where_they_lead_to_nothing_yet) {
    place p;
    struct stat info;
    char link[1200], second[1200];
    if (!enter(&p)) return;
    snprintf(link, sizeof link, "%s/link", p.path);
    snprintf(second, sizeof second, "%s/second", p.path);
    CHECK(symlink("file", link) == 0 && symlink(link, second) == 0); /* relative to its folder; by the whole path */
    CHECK_EQ_INT(stw_output_check(second, &p.error), STW_OK);
    CHECK_EQ_INT(list(&p, false), 2); /* a check leaves nothing behind */
    write_file(&p, second, "through two links");
    check_reads(&p, STW_STR("through two links"));
    CHECK(lstat(link, &info) == 0 && S_ISLNK(info.st_mode) && lstat(second, &info) == 0 && S_ISLNK(info.st_mode));
    CHECK(lstat(p.file, &info) == 0 && S_ISREG(info.st_mode));
    write_file(&p, link, "again");
    check_reads(&p, STW_STR("again"));
    CHECK_EQ_INT(list(&p, false), 3);
    CHECK(unlink(link) == 0 && symlink("second", link) == 0); /* in a circle */
    stw_output output;
    CHECK_EQ_INT(stw_output_open(&output, link, &p.error), STW_ERROR_IO);
    CHECK_CONTAINS(p.error.message, "Too many levels of symbolic links");
    CHECK_EQ_INT(stw_output_check(link, &p.error), STW_ERROR_IO);
    leave(&p);
}

TEST(output, a_file_keeps_its_permissions) {
    place p;
    struct stat info;
    if (!enter(&p)) return;
    put(&p, "old", 3);
    CHECK_EQ_INT(chmod(p.file, 0640), 0);
    const mode_t before = umask(077);
    write_file(&p, p.file, "new");
    umask(before);
    check_reads(&p, STW_STR("new"));
    CHECK(stat(p.file, &info) == 0);
    CHECK_EQ_INT(info.st_mode & 0777, 0640);
    leave(&p);
}

TEST(output, a_check_tells_what_writing_would) {
    place p;
    char path[1200];
    if (!enter(&p)) return;
    CHECK_EQ_INT(stw_output_check("-", &p.error), STW_OK);
    CHECK_EQ_INT(stw_output_check("/dev/null", &p.error), STW_OK);
    CHECK_EQ_INT(stw_output_check(p.file, &p.error), STW_OK);
    CHECK_EQ_INT(list(&p, false), 0);
    CHECK_EQ_INT(stw_output_check(p.path, &p.error), STW_ERROR_IO);
    CHECK_CONTAINS(p.error.message, "cannot be written: Is a directory");
    snprintf(path, sizeof path, "%s/no/file", p.path);
    CHECK_EQ_INT(stw_output_check(path, &p.error), STW_ERROR_IO);
    CHECK_CONTAINS(p.error.message, "/no/file: cannot be written: No such file or directory");
    CHECK_EQ_INT(mkfifo(p.file, 0600), 0); /* nobody reads it, and nobody waits for that */
    CHECK_EQ_INT(stw_output_check(p.file, &p.error), STW_OK);
    leave(&p);
}

TEST(file, one_file_by_several_names) {
    place p;
    char other[1200], symbolic[1200], folder[1200], around[1200];
    if (!enter(&p)) return;
    snprintf(other, sizeof other, "%s/other", p.path);
    snprintf(symbolic, sizeof symbolic, "%s/symbolic", p.path);
    snprintf(folder, sizeof folder, "%s/folder", p.path);
    snprintf(around, sizeof around, "%s/folder/../other", p.path);
    CHECK(stw_file_is_same(p.file, p.file)); /* though it is not there */
    CHECK(!stw_file_is_same(p.file, other));
    put(&p, "x", 1);
    CHECK(!stw_file_is_same(p.file, other));
    CHECK(symlink("other", symbolic) == 0 && mkdir(folder, 0700) == 0);
    CHECK(stw_file_is_same(symbolic, other) && stw_file_is_same(around, symbolic)); /* that is not there */
    CHECK_EQ_INT(link(p.file, other), 0);
    CHECK(stw_file_is_same(p.file, other) && stw_file_is_same(p.file, symbolic) && stw_file_is_same(p.file, around));
    CHECK(!stw_file_is_same("/dev/null", "/dev/null")); /* nothing is overwritten there */
    CHECK(!stw_file_is_same(p.file, "/no/such/folder/file"));
    rmdir(folder);
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
        CHECK_EQ_INT(chmod(p.file, 0444), 0);
        CHECK_EQ_INT(stw_output_open(&output, p.file, &p.error), STW_ERROR_IO); /* though the folder would let it be replaced */
        CHECK_CONTAINS(p.error.message, "cannot be written: Permission denied");
        CHECK_EQ_INT(chmod(p.path, 0500), 0);
        CHECK_EQ_INT(stw_output_open(&output, p.file, &p.error), STW_ERROR_IO);
        CHECK_CONTAINS(p.error.message, "cannot be written: Permission denied");
        CHECK_EQ_INT(chmod(p.path, 0700), 0);
        leave(&p);
    }
    CHECK_EQ_INT(seteuid(self), 0);
    if (!welcome) SKIP("nobody may not write to the folder for temporary files");
}

/* A file that is cut off after it was read, large as it may be: what was read stays, and nothing ends the process. */
TEST(file, cutting_a_file_off_changes_nothing_that_was_read) {
    const int64_t length = (int64_t)33 << 20;
    place p;
    stw_str text = {0};
    if (!enter(&p)) return;
    char *data = STW_NEW(&p.arena, char, length);
    for (int64_t i = 0; i < length; i++) data[i] = (char)('a' + i % 23);
    put(&p, data, length);
    CHECK_EQ_INT(stw_file_read(p.file, &p.arena, &text, &p.error), STW_OK);
    CHECK_EQ_INT(truncate(p.file, 0), 0);
    CHECK(stw_str_equal(text, (stw_str){data, length}));
    CHECK_EQ_INT(text.p[text.length], 0);
    leave(&p);
}

/* ---- limits ---- */

static void check_refused(place *p, const stw_file_limits *limits, const char *says) {
    stw_str text = {0};
    CHECK_EQ_INT(stw_file_read_within(p->file, limits, &p->arena, &text, &p->error), STW_ERROR_INPUT);
    CHECK_CONTAINS(p->error.message, says);
    CHECK_CONTAINS(p->error.message, p->file);
}

TEST(file, a_file_may_be_as_large_as_its_limit) {
    place p;
    if (!enter(&p)) return;
    const stw_str text = sample(&p.arena, 100000);
    const stw_str form[] = {text, gzip(&p.arena, text), zstd(&p.arena, text)};
    for (int k = 0; k < 3; k++) {
        test_context("form %d", k);
        put(&p, form[k].p, form[k].length);
        stw_str out = {0};
        CHECK_EQ_INT(stw_file_read_within(p.file, &(stw_file_limits){.bytes = 100000}, &p.arena, &out, &p.error), STW_OK);
        CHECK(stw_str_equal(out, text));
        check_refused(&p, &(stw_file_limits){.bytes = 99999}, "99999 bytes");
        CHECK_CONTAINS(p.error.message, "--file-limit");
    }
    leave(&p);
}

/* A few thousand bytes that unpack to much: refused while they are unpacked, before they have taken much memory. */
TEST(file, what_unpacks_to_too_much_is_refused) {
    const int64_t length = (int64_t)100 << 20;
    place p;
    if (!enter(&p)) return;
    const stw_str zeros = {STW_NEW(&p.arena, char, length), length};
    const stw_str form[] = {gzip(&p.arena, zeros), zstd(&p.arena, zeros)};
    for (int k = 0; k < 2; k++) {
        stw_arena scratch;
        stw_str out = {0};
        test_context("form %d", k);
        CHECK_EQ_INT(stw_arena_create(&scratch, NULL), STW_OK);
        CHECK(form[k].length < length / 500);
        CHECK_EQ_INT(stw_unpack(form[k], &scratch, &out, &p.error), STW_ERROR_INPUT);
        CHECK_CONTAINS(p.error.message, "to more than 67108864 bytes; unpack it beforehand");
        CHECK_EQ_INT(stw_unpack_within(form[k], &(stw_file_limits){0}, &scratch, &out, &p.error), STW_ERROR_INPUT);
        CHECK_CONTAINS(p.error.message, "to more than 67108864 bytes; give what it may come to with --file-limit");
        CHECK(stw_arena_high_water(&scratch) < 2 * 3 * STW_FILE_FREE_BYTES + (1 << 20));
        const stw_file_limits raised = {100 << 20, INT64_MAX}, lower = {99 << 20, INT64_MAX};
        CHECK_EQ_INT(stw_unpack_within(form[k], &raised, &scratch, &out, &p.error), STW_OK);
        CHECK_EQ_INT(out.length, length);
        CHECK_EQ_INT(stw_unpack_within(form[k], &lower, &scratch, &out, &p.error), STW_ERROR_INPUT);
        stw_arena_destroy(&scratch);
    }
    leave(&p);
}

TEST(file, devices_have_no_end) {
    place p;
    stw_str text = {0};
    if (!enter(&p)) return;
    CHECK_EQ_INT(stw_file_read("/dev/zero", &p.arena, &text, &p.error), STW_ERROR_INPUT);
    CHECK_STR(p.error.message, "/dev/zero: is a device, which has no end; name a file or a pipe");
    CHECK_EQ_INT(stw_file_read("/dev/null", &p.arena, &text, &p.error), STW_OK); /* that is its end */
    CHECK_EQ_INT(text.length, 0);
    leave(&p);
}

/* ---- pipes ---- */

/* A process that writes the text to the pipe, as often as asked, or until nobody reads it. */
static pid_t write_to_pipe(const place *p, const char *text, int64_t times) {
    const pid_t child = fork();
    if (child != 0) return child;
    signal(SIGPIPE, SIG_IGN);
    const int pipe = open(p->file, O_WRONLY); /* waits for whoever reads */
    for (int64_t k = 0; k < times && write(pipe, text, strlen(text)) > 0; k++) {
    }
    _exit(0);
}

static void wait_for(pid_t child) {
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

TEST(file, pipes_are_read_to_their_end) {
    place p;
    if (!enter(&p)) return;
    CHECK_EQ_INT(mkfifo(p.file, 0600), 0);
    const pid_t child = write_to_pipe(&p, "text", 1);
    check_reads(&p, STW_STR("text"));
    wait_for(child);
    leave(&p);
}

TEST(file, a_pipe_without_end_or_writer_is_refused) {
    place p;
    if (!enter(&p)) return;
    CHECK_EQ_INT(mkfifo(p.file, 0600), 0);
    check_refused(&p, NULL, ": is a pipe that nobody writes to");
    const pid_t child = write_to_pipe(&p, "more and more ", INT64_MAX);
    check_refused(&p, &(stw_file_limits){.bytes = 1 << 20}, ": is larger than 1048576 bytes");
    wait_for(child);
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
