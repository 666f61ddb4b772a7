/*
 * Tests that the recorder writes to no file of a program that closes descriptors which it does not own, closes none,
 * and ends no lock on it; and what becomes of the recording.
 */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tests/anew.h"
#include "tap.h"
#include "trace.h"

#define BEFORE    100 /* pairs that are recorded before the program closes the descriptors, and after it */
#define AFTER     20000
#define FILE_SIZE (1 << 20)
#define FILES     32

/* Which of the recorder's files lose their descriptors, and whether the program is killed afterwards. */
struct closing {
    const char *words;
    const char *suffix; /* of the trace's file; NULL: all of them */
    bool second;        /* close only the second descriptor of that file, which has locks and no data */
    bool goes_on;       /* the recording has all, and is complete */
    bool killed;
    const char *path;
    struct heard heard;
    int files[FILES];
    unsigned count;
};

/* Whether the name of an open file, which is absolute, ends with these two. */
static bool
ends_with(const char *name, const char *path, const char *suffix)
{
    size_t path_length = strlen(path), suffix_length = strlen(suffix), length = strlen(name);

    return length >= path_length + suffix_length && strcmp(name + length - suffix_length, suffix) == 0 &&
           strncmp(name + length - suffix_length - path_length, path, path_length) == 0;
}

/* Whether the descriptor is one of those to close. */
static bool
is_chosen(const struct closing *closing, int fd)
{
    static const char *const suffixes[] = { "", "-wal", "-shm", "-rings" };
    char link[64], target[512] = "";
    bool chosen = false;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (readlink(link, target, sizeof(target) - 1) < 0)
        return false;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        if (closing->suffix == NULL || strcmp(closing->suffix, suffixes[i]) == 0)
            chosen = chosen || ends_with(target, closing->path, suffixes[i]);
    }
    return chosen;
}

/* Lock a file as a process does: whoever closes any descriptor of it ends the lock. */
static bool
lock_file(int fd)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    return fcntl(fd, F_SETLK, &lock) == 0;
}

/* Whether another process finds the whole file locked, which it would have for itself. */
static bool
is_locked(int fd)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == getppid() ? 0 : 1);
    waitpid(pid, &status, 0);
    return status == 0;
}

static void
fill(int fd, char *text)
{
    memset(text, 'U', FILE_SIZE);
    if (write(fd, text, FILE_SIZE) != FILE_SIZE || !lock_file(fd))
        _exit(90);
}

/* Close the recorder's descriptors, as a program does by mistake, and open files of its own that get the numbers. */
static unsigned
close_and_open(struct closing *closing)
{
    char *text = malloc(FILE_SIZE);
    unsigned closed = 0, seen = 0;

    for (int fd = 3; fd < 256; fd++) {
        if (is_chosen(closing, fd) && (++seen == 2 || !closing->second))
            closed += close(fd) == 0;
    }
    for (closing->count = 0; closing->count < closed; closing->count++) {
        char name[600];

        snprintf(name, sizeof(name), "%s.user-%u", closing->path, closing->count);
        closing->files[closing->count] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        fill(closing->files[closing->count], text);
    }
    free(text);
    return closed;
}

/* Whether the program's file is still open, and as it was. */
static bool
is_whole(int fd)
{
    struct stat info;
    char *text = malloc(FILE_SIZE);
    bool whole = fstat(fd, &info) == 0 && info.st_size == FILE_SIZE && pread(fd, text, FILE_SIZE, 0) == FILE_SIZE;

    for (size_t i = 0; whole && i < FILE_SIZE; i++)
        whole = text[i] == 'U';
    free(text);
    return whole;
}

/* A bit for each thing that does not hold of the program's files. */
static int
look_at_files(const struct closing *closing)
{
    int bad = 0;

    for (unsigned i = 0; i < closing->count; i++) {
        bad |= is_whole(closing->files[i]) ? 0 : 1;
        bad |= is_locked(closing->files[i]) ? 0 : 2;
    }
    return bad;
}

/* Another program, this one anew, tries to recover the trace. */
static int
recover(const char *path)
{
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };

    return tide_trace_recover(path, &found) == TIDE_OK ? 10 + (int)found.state : 1;
}

/* Another program reads the trace by SQLite alone, and takes itself for the last one that does. */
static int
look(const char *path)
{
    sqlite3 *db = NULL;
    int code = sqlite3_open(path, &db);

    if (code == SQLITE_OK)
        code = sqlite3_exec(db, "SELECT count(*) FROM allocation", NULL, NULL, NULL);
    sqlite3_close(db);
    return code == SQLITE_OK ? 0 : 1;
}

