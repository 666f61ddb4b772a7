/* A progress line on standard error, shown when work takes longer than a second. */
#include "config.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "viewer/base/progress.h"

static int64_t
progress_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void
progress_begin(struct progress *progress, const char *what)
{
    progress->what = what;
    progress->enabled = isatty(STDERR_FILENO);
    progress->shown = false;
    progress->begin_ns = progress_now();
    progress->next_ns = progress->begin_ns + 1000000000;
}

void
progress_update(struct progress *progress, uint64_t done, uint64_t total)
{
    int64_t now;

    if (!progress->enabled)
        return;
    now = progress_now();
    if (now < progress->next_ns)
        return;
    progress->next_ns = now + 200000000;
    progress->shown = true;
    if (total > 0)
        fprintf(stderr, "\r%s: %d%% ", progress->what, (int)(done >= total ? 100 : (double)done * 100 / (double)total));
    else
        fprintf(stderr, "\r%s: %d s ", progress->what, (int)((now - progress->begin_ns) / 1000000000));
    fflush(stderr);
}

void
progress_end(struct progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}
