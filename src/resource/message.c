/* Keeps each thread's last error, and passes messages to the application's sink. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "src/resource/resource.h"
#include "src/resource/visible.h"
#include "src/sync/fork.h"
#include "src/sync/inside.h"
#include "src/sync/thread.h"

#define MESSAGE_CAPACITY sizeof(((struct tidei_error *)NULL)->text)

TIDEI_THREAD_PART(error_of, error, struct tidei_error);

/*
 * A call of the sink holds the lock for reading, and tide_message_sink_set takes it for writing, so that it returns
 * only when no call of the previous sink is running. Writers have priority: a flood of messages must not keep an
 * application from removing its sink.
 */
#ifdef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#define SINK_LOCK_INITIALIZER PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#else
#define SINK_LOCK_INITIALIZER PTHREAD_RWLOCK_INITIALIZER
#endif
static pthread_rwlock_t sink_lock = SINK_LOCK_INITIALIZER;
static _Atomic(tide_message_function) sink_function;
static void *sink_context;

/*
 * Held while both are written, and around fork(), so that the child has both or neither. fork() does not take
 * `sink_lock`, because a call of the sink may wait for a lock that the forking thread holds by then. The child
 * initializes `sink_lock` anew: threads that were calling the sink do not exist there.
 */
static pthread_mutex_t sink_change = PTHREAD_MUTEX_INITIALIZER;

static void
sink_before_fork(void)
{
    pthread_mutex_lock(&sink_change);
}

static void
sink_after_fork(void)
{
    pthread_mutex_unlock(&sink_change);
}

static void
sink_in_child(void)
{
    static const pthread_rwlock_t free_lock = SINK_LOCK_INITIALIZER;

    sink_lock = free_lock;
    sink_after_fork();
}

const char *
tide_error_text(void)
{
    struct tidei_thread *thread = tidei_thread;

    return thread->refused ? "no host memory to keep the text of this thread's error" : error_of(thread)->text;
}

size_t
tide_error_copy(char *text, size_t capacity)
{
    return (size_t)snprintf(text, capacity, "%s", tide_error_text());
}

int
tide_error_driver(void)
{
    return error_of(tidei_thread)->driver;
}

/* Set the text; the layer that refused is not known any more. */
static void
error_format(enum tide_status status, const char *format, va_list arguments)
{
    TIDEI_INSIDE(NULL);
    struct tidei_thread *thread = tidei_thread_get();
    char text[MESSAGE_CAPACITY]; /* an argument may be tide_error_text() itself */
    struct tidei_error *error;

    if (thread == NULL)
        return;
    if (vsnprintf(text, sizeof(text), format, arguments) < 0)
        text[0] = '\0';
    error = error_of(thread);
    tidei_visible_copy(text, error->text, sizeof(error->text));
    error->status = status;
    error->refused = NULL;
    error->told_to = NULL;
}

enum tide_status
tide_error_set(enum tide_status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    error_format(status, format, arguments);
    va_end(arguments);
    return status;
}

enum tide_status
tidei_refused(const struct tide_resource *layer, enum tide_status status)
{
    struct tidei_thread *thread = tidei_thread_get();

    if (thread != NULL)
        error_of(thread)->refused = layer;
    return status;
}

enum tide_status
tidei_error_pass_on(const struct tidei_error *error, enum tide_status status, const char *format, ...)
{
    struct tidei_thread *thread = tidei_thread_get();
    va_list arguments;

    va_start(arguments, format);
    error_format(status, format, arguments);
    va_end(arguments);
    if (thread != NULL) {
        error_of(thread)->driver = error->driver;
        error_of(thread)->refused = error->refused;
    }
    return status;
}

const struct tidei_error *
tidei_error_tell(enum tide_status status, const void *teller, uint64_t began)
{
    struct tidei_thread *thread = tidei_thread;
    struct tidei_error *error = error_of(thread);

    /* A log within this call may have told it; if it was told before this call began, it is an earlier failure's. */
    if (thread->number == 0 || error->status != status || error->text[0] == '\0' ||
        (error->told_to == teller && error->told < began))
        return NULL;
    error->told_to = teller;
    error->told = began;
    return error;
}

void
tidei_error_driver_set(int result)
{
    struct tidei_thread *thread = tidei_thread_get();

    if (thread != NULL)
        error_of(thread)->driver = result;
}

void
tidei_error_save(struct tidei_error *error)
{
    *error = *error_of(tidei_thread);
}

void
tidei_error_restore(const struct tidei_error *error)
{
    struct tidei_thread *thread = tidei_thread;

    /* A thread without an object of its own has had no error since it was saved. */
    if (thread->number != 0)
        *error_of(thread) = *error;
}

void
tide_message_sink_set(tide_message_function function, void *context)
{
    TIDEI_INSIDE(NULL);
    static const struct tidei_fork_hook hook = { sink_before_fork, sink_after_fork, sink_in_child };

    tidei_fork_hook_set(TIDEI_FORK_SINK, &hook);
    pthread_rwlock_wrlock(&sink_lock);
    pthread_mutex_lock(&sink_change);
    /* Relaxed, as below: the lock orders it, except for the early check. */
    atomic_store_explicit(&sink_function, function, memory_order_relaxed);
    sink_context = context;
    pthread_mutex_unlock(&sink_change);
    pthread_rwlock_unlock(&sink_lock);
}

void
tidei_message(enum tide_severity severity, const char *format, ...)
{
    char text[MESSAGE_CAPACITY], shown[MESSAGE_CAPACITY];
    tide_message_function function;
    va_list arguments;

    /* Until there is a sink no thread holds the lock, and the fork hooks need not know it. */
    if (atomic_load_explicit(&sink_function, memory_order_relaxed) == NULL)
        return;
    va_start(arguments, format);
    if (vsnprintf(text, sizeof(text), format, arguments) < 0)
        text[0] = '\0';
    va_end(arguments);
    tidei_visible_copy(text, shown, sizeof(shown));
    pthread_rwlock_rdlock(&sink_lock);
    function = atomic_load_explicit(&sink_function, memory_order_relaxed);
    if (function != NULL)
        function(sink_context, severity, shown);
    pthread_rwlock_unlock(&sink_lock);
}
