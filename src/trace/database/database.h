/* The trace's SQLite file: opens it, writes slices of the backlog as transactions, completes it. */
#ifndef TIDEI_TRACE_DATABASE_DATABASE_H
#define TIDEI_TRACE_DATABASE_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#include <tidemark/status.h>

#include "src/trace/database/insert.h"
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

/* The statements that write rows in bulk, in the order in which a transaction runs them; bulk.h has what they read. */
enum tidei_bulk {
    TIDEI_BULK_CLOSED,
    TIDEI_BULK_NEW,
    TIDEI_BULK_CALLS,
    TIDEI_BULK_OUTSIDE,
    TIDEI_BULK_DEVICES,
    TIDEI_BULKS
};

struct tidei_database {
    sqlite3 *db;
    char *path; /* owned */
    sqlite3_stmt *begin, *commit, *rollback, *stack, *frame, *callstack;
    sqlite3_stmt *bulk[TIDEI_BULKS];
    struct tidei_inserts inserts;
    struct tidei_timeline timeline;
    uint64_t floor_ns; /* alloc_ns never falls below that of the half before, whose line had another slope */
    struct tidei_pair *pair;
    const char *cupti;                     /* what meta.cupti is to say with the next transaction; NULL: nothing new */
    bool has_calls;                        /* events may have calls of the driver with them */
    struct tidei_device_events *devices;   /* borrowed; NULL in a recovery */
    struct tidei_database_module *modules; /* owned; of call stacks, in the order in which they were loaded */
    size_t module_count;
    size_t module_capacity;
    struct tidei_stream *streams; /* owned */
    size_t stream_count;
    size_t stream_capacity;
    struct tidei_map stream_places;           /* in `streams`, by handle */
    struct tidei_pool_sample *samples_latest; /* owned; of each layer, as far as it has some */
    size_t sampled_layers;
    size_t sample_capacity;
    int64_t *layer_devices; /* owned; by layer id */
    size_t layer_count;
    size_t layer_capacity;
    uint64_t unreadable; /* records of the slice that are none */
    bool no_memory;
    /* Called while a long transaction runs and while it waits for a lock; false: give up. */
    bool (*poll)(void *context, uint64_t waited_ns);
    void *poll_context;
    uint64_t busy_since_ns;
};

/* open.c: create the trace. Errors: TIDE_EEXIST, TIDE_EIO, TIDE_ENOMEM. */
enum tide_status tidei_database_create(const char *path, struct tidei_database **out);

/*
 * open.c: open a trace whose process is gone, to complete it; `poll` as in the struct, without a context. Errors:
 * TIDE_EFORMAT, TIDE_EIO, TIDE_ENOMEM.
 */
enum tide_status tidei_database_open(const char *path, bool (*poll)(void *context, uint64_t waited_ns),
                                     struct tidei_database **out);

/* load.c: take up the live allocations, streams, layers and numbers of a trace that was opened again. */
enum tide_status tidei_database_load(struct tidei_database *database);

/*
 * transaction.c: write what database->pair has paired, and that the trace now has everything before `epoch` and the
 * first `records` of that one. One transaction.
 */
enum tide_status tidei_database_write(struct tidei_database *database, uint64_t epoch, uint64_t records,
                                      const struct tidei_pool_sample *samples, size_t sample_count);

/*
 * transaction.c: write the rows that database->devices has, within a transaction; they are still to be forgotten once
 * that is done.
 */
enum tide_status tidei_database_write_devices(struct tidei_database *database);

/* bulk-allocations.c: the slice is written; keep those of its allocations that live. False: host memory is short. */
bool tidei_database_keep_live(struct tidei_database *database);

/* common-rows.c: add to the table of losses; nothing where `events` is 0. */
enum tide_status tidei_database_loss(struct tidei_database *database, uint32_t thread_id, const char *reason,
                                     uint64_t events);

/* The rest is in database.c. One without a file yet; NULL where host memory is short. */
struct tidei_database *tidei_database_new(const char *path);
void tidei_database_close(struct tidei_database *database);

/* Write, or read, one value of meta. Errors: TIDE_EIO; reading what is not there gives TIDE_OK and 0. */
enum tide_status tidei_database_meta_text(struct tidei_database *database, const char *key, const char *value);
enum tide_status tidei_database_meta_number(struct tidei_database *database, const char *key, int64_t value);
enum tide_status tidei_database_meta_read(struct tidei_database *database, const char *key, int64_t *out);

/* Whether meta has the key: with "ended" the trace has its last transaction. Errors: TIDE_EIO. */
enum tide_status tidei_database_meta_has(struct tidei_database *database, const char *key, bool *out);

/* One transaction for a few statements of the caller's own. */
enum tide_status tidei_database_begin(struct tidei_database *database);
enum tide_status tidei_database_end(struct tidei_database *database, enum tide_status status);

/* The process was killed: where meta.cupti is "memory", it says that what CUPTI had is missing. */
enum tide_status tidei_database_devices_cut_off(struct tidei_database *database);

/* Fold the write-ahead log into the file and leave that alone, where no reader holds it. */
enum tide_status tidei_database_finish(struct tidei_database *database);

/* Run a bound statement that returns no rows, and make it ready for the next time; or a text. Errors: TIDE_EIO. */
enum tide_status tidei_database_run(struct tidei_database *database, sqlite3_stmt *statement, const char *what);
enum tide_status tidei_database_exec(struct tidei_database *database, const char *sql, const char *what);

/* Insert one row: see insert.h. Errors: TIDE_EIO. */
#define tidei_database_insert(database, table, ...)                                                                    \
    tidei_database_inserted((database), tidei_insert(&(database)->inserts, table, __VA_ARGS__), #table)
enum tide_status tidei_database_inserted(struct tidei_database *database, int code, const char *what);

/* SQLite has failed: this thread's error text says what. */
enum tide_status tidei_database_error(struct tidei_database *database, const char *what);

#endif
