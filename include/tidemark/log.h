/* log: record what passes through into an SQLite trace. */
#ifndef TIDEMARK_LOG_H
#define TIDEMARK_LOG_H

#include <stdbool.h>

#include <tidemark/callstack.h>
#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tide_clock {
    TIDE_CLOCK_AUTO = 0,      /* the invariant TSC where the machine has one, else CLOCK_MONOTONIC */
    TIDE_CLOCK_TSC = 1,       /* rdtsc; an error where it is not invariant */
    TIDE_CLOCK_MONOTONIC = 2, /* clock_gettime */
};

enum tide_overflow {
    TIDE_OVERFLOW_WAIT = 0, /* a thread whose ring is full waits; waits are counted in meta */
    TIDE_OVERFLOW_DROP = 1, /* what does not fit is dropped and counted in the table loss */
};

/*
 * A process has one user of CUPTI. A trace that finds another there goes on without it and says so in meta.cupti; a
 * profiler that comes while a trace has CUPTI is refused by CUPTI: leave it to that one with TIDE_CUPTI_OFF.
 */
enum tide_cupti {
    TIDE_CUPTI_AUTO = 0,   /* as TIDE_CUPTI_CALLS */
    TIDE_CUPTI_CALLS = 1,  /* the driver's own times of its calls, in the table driver_call, where CUPTI can be had */
    TIDE_CUPTI_OFF = 2,    /* CUPTI is not loaded */
    TIDE_CUPTI_MEMORY = 3, /* the calls, and in the table device_event all memory of the process; costs 1.3 us a pair */
};

enum tide_samples {
    TIDE_SAMPLES_AUTO = 0,  /* bases are asked now and then what they hold, for the table pool_sample */
    TIDE_SAMPLES_EVERY = 1, /* after each event, on the thread that calls */
    TIDE_SAMPLES_OFF = 2,
};

struct tide_log_options {
    size_t struct_size;
    const char *path;       /* of the trace; %p process id, %h host name, %r rank; NULL: see below */
    uint64_t ring_bytes;    /* for each thread; a power of two from 4 KiB to 1 GiB; 0: 1 MiB */
    uint64_t backlog_bytes; /* the most that waits for SQLite, 1 MiB to 16 GiB; 0: 128 MiB */
    uint32_t clock;         /* of enum tide_clock */
    uint32_t overflow;      /* of enum tide_overflow */
    uint32_t cupti;         /* of enum tide_cupti, for stacks over CUDA's memory; meta.cupti says what came of it */
    uint32_t samples;       /* of enum tide_samples */
    /*
     * Frames of the call stack that each allocation is recorded with, up to TIDE_CALLSTACK_MOST; 0: none. This one
     * and the next are each log's own, also where it joins a trace.
     */
    uint32_t callstack_depth;
    uint32_t unwind;     /* of enum tide_unwind: how it is taken */
    bool overwrite;      /* replace an existing trace, once the new one, or the stack of the text, has been made */
    uint8_t reserved[7]; /* 0 */
};

/*
 * Record every allocation and deallocation that passes through to `upstream` into the trace at options->path.
 *
 * With a path, every `log` below that records nowhere yet joins this trace. Without one (options NULL, or path
 * NULL) nothing is recorded until a `log` above has a path. A second `log` of this process with the same path
 * joins the trace that is open there, and its other options must be the same or 0.
 * The trace is complete once the last `log` that records into it is released, or the process has exited.
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, ring_bytes, backlog_bytes, callstack_depth, more than 65,535 layers in one trace),
 * TIDE_EEXIST (the file exists), TIDE_EBUSY (another process records there), TIDE_EIO, TIDE_EUNSUPPORTED (clock),
 * TIDE_ENOMEM.
 * Thread safety: any thread; recording an event takes no lock and no system call, but for what TIDE_SAMPLES_EVERY asks,
 * and a short lock for each call of the driver with TIDE_CUPTI_MEMORY. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_log_create(struct tide_resource *upstream, const struct tide_log_options *options,
                                             struct tide_resource **out);

/*
 * Wait until every event whose call has returned can be read from the file.
 * Errors: TIDE_EINVAL (not a log, or one without a trace), TIDE_EIO (the recording has ended). Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_log_flush(struct tide_resource *log);

#ifdef __cplusplus
}
#endif
#endif
