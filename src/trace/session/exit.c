/*
 * Ends the recordings of a process that exits.
 *
 * The handlers of atexit() run before the destructors of libraries, and the driver ends in one of the former: what is
 * asked of it in a destructor it refuses. So the last sample is taken in a handler that was registered after the
 * driver's own, since handlers run in reverse order. The trace is completed in a destructor, after what the program and
 * its libraries do in theirs.
 */
#include "config.h"

#include <stdlib.h>
#include <time.h>

#include "src/sync/inside.h"
#include "src/trace/ring/clock.h"
#include "src/trace/session/recorder.h"
#include "src/trace/session/writer.h"

/* How long a process that exits waits for all its last samples. The writers look for the wish 8 times a second. */
#define EXIT_SAMPLE_NS 500000000u
/* And how long, after that, for a driver that has not answered yet. */
#define EXIT_HANG_NS 500000000u

static void
exit_nap(void)
{
    const struct timespec pause = { 0, 1000000 };

    nanosleep(&pause, NULL);
}

/* Take the lock of the list, which another thread may hold while it makes files. False if that takes until then. */
static bool
exit_lock(uint64_t until_ns)
{
    while (pthread_mutex_trylock(&tidei_sessions.lock) != 0) {
        if (tidei_monotonic_ns() >= until_ns)
            return false;
        exit_nap();
    }
    return true;
}

/* Have a recorder's last sample taken, by its writer where that goes on. */
static void
exit_want(struct tidei_session *session)
{
    struct tidei_writer *writer = tidei_recorder_of(session)->writer;

    if (atomic_load_explicit(&session->mode, memory_order_relaxed) != TIDEI_SESSION_RECORDING ||
        !tidei_sampler_want(writer->sampler))
        return;
    /* Where the program's threads have all ended, so have the library's, and the last of them calls exit(). */
    if (atomic_load_explicit(&writer->left, memory_order_acquire))
        tidei_sampler_sample(writer->sampler, tidei_monotonic_ns(), true);
    else
        tidei_writer_wake(writer);
}

/*
 * The handler. exit() may be called by a signal handler that has interrupted a call of the library on this thread: then
 * nothing is asked, as that call may have any lock, the driver's included.
 */
static void
exit_sample(void)
{
    uint64_t until_ns = tidei_monotonic_ns() + EXIT_SAMPLE_NS;
    const struct timespec until = { (time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000) };

    if (tidei_inside_call() != NULL)
        return;
    TIDEI_INSIDE(NULL);
    if (!exit_lock(until_ns))
        return;
    for (struct tidei_session *session = tidei_sessions.first; session != NULL; session = session->next)
        exit_want(session);
    for (struct tidei_session *session = tidei_sessions.first; session != NULL; session = session->next) {
        if (tidei_recorder_is_open(session))
            tidei_sampler_wait(tidei_recorder_of(session)->writer->sampler, &until);
    }
    pthread_mutex_unlock(&tidei_sessions.lock);
}

void
tidei_recorder_watches_device(int32_t device)
{
    static _Atomic uint64_t watched;
    uint64_t bit = (uint64_t)1 << ((uint32_t)device % 64);

    /* Again for each device, since the driver may register more as it begins with another one. Relaxed: a flag. */
    if ((atomic_fetch_or_explicit(&watched, bit, memory_order_relaxed) & bit) == 0)
        (void)atexit(exit_sample);
}

/* Whether the writer comes back until then from its questions, on which it may have stayed when the driver ended. */
static bool
exit_writer_returns(const struct tidei_writer *writer, uint64_t until_ns)
{
    while (tidei_sampler_hangs(writer->sampler)) {
        if (tidei_monotonic_ns() >= until_ns)
            return false;
        exit_nap();
    }
    return true;
}

/*
 * Complete the open traces. Other threads run on until the process has ended: what they record after the last
 * transaction stays in the ring file. The memory stays, too. A trace whose writer does not come back is as after a
 * kill, and the next command completes it. So are all where exit() was called by a signal handler that has interrupted
 * this thread while it had the lock, as in the handler above.
 */
__attribute__((destructor)) static void
exit_complete(void)
{
    bool interrupted = tidei_inside_call() != NULL;
    TIDEI_INSIDE(NULL);
    uint64_t until_ns;

    if (!interrupted)
        pthread_mutex_lock(&tidei_sessions.lock);
    else if (pthread_mutex_trylock(&tidei_sessions.lock) != 0)
        return;
    until_ns = tidei_monotonic_ns() + EXIT_HANG_NS;
    for (struct tidei_session *session = tidei_sessions.first; session != NULL; session = session->next) {
        struct tidei_writer *writer = tidei_recorder_of(session)->writer;

        if (tidei_recorder_is_open(session) && exit_writer_returns(writer, until_ns))
            tidei_writer_stop(writer, "exit");
    }
    pthread_mutex_unlock(&tidei_sessions.lock);
}
