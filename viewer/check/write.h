/* Writes the results of `check` for test runners, as TAP or JUnit XML. */
#ifndef VIEWER_CHECK_WRITE_H
#define VIEWER_CHECK_WRITE_H

#include "viewer/check/check.h"

/*
 * Write TAP on standard output. `incomplete` is NULL or says why the trace is incomplete, which adds a failed test.
 * -1: no memory.
 */
int check_write_tap(const struct trace *trace, const struct check_result *results, size_t count,
                    const char *incomplete);
int check_write_junit(const struct trace *trace, const struct check_result *results, size_t count,
                      const char *incomplete);

#endif
