/* The trace's SQLite side: creates the file, writes halves of the backlog as transactions, completes it. */
#ifndef TIDEI_TRACE_DATABASE_DATABASE_H
#define TIDEI_TRACE_DATABASE_DATABASE_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include <tidemark/status.h>

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

struct tidei_database_modules {
    struct tidei_database_module *items; /* owned; in the order in which they were loaded */
    size_t count;
    size_t capacity;
};

struct tidei_device_events;

struct tidei_database {
    sqlite3 *db;
    char *path; /* owned */
    sqlite3_stmt *begin, *commit, *rollback, *insert_rows, *insert_closed, *meta, *stack, *unmatched, *mark, *tag,
        *layer, *bin, *thread, *stream, *loss, *sample, *insert_calls, *insert_outside, *insert_devices, *module,
        *frame, *callstack, *misuse;
    struct tidei_timeline timeline;
    uint64_t floor_ns; /* alloc_ns never falls below that of the half before, whose line had another slope */
    struct tidei_pair *pair;
    const char *cupti;                     /* what meta.cupti is to say with the next transaction; NULL: nothing new */
    bool has_calls;                        /* events may have calls of the driver with them */
    struct tidei_device_events *devices;   /* borrowed; NULL in a recovery */
    struct tidei_database_modules modules; /* of call stacks */
    struct tidei_stream *streams;
    uint32_t stream_count;
    size_t stream_capacity;
    uint32_t stream_latest;                   /* index of the one that was looked up last */
    struct tidei_pool_sample *samples_latest; /* of each layer, as far as it has some */
    uint32_t sampled_layers;
    size_t sampled_capacity;
    int64_t *layer_devices; /* by layer id */
    size_t layer_capacity;
    uint64_t unreadable; /* records of the slice that are none */
    bool no_memory;
    /* Called while a long transaction runs and while it waits for a lock; false: give up. */
    bool (*poll)(void *context, uint64_t waited_ns);
    void *poll_context;
    uint64_t busy_since_ns;
};

/* Create the trace. Errors: TIDE_EEXIST, TIDE_EIO, TIDE_ENOMEM. */
enum tide_status tidei_database_create(const char *path, struct tidei_database **out);

/*
 * Open a trace whose process is gone, to complete it; `poll` as in the struct, without a context. Errors: TIDE_EFORMAT,
 * TIDE_EIO, TIDE_ENOMEM.
 */
enum tide_status tidei_database_open(const char *path, bool (*poll)(void *context, uint64_t waited_ns),
                                     struct tidei_database **out);
void tidei_database_close(struct tidei_database *database);

/* Write, or read, one value of meta. Errors: TIDE_EIO; reading what is not there gives TIDE_OK and 0. */
enum tide_status tidei_database_meta_text(struct tidei_database *database, const char *key, const char *value);
enum tide_status tidei_database_meta_number(struct tidei_database *database, const char *key, int64_t value);
enum tide_status tidei_database_meta_read(struct tidei_database *database, const char *key, int64_t *out);

/* Whether meta has the key: with "ended" the trace has its last transaction. Errors: TIDE_EIO. */
enum tide_status tidei_database_meta_has(struct tidei_database *database, const char *key, bool *out);

/* Take up the live allocations, streams, layers and numbers of a trace that was opened again. */
enum tide_status tidei_database_load(struct tidei_database *database);

/* One transaction for a few statements of the caller's own. */
enum tide_status tidei_database_begin(struct tidei_database *database);
enum tide_status tidei_database_end(struct tidei_database *database, enum tide_status status);

/*
 * Write what database->pair has paired, and that the trace has everything before `epoch` and that one's first `records`
 * now. One transaction.
 */
enum tide_status tidei_database_write(struct tidei_database *database, uint64_t epoch, uint64_t records,
                                      const struct tidei_pool_sample *samples, size_t sample_count);

/* Write the rows that database->devices has, within a transaction; they are still to be forgotten once that is done. */
enum tide_status tidei_database_write_devices(struct tidei_database *database);

/* The process was killed: where meta.cupti is "memory", it says that what CUPTI had is missing. */
enum tide_status tidei_database_devices_cut_off(struct tidei_database *database);

/* Add to the table of losses; nothing where `events` is 0. */
enum tide_status tidei_database_loss(struct tidei_database *database, uint32_t thread_id, const char *reason,
                                     uint64_t events);

/* Fold the write-ahead log into the file and leave that alone, where no reader holds it. */
enum tide_status tidei_database_finish(struct tidei_database *database);

/* The number of a stream; it is written to the trace with the transaction. */
uint32_t tidei_database_stream(struct tidei_database *database, uint64_t handle, uint32_t layer_id);

/* The device of a layer's memory; -1: none. Setting it is false where host memory is short. */
bool tidei_database_set_device(struct tidei_database *database, uint32_t layer_id, int64_t device);
int64_t tidei_database_device(const struct tidei_database *database, uint32_t layer_id);

/* Run a bound statement that returns no rows, and make it ready for the next time. Errors: TIDE_EIO. */
enum tide_status tidei_database_run(struct tidei_database *database, sqlite3_stmt *statement, const char *what);

/* SQLite has failed: this thread's error text says what. */
enum tide_status tidei_database_error(struct tidei_database *database, const char *what);

/* The virtual tables that feed the bulk statements; feed.c and feed-calls.c. */
int tidei_feed_register(struct tidei_database *database);
int tidei_feed_calls_register(struct tidei_database *database);

/* Keep the rows of the half that live beyond it. */
bool tidei_feed_keep_live(struct tidei_database *database);

/* A pool's figures at a moment of the trace, where they differ from those before. Errors: TIDE_EIO, TIDE_ENOMEM. */
enum tide_status tidei_database_sample(struct tidei_database *database, uint64_t ns, uint32_t layer_id,
                                       uint64_t used_bytes, uint64_t reserved_bytes);
/* Write a module, a call stack, a misuse, within a transaction; stacks.c. The text is that of the record. */
enum tide_status tidei_stacks_module(struct tidei_database *database, const struct tidei_record *record,
                                     const char *text, size_t length);
enum tide_status tidei_stacks_callstack(struct tidei_database *database, const struct tidei_record *record,
                                        const char *text, size_t length);
enum tide_status tidei_stacks_misuse(struct tidei_database *database, const struct tidei_record *record,
                                     const char *text, size_t length);

/* Call stacks that come lead through this one, too, where they lie in it. False where host memory is short. */
bool tidei_stacks_add_module(struct tidei_database *database, uint32_t id, uint64_t base, uint64_t size);

/* Write the records that are no allocations; extras.c. */
enum tide_status tidei_extras_write(struct tidei_database *database);

#endif
