/*
 * Tests failing disks: the disk is full, a file may not grow, SQLite fails, the trace is removed, or others hold locks.
 * The program continues, gets one message, committed data stays readable, and lost events are counted.
 */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tap.h"
#include "src/sync/testpoint.h"
#include "trace.h"
#include "vfs.h"

#define STACK "log(%s, ring=64KiB, backlog=2MiB, overwrite=true) | sim"

/* A program that allocates and frees all the time. */
struct load {
    struct tide_resource *stack;
    _Atomic bool stop;
    _Atomic uint64_t pairs;
    pthread_t threads[2];
};

static void *
load_work(void *argument)
{
    struct load *load = argument;

    while (!atomic_load_explicit(&load->stop, memory_order_relaxed)) {
        for (int i = 0; i < 16; i++)
            give(load->stack, take(load->stack, 64), 64);
        atomic_fetch_add_explicit(&load->pairs, 16, memory_order_relaxed);
        usleep(20);
    }
    return NULL;
}

static void
load_begin(struct load *load, struct tide_resource *stack)
{
    *load = (struct load){ .stack = stack };
    for (int i = 0; i < 2; i++)
        pthread_create(&load->threads[i], NULL, load_work, load);
}

/* Wait for `pairs` more pairs. */
static void
load_for(struct load *load, uint64_t pairs)
{
    uint64_t until = atomic_load(&load->pairs) + pairs;

    while (atomic_load(&load->pairs) < until)
        usleep(500);
}

/* Wait until the sink gets an error; fails the test if none comes for long. */
static void
load_until_heard(const struct heard *heard)
{
    for (int i = 0; i < 60000 && hear_count(heard) == 0; i++)
        usleep(1000);
}

/* Stop the load. Returns how many pairs it made. */
static int64_t
load_end(struct load *load)
{
    atomic_store(&load->stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(load->threads[i], NULL);
    return (int64_t)atomic_load(&load->pairs);
}

static int64_t
meta_number(const char *path, const char *key)
{
    return sql_number(path, "SELECT value FROM meta WHERE key = '%s'", key);
}

/* Whether the trace has all calls, or counts them as lost. */
static bool
accounts_for(const char *path, int64_t pairs)
{
    int64_t allocs = sql_number(path, "SELECT (SELECT count(*) FROM allocation) + (SELECT ifnull(sum(events), 0) FROM"
                                      " loss WHERE reason LIKE '%%allocation%%')");
    int64_t frees = sql_number(path, "SELECT (SELECT count(free_ns) FROM allocation) + (SELECT count(*) FROM"
                                     " unmatched_free) + (SELECT ifnull(sum(events), 0) FROM loss WHERE reason LIKE"
                                     " '%%free%%')");

    if (allocs != pairs || frees != pairs)
        diag("%" PRId64 " allocations and %" PRId64 " frees accounted for, %" PRId64 " made", allocs, frees, pairs);
    return allocs == pairs && frees == pairs;
}

/* Whether the trace says that it is incomplete and why, and is sound. */
static bool
says_why(const char *path, const char *words)
{
    const char *failure = sql_text(path, "SELECT value FROM meta WHERE key = 'failure'");

    if (strstr(failure, words) == NULL)
        diag("failure: \"%s\", wanted in it \"%s\"", failure, words);
    return strstr(failure, words) != NULL && meta_number(path, "complete") == 0 && trace_is_sound(path);
}

static bool
heard_once(const struct heard *heard, const char *words)
{
    if (heard->errors != 1 || strstr(heard->text, words) == NULL)
        diag("heard %u errors, the latest \"%s\", wanted in it \"%s\"", heard->errors, heard->text, words);
    return heard->errors == 1 && strstr(heard->text, words) != NULL;
}

/* SQLite fails at one write, for each write in turn. */
static void
test_one_write(int code, const char *words)
{
    unsigned bad = 0, failures = 0;
    struct heard heard;

    for (uint64_t nth = 1; nth < 200; nth += 1 + nth / 6) {
        const char *path = scratch("one-write.db");
        struct tide_resource *stack = stack_of(STACK, path);
        int64_t pairs = 0;

        hear(&heard);
        vfs_fail(nth, 1, code);
        for (int i = 0; i < 10; i++) {
            for (int j = 0; j < 200; j++, pairs++)
                give(stack, take(stack, 64), 64);
            tide_log_flush(stack);
        }
        tide_resource_release(stack);
        vfs_fail(0, 0, SQLITE_OK);
        hear(NULL);
        failures += heard.errors;
        if (heard.errors != 0 && (!heard_once(&heard, words) || !says_why(path, words)))
            bad++;
        if (heard.errors == 0 && meta_number(path, "complete") != 1)
            bad++;
        if (!accounts_for(path, pairs) || strcmp(sql_text(path, "PRAGMA integrity_check"), "ok") != 0)
            bad++;
        if (bad != 0) {
            diag("at write %" PRIu64, nth);
            break;
        }
    }
    diag("%u recordings failed", failures);
    ok(all_of(bad == 0, failures > 5),
       "any one write fails with \"%s\": the program is warned once, the trace has the failure, and every event is "
       "accounted for",
       words);
}

/* The writer hangs in the file system: a thread waits for room in its ring once, and not for ever. */
static _Atomic bool hangs, has_hung;

static void
hang(const char *label)
{
    if (strcmp(label, "writer.before-write") != 0)
        return;
    atomic_store(&has_hung, true);
    while (atomic_load(&hangs))
        usleep(1000);
}

static void *
flush_work(void *stack)
{
    tide_log_flush(stack);
    return NULL;
}

static void
test_stalled(void)
{
    const char *path = scratch("stalled.db");
    struct tide_resource *stack = stack_of("log(%s, ring=4KiB) | sim", path);
    pthread_t thread;

    atomic_store(&tidei_test_wait_ns, 50000000);
    atomic_store(&hangs, true);
    atomic_store(&tidei_test_point, hang);
    give(stack, take(stack, 64), 64);
    pthread_create(&thread, NULL, flush_work, stack);
    while (!atomic_load(&has_hung))
        usleep(1000);
    alarm(60); /* each event that waits takes 50 ms */
    for (int i = 0; i < 10000; i++)
        give(stack, take(stack, 64), 64);
    alarm(0);
    atomic_store(&hangs, false);
    pthread_join(thread, NULL);
    tide_log_flush(stack);
    for (int i = 0; i < 10; i++)
        give(stack, take(stack, 96), 96);
    tide_resource_release(stack);
    atomic_store(&tidei_test_point, NULL);
    atomic_store(&tidei_test_wait_ns, 0);
    ok(all_of(accounts_for(path, 10011), sql_number(path, "SELECT count(*) FROM loss WHERE reason NOT LIKE"
                                                          " '%%that found no room for a minute'") == 0),
       "what finds no room in a ring while the writer hangs is counted, by that reason");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation WHERE size = 96 AND free_ns IS NOT NULL"), 10,
           "a thread that has waited in vain records again once there is room");
    ok(says_why(path, "had no room for a minute"), "the trace says that rings had no room");
}

