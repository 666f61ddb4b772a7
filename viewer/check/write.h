/* Writes what `check` has judged for those that run tests: as TAP, or as JUnit's XML. */
#ifndef VIEWER_CHECK_WRITE_H
#define VIEWER_CHECK_WRITE_H

#include "viewer/check/check.h"

/*
 * On standard output. `incomplete`: NULL, or why the trace is, which is one more test that fails. -1: no memory.
 */
int check_write_tap(const struct check_result *results, size_t count, const char *incomplete);
int check_write_junit(const char *path, const struct check_result *results, size_t count, const char *incomplete);

#endif
