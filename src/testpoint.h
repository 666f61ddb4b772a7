/*
 * Labelled points in race windows. In the library they are nothing; in the copy of it that tests link
 * (TIDEI_TEST_POINTS) a test sets a function that stops, kills or counts there.
 */
#ifndef TIDEI_TESTPOINT_H
#define TIDEI_TESTPOINT_H

#ifdef TIDEI_TEST_POINTS
#include <stdatomic.h>

typedef void (*tidei_test_point_function)(const char *label);
extern _Atomic(tidei_test_point_function) tidei_test_point;

#define TIDEI_TEST_POINT(label)                                                                                        \
    do {                                                                                                               \
        tidei_test_point_function function_ = atomic_load_explicit(&tidei_test_point, memory_order_acquire);           \
        if (function_ != NULL)                                                                                         \
            function_(label);                                                                                          \
    } while (0)
#else
#define TIDEI_TEST_POINT(label) ((void)0)
#endif

#endif