/* The disk is full, and before it has room again the program is killed: only its ring file knows why it ended. */
static int
full_then_killed(void *argument)
{
    struct tide_resource *stack = stack_of(STACK, (const char *)argument);
    struct heard heard;

    hear(&heard);
    give(stack, take(stack, 64), 64);
    vfs_fail(1, UINT64_MAX, SQLITE_FULL);
    tide_log_flush(stack);
    give(stack, take(stack, 64), 64);
    raise(SIGKILL);
    return 0;
}

static void
test_full_then_killed(void)
{
    const char *path = scratch("full-killed.db");
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };

    if (!CHILDREN_MAY_RECORD) {
        skip(2, "ThreadSanitizer does not follow children");
        return;
    }
    in_child(full_then_killed, (void *)(uintptr_t)path);
    ok(all_of(tide_trace_recover(path, &recovery) == TIDE_OK, accounts_for(path, 2)),
       "after a full disk and a kill all is recovered or counted");
    ok(all_of(says_why(path, "disk is full"),
              sql_number(path, "SELECT count(*) FROM meta WHERE key = 'ended' AND value = 'failed'") == 1),
       "the recovered trace says that the recording failed, since the disk was full");
}

/* SQLite fails for good while threads record; the rest is recovered once it works again. */
static void
test_all_writes(void)
{
    const char *path = scratch("all-writes.db");
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    struct heard heard;
    struct load load;
    int64_t pairs;

    hear(&heard);
    load_begin(&load, stack_of(STACK, path));
    load_for(&load, 2000);
    is_i64(tide_log_flush(load.stack), TIDE_OK, "a flush succeeds while writes do");
    vfs_fail(1, UINT64_MAX, SQLITE_FULL);
    load_until_heard(&heard);
    is_i64(tide_log_flush(load.stack), TIDE_EIO, "a flush reports that the recording has ended");
    load_for(&load, 2000);
    pairs = load_end(&load);
    tide_resource_release(load.stack);
    ok(heard_once(&heard, "full"), "writes that fail for good are reported once, and not again at the end");
    is_i64(tide_trace_recover(path, &recovery), TIDE_EIO, "a recovery fails while writes do");
    ok(strcmp(sql_text(path, "PRAGMA integrity_check"), "ok") == 0,
       "after failed writes the committed part of the trace is readable");
    ok(sql_number(path, "SELECT count(*) FROM allocation") >= 2000, "all allocations that were committed are readable");
    vfs_fail(0, 0, SQLITE_OK);
    ok(all_of(tide_trace_recover(path, &recovery) == TIDE_OK, recovery.state == TIDE_TRACE_RECOVERED),
       "the recovery succeeds once writes do");
    ok(accounts_for(path, pairs), "the recovered trace and the counted losses account for every event");
    is_i64(meta_number(path, "complete"), 0, "a recovered trace is not marked complete");
    ok(sql_number(path, "SELECT count(*) FROM meta WHERE key = 'failure'") == 1,
       "a trace that was ended early says why in meta");
    ok(trace_is_sound(path), "a trace that was ended early is sound");
    is_u64(scratch_count("all-writes.db"), 1, "after the recovery no file but the trace is left");
    hear(NULL);
}

