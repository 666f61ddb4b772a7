/* The SQLite file of a trace: opens it, writes slices of the backlog as transactions, completes it. */
#ifndef TIDEI_TRACE_DATABASE_DATABASE_H
#define TIDEI_TRACE_DATABASE_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#include <tidemark/status.h>

#include "src/trace/database/guard.h"
#include "src/trace/database/insert.h"
#include "src/trace/events/counts.h"
#include "src/trace/events/pair.h"
#include "src/trace/events/sampler.h"
#include "src/trace/events/timeline.h"

/* A stream as the trace numbers it. */
struct tidei_stream {
    uint64_t handle;
    int64_t device; /* -1: none */
    uint32_t id;
    bool written;
};

/* Where a module lay in memory. */
struct tidei_database_module {
    uint32_t id;
    uint64_t base;
    uint64_t size;
};

struct tidei_device_events;

/* The bulk statements, in the order in which a transaction runs them; for their virtual tables see bulk.h. */
enum tidei_bulk {
    TIDEI_BULK_CLOSED,
    TIDEI_BULK_NEW,
    TIDEI_BULK_REFUSALS,
    TIDEI_BULK_CALLS,
    TIDEI_BULK_OUTSIDE,
    TIDEI_BULK_DEVICES,
    TIDEI_BULKS
};

struct tidei_database {
    sqlite3 *db;
    char *path; /* owned */
    struct tidei_guard guard;
    sqlite3_stmt *stack, *frame, *callstack, *revoke;
    sqlite3_stmt *bulk[TIDEI_BULKS];
    struct tidei_inserts inserts;
    struct tidei_timeline timeline;
    uint64_t floor_ns; /* lower bound of alloc_ns: the previous buffer's line may have another slope */
    struct tidei_pair *pair;
    const char *cupti;                     /* new text for meta.cupti, for the next transaction; NULL: unchanged */
    bool has_calls;                        /* events may have driver calls */
    struct tidei_device_events *devices;   /* borrowed; NULL in a recovery */
    struct tidei_database_module *modules; /* owned; in the order of loading */
    size_t module_count;
    size_t module_capacity;
    struct tidei_stream *streams; /* owned */
    size_t stream_count;
    size_t stream_capacity;
    struct tidei_map stream_places;           /* indices into `streams`, by handle */
    struct tidei_pool_sample *samples_latest; /* owned; the latest sample of each sampled layer */
    size_t streams_written;         /* of the streams, those at the beginning of the list that the trace has */
    struct tidei_map sample_places; /* from the layer to its place there */
    size_t sampled_layers;
    size_t sample_capacity;
    const struct tidei_device_sample *device_samples; /* borrowed; for the next transaction */
    size_t device_sample_count;
    const struct tidei_layer_count *layer_counts; /* likewise */
    size_t layer_count_count;
    int64_t *layer_devices; /* owned; by layer id */
    size_t layer_count;
    size_t layer_capacity;
    uint64_t unreadable;                              /* invalid records in the slice */
    uint64_t assumed;                                 /* see tidei_pair_assumed: as of this transaction */
    uint64_t assumed_written;                         /* what meta.assumed_frees has; 0: no such key */
    uint64_t unreadable_all;                          /* and in all */
    void (*connect)(struct tidei_database *database); /* open.c's: as the database was opened; NULL: never again */
    bool is_prepared;                                 /* the connection has its statements */
    unsigned reopened;                                /* how often the connection was replaced */
    bool no_memory;
    enum tide_status status; /* the first error of the transaction; see below */
    /* Called during long transactions, and while waiting for a lock. False: give up. */
    bool (*poll)(void *context, uint64_t waited_ns);
    void *poll_context;
    uint64_t busy_since_ns;
};

/* open.c: create the file of a trace, with its schema and `mode`. Errors: TIDE_EEXIST, TIDE_EIO, TIDE_ENOMEM. */
enum tide_status tidei_database_create(const char *path, mode_t mode, struct tidei_database **out);

/* open.c: the file that was created is whole: close it. The struct is freed on every return. Errors: TIDE_EIO. */
enum tide_status tidei_database_born(struct tidei_database *database);

