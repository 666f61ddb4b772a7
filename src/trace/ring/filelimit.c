/* Holds back the signal that a write past the file size limit sends to the thread that writes. */
#include "config.h"

#include <errno.h>
#include <time.h>

#include "src/trace/ring/filelimit.h"

void
tidei_filelimit_hold(sigset_t *before)
{
    sigset_t limit;

    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, before);
}

void
tidei_filelimit_release(const sigset_t *before)
{
    const struct timespec at_once = { 0, 0 };
    sigset_t limit, pending;

    if (sigismember(before, SIGXFSZ))
        return;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    while (sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ)) {
        if (sigtimedwait(&limit, NULL, &at_once) < 0 && errno != EINTR)
            break;
    }
    pthread_sigmask(SIG_SETMASK, before, NULL);
}
