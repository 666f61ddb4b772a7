/* Keeps each thread's last error, and hands what no return value can tell to the application's sink. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/resource/resource.h"

#define MESSAGE_CAPACITY sizeof(((struct tidei_error *)NULL)->text)

static _Thread_local char error_text[MESSAGE_CAPACITY];
static _Thread_local int error_driver;

/*
 * A call of the sink holds the lock for reading, so that tide_message_sink_set, which takes it for writing, returns
 * only when no call of the sink of before is running. Writers go first: a stream of messages must not keep an
 * application from taking its sink away.
 */
#ifdef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#define SINK_LOCK_INITIALIZER PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#else
#define SINK_LOCK_INITIALIZER PTHREAD_RWLOCK_INITIALIZER
#endif
static pthread_rwlock_t sink_lock = SINK_LOCK_INITIALIZER;
static tide_message_function sink_function;
static void *sink_context;
static pthread_once_t sink_once = PTHREAD_ONCE_INIT;

/*
 * fork() comes while nobody changes the sink, so that the child has it whole. The child's lock is made anew: threads
 * that were calling the sink do not exist there.
 */
static void
sink_before_fork(void)
{
    pthread_rwlock_rdlock(&sink_lock);
}

static void
sink_after_fork(void)
{
    pthread_rwlock_unlock(&sink_lock);
}

static void
sink_in_child(void)
{
    static const pthread_rwlock_t free_lock = SINK_LOCK_INITIALIZER;

    sink_lock = free_lock;
}

static void
sink_handlers_install(void)
{
    (void)pthread_atfork(sink_before_fork, sink_after_fork, sink_in_child); /* without memory for it: as before it */
}

const char *
tide_error_text(void)
{
    return error_text;
}

size_t
tide_error_copy(char *text, size_t capacity)
{
    return (size_t)snprintf(text, capacity, "%s", tide_error_text());
}

int
tide_error_driver(void)
{
    return error_driver;
}

enum tide_status
tide_error_set(enum tide_status status, const char *format, ...)
{
    char text[MESSAGE_CAPACITY]; /* an argument may be tide_error_text() itself */
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(text, sizeof(text), format, arguments) < 0)
        text[0] = '\0';
    va_end(arguments);
    memcpy(error_text, text, strlen(text) + 1);
    return status;
}

void
tidei_error_driver_set(int result)
{
    error_driver = result;
}

void
tidei_error_save(struct tidei_error *error)
{
    memcpy(error->text, error_text, sizeof(error->text));
    error->driver = error_driver;
}

void
tidei_error_restore(const struct tidei_error *error)
{
    memcpy(error_text, error->text, sizeof(error->text));
    error_driver = error->driver;
}

void
tide_message_sink_set(tide_message_function function, void *context)
{
    pthread_once(&sink_once, sink_handlers_install);
    pthread_rwlock_wrlock(&sink_lock);
    sink_function = function;
    sink_context = context;
    pthread_rwlock_unlock(&sink_lock);
}

void
tidei_message(enum tide_severity severity, const char *format, ...)
{
    char text[MESSAGE_CAPACITY];
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(text, sizeof(text), format, arguments) < 0)
        text[0] = '\0';
    va_end(arguments);
    pthread_rwlock_rdlock(&sink_lock);
    if (sink_function != NULL)
        sink_function(sink_context, severity, text);
    pthread_rwlock_unlock(&sink_lock);
}
