/* The writer of a recorder: one thread that merges the rings, pairs frees, and writes to SQLite. */
#ifndef TIDEI_TRACE_SESSION_WRITER_H
#define TIDEI_TRACE_SESSION_WRITER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/resource.h>

#include "src/trace/cupti/driver-calls.h"
#include "src/trace/database/gate.h"
#include "src/trace/events/merge.h"
#include "src/trace/events/pair.h"
#include "src/trace/events/sampler.h"
#include "src/trace/database/database.h"

struct tidei_session;

/* How many records go into a transaction at the least. */
#define TIDEI_SLICE_LEAST 32768u

/* The half that is being written, in slices: each is paired and then one transaction. */
struct tidei_sealed {
    unsigned half;
    uint64_t epoch;
    uint64_t count;  /* records */
    uint64_t done;   /* of them the trace has */
    bool pending;    /* the trace does not have all of it yet */
    uint64_t paired; /* up to here they are paired; past `done` where a transaction has failed */
};

struct tidei_writer {
    struct tidei_session *session; /* NULL after the process that recorded is gone */
    struct tidei_ringfile *file;
    struct tidei_merge *merge;
    struct tidei_pair *pair;
    struct tidei_database *database;
    struct tidei_sampler *sampler;
    struct tidei_driver_calls *calls;
    bool tsc;
    struct tidei_sealed sealed;
    uint64_t slice;    /* how many records go into a transaction */
    uint64_t first_ns; /* when the oldest record of the filling half came */
    uint64_t moved_ns; /* when the last record was drained */
    uint64_t busy_limit_ns;
    bool told_barrier; /* that the merge's barrier is refused */
    bool had_failed;   /* before the process that recorded was killed */
    char cupti[256];   /* for meta.cupti */
    char failure[256]; /* why the recording ended; "" while it goes on. The writer's */

    struct tidei_gate gate; /* held where SQLite is at work */

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
};

/* Take over `file` and `database`. NULL where host memory is short; the caller still owns both then. */
struct tidei_writer *tidei_writer_new(struct tidei_session *session, struct tidei_ringfile *file,
                                      struct tidei_database *database, bool tsc);

/* Begin to write on a thread of its own. Errors: TIDE_ENOMEM. */
enum tide_status tidei_writer_start(struct tidei_writer *writer);

/* Have the thread look at the rings at once: one of them is full. */
void tidei_writer_wake(struct tidei_writer *writer);

/* Wait until all that was recorded before is in the file. Errors: TIDE_EIO (the recording has ended). */
enum tide_status tidei_writer_flush(struct tidei_writer *writer);

/* Write what is left, complete the trace and close it, stop the thread. The writer is still to be freed. */
enum tide_status tidei_writer_stop(struct tidei_writer *writer, const char *ended);

/* Stop the thread and close the trace as it is, for one that is discarded. The writer is still to be freed. */
void tidei_writer_abandon(struct tidei_writer *writer);

/* Close the trace; the ring file goes where the trace has everything. */
void tidei_writer_free(struct tidei_writer *writer);

/* In a recovery, without the thread: write what the rings of a process that is gone still hold. */
enum tide_status tidei_writer_take_up(struct tidei_writer *writer, uint64_t *events);

/* Write the half that fills; from now on the other one fills. Errors: TIDE_EIO, TIDE_ENOMEM. */
enum tide_status tidei_writer_commit(struct tidei_writer *writer);

/* Drain until everything that was recorded before now is in the backlog, and write that. Errors: as above. */
enum tide_status tidei_writer_settle(struct tidei_writer *writer);

/* Everything that is left goes to SQLite; after a failure too, since the disk may have room again. Errors: as above. */
enum tide_status tidei_writer_write_rest(struct tidei_writer *writer);

/* The recording has ended: threads go on without it, and the message sink hears of it once. */
void tidei_writer_fail(struct tidei_writer *writer);

/* Stop the thread, where it runs. */
void tidei_writer_join(struct tidei_writer *writer);

#endif
