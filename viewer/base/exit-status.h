/* The exit statuses of commands. Functions of the viewer that can fail return one, too. */
#ifndef VIEWER_BASE_EXIT_STATUS_H
#define VIEWER_BASE_EXIT_STATUS_H

enum {
    COMMAND_FINE = 0,
    COMMAND_FINDING = 1,    /* a check that failed, a difference */
    COMMAND_WRONG = 2,      /* wrong use, or input that cannot be read */
    COMMAND_INCOMPLETE = 3, /* the trace is incomplete and the answer is not reliable */
};

#endif
