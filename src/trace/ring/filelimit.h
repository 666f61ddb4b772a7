/*
 * Makes the file size limit of the process (RLIMIT_FSIZE) an error, as a full disk is, and not the end of the program.
 */
#ifndef TIDEI_TRACE_RING_FILELIMIT_H
#define TIDEI_TRACE_RING_FILELIMIT_H

#include <signal.h>

/* Hold back SIGXFSZ on this thread; *before is for the call that lets it go. */
void tidei_filelimit_hold(sigset_t *before);

/* As it was before; a signal that has come in between is forgotten, unless it was held back before, too. */
void tidei_filelimit_let_go(const sigset_t *before);

#endif
