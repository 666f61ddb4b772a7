/* The writer of a recorder: a thread that merges the rings, pairs frees with allocations, and writes to SQLite. */
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

/* The smallest number of records in a full transaction. */
#define TIDEI_SLICE_LEAST 32768u

/* The buffer that is being written, in slices. Each slice is paired, and then written in one transaction. */
struct tidei_sealed {
    unsigned buffer;
    uint64_t epoch;
    uint64_t count;  /* records */
    uint64_t done;   /* records that the trace has */
    bool pending;    /* the trace does not have all records yet */
    uint64_t paired; /* end of the paired records; beyond `done` if a transaction has failed */
};

struct tidei_writer {
    struct tidei_session *session; /* NULL in a recovery */
    struct tidei_ringfile *file;
    struct tidei_merge *merge;
    struct tidei_pair *pair;
    struct tidei_database *database;
    struct tidei_sampler *sampler;
    struct tidei_counts *counts;
    struct tidei_gauges *gauges; /* NULL in a recovery */
    struct tidei_driver_calls *calls;
    bool tsc;
    struct tidei_sealed sealed;
    uint64_t slice;     /* records in the next transaction */
    uint64_t first_ns;  /* when the oldest record of the filling buffer arrived */
    uint64_t moved_ns;  /* when the last record was drained */
    uint64_t looked_ns; /* for threads of the program */
    uint64_t faults_ns; /* when it was last made sure that this library handles its faults */
    uint64_t busy_limit_ns;
    bool reported_barrier; /* reported that the kernel refuses the barrier */
    bool had_failed;       /* the recording had failed before its process was killed */
    bool leaves;           /* at exit(): the ring file stays */
    bool leaves_more;      /* with records or losses that the trace lacks */
    char cupti[256];       /* for meta.cupti */
    char failure[256];     /* why the recording ended; "" while it goes on. Writer thread only */

    struct tidei_gate gate; /* held while SQLite works */

    pthread_t thread;
    _Atomic bool left;    /* the thread has ended, as those of the program had; it takes no more samples */
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t wake;
    pthread_cond_t flushed;
    bool running;
    bool awake;
    bool stop;
    bool failed;
    bool stopped; /* all is written: nobody waits for a flush any more */
    uint64_t flush_wanted;
    uint64_t flush_done;
};

/*
 * Held while a thread creates the files of a trace or recovers those of another process. File locks belong to the
 * process and do not exclude its other threads. Taken before the lock of tidei_sessions.
 */
extern pthread_mutex_t tidei_files_lock;

/* Held while a recovery uses SQLite, so that another thread can fork safely. */
extern struct tidei_gate tidei_recovery_gate;

/* Takes ownership of `file` and `database`. NULL without host memory; the caller then still owns both. */
struct tidei_writer *tidei_writer_new(struct tidei_session *session, struct tidei_ringfile *file,
                                      struct tidei_database *database, bool tsc);

/* Start the writer's thread. Errors: TIDE_ENOMEM. */
enum tide_status tidei_writer_start(struct tidei_writer *writer);

/* Make the thread drain the rings now, since one is full. */
void tidei_writer_wake(struct tidei_writer *writer);

/* Wait until all events recorded before the call are in the trace. Errors: TIDE_EIO (the recording has ended). */
enum tide_status tidei_writer_flush(struct tidei_writer *writer);

/*
 * Stop the thread, write all remaining records, complete and close the trace. The caller still frees the writer. With
 * "exit" for `ended` other threads go on until the process has ended: those that have rings record on into them, and
 * the ring file stays.
 */
enum tide_status tidei_writer_stop(struct tidei_writer *writer, const char *ended);

/* Stop the thread and close a trace that is to be discarded, as it is. The caller still frees the writer. */
void tidei_writer_abandon(struct tidei_writer *writer);

/* Close the trace and the ring file, and free the writer. */
void tidei_writer_free(struct tidei_writer *writer);

/* In a recovery, without the thread: write the records that a dead process left in its rings. */
enum tide_status tidei_writer_resume(struct tidei_writer *writer, uint64_t *events);

/* Seal the filling buffer and write it; the other buffer fills from then on. Errors: TIDE_EIO, TIDE_ENOMEM. */
enum tide_status tidei_writer_commit(struct tidei_writer *writer);

/* Whether there are samples or counts that wait for a transaction. */
bool tidei_writer_has_samples(struct tidei_writer *writer);

/* Drain until all records from before the call are in the backlog, and write them. Errors: as above. */
enum tide_status tidei_writer_drain(struct tidei_writer *writer);

/* Write all remaining records; after a failure, too, since the disk may have room again. Errors: as above. */
enum tide_status tidei_writer_write_rest(struct tidei_writer *writer);

/* End the recording after an error: producers stop recording, and the message sink gets one message. */
void tidei_writer_fail(struct tidei_writer *writer);

/* Stop the thread if it runs. */
void tidei_writer_join(struct tidei_writer *writer);

#endif
