/* Tests message: each thread's last error, and a sink that is removed while other threads use it. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/resource/resource.h"
#include "tap.h"

#define TALKERS  4
#define MESSAGES 2000

/* The state of a sink. `gone` is set after the sink was removed; no call may come after that. */
struct listener {
    pthread_mutex_t lock;
    uint64_t heard;
    uint64_t heard_when_gone;
    bool gone;
    char last[600];
    enum tide_severity severity;
};

static void
listen(void *context, enum tide_severity severity, const char *text)
{
    struct listener *listener = context;

    pthread_mutex_lock(&listener->lock);
    listener->heard++;
    listener->heard_when_gone += listener->gone;
    listener->severity = severity;
    snprintf(listener->last, sizeof(listener->last), "%s", text);
    pthread_mutex_unlock(&listener->lock);
}

static void *
fail_elsewhere(void *context)
{
    bool *empty = context;

    *empty = tide_error_text()[0] == '\0' && tide_error_driver() == 0;
    tidei_error_driver_set(2);
    tide_error_set(TIDE_EINVAL, "elsewhere");
    return NULL;
}

static void
check_error(void)
{
    pthread_t thread;
    bool empty = false;
    char text[600];

    is_string(tide_error_text(), "", "the error text is empty before the first failure");
    ok(tide_error_set(TIDE_ELIMIT, "here: %d of %s", 3, "4") == TIDE_ELIMIT, "setting an error returns its status");
    is_string(tide_error_text(), "here: 3 of 4", "the text is formatted");
    tide_error_set(TIDE_ELIMIT, "there: %s", tide_error_text());
    is_string(tide_error_text(), "there: here: 3 of 4", "the earlier error text may be part of the new one");
    tidei_error_driver_set(700);
    is_i64(tide_error_driver(), 700, "the driver's result is kept with the error");
    pthread_create(&thread, NULL, fail_elsewhere, &empty);
    pthread_join(thread, NULL);
    ok(empty, "another thread begins without an error");
    ok(all_of(strcmp(tide_error_text(), "there: here: 3 of 4") == 0, tide_error_driver() == 700),
       "another thread's error leaves this thread's");
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    tide_error_set(TIDE_EINVAL, "%s", text);
    is_u64(strlen(tide_error_text()), 511, "text past 511 bytes is cut");
}

/* The length is returned whatever fits, and nothing is written past the capacity. */
static void
check_error_copy(void)
{
    char text[16];

    memset(text, 'x', sizeof(text));
    tide_error_set(TIDE_ELIMIT, "12345678");
    is_u64(tide_error_copy(text, 9), 8, "the copy of an error text returns its length");
    is_string(text, "12345678", "the copy is the error text");
    is_u64(tide_error_copy(text, 8), 8, "the returned length is the same if the last byte does not fit");
    is_string(text, "1234567", "a copy that does not fit is cut, and ends in a NUL");
    ok(text[9] == 'x', "a copy writes nothing past the capacity");
    is_u64(tide_error_copy(NULL, 0), 8, "a capacity of 0 returns the length alone");
}

static void *
talk(void *context)
{
    (void)context;
    for (int i = 0; i < MESSAGES; i++)
        tidei_message(TIDE_NOTE, "message %d", i);
    return NULL;
}

/* The sink changes while other threads send messages: a removed sink gets none. */
static void
check_sink_threads(void)
{
    static struct listener listeners[2] = { { .lock = PTHREAD_MUTEX_INITIALIZER },
                                            { .lock = PTHREAD_MUTEX_INITIALIZER } };
    pthread_t threads[TALKERS];

    tide_message_sink_set(listen, &listeners[0]);
    for (int i = 0; i < TALKERS; i++)
        pthread_create(&threads[i], NULL, talk, NULL);
    for (int i = 0; i < 200; i++) {
        struct listener *old = &listeners[i % 2];
        struct listener *new = &listeners[(i + 1) % 2];

        pthread_mutex_lock(&new->lock);
        new->gone = false;
        pthread_mutex_unlock(&new->lock);
        tide_message_sink_set(listen, new);
        pthread_mutex_lock(&old->lock);
        old->gone = true;
        pthread_mutex_unlock(&old->lock);
    }
    for (int i = 0; i < TALKERS; i++)
        pthread_join(threads[i], NULL);
    tide_message_sink_set(NULL, NULL);
    is_u64(listeners[0].heard_when_gone + listeners[1].heard_when_gone, 0, "a sink that was removed is not called");
    is_u64(listeners[0].heard + listeners[1].heard, TALKERS * MESSAGES, "every message reached one of the sinks");
}

