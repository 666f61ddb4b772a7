/* Turns a write past the file size limit (RLIMIT_FSIZE) into an error, as on a full disk, where it would kill. */
#ifndef TIDEI_TRACE_RING_FILELIMIT_H
#define TIDEI_TRACE_RING_FILELIMIT_H

#include <signal.h>

/* Block SIGXFSZ on this thread; pass *before to tidei_filelimit_release. */
void tidei_filelimit_hold(sigset_t *before);

/* Restore the signal mask. A SIGXFSZ that arrived meanwhile is discarded, unless it was blocked before. */
void tidei_filelimit_release(const sigset_t *before);

#endif
