/*
 * The events of a trace one by one, in the order of the view `event`: by time, allocations before frees, then by id.
 *
 * Like a scan, a stream reads the rows of `allocation` once, in the order of ids, while frees wait in a queue. Memory
 * is bounded by the allocations that are live at a time. A scan pushes events to analyses, a stream is asked for the
 * next one. It is only right for a trace that event_check found regular.
 */
#ifndef VIEWER_READ_EVENT_STREAM_H
#define VIEWER_READ_EVENT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#include "viewer/base/due-queue.h"

/* The columns of the view `event`, in order. */
enum event_column {
    EVENT_NS,
    EVENT_KIND,
    EVENT_ALLOCATION_ID,
    EVENT_LAYER_ID,
    EVENT_ADDRESS,
    EVENT_SIZE,
    EVENT_STATUS,
    EVENT_DURATION_NS,
    EVENT_THREAD_ID,
    EVENT_STREAM_ID,
    EVENT_COLUMNS,
};

/* The columns that only some questions need; each costs time for every row. */
#define EVENT_IS_DETAIL(column) ((column) == EVENT_ADDRESS || (column) >= EVENT_DURATION_NS)
#define EVENT_DETAILS           4

/* More layers with allocations than this are left to SQLite. */
#define EVENT_LAYERS 64

/* What one reading of the rows found. */
struct event_check {
    bool regular;                 /* all values have the types of the schema, and times and sizes are as they must be */
    bool details;                 /* the details were looked at, too */
    int64_t events;               /* allocations and frees */
    int64_t layers[EVENT_LAYERS]; /* that have allocations, in order */
    size_t layer_count;           /* EVENT_LAYERS + 1: there are more */
};

/* Read the first `most` rows of `db`, with or without the details; INT64_MAX: all. An SQLite result code. */
int event_check(sqlite3 *db, bool details, int64_t most, struct event_check *out);

/* The details of an event; what the trace does not know is NULL. */
struct event_details {
    int64_t address;
    int64_t duration_ns;
    int64_t thread_id;
    int64_t stream_id;
    unsigned nulls; /* bit n: the one at place n is NULL */
};

struct event {
    int64_t ns;
    int64_t allocation_id;
    int64_t layer_id;
    int64_t size;
    int64_t status;
    bool is_free;
    struct event_details details; /* if asked for */
};

/* What a stream is to read. */
struct event_selection {
    bool details;
    bool succeeded; /* no failed allocations */
    bool frees;
    bool one_layer;
    int64_t layer_id;
    int64_t until_ns; /* no later events; INT64_MAX: all */
};

struct event_stream {
    struct event_selection selection;
    sqlite3_stmt *rows; /* owns */
    bool at_end;        /* there are no further rows */
    bool has_row;       /* `row` waits until the frees before it are taken */
    struct event row;
    struct due_queue due; /* slots */
    char *pending;        /* owns; by slot: events, `event_bytes` of each: frees that are due later */
    size_t event_bytes;
    uint64_t *free_slots; /* owns; a stack */
    size_t capacity;      /* of both arrays */
    size_t slot_count;
    size_t free_count;
};

/* Begin to read. An SQLite result code. Call event_stream_close in any case. */
int event_stream_open(struct event_stream *stream, sqlite3 *db, const struct event_selection *selection);

/* SQLITE_ROW and the next event; SQLITE_DONE, or an SQLite error code. */
int event_stream_next(struct event_stream *stream, struct event *out);

/* Release everything; the struct can be opened again. */
void event_stream_close(struct event_stream *stream);

#endif
