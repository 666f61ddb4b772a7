/*
 * Tests that a recorder keeps its claim on the files of its trace, whatever else its process and other programs do with
 * them: nobody takes over a live recording, removes its write-ahead log or cuts off its index.
 */
#include "config.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "src/sync/testpoint.h"

#include "sanitized.h"
#include "tests/anew.h"
#include "tap.h"
#include "trace.h"

#define ROUNDS 5
#define PAIRS  200

/* Another program reads the trace as sqlite3 does, and is the last to close it as far as it can tell. */
static int
outside_look(const char *path)
{
    sqlite3_stmt *statement;
    sqlite3 *db;
    int good;

    if (sqlite3_open(path, &db) != SQLITE_OK)
        return 1;
    good = sqlite3_prepare_v2(db, "SELECT count(*) FROM allocation", -1, &statement, NULL) == SQLITE_OK &&
           sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return good ? 0 : 2;
}

/* Another program tries to take the trace out of the mode of the write-ahead log. */
static int
outside_change(const char *path)
{
    sqlite3 *db;

    if (sqlite3_open(path, &db) != SQLITE_OK)
        return 1;
    sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    sqlite3_close(db);
    return 0;
}

/* Another program writes into the trace. 3: it may not. */
static int
outside_write(const char *path)
{
    int code;
    sqlite3 *db;

    if (sqlite3_open(path, &db) != SQLITE_OK)
        return 1;
    code = sqlite3_exec(db, "INSERT INTO meta VALUES ('written', 'by another program')", NULL, NULL, NULL);
    sqlite3_close(db);
    return code == SQLITE_OK ? 0 : 3;
}

/* Another program recovers the trace. The exit status is 10 and what it found. */
static int
outside_recover(const char *path)
{
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };

    return tide_trace_recover(path, &found) == TIDE_OK ? 10 + (int)found.state : 1;
}

static const struct {
    const char *name;
    int (*run)(const char *path);
} outsides[] = {
    { "look", outside_look },
    { "change", outside_change },
    { "write", outside_write },
    { "recover", outside_recover },
};

static const char *
beside(const char *path, const char *suffix)
{
    static char name[4][300];
    static unsigned next;
    char *text = name[next++ % 4];

    snprintf(text, sizeof(name[0]), "%s%s", path, suffix);
    return text;
}

/* Open a file of the trace and close it again: the process's POSIX locks on it end with that. */
static bool
open_and_close(const char *path, const char *suffix)
{
    int fd = open(beside(path, suffix), O_RDWR | O_CLOEXEC);

    return fd >= 0 && close(fd) == 0;
}

static bool
lose_trace(const char *path)
{
    return open_and_close(path, "");
}

static bool
lose_index(const char *path)
{
    return open_and_close(path, "-shm");
}

static bool
lose_rings(const char *path)
{
    return open_and_close(path, "-rings");
}

static bool
lose_all(const char *path)
{
    return open_and_close(path, "") && open_and_close(path, "-shm") && open_and_close(path, "-wal") &&
           open_and_close(path, "-rings");
}