static ino_t
inode_beside(const char *path, const char *suffix)
{
    char name[600];
    struct stat info;

    snprintf(name, sizeof(name), "%s%s", path, suffix);
    return stat(name, &info) == 0 ? info.st_ino : 0;
}

/* Whether other programs leave a recording alone that goes on. */
static bool
is_left_alone(const char *path)
{
    ino_t log = inode_beside(path, "-wal"), index = inode_beside(path, "-shm");

    return run_anew("look", path) == 0 && run_anew("recover", path) == 10 + TIDE_TRACE_RECORDING &&
           inode_beside(path, "-wal") == log && inode_beside(path, "-shm") == index && log != 0 && index != 0;
}

static int
closing_child(void *argument)
{
    struct closing *closing = argument;
    struct tide_resource *stack = stack_of("log(%s, ring=64KiB) | sim", closing->path);
    int bad = 0;

    hear(&closing->heard);
    for (int i = 0; i < BEFORE; i++)
        give(stack, take(stack, 64), 64);
    bad |= tide_log_flush(stack) == TIDE_OK ? 0 : 4;
    bad |= close_and_open(closing) != 0 ? 0 : 8;
    for (int i = 0; i < AFTER; i++)
        give(stack, take(stack, 64), 64);
    bad |= (tide_log_flush(stack) == TIDE_OK) == closing->goes_on ? 0 : 16;
    bad |= !closing->goes_on || is_left_alone(closing->path) ? 0 : 64;
    for (int i = 0; i < BEFORE; i++)
        give(stack, take(stack, 64), 64);
    bad |= look_at_files(closing);
    if (closing->killed && bad == 0)
        raise(SIGKILL);
    tide_resource_release(stack);
    bad |= look_at_files(closing);
    if (!closing->goes_on && strstr(closing->heard.text, "the program has closed a descriptor") == NULL)
        bad |= 32;
    return bad;
}

/* Every pair is in the trace, or its two events are counted as lost. */
static bool
has_or_counts_all(const char *path)
{
    int64_t rows = sql_number(path, "SELECT count(*) FROM allocation");
    int64_t lost = sql_number(path, "SELECT total(events) FROM loss WHERE reason LIKE 'allocation%%'");

    if (rows + lost == 2 * BEFORE + AFTER && rows >= BEFORE)
        return true;
    diag("%lld rows and %lld losses", (long long)rows, (long long)lost);
    return false;
}

static bool
tells_why(const char *path)
{
    return sql_number(path, "SELECT value FROM meta WHERE key = 'complete'") == 0 &&
           strstr(sql_text(path, "SELECT value FROM meta WHERE key = 'failure'"),
                  "the program has closed a descriptor that it does not own") != NULL;
}

static void
test_closing(const char *words, const char *suffix, bool goes_on)
{
    struct closing closing = { .words = words, .suffix = suffix, .second = goes_on, .goes_on = goes_on };
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    static unsigned number;
    int status;

    if (!CHILDREN_MAY_RECORD) {
        skip(4, "ThreadSanitizer does not follow children");
        return;
    }
    closing.path = scratch("closing-%u.db", number++);
    status = in_child(closing_child, &closing);
    if (!ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
            "%s: the program's files that get the numbers stay as they are, open and locked", words))
        diag("status 0x%x", status);
    tide_trace_recover(closing.path, &found);
    ok(all_of(trace_is_sound(closing.path), has_or_counts_all(closing.path),
              goes_on ? trace_is_whole(closing.path) : tells_why(closing.path)),
       "%s: the trace has each call or counts it, and says why it ends", words);
    closing.path = scratch("closing-%u.db", number++);
    closing.killed = true;
    status = in_child(closing_child, &closing);
    if (!ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: the program's files stay as they are until a kill",
            words))
        diag("status 0x%x", status);
    tide_trace_recover(closing.path, &found);
    ok(all_of(trace_is_sound(closing.path), has_or_counts_all(closing.path), goes_on || tells_why(closing.path)),
       "%s: after a kill the trace has each call or counts it", words);
}

int
main(int argc, char **argv)
{
    if (argc == 3)
        return strcmp(argv[1], "look") == 0 ? look(argv[2]) : recover(argv[2]);
    plan(32);
    alarm(240);
    test_closing("the program closes the descriptors of the trace", "", false);
    test_closing("the program closes that of the write-ahead log", "-wal", false);
    test_closing("the program closes those of the -shm file", "-shm", false);
    test_closing("the program closes those of the ring file", "-rings", false);
    test_closing("the program closes all that the recorder has open", NULL, false);
    test_closing("the program closes the descriptor by which the recorder locks the trace", "", true);
    test_closing("the program closes the descriptor by which the recorder locks the -shm file", "-shm", true);
    test_closing("the program closes the descriptor by which the recorder locks the ring file", "-rings", true);
    return done();
}
