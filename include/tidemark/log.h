/* log: records every allocation and deallocation into a trace, which is an SQLite file. */
#ifndef TIDEMARK_LOG_H
#define TIDEMARK_LOG_H

#include <stdbool.h>

#include <tidemark/callstack.h>
#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which clock the times of a trace come from. */
enum tide_clock {
    TIDE_CLOCK_AUTO = 0,      /* the time stamp counter if the kernel keeps its time by it, else CLOCK_MONOTONIC */
    TIDE_CLOCK_TSC = 1,       /* the time stamp counter; creation fails if it is not invariant */
    TIDE_CLOCK_MONOTONIC = 2, /* clock_gettime(CLOCK_MONOTONIC) */
};

/* What a thread does when its ring of events is full. */
enum tide_overflow {
    TIDE_OVERFLOW_WAIT = 0, /* it waits; the trace's table meta counts the waits */
    TIDE_OVERFLOW_DROP = 1, /* it drops the event; the trace's table loss counts the dropped events */
};

/*
 * What is recorded from CUPTI. Only one part of a process can use CUPTI. If CUPTI is in use already, the trace goes on
 * without it, and meta.cupti says so. While a trace uses CUPTI, a profiler cannot start: to use such a profiler, choose
 * TIDE_CUPTI_OFF.
 */
enum tide_cupti {
    TIDE_CUPTI_AUTO = 0,   /* as TIDE_CUPTI_CALLS */
    TIDE_CUPTI_CALLS = 1,  /* the driver's own times of its calls, in the table driver_call, if CUPTI is available */
    TIDE_CUPTI_OFF = 2,    /* nothing; CUPTI is not loaded */
    TIDE_CUPTI_MEMORY = 3, /* calls, and all memory of the process in the table device_event; 1.3 us for each pair */
};

/* When bases and suballocators are asked how much memory they hold, for the table pool_sample. */
enum tide_samples {
    TIDE_SAMPLES_AUTO = 0,  /* about every millisecond while there are events */
    TIDE_SAMPLES_EVERY = 1, /* after each event, on the thread that calls */
    TIDE_SAMPLES_OFF = 2,   /* never */
};

struct tide_log_options {
    size_t struct_size;       /* TIDE_OPTIONS */
    const char *path;         /* copied; %p process id, %h host name, %r rank, %% a %; NULL: no trace of its own */
    uint64_t ring_bytes;      /* ring of events of each thread; a power of two from 4 KiB to 1 GiB; 0: 1 MiB */
    uint64_t backlog_bytes;   /* room for records that wait to be written to SQLite, 1 MiB to 16 GiB; 0: 128 MiB */
    uint32_t clock;           /* enum tide_clock */
    uint32_t overflow;        /* enum tide_overflow */
    uint32_t cupti;           /* enum tide_cupti; meta.cupti says whether it worked */
    uint32_t samples;         /* enum tide_samples */
    uint32_t callstack_depth; /* frames of each allocation's call stack: see TIDE_CALLSTACK_PYTHON; 0: none */
    uint32_t unwind;          /* enum tide_unwind: how call stacks are walked */
    bool overwrite;           /* replace an existing trace, once the new one (of text: the whole stack) is made */
    uint8_t reserved[3];      /* 0 */
    uint32_t mode;            /* permissions of the trace and the files beside it, as of open(); 0: 0600 */
};

/*
 * Create a layer that records every allocation and deallocation that passes through it to `upstream`.
 *
 * With a path it records into the trace at that path, and every `log` below it that records nowhere yet joins that
 * trace. Without a path (or with NULL for `options`) it records nothing until a `log` above it has a path. If this
 * process already records into a trace at that path, the layer joins that trace; then its other options must be the
 * same or 0. callstack_depth and unwind are each layer's own in any case.
 *
 * The trace is complete when the last `log` that records into it is released or ended (tide_log_end), or when the
 * process has exited. Threads that go on after exit() has begun are recorded until the process has ended; the next
 * command that opens the trace adds what they did, and counts what found no room. The recorder's thread blocks all
 * signals but SIGBUS, is named "tidemark-writer", and keeps no process alive whose main thread has ended with
 * pthread_exit.
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * The trace contains the command line and the tags, so only its owner may read it unless `mode` says otherwise. `mode`
 * is 0600 to 0666, and the process's umask removes bits from it. A symbolic link at the path is not followed. The files
 * beside the trace are used only where they belong to the user who records, or to root.
 *
 * Errors: TIDE_EINVAL (NULL; ring_bytes, backlog_bytes, callstack_depth or mode out of its range; more than 65,535
 * layers in one trace), TIDE_EEXIST (the file exists), TIDE_EBUSY (another process records into it; with overwrite:
 * what a killed process recorded there is not recovered yet, or tide_trace_protect was called for it), TIDE_EIO,
 * TIDE_EUNSUPPORTED (clock), TIDE_ENOMEM.
 * Thread safety: any thread. Recording an event takes no lock and makes no system call, except for what
 * TIDE_SAMPLES_EVERY asks and a short lock for each call of the driver with TIDE_CUPTI_MEMORY. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_log_create(struct tide_resource *upstream, const struct tide_log_options *options,
                                             struct tide_resource **out);

/*
 * Wait until every event whose call has returned can be read from the trace.
 * Errors: TIDE_EINVAL (not a log resource, or one that records into no trace), TIDE_EIO (the recording has ended).
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_log_flush(struct tide_resource *log);

/*
 * End the recording of all logs in the stack under `top`, while it lives and may have blocks outstanding. From then on
 * they pass calls on, unrecorded. A trace into which no other log records is complete and closed when this returns; its
 * `live` says what was outstanding. Calls that other threads make meanwhile are recorded or not.
 *
 * Errors: TIDE_EINVAL (NULL). Logs that record nothing, or have ended, are passed over.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_log_end(struct tide_resource *top);

/*
 * Copy the absolute path of the trace that the layer records into, with %p, %h, %r and %% expanded. *needed (may be
 * NULL) is its full length without the NUL, even where `capacity` was too small and the path was cut.
 * Errors: TIDE_EINVAL (not a log resource, or one that records into no trace; NULL in place of `path`).
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_log_path(struct tide_resource *log, char *path, size_t capacity, size_t *needed);

#ifdef __cplusplus
}
#endif
#endif
