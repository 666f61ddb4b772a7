/* A row for each allocation with its whole life: the columns, for the formats that write such rows. */
#ifndef VIEWER_EXPORT_ROWS_H
#define VIEWER_EXPORT_ROWS_H

#include "viewer/export/export.h"

enum rows_kind {
    ROWS_UNSIGNED,
    ROWS_SIGNED,
    ROWS_TEXT, /* "" where there is none */
};

struct rows_column {
    const char *name;
    const char *key; /* in JSON, with its comma and quotes, and how long that is */
    size_t key_bytes;
    enum rows_kind kind;
};

/* The columns from ROWS_FREE on say when and where the allocation was freed. */
#define ROWS_FREE    13
#define ROWS_COLUMNS 17

extern const struct rows_column rows_columns[ROWS_COLUMNS];

union rows_cell {
    uint64_t number;
    int64_t integer;
    const char *text;
};

/* How a format writes rows. */
struct rows_writer {
    void (*begin)(struct emit *out);                                            /* NULL: nothing comes first */
    void (*row)(struct emit *out, const union rows_cell *cells, size_t filled); /* ROWS_FREE cells, or all */
};

/* Write what the filters take. COMMAND_FINE, or COMMAND_WRONG after a message. */
int rows_write(const struct export_job *export, const struct rows_writer *writer);

#endif
