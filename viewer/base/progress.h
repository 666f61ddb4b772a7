/* A progress line on standard error, shown when work takes longer than a second. */
#ifndef VIEWER_BASE_PROGRESS_H
#define VIEWER_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* borrows: "reading" */
    int64_t begin_ns;
    int64_t next_ns;
    bool enabled; /* standard error is a terminal */
    bool shown;
};

void progress_begin(struct progress *progress, const char *what);

/* Report that `done` of `total` is finished; call this about every millisecond. A total of 0 means unknown. */
void progress_update(struct progress *progress, uint64_t done, uint64_t total);

/* Erase the line. */
void progress_end(struct progress *progress);

#endif
