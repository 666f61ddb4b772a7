/* Tests fork() while another thread is about to use CUPTI: the child can use it as well. */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "src/sync/testpoint.h"
#include "tests/sanitized.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUPTI_H

/* A base that claims to have a device and calls no driver: a child cannot use a driver that its parent has started. */
static enum tide_status
base_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    (void)self;
    (void)bytes;
    (void)stream;
    *out = (void *)alignment; /* an address like any other */
    return TIDE_OK;
}

static enum tide_status
base_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    (void)self;
    (void)pointer;
    (void)bytes;
    (void)alignment;
    (void)stream;
    return TIDE_OK;
}

static enum tide_status
base_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    (void)self;
    *out = 0;
    return what == TIDE_QUERY_DEVICE ? TIDE_OK : TIDE_EUNSUPPORTED;
}

static void
base_destroy(struct tide_resource *self)
{
    free(self);
}

static const struct tide_resource_ops base_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "device",
    .allocate = base_allocate,
    .deallocate = base_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = base_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = base_destroy,
};

/* Record a pair into a new trace. Returns what its meta says about CUPTI. */
static const char *
record(const char *path)
{
    struct tide_log_options options = { TIDE_OPTIONS(options) };
    struct tide_resource *base = calloc(1, sizeof(*base)), *log;

    options.path = path;
    if (base == NULL || tide_resource_init(base, &base_ops, NULL) != TIDE_OK ||
        tide_log_create(base, &options, &log) != TIDE_OK)
        return tide_error_text();
    give(log, take(log, 64), 64);
    tide_resource_release(log);
    tide_resource_release(base);
    return sql_text(path, "SELECT value FROM meta WHERE key = 'cupti'");
}

static _Atomic bool is_there, may_go;

static void
stop_locked(const char *label)
{
    if (strcmp(label, "calls.locked") != 0 || atomic_exchange(&is_there, true))
        return;
    while (!atomic_load(&may_go))
        usleep(1000);
}

static char thread_text[256];

static void *
thread_run(void *path)
{
    snprintf(thread_text, sizeof(thread_text), "%s", record(path));
    return NULL;
}

static int
child_run(void *path)
{
    alarm(30); /* ends a process that waits for a thread of its parent */
    return strcmp(record(path), "calls") == 0 ? 0 : 1;
}

static void
check_fork(void)
{
    const char *paths[2] = { scratch("parent.db"), scratch("child.db") };
    struct tide_resource *sim =
        stack_of("log(%s) | sim", scratch("first.db")); /* from here on the library handles fork() */
    pthread_t thread;
    int status;

    plan(3);
    atomic_store(&tidei_test_point, stop_locked);
    pthread_create(&thread, NULL, thread_run, (void *)(uintptr_t)paths[0]);
    while (!atomic_load(&is_there))
        usleep(1000);
    status = in_child(child_run, (void *)(uintptr_t)paths[1]);
    is_i64(status, 0, "a child that was forked while a thread of its parent was about to use CUPTI uses it");
    atomic_store(&may_go, true);
    pthread_join(thread, NULL);
    is_string(thread_text, "calls", "the parent uses CUPTI after the fork");
    ok(all_of(trace_is_whole(paths[0]), trace_is_whole(paths[1])), "the traces of parent and child are whole");
    tide_resource_release(sim);
}

int
main(void)
{
    if (SANITIZED_ADDRESS)
        skip_all("AddressSanitizer's allocator is not safe to fork() beside other threads");
    if (!CHILDREN_MAY_RECORD)
        skip_all("ThreadSanitizer does not follow children that have threads");
    check_fork();
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUPTI");
}

#endif
