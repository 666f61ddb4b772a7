/*
 * Tests the queries that the recorder makes of a resource which the program brings, where the query takes a lock of the
 * program's: fork(), a release and an exit wait for it with a bound, and a child never finds it taken.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "src/sync/testpoint.h"
#include "tap.h"
#include "trace.h"

/* A base whose query takes a lock that its program has, as that of an interpreter, and keeps it for a while. */
struct own {
    struct tide_resource base;
    _Atomic uint64_t next;
    _Atomic uint64_t used;
    _Atomic bool destroyed;
};

static pthread_mutex_t program_lock;
static _Atomic int in_query;
static _Atomic long query_ns; /* how long it keeps the lock */
static _Atomic bool destroyed_in_query;
static _Atomic unsigned destroyed;

static void
nap(long ns)
{
    const struct timespec pause = { ns / 1000000000, ns % 1000000000 };

    nanosleep(&pause, NULL);
}

static enum tide_status
own_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct own *own = (struct own *)self;

    (void)stream;
    *out = (void *)(uintptr_t)(alignment * (1 + atomic_fetch_add(&own->next, 1 + bytes / alignment)));
    atomic_fetch_add(&own->used, bytes);
    return TIDE_OK;
}

static enum tide_status
own_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    (void)pointer;
    (void)alignment;
    (void)stream;
    atomic_fetch_sub(&((struct own *)self)->used, bytes);
    return TIDE_OK;
}

static enum tide_status
own_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    struct own *own = (struct own *)self;

    if (what != TIDE_QUERY_BYTES_USED && what != TIDE_QUERY_BYTES_RESERVED)
        return tide_base_query(self, what, out);
    atomic_fetch_add(&in_query, 1);
    pthread_mutex_lock(&program_lock);
    nap(atomic_load(&query_ns));
    pthread_mutex_unlock(&program_lock);
    *out = atomic_load(&own->used);
    atomic_fetch_sub(&in_query, 1);
    return TIDE_OK;
}

static void
own_destroy(struct tide_resource *self)
{
    if (atomic_load(&in_query) != 0)
        atomic_store(&destroyed_in_query, true);
    tide_resource_fini(self);
    free(self);
    atomic_fetch_add(&destroyed, 1);
}

static const struct tide_resource_ops own_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "own",
    .allocate = own_allocate,
    .deallocate = own_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = own_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = own_destroy,
};

/* A log over a base of this kind. */
static struct tide_resource *
own_log(const char *path)
{
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = path };
    struct own *own = calloc(1, sizeof(*own));
    struct tide_resource *log = NULL;

    if (own == NULL || tide_resource_init(&own->base, &own_ops, NULL) != TIDE_OK ||
        tide_log_create(&own->base, &options, &log) != TIDE_OK)
        abort();
    tide_resource_release(&own->base);
    return log;
}

static void
pairs(struct tide_resource *log, int count)
{
    void *pointer;

    for (int i = 0; i < count; i++) {
        if (tide_allocate(log, 64, 64, 0, &pointer) == TIDE_OK)
            tide_deallocate(log, pointer, 64, 64, 0);
    }
}

/* Take the program's lock, and allocate until the recorder's query waits for it. */
static void
lock_out_a_query(struct tide_resource *log)
{
    pthread_mutex_lock(&program_lock);
    for (int i = 0; i < 20000 && atomic_load(&in_query) == 0; i++) {
        pairs(log, 1);
        nap(1000000);
    }
}

static int
release_child(void *path)
{
    struct tide_resource *log = own_log(path);
    bool waited;

    alarm(30);
    lock_out_a_query(log);
    waited = atomic_load(&in_query) != 0;
    tide_resource_release(log);
    if (!waited || atomic_load(&destroyed) != 0)
        return 1; /* the query needs the resource yet */
    pthread_mutex_unlock(&program_lock);
    for (int i = 0; i < 20000 && atomic_load(&destroyed) == 0; i++)
        nap(1000000);
    return atomic_load(&destroyed) == 1 && !atomic_load(&destroyed_in_query) ? 0 : 2;
}

static int
exit_child(void *path)
{
    struct tide_resource *log = own_log(path);

    alarm(30);
    fflush(stdout);
    lock_out_a_query(log);
    exit(atomic_load(&in_query) != 0 ? 0 : 1);
}

static int
flush_child(void *path)
{
    struct tide_resource *log = own_log(path);
    enum tide_status status;

    alarm(30);
    lock_out_a_query(log);
    status = tide_log_flush(log);
    pthread_mutex_unlock(&program_lock);
    tide_resource_release(log);
    return status == TIDE_OK ? 0 : 1;
}

static bool
ends_well(int (*child)(void *), const char *path)
{
    int status = in_child(child, (void *)path);

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    diag("the child ended with %#x", status);
    return false;
}

static void
test_locked(void)
{
    const char *path = scratch("release.db"), *left = scratch("exit.db"), *flushed = scratch("flush.db");

    ok(all_of(ends_well(release_child, path), trace_is_whole(path)),
       "a release with a lock that a query waits for does not wait for the query, which keeps the resource");
    ok(all_of(ends_well(exit_child, left), trace_is_whole(left)),
       "an exit with a lock that a query waits for does not wait for the query");
    ok(all_of(ends_well(flush_child, flushed), trace_is_whole(flushed)),
       "a flush with a lock that a query waits for does not wait for the query");
}

/* Fork beside the recorder's queries; the child asks its own copy of the resource. */
static int
forks(struct tide_resource *log, int count)
{
    int stuck = 0;

    for (int i = 0; i < count; i++) {
        int status = -1;
        pid_t child;

        pairs(log, 1);
        nap(1500000);
        child = fork();
        if (child == 0)
            _exit(pthread_mutex_trylock(&program_lock) == 0 ? 0 : 1);
        waitpid(child, &status, 0);
        stuck += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return stuck;
}

static int
fork_child(void *path)
{
    struct tide_resource *log = own_log(path);
    int stuck;

    alarm(60);
    atomic_store(&query_ns, 3000000);
    stuck = forks(log, 60);
    if (stuck != 0)
        diag("in %d of 60 children the lock of the query was taken", stuck);
    fflush(stdout);
    tide_resource_release(log);
    return stuck != 0;
}

/* The thread that forks holds the lock that a query waits for. */
static int
locked_fork_child(void *path)
{
    struct tide_resource *log = own_log(path);
    int status = -1;
    pid_t child;

    alarm(30);
    lock_out_a_query(log);
    child = fork();
    if (child == 0) {
        pthread_mutex_unlock(&program_lock);
        pairs(log, 10);
        tide_resource_release(log);
        _exit(0);
    }
    waitpid(child, &status, 0);
    pthread_mutex_unlock(&program_lock);
    tide_resource_release(log);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void
test_forks(void)
{
    const char *path = scratch("fork.db"), *locked = scratch("locked-fork.db");

    if (!CHILDREN_MAY_RECORD) {
        skip(2, "ThreadSanitizer");
        return;
    }
    ok(all_of(ends_well(fork_child, path), trace_is_whole(path)),
       "no child of fork() finds the lock of a resource taken, which the recorder was asking");
    ok(all_of(ends_well(locked_fork_child, locked), trace_is_whole(locked)),
       "a fork() with a lock that a query waits for does not wait for the query");
}

int
main(void)
{
    pthread_mutexattr_t recursive;

    plan(5);
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&program_lock, &recursive);
    test_locked();
    test_forks();
    return done();
}