/*
 * open.c: open a new trace, or that of a dead process to complete it. `poll` is as in the struct, with a NULL context.
 * Errors: TIDE_EFORMAT, TIDE_EIO, TIDE_ENOMEM.
 */
enum tide_status tidei_database_open(const char *path, bool (*poll)(void *context, uint64_t waited_ns),
                                     struct tidei_database **out);

/* open.c: do not trust a trace that another process has left: run no code that its schema contains. */
void tidei_database_distrust(sqlite3 *db);

/* look.c: leave the write-ahead log as it is when the trace is closed, unless it was folded in before. */
void tidei_database_spare_log(struct tidei_database *database);

/* load.c: load the live allocations, streams, layers and last ids of a trace that was opened again. */
enum tide_status tidei_database_load(struct tidei_database *database);

/*
 * transaction.c: write the slice that database->pair has paired, in one transaction. It also notes in meta that the
 * trace has all epochs before `epoch`, and the first `records` records of `epoch`.
 */
enum tide_status tidei_database_write(struct tidei_database *database, uint64_t epoch, uint64_t records,
                                      const struct tidei_pool_sample *samples, size_t sample_count);

/* bulk-allocations.c: after the commit, keep the slice's live allocations for later frees. False: no host memory. */
bool tidei_database_keep_live(struct tidei_database *database);

/* The rest is in database.c, except where it says otherwise. */
void tidei_database_close(struct tidei_database *database);

/* Checkpoint the write-ahead log into the file and remove it, if no reader holds a lock. Errors: TIDE_EIO. */
enum tide_status tidei_database_finish(struct tidei_database *database);

/*
 * Connect again, after the index of the write-ahead log was cut off: what was committed is in the log, from which
 * SQLite makes the index again. Errors: TIDE_EIO.
 */
enum tide_status tidei_database_reopen(struct tidei_database *database);

/* Whether the connection has lost the index of the write-ahead log: it can do nothing more. */
bool tidei_database_is_torn(const struct tidei_database *database);

/*
 * A transaction, between these two. A connection that has lost its index is replaced first. The first error of the
 * transaction stays in database->status, with its text as the thread's error. After it the functions below do nothing,
 * and the end rolls back and returns the error: TIDE_EIO or TIDE_ENOMEM.
 */
void tidei_database_begin(struct tidei_database *database);
enum tide_status tidei_database_end(struct tidei_database *database);

/* The error: SQLite has failed, or host memory is missing. */
void tidei_database_fail(struct tidei_database *database, const char *what);
void tidei_database_fail_memory(struct tidei_database *database);

/* Run a bound statement that returns no rows, and reset it; or run SQL text. */
void tidei_database_run(struct tidei_database *database, sqlite3_stmt *statement, const char *what);
void tidei_database_exec(struct tidei_database *database, const char *sql, const char *what);

/* Insert one row: see insert.h. */
#define tidei_database_insert(database, table, ...)                                                                    \
    tidei_database_insert_row((database), TIDEI_TABLE_##table,                                                         \
                              (const struct tidei_value[TIDEI_##table##_columns]){ __VA_ARGS__ })
void tidei_database_insert_row(struct tidei_database *database, enum tidei_table_number table,
                               const struct tidei_value *values);

/* Write one value of meta; or read one, which is 0 where meta has no such key. Returns whether it has. */
void tidei_database_meta_text(struct tidei_database *database, const char *key, const char *value);
void tidei_database_meta_number(struct tidei_database *database, const char *key, int64_t value);
bool tidei_database_meta_read(struct tidei_database *database, const char *key, int64_t *out);

/* common-rows.c: add a row to the table of losses, unless `events` is 0. */
void tidei_database_loss(struct tidei_database *database, uint32_t thread_id, const char *reason, uint64_t events);

/* The process was killed: if meta.cupti is "memory", note there that CUPTI's remaining records are missing. */
void tidei_database_devices_cut_off(struct tidei_database *database);

/* transaction.c: write the rows of database->devices. The caller calls tidei_device_events_written after the commit. */
void tidei_database_write_devices(struct tidei_database *database);

/* transaction.c: register the virtual tables with the connection, and prepare all statements. The schema exists. */
void tidei_database_register(struct tidei_database *database);
void tidei_database_prepare(struct tidei_database *database);

#endif