/* A write fails while the trace is created. */
static void
test_creation(void)
{
    unsigned bad = 0, failures = 0;
    struct tide_resource *stack;

    for (uint64_t nth = 1; nth < 40; nth++) {
        char text[256];
        enum tide_status status;

        snprintf(text, sizeof(text), "log(%s) | sim", scratch("creation.db"));
        vfs_fail(nth, UINT64_MAX, SQLITE_IOERR_WRITE);
        status = tide_stack_parse(text, &stack);
        vfs_fail(0, 0, SQLITE_OK);
        if (status == TIDE_OK) {
            tide_resource_release(stack);
            unlink(scratch("creation.db"));
            continue;
        }
        failures++;
        if (status != TIDE_EIO || scratch_count("creation.db") != 0) {
            diag("write %" PRIu64 ": status %d, %u files: %s", nth, status, scratch_count("creation.db"),
                 tide_error_text());
            bad++;
        }
    }
    ok(all_of(bad == 0, failures > 0), "a trace whose creation fails returns an error, and leaves no file behind");
}

/* The folder, or the trace, is removed. */
static void
test_removed(const char *name, void (*remove_it)(const char *folder))
{
    const char *folder = scratch("gone");
    struct heard heard;
    struct load load;
    int64_t pairs;

    mkdir(folder, 0777);
    hear(&heard);
    load_begin(&load, stack_of(STACK, scratch("gone/t.db")));
    load_for(&load, 2000);
    tide_log_flush(load.stack);
    remove_it(folder);
    load_until_heard(&heard);
    load_for(&load, 1000);
    pairs = load_end(&load);
    tide_resource_release(load.stack);
    ok(all_of(pairs > 3000, heard_once(&heard, "removed or replaced")), "%s: the program goes on, and is warned once",
       name);
    hear(NULL);
    unlink(scratch("gone/t.db"));
    unlink(scratch("gone/t.db-rings"));
    unlink(scratch("gone/t.db-wal"));
    unlink(scratch("gone/t.db-shm"));
    rmdir(folder);
}

static void
remove_folder(const char *folder)
{
    unlink(scratch("gone/t.db"));
    unlink(scratch("gone/t.db-rings"));
    unlink(scratch("gone/t.db-wal"));
    unlink(scratch("gone/t.db-shm"));
    rmdir(folder);
}

static void
remove_trace(const char *folder)
{
    (void)folder;
    unlink(scratch("gone/t.db"));
}

