/* Stops threads at the library's test points; for tests that link libtidemark-test.la. */
#ifndef TESTS_POINT_H
#define TESTS_POINT_H

#include <stdbool.h>

/*
 * From now on the next thread that comes to `label` and has the name `thread` (NULL: any) stops there. One stop at a
 * time.
 */
void point_arm(const char *label, const char *thread);

/* Wait until a thread has stopped. */
void point_wait(void);

/* Release the stopped thread, or cancel the stop. */
void point_release(void);

/* From now on the process kills itself with SIGKILL at the `nth` time that a thread comes to `label`. */
void point_kill(const char *label, unsigned nth);

/* How often threads have come to `label` since this was called with the same one before. */
unsigned point_count(const char *label);

#endif