/* Another copy of SQLite in this process knows nothing of the first one's connection. */
static bool
lose_by_copy(const char *path)
{
    static void *library;
    int (*open_db)(const char *, sqlite3 **);
    int (*exec_db)(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
    int (*close_db)(sqlite3 *);
    sqlite3 *db = NULL;
    bool good;

    if (library == NULL)
        library = dlmopen(LM_ID_NEWLM, "libsqlite3.so.0", RTLD_NOW);
    if (library == NULL)
        return true;
    *(void **)&open_db = dlsym(library, "sqlite3_open");
    *(void **)&exec_db = dlsym(library, "sqlite3_exec");
    *(void **)&close_db = dlsym(library, "sqlite3_close");
    good = open_db(path, &db) == SQLITE_OK &&
           exec_db(db, "SELECT count(*) FROM allocation", NULL, NULL, NULL) == SQLITE_OK;
    close_db(db);
    return good;
}

struct loss {
    const char *words;
    bool (*lose)(const char *path);
    const char *path;
    bool killed;
};

static ino_t
inode_of(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? info.st_ino : 0;
}

/* One round: what was recorded stays, whoever looks. A bit for each thing that does not hold. */
static int
lose_round(const struct loss *loss, struct tide_resource *stack)
{
    ino_t log, index;
    int bad = 0;

    for (int i = 0; i < PAIRS; i++)
        give(stack, take(stack, 64), 64);
    bad |= tide_log_flush(stack) != TIDE_OK ? 1 : 0;
    log = inode_of(beside(loss->path, "-wal"));
    index = inode_of(beside(loss->path, "-shm"));
    bad |= loss->lose(loss->path) ? 0 : 2;
    bad |= run_anew("look", loss->path) == 0 ? 0 : 4;
    bad |= run_anew("change", loss->path) == 0 ? 0 : 4;
    bad |= run_anew("recover", loss->path) == 10 + TIDE_TRACE_RECORDING ? 0 : 8;
    bad |= log != 0 && inode_of(beside(loss->path, "-wal")) == log ? 0 : 16;
    bad |= index != 0 && inode_of(beside(loss->path, "-shm")) == index ? 0 : 32;
    return bad;
}

static int
lose_child(void *argument)
{
    const struct loss *loss = argument;
    struct tide_resource *stack = stack_of("log(%s) | sim", loss->path);
    int bad = 0;

    for (int i = 0; i < ROUNDS; i++)
        bad |= lose_round(loss, stack);
    for (int i = 0; i < PAIRS; i++)
        give(stack, take(stack, 64), 64);
    if (bad != 0)
        return bad;
    if (loss->killed)
        raise(SIGKILL);
    tide_resource_release(stack);
    return 0;
}

/* The trace has all pairs, and nothing is beside it. */
static bool
has_all(const char *path, int64_t pairs)
{
    return trace_is_whole(path) && sql_number(path, "SELECT count(free_ns) FROM allocation") == pairs &&
           scratch_count(strrchr(path, '/') + 1) == 1;
}

static void
test_loss(const char *words, bool (*lose)(const char *path))
{
    struct loss loss = { words, lose, NULL, false };
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    static unsigned number;
    int status;

    if (!CHILDREN_MAY_RECORD || (SANITIZED_ADDRESS && lose == lose_by_copy)) {
        skip(2, "this sanitizer does not support it");
        return;
    }
    loss.path = scratch("loss-%u.db", number++);
    status = in_child(lose_child, &loss);
    if (!ok(all_of(WIFEXITED(status) && WEXITSTATUS(status) == 0, has_all(loss.path, (ROUNDS + 1) * PAIRS)),
            "%s: other programs leave the recording alone, and it ends with every row", words))
        diag("status 0x%x", status);
    loss.path = scratch("loss-%u.db", number++);
    loss.killed = true;
    status = in_child(lose_child, &loss);
    if (!ok(all_of(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
                   tide_trace_recover(loss.path, &found) == TIDE_OK && found.state == TIDE_TRACE_RECOVERED,
                   has_all(loss.path, (ROUNDS + 1) * PAIRS)),
            "%s: other programs leave the recording alone, and after a kill every row is recovered", words))
        diag("status 0x%x", status);
}

/* A child that fork()'s handlers know nothing of has copies of all descriptors, and outlives the recorder. */
static int
orphan_child(void *argument)
{
    const char *path = argument;
    struct tide_resource *stack = stack_of("log(%s) | sim", path);
    long pid;

    for (int i = 0; i < PAIRS; i++)
        give(stack, take(stack, 64), 64);
    pid = syscall(SYS_fork);
    if (pid == 0) {
        alarm(20);
        for (;;)
            syscall(SYS_pause);
    }
    raise(SIGKILL);
    return 1;
}

static void
test_orphan(void)
{
    const char *path = scratch("orphan.db");
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    int status;

    if (!CHILDREN_MAY_RECORD) {
        skip(1, "ThreadSanitizer does not follow children");
        return;
    }
    status = in_child(orphan_child, (void *)path);
    if (!ok(all_of(WIFSIGNALED(status), tide_trace_recover(path, &found) == TIDE_OK,
                   found.state == TIDE_TRACE_RECOVERED, trace_is_whole(path),
                   sql_number(path, "SELECT count(*) FROM allocation") == PAIRS),
            "a child that still has the killed recorder's descriptors does not keep the trace from being recovered"))
        diag("%s", tide_error_text());
}

/* The parent is killed while its forked child lives on. */
static int
forked_child(void *argument)
{
    const char *path = argument;
    struct tide_resource *stack = stack_of("log(%s) | sim", path);
    pid_t pid;

    for (int i = 0; i < PAIRS; i++)
        give(stack, take(stack, 64), 64);
    pid = fork();
    if (pid == 0) {
        alarm(20);
        for (;;)
            pause();
    }
    raise(SIGKILL);
    return 1;
}

static void
test_forked(void)
{
    const char *path = scratch("forked.db");
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    int status;

    if (!CHILDREN_MAY_RECORD) {
        skip(1, "ThreadSanitizer does not follow children");
        return;
    }
    status = in_child(forked_child, (void *)path);
    ok(all_of(WIFSIGNALED(status), tide_trace_recover(path, &found) == TIDE_OK, found.state == TIDE_TRACE_RECOVERED,
              has_all(path, PAIRS)),
       "a forked child that lives on does not keep its parent's trace from being recovered");
}

/* A process that reads its own trace while the recording ends keeps its locks. */
static void
test_own_reader(void)
{
    const char *path = scratch("own-reader.db");
    struct tide_resource *stack = stack_of("log(%s) | sim", path);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (1 << 30) + 2, .l_len = 510 };
    sqlite3 *db;
    int fd;

    give(stack, take(stack, 64), 64);
    tide_log_flush(stack);
    if (sqlite3_open(path, &db) != SQLITE_OK || outside_look(path) != 0)
        abort();
    sqlite3_exec(db, "BEGIN; SELECT count(*) FROM allocation", NULL, NULL, NULL);
    tide_resource_release(stack);
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    ok(all_of(fcntl(fd, F_OFD_GETLK, &lock) == 0, lock.l_type != F_UNLCK),
       "where the process itself reads its trace, the end of the recording leaves the reader its locks");
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    close(fd);
}

