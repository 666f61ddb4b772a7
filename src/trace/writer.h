/* The back of the recorder: one thread that merges the rings, pairs frees, and writes to SQLite. */
#ifndef TIDEI_TRACE_WRITER_H
#define TIDEI_TRACE_WRITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/resource.h>

#include "trace/merge.h"
#include "trace/pair.h"
#include "trace/store.h"

struct tidei_recorder;

/* A resource whose figures are sampled while events go by. */
struct tidei_watch {
    struct tide_resource *resource; /* borrowed */
    uint32_t layer_id;
    uint64_t used_bytes;
    uint64_t reserved_bytes;
};

struct tidei_writer {
    struct tidei_recorder *recorder; /* NULL after the process that recorded is gone */
    struct tidei_ringfile *file;
    struct tidei_merge *merge;
    struct tidei_pair *pair;
    struct tidei_store *store;
    bool tsc;
    bool unwritten; /* a half was paired whose transaction has failed */
    uint64_t unwritten_epoch;
    uint64_t first_ns; /* when the oldest record of the filling half came */
    uint64_t busy_limit_ns;
    char failure[256]; /* why the recording ended; "" while it goes on. The writer's */

    pthread_t thread;
    pthread_mutex_t lock; /* for the fields below */
    pthread_cond_t wake;
    pthread_cond_t flushed;
    bool running;
    bool awake;
    bool stop;
    bool failed;
    uint64_t flush_wanted;
    uint64_t flush_done;

    pthread_mutex_t watch_lock; /* for the watches */
    struct tidei_watch *watches;
    size_t watch_count;
    struct tidei_pool_sample *samples; /* the writer's */
    size_t sample_count;
    size_t sample_capacity;
    uint64_t sampled_ns;
};

/* Take over `file` and `store`. NULL where host memory is short; then both are the caller's still. */
struct tidei_writer *tidei_writer_new(struct tidei_recorder *recorder, struct tidei_ringfile *file,
                                      struct tidei_store *store, bool tsc);

/* Begin to write on a thread of its own. Errors: TIDE_ENOMEM. */
enum tide_status tidei_writer_start(struct tidei_writer *writer);

/* Have the thread look at once; for a full ring. */
void tidei_writer_wake(struct tidei_writer *writer);

/* Wait until all that was recorded before is in the file. Errors: TIDE_EIO (the recording has ended). */
enum tide_status tidei_writer_flush(struct tidei_writer *writer);

/* Write what is left, complete the trace, stop the thread. The writer is still to be freed. */
enum tide_status tidei_writer_stop(struct tidei_writer *writer, const char *ended);

/* Close the trace; the ring file goes where the trace has everything. */
void tidei_writer_free(struct tidei_writer *writer);

void tidei_writer_watch(struct tidei_writer *writer, struct tide_resource *resource, uint32_t layer_id);
void tidei_writer_unwatch(struct tidei_writer *writer, struct tide_resource *resource);

/* For one thread without the loop: what the rings of a process that is gone still hold. */
enum tide_status tidei_writer_take_up(struct tidei_writer *writer, uint64_t *events);

#endif
