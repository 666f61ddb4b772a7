/* Traces into which no process records any longer: complete them, and name the frames of their call stacks. */
#ifndef TIDEMARK_TRACE_H
#define TIDEMARK_TRACE_H

#include <tidemark/sized.h>
#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What tide_trace_recover found. */
enum tide_trace_state {
    TIDE_TRACE_CLOSED = 0,    /* the trace was complete */
    TIDE_TRACE_RECORDING = 1, /* its process lives and records; nothing was touched */
    TIDE_TRACE_RECOVERED = 2, /* its process had died; what it left behind is in the trace now */
};

struct tide_trace_recovery {
    size_t struct_size; /* TIDE_FIGURES */
    uint64_t events;    /* number of records that were written to the trace now */
    uint32_t state;     /* enum tide_trace_state */
    uint32_t pid;       /* of the process that records, or that recorded; 0: not known */
};

/*
 * Complete the trace at `path` where the process that recorded it has died. What that process had not yet written to
 * the trace is in the ring file beside it. This function writes it to the trace and removes the ring file.
 *
 * Call it before you read a trace. It does nothing where nothing was left behind, or while the process lives. It may be
 * interrupted and called again.
 *
 * Errors: TIDE_EINVAL (NULL, struct_size), TIDE_EFORMAT (the ring file is damaged, has a newer format, or belongs to
 * another trace or to another moment of this one), TIDE_EIO, TIDE_EBUSY (another process has been recovering it for ten
 * seconds), TIDE_ENOMEM. On failure the trace and its ring file stay as they are. *out is defined on every return.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_trace_recover(const char *path, struct tide_trace_recovery *out);

/*
 * Copy the trace at `path`, with everything that a killed program has left beside it, to `into` and to names that begin
 * with `into`. Files of these names are overwritten. tide_trace_recover can then complete the copy. Use this for a
 * trace whose disk is full or read-only. The trace itself is not changed.
 *
 * Errors: TIDE_EINVAL (NULL), TIDE_EBUSY (a process records into the trace, or recovers it), TIDE_EIO, TIDE_ENOMEM. On
 * failure, files of the copy may have been left.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_trace_copy(const char *path, const char *into);

/*
 * From now on no `log` of this process replaces the file at `path`, by whatever name a log with overwrite=true reaches
 * it. This is for programs that read a trace and then make a stack from a text that they have not written themselves.
 *
 * The file stays open, without a lock, until the process ends.
 *
 * Errors: TIDE_EINVAL (NULL), TIDE_EIO (no such file), TIDE_ENOMEM.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_trace_protect(const char *path);

/* What tide_trace_resolve did, in frames of call stacks. */
struct tide_trace_resolution {
    size_t struct_size;  /* TIDE_FIGURES */
    uint64_t resolved;   /* frames that were looked up and written to the trace now */
    uint64_t unresolved; /* frames without a name, whose files are not on this machine or were not looked at */
    uint64_t postponed;  /* 1: the 30 s were over; another call continues where this one ended */
};

/*
 * Look up function, file and line of every frame in the trace's call stacks, in the files that the program ran from,
 * and write them to the trace. They stay there, wherever the trace is copied to.
 *
 * A file is used if it is a regular file of 16 GiB at the most with the build id in the trace; nothing else that the
 * trace names is opened. A file without a build id is used only where the module had none, on the machine that
 * recorded, and if it has not changed since. No server is queried. After 30 s no further frame is looked up. But a file
 * that is being read is read to its end, so a file system that does not answer, or a damaged file, can delay the call
 * for longer. Needs libdw for source files and lines. Do not call it while a process records into the trace.
 *
 * Errors: TIDE_EINVAL (NULL, struct_size), TIDE_EFORMAT (not a trace), TIDE_EIO (the trace cannot be written). On
 * failure nothing has changed. *out is defined on every return.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_trace_resolve(const char *path, struct tide_trace_resolution *out);

#ifdef __cplusplus
}
#endif
#endif
