/* Waits for the program of `tidemark run --summary`, and says what was recorded of it and of its children. */
#ifndef VIEWER_COMMANDS_RUN_WAIT_H
#define VIEWER_COMMANDS_RUN_WAIT_H

/* This is the child, which has to become the program. */
#define RUN_WAIT_CHILD (-1)

/*
 * Start a child, pass signals on to it, and wait for its end. Then print the summary of each trace that it and its
 * children have made, in that order: the environment has them say so. Returns RUN_WAIT_CHILD in the child; in the
 * parent the child's exit status, or it ends by the signal by which the child ended.
 */
int run_wait(void);

#endif
