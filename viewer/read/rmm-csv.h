/*
 * Reads RMM's CSV, plain or gzip: the rows that its logging_resource_adaptor writes.
 *
 * `Thread,Time,Action,Pointer,Size,Stream`. The columns are few and known, so that a parser by hand finds them, can say
 * what is wrong with which column of which line, and takes 60 to 100 ns a row.
 */
#ifndef VIEWER_READ_RMM_CSV_H
#define VIEWER_READ_RMM_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlib.h>

enum rmm_action {
    RMM_ALLOCATE,
    RMM_FREE,
    RMM_FAILURE, /* of an allocation */
};

enum rmm_column { RMM_THREAD, RMM_TIME, RMM_ACTION, RMM_POINTER, RMM_SIZE, RMM_STREAM, RMM_COLUMNS };

struct rmm_row {
    enum rmm_action action;
    uint64_t thread; /* 0 where the file has no such column; so `pointer` to `stream` */
    uint64_t pointer;
    uint64_t size;
    uint64_t stream;
    const char *time; /* as it stands, without an end; until the next row */
    size_t time_length;
};

struct rmm_csv {
    const char *path; /* borrows; "-" is standard input */
    bool lenient;
    gzFile file;  /* owns; reads plain files too */
    char *buffer; /* owns */
    size_t begin; /* what is not taken yet */
    size_t end;
    bool at_end;
    bool blank; /* a line was empty: fine at the end of the file, or where it is read leniently */
    uint64_t line;
    uint64_t file_bytes; /* 0: not known */
    int columns[RMM_COLUMNS];
    int column_count;
    char message[512]; /* what is wrong, with path and line */
};

/* What rmm_csv_next finds. */
enum rmm_found {
    RMM_ROW,
    RMM_END,
    RMM_UNREADABLE, /* a row that is none; csv->message says why, and the next may be read */
    RMM_FAILED,     /* the file cannot be read on; csv->message says why */
};

/*
 * Open the CSV at `path` and read its header. Otherwise than `lenient`, the header must be RMM's, and a line that is
 * empty is a row that is none. Leniently, the columns may stand in any order among others, Thread, Time and Stream may
 * be missing, and fields may stand in quotes.
 *
 * COMMAND_FINE, or COMMAND_WRONG after a message; rmm_csv_close in both cases.
 */
int rmm_csv_open(struct rmm_csv *csv, const char *path, bool lenient);

enum rmm_found rmm_csv_next(struct rmm_csv *csv, struct rmm_row *row);

/* Bytes of the file that are behind, for a progress line. */
uint64_t rmm_csv_offset(const struct rmm_csv *csv);

void rmm_csv_close(struct rmm_csv *csv);

#endif