/* A reader holds one read transaction from before the first event until after the end. */
static void
test_reader(void)
{
    const char *path = scratch("reader.db");
    struct tide_resource *stack = stack_of(STACK, path);
    struct heard heard;
    struct load load;
    int64_t pairs, seen;
    sqlite3 *reader;
    sqlite3_stmt *query;

    hear(&heard);
    sqlite3_open_v2(path, &reader, SQLITE_OPEN_READONLY, NULL);
    sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM allocation", NULL, NULL, NULL);
    load_begin(&load, stack);
    load_for(&load, 60000);
    is_i64(tide_log_flush(stack), TIDE_OK, "a reader in a transaction does not disturb the recording");
    pairs = load_end(&load);
    tide_resource_release(stack);
    sqlite3_prepare_v2(reader, "SELECT count(*) FROM allocation", -1, &query, NULL);
    sqlite3_step(query);
    seen = sqlite3_column_int64(query, 0);
    sqlite3_finalize(query);
    is_i64(seen, 0, "the reader sees the same rows to the end of its transaction");
    sqlite3_exec(reader, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(reader);
    is_u64(heard.errors, 0, "a reader causes no error");
    ok(all_of(accounts_for(path, pairs), trace_is_whole(path)), "the trace recorded beside a reader is whole");
    hear(NULL);
}

static sqlite3 *
hold_write_lock(const char *path)
{
    sqlite3 *holder;

    if (sqlite3_open_v2(path, &holder, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        abort();
    sqlite3_busy_timeout(holder, 10000);
    if (sqlite3_exec(holder, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        abort();
    return holder;
}

static void
release_write_lock(sqlite3 *holder)
{
    sqlite3_exec(holder, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(holder);
}

/* Another connection holds the write lock for a while, and for too long. */
static void
test_write_lock(void)
{
    const char *path = scratch("locked.db");
    struct heard heard;
    struct load load;
    sqlite3 *holder;
    int64_t pairs;

    hear(&heard);
    load_begin(&load, stack_of(STACK, path));
    load_for(&load, 2000);
    holder = hold_write_lock(path);
    usleep(700000);
    release_write_lock(holder);
    is_i64(tide_log_flush(load.stack), TIDE_OK, "a flush waits for another program's write lock");
    pairs = load_end(&load);
    tide_resource_release(load.stack);
    ok(all_of(heard.errors == 0, accounts_for(path, pairs), trace_is_whole(path)),
       "the trace recorded beside a write lock is whole");

    path = scratch("locked-long.db");
    hear(&heard);
    atomic_store(&tidei_test_busy_ns, 20000000);
    load_begin(&load, stack_of(STACK, path));
    load_for(&load, 2000);
    holder = hold_write_lock(path);
    load_until_heard(&heard);
    load_for(&load, 1000);
    release_write_lock(holder);
    pairs = load_end(&load);
    tide_resource_release(load.stack);
    ok(heard_once(&heard, "locked"), "a write lock that is held for too long ends the recording, with one warning");
    ok(all_of(says_why(path, "locked"), accounts_for(path, pairs)),
       "a trace that a write lock has ended has the reason and accounts for every event");
    atomic_store(&tidei_test_busy_ns, 0);
    hear(NULL);
}

/* In a child: files may not grow beyond a few MiB. */
static int
size_limit_child(void *path)
{
    struct rlimit limit = { 6 << 20, 6 << 20 };
    struct heard heard;
    struct load load;
    int64_t pairs;

    hear(&heard);
    load_begin(&load, stack_of("log(%s, ring=64KiB, backlog=2MiB) | sim", (const char *)path));
    load_for(&load, 1000);
    tide_log_flush(load.stack);
    setrlimit(RLIMIT_FSIZE, &limit);
    load_until_heard(&heard);
    load_for(&load, 1000);
    pairs = load_end(&load);
    tide_resource_release(load.stack);
    if (heard.errors != 1)
        return 1;
    printf("# %" PRId64 " pairs\n", pairs);
    return 0;
}

static void
test_size_limit(void)
{
    const char *path = scratch("size-limit.db");
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    int status;

    if (!CHILDREN_MAY_RECORD) {
        skip(5, "ThreadSanitizer does not follow children");
        return;
    }
    status = in_child(size_limit_child, (void *)path);
    ok(all_of(WIFEXITED(status), WEXITSTATUS(status) == 0),
       "at the file size limit the program goes on, and is warned once");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        diag("status 0x%x", status);
    ok(strcmp(sql_text(path, "PRAGMA integrity_check"), "ok") == 0,
       "at the file size limit the committed part of the trace is readable");
    is_i64(tide_trace_recover(path, &recovery), TIDE_OK,
           "the rest of the trace is recovered without the file size limit");
    ok(all_of(meta_number(path, "complete") == 0, trace_is_sound(path), scratch_count("size-limit.db") == 1),
       "a trace recovered after the file size limit is not marked complete");
    ok(sql_number(path, "SELECT sum(events) FROM loss") >= 1000,
       "the trace counts the events lost at the file size limit");
}

/* In a child: mount a small file system. */
static bool
mount_small(const char *folder)
{
    mkdir(folder, 0777);
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", folder, "tmpfs", 0, "size=12m") == 0;
}

static int
full_child(void *argument)
{
    const char *folder = argument;
    char path[256];
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    struct heard heard;
    struct load load;
    int64_t pairs;

    if (!mount_small(folder))
        return 77;
    snprintf(path, sizeof(path), "%s/t.db", folder);
    hear(&heard);
    load_begin(&load, stack_of("log(%s, ring=64KiB, backlog=4MiB) | sim", path));
    load_until_heard(&heard);
    load_for(&load, 1000);
    pairs = load_end(&load);
    tide_resource_release(load.stack);
    if (!heard_once(&heard, "full") && !heard_once(&heard, "space"))
        return 1;
    if (strcmp(sql_text(path, "PRAGMA integrity_check"), "ok") != 0)
        return 2;
    if (mount(NULL, folder, NULL, MS_REMOUNT, "size=64m") != 0)
        return 3;
    if (tide_trace_recover(path, &recovery) != TIDE_OK)
        return 4;
    if (!accounts_for(path, pairs) || meta_number(path, "complete") != 0 || !trace_is_sound(path))
        return 5;
    return 0;
}

/* There is room again before the end. */
static int
full_for_a_while_child(void *argument)
{
    const char *folder = argument;
    char path[256];
    struct heard heard;
    struct load load;
    int64_t pairs;

    if (!mount_small(folder))
        return 77;
    snprintf(path, sizeof(path), "%s/t.db", folder);
    hear(&heard);
    load_begin(&load, stack_of("log(%s, ring=64KiB, backlog=4MiB) | sim", path));
    load_until_heard(&heard);
    load_for(&load, 1000);
    pairs = load_end(&load);
    if (mount(NULL, folder, NULL, MS_REMOUNT, "size=64m") != 0)
        return 3;
    tide_resource_release(load.stack);
    if (!heard_once(&heard, "log: "))
        return 1;
    return accounts_for(path, pairs) && says_why(path, "log: ") ? 0 : 5;
}

static void *
ringless_work(void *stack)
{
    for (int i = 0; i < 100; i++)
        give(stack, take(stack, 64), 64);
    return NULL;
}

/* There is no room for one more ring. */
static int
ringless_child(void *argument)
{
    const char *folder = argument;
    static char block[1 << 16];
    char path[256], filler[256];
    struct tide_resource *stack;
    struct heard heard;
    pthread_t thread;
    FILE *file;

    if (!mount_small(folder))
        return 77;
    snprintf(path, sizeof(path), "%s/t.db", folder);
    snprintf(filler, sizeof(filler), "%s/filler", folder);
    hear(&heard);
    stack = stack_of("log(%s, ring=1MiB, backlog=1MiB) | sim", path);
    for (int i = 0; i < 100; i++)
        give(stack, take(stack, 64), 64);
    tide_log_flush(stack);
    file = fopen(filler, "w");
    setvbuf(file, NULL, _IONBF, 0);
    while (fwrite(block, sizeof(block), 1, file) == 1)
        ;
    fclose(file);
    for (int i = 0; i < 2; i++) {
        pthread_create(&thread, NULL, ringless_work, stack);
        pthread_join(thread, NULL);
    }
    unlink(filler);
    tide_resource_release(stack);
    if (!heard_once(&heard, "threads without a ring are not recorded"))
        return 1;
    if (!accounts_for(path, 300) || sql_number(path, "SELECT sum(events) FROM loss") != 400)
        return 2;
    return says_why(path, "no room for the rings of some threads") ? 0 : 3;
}

static void
test_small_disk(const char *name, int (*child)(void *))
{
    const char *folder = scratch("small-disk");
    int status;

    if (!CHILDREN_MAY_RECORD) {
        skip(1, "ThreadSanitizer does not follow children");
        return;
    }
    status = in_child(child, (void *)folder);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        skip(1, "may not mount a small file system here");
    } else {
        ok(all_of(WIFEXITED(status), WEXITSTATUS(status) == 0), "%s", name);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            diag("status 0x%x", status);
    }
    rmdir(folder);
}

int
main(void)
{
    plan(38);
    vfs_install();
    test_one_write(SQLITE_FULL, "full");
    test_one_write(SQLITE_IOERR_WRITE, "I/O error");
    test_all_writes();
    test_full_then_killed();
    test_stalled();
    test_creation();
    test_removed("the folder is removed", remove_folder);
    test_removed("the trace is removed", remove_trace);
    test_reader();
    test_write_lock();
    test_size_limit();
    test_small_disk("a full disk causes one warning, and the rest is recovered once there is room", full_child);
    test_small_disk("if there is room again in time, closing the trace writes the rest", full_for_a_while_child);
    test_small_disk("a thread that gets no ring causes one warning, and its events are counted", ringless_child);
    return done();
}
