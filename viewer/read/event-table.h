/*
 * A virtual table of events (event-tables.h): which of the views it stands for, and what it keeps from question to
 * question. For the files that answer the questions.
 */
#ifndef VIEWER_READ_EVENT_TABLE_H
#define VIEWER_READ_EVENT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "viewer/read/event-stream.h"

/* The columns of the view `usage`, in order. */
enum {
    USAGE_LAYER_ID,
    USAGE_NS,
    USAGE_KIND,
    USAGE_ALLOCATION_ID,
    USAGE_LIVE_BYTES,
    USAGE_LIVE_COUNT,
    USAGE_COLUMNS,
};

/* One of the two views, and the numbers of the columns that both have. */
struct events_kind {
    const char *view;
    const char *module;
    const char *columns; /* as a table declares them: those that come from a column have its type */
    const char *const *names;
    int column_count;
    int layer_id;
    int ns;
    int kind;
    int allocation_id;
    bool sums; /* it is `usage` */
};

#define EVENT_TABLES 2

/* `event`, and `usage`, which is made of it. */
extern const struct events_kind event_table_kinds[EVENT_TABLES];

/* How a question wants the rows: bits of idxNum. */
enum {
    PLAN_BY_TIME = 1,   /* in the order of ns, kind, allocation_id */
    PLAN_BY_LAYER = 2,  /* of `usage`: of layer_id, and then the same */
    PLAN_ANY = 4,       /* of `event`: in any order, as SQLite sorts them or does not look at them */
    PLAN_DETAILS = 8,   /* of `event`: with the details */
    PLAN_ONE = 16,      /* of `event`: a single allocation_id */
    PLAN_BACKWARD = 32, /* from the latest to the earliest, of one layer in `usage` */
    PLAN_TOP = 64,      /* of `event`: the first few in any order */
    PLAN_FIRST = 128,   /* of `event`: a few, of which no order is asked */
    PLAN_USED = 256,    /* of `event`: this bit and those above it: the columns that the question uses */
};

/* Conditions `column` OP value: idxStr has OP and the column for each, in the order of the values. */
#define PLAN_MOST     12
#define PLAN_COLUMN_A 'a'

/*
 * In a plan for the first few rows, LIMIT and OFFSET come behind the conditions, and the columns of ORDER BY behind a
 * bar: "=bL?|h-a+" has layer_id = the first value, LIMIT the second, ORDER BY duration_ns DESC, ns.
 */
#define PLAN_LIMIT  'L'
#define PLAN_OFFSET 'O'
#define PLAN_BAR    '|'

/* A statement that no cursor uses. A join asks the same again for each row, and to prepare takes longer than to run. */
#define KEPT_MOST 4

struct kept {
    sqlite3_stmt *rows; /* owns */
    char key[2 * PLAN_MOST + 12];
};

struct events_table {
    sqlite3_vtab base;
    sqlite3 *db; /* borrows */
    const struct events_kind *kind;
    int64_t rows; /* a guess of how many rows the table has */
    struct event_check check;
    bool checked;
    int64_t streamed; /* rows that were read since the table was made, for all questions */
    sqlite3 *copy;    /* owns; NULL: none was needed */
    bool copying;     /* rows are read for the copy */
    struct kept kept[KEPT_MOST];
};

/* Keep the reason of a failure of a statement for the one who asked. Returns `code`. */
int event_table_failed(struct events_table *table, int code);

/* Check the trace, once, or once more with the details. */
int event_table_check(struct events_table *table, bool details);

/* Step a statement of the trace. */
int event_table_step(struct events_table *table, sqlite3_stmt *rows);

/* Take the statement with `key` from those that the table keeps. NULL: there is none. */
sqlite3_stmt *event_table_take(struct events_table *table, const char *key);

/* Keep a statement if it has a key and there is room; else end it. */
void event_table_give(struct events_table *table, const struct kept *done);

#endif
