/* A progress line on standard error, shown when work takes longer than a second. */
#include "config.h"

#include <stdio.h>
#include <unistd.h>

#include "viewer/base/clock.h"
#include "viewer/base/progress.h"

void
progress_begin(struct progress *progress, const char *what)
{
    progress->what = what;
    progress->enabled = isatty(STDERR_FILENO);
    progress->shown = false;
    progress->begin_ns = clock_now_ns();
    progress->next_ns = progress->begin_ns + 1000000000;
}

void
progress_update(struct progress *progress, uint64_t done, uint64_t total)
{
    int64_t now;

    if (!progress->enabled)
        return;
    now = clock_now_ns();
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
