/* What to do with a trace whose process is gone. */
#ifndef TIDEMARK_TRACE_H
#define TIDEMARK_TRACE_H

#include <tidemark/sized.h>
#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What tide_trace_recover found. */
enum tide_trace_state {
    TIDE_TRACE_CLOSED = 0,    /* nothing was left behind */
    TIDE_TRACE_RECORDING = 1, /* its process lives and records: nothing was touched */
    TIDE_TRACE_RECOVERED = 2, /* its process is gone, and what it left is in the trace now */
};

struct tide_trace_recovery {
    size_t struct_size;
    uint64_t events; /* records that were taken over */
    uint32_t state;  /* of enum tide_trace_state */
    uint32_t pid;    /* of the process that records, or that did; 0 where it is not known */
};

/*
 * Bring what a process that is gone has left in the ring file beside the trace at `path` into the trace, and remove
 * that file. Whoever reads a trace calls it first; it does nothing where nothing is left, or while the process
 * lives. It may be killed and called again.
 *
 * `out` is defined on every return. Errors: TIDE_EINVAL (NULL), TIDE_EFORMAT (the ring file is damaged, of a newer
 * format, or belongs to another trace or to another moment of this one), TIDE_EIO, TIDE_EBUSY (another process has been
 * recovering it for ten seconds), TIDE_ENOMEM; then trace and ring file stay as they are.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_trace_recover(const char *path, struct tide_trace_recovery *out);

/* What tide_trace_resolve did, in frames of call stacks. */
struct tide_trace_resolution {
    size_t struct_size;
    uint64_t resolved;   /* looked up and written to the trace now */
    uint64_t unresolved; /* nobody has looked up so far: their files are not to be had here */
};

/*
 * Look up the frames of a trace's call stacks, function, file and line, in the files that the program ran from, and
 * write that to the trace. A file counts where its build id is the one that the trace has; one without a build id, on
 * the machine that recorded and unchanged since. One look is enough: what was looked up stays in the trace, wherever
 * that goes. Without libdw frames get the names of their functions alone, and a later look with libdw adds file and
 * line. Not while a process records there.
 *
 * `out` is defined on every return. Errors: TIDE_EINVAL (NULL), TIDE_EFORMAT (no trace), TIDE_EIO (it cannot be written
 * to); then nothing has changed. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_trace_resolve(const char *path, struct tide_trace_resolution *out);

#ifdef __cplusplus
}
#endif
#endif