/* A writer of another program never comes between the transactions of the recorder. */
static void
test_other_writer(void)
{
    const char *path = scratch("writer.db");
    struct tide_resource *stack = stack_of("log(%s) | sim", path);

    for (int i = 0; i < PAIRS; i++) {
        give(stack, take(stack, 64), 64);
        if (i % 20 == 10)
            tide_log_flush(stack);
        if (i % 50 == 10) {
            lose_all(path);
            run_anew("write", path);
        }
    }
    tide_resource_release(stack);
    ok(all_of(has_all(path, PAIRS), strcmp(sql_text(path, "PRAGMA integrity_check"), "ok") == 0),
       "another program that writes into the trace costs it no row");
}

/* The recorder of a file system without locks of open files: it lives, as its process id and start say. */
static int
unlocked_child(void *argument)
{
    const char *path = argument;
    struct tide_resource *stack;
    int state;

    atomic_store(&tidei_test_no_open_file_locks, 1);
    stack = stack_of("log(%s) | sim", path);
    give(stack, take(stack, 64), 64);
    if (!lose_rings(path))
        return 1;
    state = run_anew("recover", path);
    if (state != 10 + TIDE_TRACE_RECORDING)
        return 2;
    raise(SIGKILL);
    return 3;
}

static void
test_unlocked(void)
{
    const char *path = scratch("unlocked.db");
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    int status;

    if (!CHILDREN_MAY_RECORD) {
        skip(1, "ThreadSanitizer does not follow children");
        return;
    }
    status = in_child(unlocked_child, (void *)path);
    if (!ok(all_of(WIFSIGNALED(status), tide_trace_recover(path, &found) == TIDE_OK,
                   found.state == TIDE_TRACE_RECOVERED, has_all(path, 1)),
            "without any lock a recorder that lives is known by its process id and its start, and one that is dead"))
        diag("status 0x%x", status);
}

/* A copy of the files of a live recording is nobody's. */
static void
test_copied(void)
{
    const char *path = scratch("live.db"), *copy = scratch("copy.db");
    struct tide_resource *stack = stack_of("log(%s) | sim", path);
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    char command[900];

    give(stack, take(stack, 64), 64);
    tide_log_flush(stack);
    snprintf(command, sizeof(command), "cp %s %s && cp %s-wal %s-wal && cp %s-rings %s-rings", path, copy, path, copy,
             path, copy);
    ok(all_of(system(command) == 0, run_anew("recover", copy) == 10 + TIDE_TRACE_RECOVERED,
              run_anew("recover", path) == 10 + TIDE_TRACE_RECORDING, tide_trace_recover(copy, &found) == TIDE_OK),
       "a copy of the files of a live recording is recovered, and the recording goes on");
    tide_resource_release(stack);
    ok(all_of(has_all(path, 1), sql_number(copy, "SELECT count(*) FROM allocation") == 1),
       "both the recording and its copy have the allocation");
}

int
main(int argc, char **argv)
{
    for (size_t i = 0; argc == 3 && i < sizeof(outsides) / sizeof(outsides[0]); i++) {
        if (strcmp(argv[1], outsides[i].name) == 0)
            return outsides[i].run(argv[2]);
    }
    plan(17);
    alarm(240);
    test_loss("the process opens and closes the trace", lose_trace);
    test_loss("the process opens and closes the -shm file", lose_index);
    test_loss("the process opens and closes the ring file", lose_rings);
    test_loss("the process opens and closes all files of the trace", lose_all);
    test_loss("another copy of SQLite in the process reads the trace", lose_by_copy);
    test_orphan();
    test_forked();
    test_own_reader();
    test_other_writer();
    test_unlocked();
    test_copied();
    return done();
}
