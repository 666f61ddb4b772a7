/* Stops threads at the library's test points; for tests that link libtidemark-test.la. */
#ifndef TESTS_POINT_H
#define TESTS_POINT_H

#include <stdbool.h>

/* Stop the next thread that comes to `label` and has the name `thread` (NULL: any). One stop at a time. */
void point_arm(const char *label, const char *thread);

/* Wait until a thread has stopped. */
void point_wait(void);

/* Release the stopped thread, or cancel the stop. */
void point_release(void);

/* Have the process kill itself with SIGKILL when a thread comes to `label` for the `nth` time from now on. */
void point_kill(const char *label, unsigned nth);

/* How often threads have come to `label` since the last call with this label. */
unsigned point_count(const char *label);

#endif
