/*
 * Fails each system call with which a recorder makes the files of a trace, once or from then on: a creation that fails
 * leaves no file, and what it was to replace stays as it was.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tap.h"
#include "trace.h"

enum call { CALL_OPEN, CALL_FALLOCATE, CALL_MAP, CALL_RENAME, CALL_LINK, CALL_TRUNCATE, CALL_LOCK, CALLS };

static const struct {
    const char *name;
    int error;
} calls[CALLS] = {
    { "open", EMFILE }, { "fallocate", ENOSPC }, { "mmap", ENOMEM }, { "rename", EACCES },
    { "link", EPERM },  { "truncate", EIO },     { "lock", ENOLCK },
};

/* Which call fails: the `nth`, and with `on` all after it. Of the thread that makes the trace. */
static struct {
    enum call call;
    unsigned nth; /* 0: none */
    bool on;
    unsigned seen;
} failing;

static bool
fails(enum call call)
{
    char name[16] = "";

    if (failing.nth == 0 || failing.call != call || prctl(PR_GET_NAME, name) != 0 ||
        strcmp(name, "tidemark-create") != 0)
        return false;
    failing.seen++;
    if (failing.seen != failing.nth && !(failing.on && failing.seen > failing.nth))
        return false;
    errno = calls[call].error;
    return true;
}

#define REPLACED __attribute__((visibility("default")))

static int
open_with(const char *path, int flags, va_list arguments)
{
    unsigned mode = (flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0;

    return fails(CALL_OPEN) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

REPLACED int
open(const char *path, int flags, ...)
{
    va_list arguments;
    int fd;

    va_start(arguments, flags);
    fd = open_with(path, flags, arguments);
    va_end(arguments);
    return fd;
}

/* SQLite's. */
REPLACED int
open64(const char *path, int flags, ...)
{
    va_list arguments;
    int fd;

    va_start(arguments, flags);
    fd = open_with(path, flags, arguments);
    va_end(arguments);
    return fd;
}

REPLACED int
posix_fallocate(int fd, off_t offset, off_t bytes)
{
    if (fails(CALL_FALLOCATE))
        return ENOSPC;
    return syscall(SYS_fallocate, fd, 0, offset, bytes) == 0 ? 0 : errno;
}

REPLACED void *
mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if ((flags & MAP_SHARED) != 0 && fails(CALL_MAP))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
}

REPLACED int
rename(const char *from, const char *to)
{
    return fails(CALL_RENAME) ? -1 : (int)syscall(SYS_rename, from, to);
}

REPLACED int
renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return fails(CALL_RENAME) ? -1 : (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

REPLACED int
link(const char *from, const char *to)
{
    return fails(CALL_LINK) ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

REPLACED int
ftruncate(int fd, off_t bytes)
{
    return fails(CALL_TRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, bytes);
}

REPLACED int
ftruncate64(int fd, off64_t bytes)
{
    return fails(CALL_TRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, bytes);
}

static int
fcntl_with(int fd, int command, void *argument)
{
    /* SQLite's own are left: it takes any failure for another's lock, and waits. */
    if (command == F_OFD_SETLK && ((struct flock *)argument)->l_type != F_UNLCK && fails(CALL_LOCK))
        return -1;
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

REPLACED int
fcntl(int fd, int command, ...)
{
    va_list arguments;
    void *argument;

    va_start(arguments, command);
    argument = va_arg(arguments, void *);
    va_end(arguments);
    return fcntl_with(fd, command, argument);
}

REPLACED int
fcntl64(int fd, int command, ...)
{
    va_list arguments;
    void *argument;

    va_start(arguments, command);
    argument = va_arg(arguments, void *);
    va_end(arguments);
    return fcntl_with(fd, command, argument);
}

#define PAIRS 10

static void
record(struct tide_resource *stack, int pairs)
{
    for (int i = 0; i < pairs; i++)
        give(stack, take(stack, 64), 64);
    tide_resource_release(stack);
}

/* The number of allocations of the trace at `path`, which is the only file of that name; -1 otherwise. */
static int64_t
pairs_of(const char *path)
{
    if (scratch_count(strrchr(path, '/') + 1) != 1 || !trace_is_whole(path))
        return -1;
    return sql_number(path, "SELECT count(*) FROM allocation");
}

/* A thread that got no ring is not recorded, which the trace says. */
static bool
says_what_is_missing(const char *path)
{
    return scratch_count(strrchr(path, '/') + 1) == 1 &&
           sql_number(path, "SELECT value FROM meta WHERE key = 'complete'") == 0 &&
           sql_number(path, "SELECT sum(events) FROM loss") == 2;
}

/* Make a trace while a call fails. *hit: it has failed; returns whether all is as it should be. */
static bool
make_once(const char *path, bool replaces, enum call call, unsigned nth, bool on, bool *hit)
{
    struct tide_resource *stack;
    enum tide_status status;
    char text[300];
    bool good;

    if (replaces)
        record(stack_of("log(%s, ring=4KiB, backlog=1MiB, overwrite=true) | sim", path), PAIRS);
    snprintf(text, sizeof(text), "log(%s, ring=4KiB, backlog=1MiB, overwrite=true) | sim", path);
    failing.call = call;
    failing.on = on;
    failing.seen = 0;
    failing.nth = nth;
    status = tide_stack_parse(text, &stack);
    *hit = failing.seen >= nth;
    failing.nth = 0;
    if (status == TIDE_OK) {
        record(stack, 1);
        good = pairs_of(path) == 1 || says_what_is_missing(path);
    } else {
        good = replaces ? pairs_of(path) == PAIRS : scratch_count(strrchr(path, '/') + 1) == 0;
    }
    if (!good)
        diag("%s %u%s: %s; %u files", calls[call].name, nth, on ? " and on" : "",
             status != TIDE_OK ? tide_error_text() : "made", scratch_count(strrchr(path, '/') + 1));
    return good;
}

static void
test_call(enum call call, bool replaces)
{
    unsigned bad = 0, hits = 0;

    /* Where no file can be renamed any more, none can be put back. */
    for (unsigned on = 0; on < (call == CALL_RENAME ? 1 : 2); on++) {
        bool hit = true;

        for (unsigned nth = 1; hit && nth < 200; nth++) {
            const char *path = scratch("%s-%d-%u-%u.db", calls[call].name, replaces, on, nth);

            bad += !make_once(path, replaces, call, nth, on != 0, &hit);
            hits += hit;
        }
    }
    ok(all_of(bad == 0, hits > 0 || (call == CALL_LINK && !replaces)), "%s fails (%s), %u times: %s", calls[call].name,
       strerror(calls[call].error), hits,
       replaces ? "the new trace is whole, or the former one is as it was" : "there is a whole trace, or no file");
}

int
main(void)
{
    plan(2 * CALLS);
    alarm(300);
    for (int call = 0; call < CALLS; call++) {
        test_call((enum call)call, false);
        test_call((enum call)call, true);
    }
    return done();
}