/* How far the slow call of a sink has come. */
struct slow {
    _Atomic bool entered;
    _Atomic bool left;
};

static void
listen_slowly(void *context, enum tide_severity severity, const char *text)
{
    struct slow *slow = context;

    (void)severity;
    (void)text;
    atomic_store(&slow->entered, true);
    usleep(20000);
    atomic_store(&slow->left, true);
}

static void *
talk_once(void *context)
{
    (void)context;
    tidei_message(TIDE_NOTE, "slow");
    return NULL;
}

static void
check_sink_waits(void)
{
    struct slow slow = { false, false };
    pthread_t thread;

    tide_message_sink_set(listen_slowly, &slow);
    pthread_create(&thread, NULL, talk_once, NULL);
    while (!atomic_load(&slow.entered))
        usleep(100);
    tide_message_sink_set(NULL, NULL);
    ok(atomic_load(&slow.left), "removing a sink waits for a call in progress");
    pthread_join(thread, NULL);
}

static void
check_sink(void)
{
    struct listener listener = { .lock = PTHREAD_MUTEX_INITIALIZER };

    tidei_message(TIDE_ERROR, "nobody listens");
    tide_message_sink_set(listen, &listener);
    tidei_message(TIDE_WARNING, "disk: %d left", 0);
    ok(all_of(listener.heard == 1, strcmp(listener.last, "disk: 0 left") == 0, listener.severity == TIDE_WARNING),
       "the sink gets severity and text");
    tide_message_sink_set(NULL, NULL);
    tidei_message(TIDE_WARNING, "again");
    is_u64(listener.heard, 1, "without a sink a message is dropped");
}

static void *
talk_until_told(void *context)
{
    _Atomic bool *stop = context;

    while (!atomic_load_explicit(stop, memory_order_relaxed)) /* relaxed: only a flag */
        tidei_message(TIDE_NOTE, "still here");
    return NULL;
}

static void
listen_idly(void *context, enum tide_severity severity, const char *text)
{
    (void)context;
    (void)severity;
    (void)text;
}

/* The parent's other thread is inside of the sink most of the time. The child must not wait for it. */
static void
check_fork(void)
{
    _Atomic bool stop = false;
    pthread_t thread;
    int good = 0;

    tide_message_sink_set(listen_idly, NULL);
    pthread_create(&thread, NULL, talk_until_told, &stop);
    for (int i = 0; i < 20; i++) {
        int status = 1;
        pid_t child = fork();

        if (child == 0) {
            alarm(20);
            tide_message_sink_set(NULL, NULL);
            tidei_message(TIDE_NOTE, "in the child");
            _exit(0);
        }
        waitpid(child, &status, 0);
        good += status == 0;
    }
    atomic_store_explicit(&stop, true, memory_order_relaxed); /* relaxed: only a flag */
    pthread_join(thread, NULL);
    tide_message_sink_set(NULL, NULL);
    is_i64(good, 20, "a forked child can set the sink while a thread of its parent sends messages");
}

/* Names with an override of direction, a line end and bytes that are no UTF-8. */
static void
check_names(void)
{
    struct listener listener = { .lock = PTHREAD_MUTEX_INITIALIZER };
    char longest[2 * TIDE_ERROR_TEXT_BYTES];

    tide_error_set(TIDE_EINVAL, "log: %s: no folder",
                   "a\xe2\x80\xae"
                   "b\n\xff/\xd1\x88");
    is_string(tide_error_text(), "log: a\\u202eb\\x0a\\xff/\xd1\x88: no folder", "names in an error are escaped");
    tide_error_set(TIDE_EINVAL, "stack: %s", tide_error_text());
    is_string(tide_error_text(), "stack: log: a\\u202eb\\x0a\\xff/\xd1\x88: no folder",
              "an error that is passed on is not escaped twice");
    tide_message_sink_set(listen, &listener);
    tidei_message(TIDE_NOTE, "%s ends", "a\033[2J");
    tide_message_sink_set(NULL, NULL);
    is_string(listener.last, "a\\x1b[2J ends", "names in a message to the sink are escaped");
    memset(longest, '\n', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    tide_error_set(TIDE_EINVAL, "%s", longest);
    ok(strlen(tide_error_text()) / 4 == (TIDE_ERROR_TEXT_BYTES - 1) / 4 && strlen(tide_error_text()) % 4 == 0,
       "an error of escapes alone is cut behind a whole one (%zu bytes)", strlen(tide_error_text()));
}

int
main(void)
{
    plan(24);
    check_error();
    check_error_copy();
    check_names();
    check_sink();
    check_sink_waits();
    check_sink_threads();
    check_fork();
    return done();
}
