/*
 * Reads the CSV of RMM's logging_resource_adaptor, plain or gzip: `Thread,Time,Action,Pointer,Size,Stream`.
 *
 * The columns are few and known. A hand-written parser therefore suffices: its messages name the column and the line,
 * and it takes 60 to 100 ns a row.
 */
#ifndef VIEWER_READ_RMM_CSV_H
#define VIEWER_READ_RMM_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlib.h>

#include "viewer/base/progress.h"

enum rmm_action {
    RMM_ALLOCATE,
    RMM_FREE,
    RMM_FAILURE, /* an allocation that failed */
};

enum rmm_column { RMM_THREAD, RMM_TIME, RMM_ACTION, RMM_POINTER, RMM_SIZE, RMM_STREAM, RMM_COLUMNS };

struct rmm_row {
    enum rmm_action action;
    uint64_t thread; /* 0 if the file lacks the column; the same for the next three */
    uint64_t pointer;
    uint64_t size;
    uint64_t stream;
    const char *time; /* the unparsed text, not NUL-terminated; valid until the next row */
    size_t time_length;
};

struct rmm_csv {
    const char *path; /* borrows; "-" is standard input */
    bool lenient;
    gzFile file;  /* owns; reads plain files too */
    char *buffer; /* owns */
    size_t begin; /* begin to end: the bytes not yet parsed */
    size_t end;
    bool at_end;
    bool blank; /* an empty line was read, an error if another line follows; never set if lenient */
    uint64_t line;
    uint64_t file_bytes; /* 0: unknown */
    struct progress progress;
    int columns[RMM_COLUMNS];
    int column_count;
    char message[512]; /* the error, with path and line */
};

/* The results of rmm_csv_next. */
enum rmm_found {
    RMM_ROW,
    RMM_END,
    RMM_UNREADABLE, /* an invalid row; csv->message says why; the next row can be read */
    RMM_FAILED,     /* the rest of the file cannot be read; csv->message says why */
};

/*
 * Open the CSV at `path` and read its header. Without `lenient`, the header must be exactly RMM's, and an empty line is
 * an invalid row. With `lenient`, columns may have any order, other columns are ignored, Thread, Time and Stream may be
 * missing, and fields may be quoted. `what` ("reading") begins the progress line, which rmm_csv_next shows.
 *
 * COMMAND_FINE, or COMMAND_WRONG after a message. Call rmm_csv_close in both cases.
 */
int rmm_csv_open(struct rmm_csv *csv, const char *path, bool lenient, const char *what);

enum rmm_found rmm_csv_next(struct rmm_csv *csv, struct rmm_row *row);

void rmm_csv_close(struct rmm_csv *csv);

/*
 * Makes times of the times of day in rows, which have no date: one that goes back by over twelve hours is of a new
 * day.
 */
struct rmm_clock {
    int64_t start_ns;  /* time of day of the first event that has one; -1: none had one yet */
    int64_t day_ns;    /* the last midnight, since that of the first day */
    int64_t before_ns; /* the time of day of the event before */
};

#define RMM_CLOCK                                                                                                      \
    {                                                                                                                  \
        .start_ns = -1                                                                                                 \
    }

/* The ns since the first event that has a time. False: the row has none that can be read. */
bool rmm_clock_read(struct rmm_clock *clock, const struct rmm_row *row, int64_t *since_start_ns);

#endif
